"""What the next plan will cost, before anything of it is submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from buran.campaign.plan import Plan
from buran.campaign.point import Point
from buran.loop.findings import Findings
from buran.loop.plan import first_plan, make_plan, question_of, runtime_model
from buran.loop.session import Session
from buran.measure.bundle import slots_of
from buran.measure.store import ledger


@dataclass(frozen=True)
class Estimate:
    """Expected cost of what comes next.

    Attributes
    ----------
    points, runs
        Those of the plan that are not made yet.
    source
        Where run times come from, in words.
    next_core_hours, full_matrix_core_hours
        None where nothing is known of the run time of some point.
    """

    iteration: int
    reason: str
    points: int
    runs: int
    source: str
    next_core_hours: float | None
    full_matrix_core_hours: float | None
    spent_core_hours: float
    budget_core_hours: float | None

    @property
    def share_of_full_matrix(self) -> float | None:
        """Share of the full matrix's cost."""
        if self.next_core_hours is None or not self.full_matrix_core_hours:
            return None
        return self.next_core_hours / self.full_matrix_core_hours


def next_plan_of(session: Session) -> Plan:
    """Return the plan that is carried out next: the one begun, or the one that its models lead to."""
    layout = session.layout
    plans = layout.read_plans(session.id)
    if not plans:
        return first_plan(session)
    last = plans[-1]
    ready = (layout.findings(session.id, last.iteration), layout.filter(session.id, last.iteration + 1))
    if last.done or not all(path.is_file() for path in ready):
        return last
    return make_plan(session, last.iteration + 1)


def estimate(session: Session) -> Estimate:
    """Estimate the cost of the next plan and of the full matrix, from models where there are any."""
    campaign, layout, question = session.campaign, session.layout, question_of(session)
    plan = next_plan_of(session)
    seconds, source = _run_times(session)
    runs, points, total = 0, 0, 0.0
    known = True
    for bundle in plan.bundles:
        open_runs = sum(slot.verdict() is None for _, slot in slots_of(session.target, layout, bundle))
        if open_runs:
            points, runs = points + 1, runs + open_runs
            if plan.imported:  # made already: they cost nothing here
                continue
            each = seconds(bundle.point)
            known = known and each is not None
            total += (each or 0.0) * campaign.cores(bundle.point) * open_runs / 3600.0
    return Estimate(
        iteration=plan.iteration,
        reason=plan.reason,
        points=points,
        runs=runs,
        source=source,
        next_core_hours=total if known else None,
        full_matrix_core_hours=question.full_matrix_core_hours(seconds),
        spent_core_hours=ledger.spent_core_hours(ledger.read(layout.store), session.target.id),
        budget_core_hours=plan.budget_core_hours,
    )


def _run_times(session: Session) -> tuple[Callable[[Point], float | None], str]:
    """Return a prediction of run times: from this campaign's models, from those of an earlier version, else given."""
    for path, words in (*_own_findings(session), *_earlier_findings(session)):
        findings = Findings.read(path)
        if findings.runtime is not None and findings.runtime.parameters == session.campaign.parameters:
            return runtime_model(session, findings), words
    if session.campaign.formulas.expected_s is not None:
        return session.campaign.expected_s, "from resources.expected_s"
    return session.campaign.expected_s, "no run time is known yet: give resources.expected_s"


def _own_findings(session: Session) -> Iterator[tuple[Path, str]]:
    for plan in reversed(session.layout.read_plans(session.id)):
        path = session.layout.findings(session.id, plan.iteration)
        if path.is_file():
            yield path, f"from the models after iteration {plan.iteration}"


def _earlier_findings(session: Session) -> Iterator[tuple[Path, str]]:
    """Yield those of other versions of the campaign file that asked about the same target, newest first."""
    layout = session.layout
    found = layout.findings("*", 0).relative_to(layout.root).parent.parent
    paths = sorted(layout.root.glob(f"{found}/*/findings.json"), key=lambda path: -path.stat().st_mtime)
    for path in paths:
        campaign, iteration = path.parents[1].name, int(path.parent.name)
        if campaign != session.id and layout.plan(campaign, iteration).is_file():
            plan = layout.read_plan(campaign, iteration)
            if {build.target for build in plan.builds} == {session.target.id}:
                yield path, "from the models of an earlier version of this campaign"
