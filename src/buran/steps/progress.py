"""How far a campaign is: what is planned, made, failed, running; what it has cost and will cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from buran.campaign.layout import Layout
from buran.campaign.plan import Mode, Plan
from buran.files import read_json
from buran.measure import claims, ledger, store
from buran.measure.bundle import slot_of
from buran.steps.session import Session


@dataclass(frozen=True)
class Failure:
    """A build or a run that failed, with where to look."""

    what: str
    reason: str
    log: str


@dataclass(frozen=True)
class Row:
    """State of one build variant's runs in one iteration."""

    iteration: int
    mode: str
    purpose: str
    runs: int
    measured: int
    failed: int
    running: int
    queued: int


@dataclass(frozen=True)
class Progress:
    """State of a campaign.

    Attributes
    ----------
    remaining_core_hours
        Predicted for the runs of the current plan that are not made; None where nothing is known.
    """

    campaign: str
    done: bool
    reason: str
    budget_reached: bool
    rows: tuple[Row, ...]
    failures: tuple[Failure, ...]
    spent_core_hours: float
    budget_core_hours: float | None
    remaining_core_hours: float | None
    other_targets: int

    @property
    def measured(self) -> int:
        """Runs that are finished."""
        return sum(row.measured for row in self.rows)

    @property
    def runs(self) -> int:
        """Runs that are planned so far."""
        return sum(row.runs for row in self.rows)

    @property
    def failed(self) -> int:
        """Runs that failed."""
        return sum(row.failed for row in self.rows)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "runs": self.runs, "measured": self.measured, "failed": self.failed}


def progress_of(session: Session) -> Progress:
    """Look at a campaign's plans and store."""
    layout = session.layout
    plans = layout.read_plans(session.id)
    rows: list[Row] = []
    failures: dict[Path, Failure] = {}
    open_share: list[float] = []
    for plan in plans:
        rows.extend(_rows(session, plan, failures))
    for plan in plans:
        if plan.predicted_core_hours is not None and not plan.done:
            own = [row for row in rows if row.iteration == plan.iteration]
            total = sum(row.runs for row in own)
            left = sum(row.queued + row.running for row in own)
            open_share.append(plan.predicted_core_hours * left / total if total else 0.0)
    entries = ledger.read(layout.store)
    last = plans[-1] if plans else None
    return Progress(
        campaign=session.campaign.name,
        done=bool(last and last.done),
        reason=last.reason if last else "nothing is planned yet",
        budget_reached=bool(last and last.budget_reached),
        rows=tuple(rows),
        failures=tuple(failures.values()),
        spent_core_hours=ledger.spent_core_hours(entries, session.target.id),
        budget_core_hours=last.budget_core_hours if last else None,
        remaining_core_hours=sum(open_share) if open_share else None,
        other_targets=len({entry.target for entry in entries} - {session.target.id}),
    )


def _rows(session: Session, plan: Plan, failures: dict[Path, Failure]) -> list[Row]:
    layout = session.layout
    for build in plan.builds:
        slot = store.Slot(layout.store / build.hash, "build")
        verdict = slot.verdict()
        if verdict and verdict != slot.folder:
            reason = store.record(verdict)["reason"]
            failures[verdict] = Failure(f"build {build.mode}", reason, _log(layout, verdict, "build.log"))
    counts: dict[tuple[Mode, str], list[int]] = {}
    for bundle in plan.bundles:
        for run in bundle.runs:
            own = counts.setdefault((run.mode, bundle.purpose), [0, 0, 0, 0])
            slot = slot_of(session.target, layout, run, bundle)
            verdict = slot.verdict()
            if verdict == slot.folder:
                own[0] += 1
            elif verdict:
                own[1] += 1
                reason = store.record(verdict)["reason"] or "unknown"
                what = f"{run.mode} run, {bundle.point.key}, {run.name}"
                if reason != "its build failed":
                    failures[verdict] = Failure(what, reason, _log(layout, verdict, "stderr.log"))
            elif claims.is_alive(slot.claim):
                own[2] += 1
            else:
                own[3] += 1
    return [
        Row(plan.iteration, mode, purpose, sum(own), own[0], own[1], own[2], own[3])
        for (mode, purpose), own in counts.items()
    ]


def _log(layout: Layout, folder: Path, name: str) -> str:
    return str((folder / name).relative_to(layout.root))


def quick_count(layout: Layout, campaign: str) -> tuple[Sequence[Plan], int, float]:
    """Return the plans, the number of finished or failed runs and the core hours, from the ledger alone."""
    plans = layout.read_plans(campaign)
    builds = {build.hash for plan in plans for build in plan.builds}
    entries = [each for each in ledger.read(layout.store) if each.run.split("/", 1)[0] in builds]
    settled = sum(entry.status != store.Status.INTERRUPTED for entry in entries)
    return plans, settled, sum(entry.cost_core_hours for entry in entries)


def pointer_problems(layout: Layout) -> list[str]:
    """Return pointers whose builds or runs are gone."""
    problems = []
    for pointer in (*layout.made_pointers("builds"), *layout.made_pointers("bundles")):
        data = read_json(pointer)
        for entry in data.get("runs", [data]):
            folder = entry.get("folder")
            if folder and not (layout.root / folder / store.RECORD).is_file():
                problems.append(f"{pointer.relative_to(layout.root)}: points to {folder}, which is gone")
    return problems
