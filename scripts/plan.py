"""Decide what an iteration builds and measures."""

from buran.loop.history import History
from buran.loop.plan import make_plan
from buran.loop.session import step
from buran.loop.specs import write_plan

with step(snakemake) as session:
    plan = make_plan(History.open(session, int(snakemake.wildcards.iteration)))
    write_plan(session.layout, session.id, plan)
