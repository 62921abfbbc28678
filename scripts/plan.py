"""Decide what an iteration builds and measures."""

from pathlib import Path

from buran.files import write_json
from buran.loop.plan import make_plan
from buran.loop.session import step

with step(snakemake) as session:
    plan = make_plan(session, int(snakemake.wildcards.iteration))
    write_json(Path(snakemake.output[0]), plan.to_json())
