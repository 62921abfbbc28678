"""Write the report and put everything beside it that a user takes home."""

from pathlib import Path

from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import step

with step(snakemake) as session:
    write_results(History.open(session), Path(snakemake.output[0]).parent)
