"""Fit models to everything measured up to an iteration."""

from pathlib import Path

from buran.workflow.history import History
from buran.workflow.model import make_models
from buran.workflow.session import step

with step(snakemake) as session:
    make_models(
        History.open(session, int(snakemake.wildcards.iteration) + 1),
        Path(snakemake.output.models),
        Path(snakemake.output.findings),
        Path(snakemake.output.table),
    )
