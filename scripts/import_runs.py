"""Take measurements that exist already over into the store."""

from pathlib import Path

from buran.loop.import_runs import import_runs
from buran.loop.session import step

with step(snakemake) as session:
    plan = session.layout.read_plan(session.id, int(snakemake.wildcards.iteration))
    import_runs(session, plan).write(Path(snakemake.output[0]))
