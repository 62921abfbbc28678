"""``buran-job CAMPAIGN-FILE CAMPAIGN-ID SUBMISSION``: what a job of ours does, in one process, without the engine.

It runs in the results folder of the campaign, measures a bundle or the bundles of a batch, and writes their pointers.
"""

from __future__ import annotations

import sys
from pathlib import Path

from buran.campaign.layout import Layout
from buran.measurement.schedulers.jobs import submission_in
from buran.measurement.schedulers.registry import current_scheduler
from buran.workflow.measure import measure_jobs
from buran.workflow.session import logged


def main() -> int:
    """Measure; return the exit code."""
    file, campaign, submitted = sys.argv[1:]
    root = Path.cwd()
    names = submission_in(root, submitted).names
    name = names[current_scheduler().array_task() or 0]
    layout = Layout(root)
    log = layout.log("measure_together" if layout.batch_spec(name).is_file() else "measure", name)
    with logged(log, Path(file), campaign) as session:
        measure_jobs(session, name, submitted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
