"""What the next plan will cost, and what is known to follow it, before anything of it is submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from buran.campaign.plan import Mode, Plan, Purpose, Question, planned_runs
from buran.campaign.point import Point
from buran.campaign.records import Status
from buran.measurement.bundle import slots_of
from buran.measurement.store import ledger
from buran.planning.draft import Draft
from buran.planning.pilot import pilot_indices
from buran.planning.planner import next_plan
from buran.planning.question import RunTimes
from buran.reporting.account import REFINEMENT, phases_of
from buran.workflow.history import History
from buran.workflow.plan import first_plan, knowledge_of, make_plan, question_of, run_times_at
from buran.workflow.views.remaining import PredictedRuns, Remaining


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
    return history.plans[-1] if _is_under_way(history) else make_plan(history)


def _is_under_way(history: History) -> bool:
    """Return whether the last plan is the end, or the models after it are not made yet."""
    if not history.plans or history.plans[-1].done:
        return bool(history.plans)
    layout, last = history.layout, history.plans[-1].iteration
    ready = (layout.findings(history.campaign, last), layout.filter(history.campaign, last + 1))
    return not all(path.is_file() for path in ready)


def ahead_of(history: History) -> dict[str, Remaining]:
    """Return what is to come by phase: of the plan that is begun or next, and of those that are known to follow.

    These are a new filter and the evaluation points. What adaptive strategies will ask for later is not among them.
    """
    session, ahead = history.session, _plans_ahead(history)
    every = (*history.plans, *(plan for plan in ahead if plan not in history.plans))
    entries = [entry for entry in ledger.read(session.layout.store) if entry.target == session.target.id]
    predicted, phases, found = PredictedRuns(session, every, entries), phases_of(every), dict[str, Remaining]()
    seen: set[Question] = {entry.question for entry in entries if entry.status != Status.INTERRUPTED}
    for question, bundle, run in planned_runs(ahead):
        if question not in seen:
            seen.add(question)
            found.setdefault(phases[question], Remaining(predicted)).add(bundle, run)
    first = next((plan for plan in ahead if _is_for_models(plan)), None)
    if first is not None and [plan for plan in history.plans if _is_for_models(plan)] in ([], [first]):
        question_ahead = question_of(history)
        draft = Draft(question_ahead, knowledge_of(History.open(session, 0), question_ahead))
        for bundle in first.bundles:
            plain = next((run for run in bundle.runs if run.mode is Mode.VANILLA), bundle.runs[0])
            for _ in range(draft.again_runs(bundle)):  # filters leave few hooks
                found.setdefault(REFINEMENT, Remaining(predicted)).add(bundle, plain)
    return found


def _is_for_models(plan: Plan) -> bool:
    return bool(plan.bundles) and plan.bundles[0].purpose is Purpose.MODEL


def _plans_ahead(history: History) -> tuple[Plan, ...]:
    """Return the plan that is begun or next, and those after it that are known."""
    plans, under_way = history.plans, _is_under_way(history)
    if plans and plans[-1].done:
        return ()
    before = History.open(history.session, plans[-1].iteration) if under_way else history
    question = question_of(before)
    knowledge = knowledge_of(before, question)
    plan = plans[-1] if under_way else next_plan(question, knowledge) if plans else first_plan(history.session)
    if plan.pilot and history.session.earlier is not None:  # whether more follows depends on what it shows
        return (plan,)
    draft, out = Draft(question, knowledge), [plan]
    if plan.pilot:
        if len(knowledge.plans) == 0 and (not question.adaptive or not question.models):
            positions = pilot_indices(question.space.points)
            points = dict.fromkeys((question.points[position] for position in positions), 1)
            out.append(draft.plan(points, Purpose.PILOT, "", plan.filter_text))
        if question.models:
            out.append(next_plan(replace(question, pilot=False), replace(knowledge, plans=())))
    if question.models and question.evaluation_points and not knowledge.planned(Purpose.EVALUATION) and not plan.done:
        points = dict.fromkeys(question.evaluation_points, question.repetitions)
        if Purpose.EVALUATION not in {bundle.purpose for bundle in plan.bundles}:
            out.append(draft.plan(points, Purpose.EVALUATION, "", plan.filter_text))
    return tuple(out)


def estimate(history: History) -> Estimate:
    """Estimate the cost of the next plan and of the full matrix, from models where there are any."""
    session = history.session
    campaign, layout, question = session.campaign, session.layout, question_of(History.open(session, 0))
    plan = next_plan_of(history)
    plans = tuple({made.iteration: made for made in (*history.plans, plan)}.values())
    entries = ledger.read(layout.store)
    program_s, source = _program_times(history, (*question.table, campaign.target))
    predicted = PredictedRuns(session, plans, entries)
    times = predicted.times if history.plans and predicted.times is not None and predicted.times.factors else None
    runs, points, costs = 0, 0, list[float | None]()
    for bundle in plan.bundles:
        point, slots = bundle.point, slots_of(session.target, layout, bundle)
        open_runs = [run for run, slot in slots if slot.verdict() is None]
        points, runs = points + bool(open_runs), runs + len(open_runs)
        for run in open_runs:
            run_s = program_s.get(point) if times is None else times.seconds(point, predicted.kinds[run.build])
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
