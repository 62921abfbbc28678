"""Measure a bundle, or the bundles of a batch one after the other."""

from buran.workflow.measure import measure_jobs
from buran.workflow.session import step

with step(snakemake) as session:
    measure_jobs(session, snakemake.wildcards[-1])
