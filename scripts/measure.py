"""Measure a bundle: all runs of one point."""

from pathlib import Path

from buran.workflow.measure import measure
from buran.workflow.session import step

with step(snakemake) as session:
    measure(session, snakemake.wildcards.bundle).write(Path(snakemake.output[0]))
