"""Work on one shard of an evaluation."""

import contextlib
import traceback
from pathlib import Path

from buran_studies.evaluation.run import Run

with Path(snakemake.log[0]).open("w") as log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
    try:
        Run.open(Path(snakemake.config["evaluation"])).work(snakemake.wildcards.shard)
    except Exception:
        traceback.print_exc(file=log)
        raise SystemExit(1) from None
