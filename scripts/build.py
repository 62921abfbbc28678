"""Build one variant of the target."""

from buran.workflow.measure import make_build
from buran.workflow.session import step

with step(snakemake) as session:
    make_build(session, snakemake.wildcards.build)
