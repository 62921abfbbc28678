"""No scheduler: measurements run on this machine, one at a time."""

from __future__ import annotations

from buran.measurement.schedulers.base import Scheduler


class NoScheduler(Scheduler):
    """Has no jobs."""

    name = "none"
    title = "no scheduler"


NONE = NoScheduler()
