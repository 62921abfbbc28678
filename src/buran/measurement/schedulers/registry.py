"""Which schedulers there are, and which of them a process, a profile or a campaign has to do with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from buran.extensions import ExtensionPoint
from buran.measurement.schedulers.base import NONE, Scheduler

SCHEDULERS: ExtensionPoint[Scheduler] = ExtensionPoint(
    "scheduler",
    "buran.schedulers",
    Scheduler,
    {
        "none": "buran.measurement.schedulers.base:NONE",
        "slurm": "buran.measurement.schedulers.slurm:SLURM",
    },
)


def current_scheduler() -> Scheduler:
    """Return the scheduler in one of whose jobs this process runs; `NONE` outside of jobs."""
    return next((scheduler for scheduler in SCHEDULERS if scheduler.this_job() is not None), NONE)


def scheduler_of_profile(settings: Mapping[str, object]) -> Scheduler:
    """Return the scheduler whose jobs a profile of the workflow engine submits; `NONE` if it is none we know.

    Raises
    ------
    UsageError
        The profile names one that belongs to a plug-in or distribution that is not installed.
    """
    named = settings.get("buran-scheduler")
    if settings.get("executor") == "buran" and isinstance(named, str) and named in SCHEDULERS.possible_names:
        return SCHEDULERS.load(named)
    return next((scheduler for scheduler in SCHEDULERS if scheduler.serves(settings)), NONE)


def scheduler_of_campaign(folder: Path, *, had_jobs: bool) -> Scheduler:
    """Return the scheduler on this machine that has, or may have, jobs of the campaign in a folder; else `NONE`.

    Parameters
    ----------
    had_jobs
        Whether some of its measurements ran in jobs, of whichever scheduler.
    """
    available = [scheduler for scheduler in SCHEDULERS if scheduler.is_available()]
    return next(
        (scheduler for scheduler in available if scheduler.worked_in(folder)),
        available[0] if available and had_jobs else NONE,
    )


def first_failure(log: Path) -> str | None:
    """Return what any scheduler's launcher wrote of the first rank that failed; None if it wrote nothing."""
    return next((words for scheduler in SCHEDULERS if (words := scheduler.first_failure(log))), None)
