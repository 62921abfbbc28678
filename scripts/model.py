"""Fit models to everything measured up to an iteration."""

from pathlib import Path

from buran.steps.model import make_models

from buran.steps.session import step

with step(snakemake) as session:  # noqa: F821
    make_models(
        session,
        int(snakemake.wildcards.iteration),  # noqa: F821
        Path(snakemake.output.models),  # noqa: F821
        Path(snakemake.output.findings),  # noqa: F821
        Path(snakemake.output.table),  # noqa: F821
    )
