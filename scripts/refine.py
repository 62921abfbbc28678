"""Choose the functions that stay instrumented in an iteration."""

from pathlib import Path

from buran.files import write_text
from buran.workflow.history import History
from buran.workflow.refine import refined_filter
from buran.workflow.session import step

with step(snakemake) as session:
    text = refined_filter(History.open(session, int(snakemake.wildcards.iteration)))
    write_text(Path(snakemake.output[0]), text)
