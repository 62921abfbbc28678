"""Measure a bundle: all runs of one point."""

from buran.workflow.measure import measure_jobs
from buran.workflow.session import step

with step(snakemake) as session:
    measure_jobs(session, snakemake.wildcards.bundle)
