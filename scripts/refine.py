"""Choose the functions that stay instrumented in an iteration."""

from pathlib import Path

from buran.steps.refine import refined_filter

from buran.files import write_text
from buran.steps.session import step

with step(snakemake) as session:  # noqa: F821
    text = refined_filter(session, int(snakemake.wildcards.iteration))  # noqa: F821
    write_text(Path(snakemake.output[0]), text)  # noqa: F821
