"""Fit models to everything measured up to an iteration."""

from pathlib import Path

from buran.loop.model import make_models
from buran.loop.session import step

with step(snakemake) as session:
    make_models(
        session,
        int(snakemake.wildcards.iteration),
        Path(snakemake.output.models),
        Path(snakemake.output.findings),
        Path(snakemake.output.table),
    )
