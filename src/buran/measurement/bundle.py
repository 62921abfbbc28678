"""Measuring a bundle: all runs of one point, one after the other, on a machine reserved for them, and its charge."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Mode, Run
from buran.campaign.records import BundleOutcome, RunKey, RunOutcome, Status, read_record, read_run
from buran.files import digest
from buran.measurement.attempt import BUILD_FAILED, SPARED, Attempt, note, settle
from buran.measurement.machine.process import interruptible
from buran.measurement.schedulers.base import Allocation, Scheduler, current_scheduler
from buran.measurement.store import claims, ledger, store
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


@dataclass(frozen=True)
class Surroundings:
    """In what the runs of a bundle are made.

    Attributes
    ----------
    scheduler
        In whose job this is.
    allocation
        What the job was given; None outside of jobs.
    outages
        Tells whether the scheduler was away since the last attempt; None outside of jobs.
    exact
        Whether the job was submitted for this bundle, and must have what that needs, not more.
    meter
        Meter of the job, if all that it holds is charged.
    """

    scheduler: Scheduler
    allocation: Allocation | None
    outages: Callable[[], bool] | None
    exact: bool
    meter: Meter | None


def slots_of(target: Target, layout: Layout, bundle: Bundle) -> list[tuple[Run, store.Slot]]:
    """Return the runs of a bundle with their places in the store."""
    chosen = digest(target.configuration(bundle.point), 8)
    keys = {run: RunKey(run.build, bundle.point.key, chosen, run.name) for run in bundle.runs}
    generations = {key.folder: store.current_generation(layout.store, key) for key in keys.values()}
    return [
        (run, store.Slot(layout.store, replace(key, generation=generations[key.folder]))) for run, key in keys.items()
    ]


def measure_bundle(
    target: Target,
    layout: Layout,
    bundle: Bundle,
    budget_core_hours: float | None,
    job: str | None = None,
) -> BundleOutcome:
    """Make the runs of a bundle that the store does not have; return what became of all of them.

    Parameters
    ----------
    job
        What a job that measures it was submitted for, if not for the bundle alone.
    """
    target = target.at(bundle.point)
    slots = slots_of(target, layout, bundle)
    if any(slot.verdict() is None for _, slot in slots):
        scheduler = current_scheduler()
        allocation = scheduler.allocation()
        claim = layout.bundle_claim(bundle.id)
        # A second job for the same bundle must not wait: it would hold nodes and measure nothing.
        # One that was started again waits for what is left of itself.
        wait = allocation is None or allocation.restarts > 0 or not allocation.is_for(job or bundle.id)
        with interruptible(), claims.claimed(claim, wait=wait), target.backend.machine.reserved():
            if allocation is not None and allocation.waited_s is not None:
                note(layout.waits, allocation.job, allocation.waited_s)
            meter = None if wait or allocation is None else meter_of(target, allocation)
            around = Surroundings(scheduler, allocation, scheduler.outages(), not wait, meter)
            spared_by = None
            # What a run without hooks is expected to cost; 0 where nothing is known.
            foreseen = (bundle.predicted_s or 0.0) * target.campaign.charged_cores(bundle.point) / 3600.0
            longest = dict.fromkeys((run.mode for run, _ in slots), foreseen)
            for run, slot in slots:
                before = ledger.spent_core_hours(ledger.read(layout.store), target.id)
                left = math.inf if budget_core_hours is None else budget_core_hours - before
                if slot.verdict() is None and (left <= 0 or left < longest[run.mode]):
                    break
                claims.beat(claim)
                settle(Attempt(target, layout, bundle, run, slot, around, spared_by))
                cost = ledger.spent_core_hours(ledger.read(layout.store), target.id) - before
                # Where a run takes more than was predicted, so do those of other builds; sampling has its own cost.
                for mode in longest if run.mode is not Mode.MEMORY else (Mode.MEMORY,):
                    longest[mode] = max(longest[mode], cost)
                spared_by = spared_by or _why_all_would_fail(run, slot)
    return BundleOutcome.of(bundle, (outcome_of(layout, run, slot) for run, slot in slots))


def _why_all_would_fail(run: Run, slot: store.Slot) -> str | None:
    """Return why a run without hooks failed, as those with hooks would."""
    verdict = slot.verdict()
    if run.mode is not Mode.VANILLA or verdict is None or verdict == slot.folder:
        return None
    reason = read_run(verdict).reason or "unknown"
    return None if reason.startswith((BUILD_FAILED, SPARED)) else f"{run.name}: {reason}"


def outcome_of(layout: Layout, run: Run, slot: store.Slot) -> RunOutcome:
    """Describe what is known of a run; failed and interrupted attempts are charged too."""
    verdict = slot.verdict()
    cost = sum(read_record(attempt).cost_core_hours or 0.0 for attempt in slot.attempts())
    if verdict is None:
        return RunOutcome(run.build, run.mode, run.repetition, Status.OVER_BUDGET, cost_core_hours=cost)
    record = read_run(verdict)
    if verdict == slot.folder:
        cost += record.cost_core_hours or 0.0
    folder = str(verdict.relative_to(layout.root))
    return RunOutcome(
        run.build, run.mode, run.repetition, record.status, record.reason, folder, record.wall_s, record.cpu_s, cost
    )
