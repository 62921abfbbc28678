"""Take measurements that exist already over into the store."""

from pathlib import Path

from buran.campaign.plan import Plan
from buran.workflow.import_runs import import_runs
from buran.workflow.session import step

with step(snakemake) as session:
    plan = Plan.read(Path(snakemake.input[0]))
    import_runs(session, plan).write(Path(snakemake.output[0]))
