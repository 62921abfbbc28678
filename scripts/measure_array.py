"""Measure what many jobs are for, one after the other on this machine."""

from pathlib import Path

from buran.files import write_json
from buran.workflow.measure import measure_array
from buran.workflow.session import step

with step(snakemake) as session:
    write_json(Path(snakemake.output[0]), measure_array(session, snakemake.wildcards.array))
