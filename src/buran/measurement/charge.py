"""What a job is charged, and what of that a run has cost."""

from __future__ import annotations

import time
from dataclasses import dataclass

from buran.measurement.schedulers.base import Allocation
from buran.measurement.target import Target

# From the end of a job's last run to the end that the site charges, when nobody who could write it down is there, over
# what its start took: mean of what accounts say beyond the records, by studies/benchmarks/orchestration.py.
_JOB_END = 0.25
_LONGEST_JOB_END_S = 5.0  # a start may have waited for nodes or files


@dataclass
class Meter:
    """What a job is charged: all CPUs that it holds, from its start on.

    Attributes
    ----------
    charged_cores
        That it holds, times what the site charges for one.
    charged_until
        On this process's monotonic clock: what came before is in the cost of some run.
    """

    charged_cores: float
    charged_until: float

    def core_hours(self) -> float:
        """Return what was occupied since the last call."""
        now = time.monotonic()
        occupied_s, self.charged_until = now - self.charged_until, now
        return occupied_s * self.charged_cores / 3600.0


_meters: dict[str, Meter] = {}  # by job: bundles that share one go on from each other


def meter_of(target: Target, allocation: Allocation) -> Meter | None:
    """Return the meter of a job, which foresees its end; None where programs alone are charged."""
    if target.campaign.config.budget.charge == "program" or target.campaign.is_simulated:
        return None
    end_s = min(_JOB_END * allocation.elapsed_s, _LONGEST_JOB_END_S)
    begun = allocation.queried_s - allocation.elapsed_s - end_s
    charged = allocation.cpus * target.campaign.described(allocation.partition).charge_factor
    return _meters.setdefault(allocation.job, Meter(charged, begun))
