"""What the next plan will cost, before anything of it is submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from buran.campaign.plan import Plan
from buran.campaign.point import Point
from buran.measurement.bundle import slots_of
from buran.measurement.store import ledger
from buran.planning.question import RunTimes
from buran.workflow.history import History
from buran.workflow.plan import make_plan, question_of, run_times_at
from buran.workflow.views.run_times import kinds_of, run_times


@dataclass(frozen=True)
class Estimate:
    """Expected cost of what comes next.

    Attributes
    ----------
    points, runs
        Those of the plan that are not made yet.
    source
        Where run times come from, as text.
    next_core_hours, full_matrix_core_hours
        None where nothing is known of the run time of some point.
    target, target_s
        The point that run time is extrapolated to, and the run time there; None where nothing is known of it.
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
    target: Mapping[str, float | str] = field(default_factory=dict)
    target_s: float | None = None

    @property
    def share_of_full_matrix(self) -> float | None:
        """Share of the full matrix's cost."""
        if self.next_core_hours is None or not self.full_matrix_core_hours:
            return None
        return self.next_core_hours / self.full_matrix_core_hours


def next_plan_of(history: History) -> Plan:
    """Return the plan that is carried out next: the one begun, or the one that its models lead to."""
    plans, layout, campaign = history.plans, history.layout, history.campaign
    if plans:
        last = plans[-1].iteration
        ready = (layout.findings(campaign, last), layout.filter(campaign, last + 1))
        if plans[-1].done or not all(path.is_file() for path in ready):
            return plans[-1]
    return make_plan(history)


def estimate(history: History) -> Estimate:
    """Estimate the cost of the next plan and of the full matrix, from models where there are any."""
    session = history.session
    campaign, layout, question = session.campaign, session.layout, question_of(History.open(session, 0))
    plan = next_plan_of(history)
    plans = tuple({made.iteration: made for made in (*history.plans, plan)}.values())
    entries = ledger.read(layout.store)
    program_s, source = _program_times(history, (*question.table, campaign.target))
    made = run_times(plans, entries, campaign.charged_cores, campaign.ranks_parameter) if history.plans else None
    times = made if made is not None and made.factors else None
    kinds, runs, points, costs = kinds_of(plans), 0, 0, list[float | None]()
    for bundle in plan.bundles:
        point, slots = bundle.point, slots_of(session.target, layout, bundle)
        open_runs = [run for run, slot in slots if slot.verdict() is None]
        points, runs = points + bool(open_runs), runs + len(open_runs)
        for run in open_runs:
            run_s = program_s.get(point) if times is None else times.seconds(point, kinds[run.build])
            costs.append(None if run_s is None else run_s * campaign.charged_cores(point) / 3600.0)
    return Estimate(
        iteration=plan.iteration,
        reason=plan.reason,
        points=points,
        runs=runs,
        source=source if times is None else "from the runs made so far",
        next_core_hours=None if None in costs else sum(cost or 0.0 for cost in costs),
        full_matrix_core_hours=question.full_matrix_core_hours(program_s),
        spent_core_hours=ledger.spent_core_hours(entries, session.target.id),
        budget_core_hours=plan.budget_core_hours,
        target=campaign.target.plain,
        target_s=program_s.get(campaign.target),
    )


def _program_times(history: History, points: Sequence[Point]) -> tuple[RunTimes, str]:
    """Return run times at points: predicted by this campaign's models, by those of an earlier version, else given."""
    campaign = history.session.campaign
    for version, words in ((history, "after iteration {}"), *_earlier_versions(history)):
        for findings in version.newest_findings:
            if findings.runtime is not None and findings.runtime.parameters == campaign.parameters:
                return run_times_at(version, findings, points), f"from the models {words.format(findings.iteration)}"
    if campaign.formulas.expected_time is None:
        return {}, "no run time is known yet: give resources.expected_time"
    given = ((point, campaign.expected_s(point)) for point in points)
    return {point: s for point, s in given if s is not None}, "from resources.expected_time"


def _earlier_versions(history: History) -> Iterator[tuple[History, str]]:
    """Yield other versions of the campaign file with the same target, that of the newest findings first."""
    session, layout = history.session, history.layout
    folder = layout.findings("*", 0).relative_to(layout.root).parent.parent
    paths = sorted(layout.root.glob(f"{folder}/*/findings.json"), key=lambda path: -path.stat().st_mtime)
    for campaign in dict.fromkeys(path.parents[1].name for path in paths):
        version = History(session, campaign)
        builds = {build.target for plan in version.plans for build in plan.builds}
        if campaign != history.campaign and builds == {session.target.id}:
            yield version, "of an earlier version of this campaign"
