"""Measure the bundles that share a job, one after the other."""

from pathlib import Path

from buran.files import write_json
from buran.workflow.measure import measure_batch
from buran.workflow.session import step

with step(snakemake) as session:
    write_json(Path(snakemake.output[0]), measure_batch(session, snakemake.wildcards.batch))
