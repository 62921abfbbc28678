"""Decide what an iteration builds and measures."""

from pathlib import Path

from buran.files import write_json
from buran.loop.history import History
from buran.loop.plan import make_plan
from buran.loop.session import step
from buran.loop.specs import write_specs

with step(snakemake) as session:
    plan = make_plan(History.open(session, int(snakemake.wildcards.iteration)))
    write_specs(session.layout, session.id, plan)
    write_json(Path(snakemake.output[0]), plan.to_json())
