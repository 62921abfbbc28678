"""Decide what an iteration builds and measures."""

from buran.workflow.history import History
from buran.workflow.plan import make_plan
from buran.workflow.session import step
from buran.workflow.specs import write_plan

with step(snakemake) as session:
    plan = make_plan(History.open(session, int(snakemake.wildcards.iteration)))
    write_plan(session.layout, session.id, plan)
