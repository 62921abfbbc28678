"""What each phase of a campaign has taken and will take: core hours and wall time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from buran.campaign.plan import Mode, Plan, Purpose, Question, planned_runs
from buran.campaign.point import Point
from buran.campaign.records import RECORD, Status, read_record
from buran.measurement.store import ledger, store
from buran.planning.draft import Draft
from buran.planning.pilot import pilot_indices
from buran.planning.planner import next_plan
from buran.workflow.history import History
from buran.workflow.plan import first_plan, knowledge_of, question_of
from buran.workflow.views.run_times import RunTimes, kinds_of, run_times, seconds_between


class Phase(StrEnum):
    """Phase of a campaign, in the order of tables."""

    BUILDS = "builds"
    COMPARISON = "comparison"
    PILOT = "pilot runs"
    COUNTS = "counts"
    MEMORY = "memory runs"
    FIRST = "first iteration"
    REFINEMENT = "refinement"
    EVALUATION = "evaluation"


@dataclass(frozen=True)
class PhaseCost:
    """What a phase has taken and will take.

    Attributes
    ----------
    made, ahead
        Runs, or builds: measured or failed ones, and those to come.
    spent_core_hours, spent_s
        Of those that are made.
    core_hours, wall_s
        Predicted for those to come; None where nothing is known.
    """

    phase: Phase
    made: int = 0
    spent_core_hours: float = 0.0
    spent_s: float = 0.0
    ahead: int = 0
    core_hours: float | None = 0.0
    wall_s: float | None = 0.0

    def with_run(self, seconds: float | None, cores: float, between_s: float) -> PhaseCost:
        """Return it with one more run to come."""
        if seconds is None or self.core_hours is None or self.wall_s is None:
            return replace(self, ahead=self.ahead + 1, core_hours=None, wall_s=None)
        core_hours, wall_s = self.core_hours + seconds * cores / 3600.0, self.wall_s + seconds + between_s
        return replace(self, ahead=self.ahead + 1, core_hours=core_hours, wall_s=wall_s)


def phase_costs(history: History) -> tuple[PhaseCost, ...]:
    """Return the phases that took something or are to come.

    To come are the runs of the plan that is begun or next, and of those that will follow as far as they are known:
    a new filter and the evaluation points. What adaptive strategies will ask for later is not among them.
    """
    session = history.session
    plans, ahead = history.plans, _plans_ahead(history)
    entries = [entry for entry in ledger.read(session.layout.store) if entry.target == session.target.id]
    all_plans = (*plans, *(plan for plan in ahead if plan not in plans))
    cores, campaign = session.campaign.charged_cores, session.campaign
    times = run_times(all_plans, entries, cores, campaign.ranks_parameter)
    phases, points = _phases_of_runs(all_plans)
    costs = {phase: PhaseCost(phase) for phase in Phase}
    settled: set[Question] = set()
    for entry in entries:
        phase = phases.get(entry.question)
        if phase is not None:
            made = int(entry.status != Status.INTERRUPTED)
            if made:
                settled.add(entry.question)
            row, hours = costs[phase], entry.cost_core_hours
            seconds = row.spent_s + 3600.0 * hours / cores(points[entry.question])
            costs[phase] = replace(
                row, made=row.made + made, spent_core_hours=row.spent_core_hours + hours, spent_s=seconds
            )
    between_s, kinds = seconds_between(session, plans, entries), kinds_of(all_plans)
    wanted = {question for question, _, _ in planned_runs(ahead)}
    for question in sorted(wanted - settled):
        point, kind = points[question], kinds[question[0]]
        seconds_ahead = None if times is None else times.seconds(point, kind)
        phase = phases[question]
        costs[phase] = costs[phase].with_run(seconds_ahead, cores(point), between_s)
    costs[Phase.BUILDS] = _builds(history, all_plans)
    return tuple(_with_new_filter(history, ahead, costs, times, between_s).values())


def _phases_of_runs(plans: Sequence[Plan]) -> tuple[dict[Question, Phase], dict[Question, Point]]:
    """Return the phase in which each run is made, that of the first plan that asks for it, and its point."""
    phases: dict[Question, Phase] = {}
    points: dict[Question, Point] = {}
    rounds = 0
    for plan in plans:
        for question, bundle, run in planned_runs([plan]):
            points[question] = bundle.point
            phases.setdefault(question, _phase(bundle.purpose, run.mode, rounds))
        rounds += plan.modelled is Purpose.MODEL
    return phases, points


def _phase(purpose: Purpose, mode: Mode, rounds: int) -> Phase:
    special = {
        Purpose.PILOT: Phase.PILOT, Purpose.COMPARISON: Phase.COMPARISON, Purpose.EVALUATION: Phase.EVALUATION
    }  # fmt: skip
    if purpose in special:
        return special[purpose]
    if mode is Mode.EFFORT:
        return Phase.COUNTS
    if mode is Mode.MEMORY:
        return Phase.MEMORY
    return Phase.REFINEMENT if rounds else Phase.FIRST


def _plans_ahead(history: History) -> tuple[Plan, ...]:
    """Return the plan that is begun or next, and those after it that are known."""
    plans, layout = history.plans, history.layout
    before = history
    if plans:
        if plans[-1].done:
            return ()
        last = plans[-1].iteration
        ready = (layout.findings(history.campaign, last), layout.filter(history.campaign, last + 1))
        if not all(path.is_file() for path in ready):
            before = History.open(history.session, last)
    question = question_of(before)
    knowledge = knowledge_of(before, question)
    plan = (
        plans[-1] if before is not history else next_plan(question, knowledge) if plans else first_plan(history.session)
    )
    if plan.comparison:
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


def _with_new_filter(
    history: History, ahead: Sequence[Plan], costs: dict[Phase, PhaseCost], times: RunTimes | None, between_s: float
) -> dict[Phase, PhaseCost]:
    """Return the costs with those of measuring the points of the first round again, where that is to come."""
    first = next((plan for plan in ahead if plan.bundles and plan.bundles[0].purpose is Purpose.MODEL), None)
    rounds = [plan for plan in history.plans if plan.bundles and plan.bundles[0].purpose is Purpose.MODEL]
    if first is not None and rounds in ([], [first]):
        question = question_of(history)
        draft = Draft(question, knowledge_of(History.open(history.session, 0), question))
        for bundle in first.bundles:
            for _ in range(draft.again_runs(bundle)):
                seconds = None if times is None else times.seconds(bundle.point, (Mode.VANILLA, ""))
                cores = history.session.campaign.charged_cores(bundle.point)
                costs[Phase.REFINEMENT] = costs[Phase.REFINEMENT].with_run(seconds, cores, between_s)
    return {phase: cost for phase, cost in costs.items() if cost.made or cost.ahead}


def _builds(history: History, plans: Sequence[Plan]) -> PhaseCost:
    """Return what builds have taken; those to come take what the others took."""
    layout, hashes = history.layout, {build.hash for plan in plans for build in plan.builds}
    slots = [store.Slot.of_build(layout.store, name) for name in sorted(hashes)]
    folders = [folder for slot in slots if (folder := slot.verdict()) is not None and (folder / RECORD).is_file()]
    records = [read_record(folder) for folder in folders]
    spent_s = sum(record.wall_s or 0.0 for record in records)
    core_hours = sum(record.cost_core_hours or 0.0 for record in records)
    made, ahead = len(records), len(slots) - len(records)
    share = ahead / made if made else None
    return PhaseCost(
        Phase.BUILDS, made, core_hours, spent_s, ahead, 0.0,
        0.0 if not ahead else None if share is None else spent_s * share,
    )  # fmt: skip
