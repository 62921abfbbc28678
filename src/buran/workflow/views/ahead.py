"""What is known to come: the plans that follow, and what the next one will cost before anything of it is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from buran.campaign.plan import Bundle, Mode, Plan, Purpose, Run
from buran.planning.base import pilot_indices
from buran.planning.draft import Draft
from buran.planning.planner import next_plan
from buran.planning.question import Question, RunTimes
from buran.reporting.summary import NextPlan
from buran.workflow.history import History
from buran.workflow.plan import knowledge_of, make_plan, question_of
from buran.workflow.program import run_times_at
from buran.workflow.views.remaining import PredictedRuns, Remaining
from buran.workflow.views.summary import RunState


@dataclass(frozen=True)
class Ahead:
    """What is known to follow in a campaign. What adaptive strategies will ask for later is not in it.

    Attributes
    ----------
    plans
        The plan that is begun or next, a new filter's and that of the evaluation points; empty at the end.
    again
        Runs that are expected under a filter that is not decided yet.
    """

    history: History
    plans: tuple[Plan, ...]
    again: tuple[tuple[Bundle, Run], ...]

    @classmethod
    def of(cls, history: History) -> Ahead:
        """Plan ahead."""
        plans = _plans(history)
        first = next((plan for plan in plans if _is_for_models(plan)), None)
        if first is None or [plan for plan in history.plans if _is_for_models(plan)] not in ([], [first]):
            return cls(history, plans, ())
        question = question_of(history)
        draft = Draft(question, knowledge_of(History.open(history.session, 0), question))
        again = [
            # filters leave few hooks
            (bundle, next((run for run in bundle.runs if run.mode is Mode.VANILLA), bundle.runs[0]))
            for bundle in first.bundles
            for _ in range(draft.again_runs(bundle))
        ]
        return cls(history, plans, tuple(again))

    @property
    def next(self) -> Plan:
        """The plan that is begun or next; at the end the last one."""
        return self.plans[0] if self.plans else self.history.plans[-1]

    def of_next(self, runs: Sequence[RunState]) -> list[RunState]:
        """Return the runs of the next plan among those of all plans ahead."""
        return [each for each in runs if each.plan is self.next]

    def price(self, runs: Sequence[RunState], predicted: PredictedRuns, spent_core_hours: float) -> NextPlan:
        """Predict the cost of the next plan and of the full matrix, from models where there are any.

        Parameters
        ----------
        runs
            Those of the plans ahead.
        """
        campaign, question = self.history.session.campaign, question_of(History.open(self.history.session, 0))
        left, open_runs = Remaining(predicted), [each for each in self.of_next(runs) if each.is_open]
        for each in open_runs:
            left.add(each.bundle, each.run)
        program_s, source = self._program_times(question, predicted)
        return NextPlan(
            iteration=self.next.iteration,
            reason=self.next.reason,
            points=len({each.bundle.id for each in open_runs}),
            runs=left.runs,
            source=_FROM_RUNS if predicted.has_runs else source,
            next_core_hours=left.known_core_hours,
            full_matrix_core_hours=question.full_matrix_core_hours(program_s),
            spent_core_hours=spent_core_hours,
            budget_core_hours=self.next.budget_core_hours,
            target=campaign.target.plain,
            target_s=program_s.get(campaign.target),
        )

    def _program_times(self, question: Question, predicted: PredictedRuns) -> tuple[RunTimes, str]:
        """Return run times of the program: predicted by its models, else given, else by runs made so far."""
        campaign = self.history.session.campaign
        points = (*question.table, campaign.target)
        for findings in self.history.newest_findings:
            if findings.runtime is not None:
                source = f"from the models after iteration {findings.iteration}"
                return run_times_at(self.history, findings, points), source
        if campaign.formulas.expected_time is not None:
            given = ((point, campaign.expected_s(point)) for point in points)
            return {point: s for point, s in given if s is not None}, "from resources.expected_time"
        if predicted.times is not None and predicted.has_runs:  # these tell nothing of what is far beyond them
            return {point: predicted.times.seconds(point, (Mode.VANILLA, "")) for point in question.table}, _FROM_RUNS
        return {}, "no run time is known yet: give resources.expected_time"


_FROM_RUNS = "from the runs made so far"


def _is_for_models(plan: Plan) -> bool:
    return bool(plan.bundles) and plan.bundles[0].purpose is Purpose.MODEL


def _is_under_way(history: History) -> bool:
    """Return whether the models after the last plan are not made yet."""
    if not history.plans:
        return False
    layout, last = history.layout, history.plans[-1].iteration
    ready = (layout.findings(history.campaign, last), layout.filter(history.campaign, last + 1))
    return not all(path.is_file() for path in ready)


def _plans(history: History) -> tuple[Plan, ...]:
    """Return the plan that is begun, or that the models lead to, and those after it that are known."""
    plans, under_way = history.plans, _is_under_way(history)
    if plans and plans[-1].done:
        return ()
    before = History.open(history.session, plans[-1].iteration) if under_way else history
    question = question_of(before)
    knowledge = knowledge_of(before, question)
    plan = plans[-1] if under_way else make_plan(history)
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
