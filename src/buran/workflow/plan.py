"""Making the plan of an iteration from the campaign and the results of the iterations before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import cast

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.plan import Mode, Plan, Purpose
from buran.campaign.point import Point, has_all_steps
from buran.campaign.records import BundleOutcome, Status
from buran.campaign.sections import BudgetKeys, RefinementKeys
from buran.campaign.strategies import Abilities, abilities_of
from buran.errors import ConfigError
from buran.files import digest
from buran.instrumentation.filter_file import parse
from buran.modeling.functions.terms import ModelFunction
from buran.modeling.numerics.tuning import MATTERS, STEPS
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.priors.campaign import LevelMisses, PathPrior
from buran.modeling.priors.prior import Column, Prior, computation_prior
from buran.modeling.priors.steps import Repeats
from buran.planning.draft import Draft
from buran.planning.observations import Observations
from buran.planning.planner import next_plan
from buran.planning.question import Candidate, Knowledge, Question, RunTimes
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import uncounted
from buran.wording import counted
from buran.workflow.collect import foreign_points
from buran.workflow.findings import Findings
from buran.workflow.history import FinishedRun, History, baseline, rules_of, run_times, walls_by_point
from buran.workflow.overhead import missed_limit
from buran.workflow.program import run_times_at
from buran.workflow.session import Session


def question_of(history: History) -> Question:
    """Return the part of the campaign that plans depend on."""
    session = history.session
    campaign, config, target = session.campaign, session.campaign.config, session.target
    strategy, abilities, full = config.strategy, abilities_of(config.strategy.name), _full_steps(history)
    timed = uncounted(config.metrics) or config.extra_metrics or config.refinement.enabled
    rebuild_every = {"compile": 1, "run": 0, "hybrid": config.refinement.rebuild_every}
    pooled = config.model.pool_filters == "auto"
    any_point = campaign.memory_points and campaign.requested_memory_points is None
    return Question(
        table={
            point: Candidate(
                target.build_spec(Mode.VANILLA, "", point), campaign.charged_cores(point), campaign.expected_s(point)
            )
            for point in (*campaign.points, *campaign.evaluation_points)
        },
        points=tuple(point for point in campaign.points if has_all_steps(point, full)),
        full_matrix=campaign.full_matrix,
        evaluation_points=campaign.evaluation_points,
        metrics=frozenset(config.metrics),
        repetitions=campaign.repetitions,
        effort_repetitions=config.effort_repetitions,
        warmup=config.warmup,
        strategy=strategy.name,
        max_iterations=strategy.max_iterations or STEPS,
        refine=config.refinement.enabled and config.goal != "models",
        seed=config.seed,
        filters=tuple(plan.filter_text for plan in history.plans),
        rebuild_every=rebuild_every[config.refinement.filtering],
        ranks_parameter=campaign.ranks_parameter,
        budget=config.budget,
        target=campaign.target,
        base=strategy.base,
        choices=campaign.choices,
        steps=tuple(campaign.steps),
        base_repetitions=strategy.base_repetitions,
        batch=strategy.batch,
        accuracy=None if strategy.accuracy_percent is None else strategy.accuracy_percent / 100,
        patience=strategy.patience,
        most_repetitions=campaign.most_repetitions,
        retry_failed=strategy.retry_failed,
        pilot=_has_pilot(session, abilities),
        models=config.goal != "filter",
        pooled=pooled,
        counts_with_times=campaign.counts_with_times,
        counts_only=not timed and not campaign.counts_with_times and abilities.all_at_once,
        counting_tells_times=pooled
        and "basic_blocks" in config.metrics
        and not config.extra_metrics
        and not campaign.choices,
        foreign=foreign_points(campaign),
        memory_points=None if any_point else frozenset(campaign.memory_points),
        paired=bool(campaign.choices) or config.model.kind == "cpr" or "time" not in config.metrics,
    )


def _full_steps(history: History) -> dict[str, int]:
    """Return the full numbers of steps where few do not stand for all: points with few are none to model then."""
    steps = history.session.campaign.steps
    findings = next(history.newest_findings, None) if steps else None
    return {} if findings is None else {name: steps[name] for name in findings.not_repeated}


def _has_pilot(session: Session, abilities: Abilities) -> bool:
    """Tell whether the campaign begins with a few small runs, unless the filter of another campaign is there.

    They choose functions, or show what all other runs will cost where a budget is to pay for these.
    """
    config = session.campaign.config
    if session.earlier is not None or config.goal == "filter":
        return session.earlier is None
    refined = config.goal == "both" and config.refinement.enabled
    if refined and begins_with_pilot(config.refinement, abilities):
        return True
    needs_costs = bool(config.budget.core_hours) and session.campaign.formulas.expected_time is None
    return config.refinement.pilot is None and needs_costs


def begins_with_pilot(refinement: RefinementKeys, abilities: Abilities) -> bool:
    """Tell whether a campaign begins with pilot runs.

    Where one budget is for refinement and times, what the first filter measures in vain costs more than a small run.
    """
    if refinement.pilot is not None:
        return refinement.pilot
    return refinement.start != "default" or abilities.weighs_runs


def first_plan(session: Session) -> Plan:
    """Plan the first iteration.

    Raises
    ------
    ConfigError
        The budget does not reach for the first plan.
    """
    history = History.open(session, 0)
    question = question_of(history)
    knowledge = knowledge_of(history, question)
    measuring = replace(question, pilot=question.pilot and not question.models)
    plan = plan_after(history, measuring, knowledge)
    if plan.budget_reached:
        unlimited = next_plan(replace(measuring, budget=BudgetKeys()), knowledge)
        raise ConfigError(
            "the budget is below the cost of the first plan",
            where=f"{session.campaign.path}, key budget",
            why=f"the budget is {plan.budget_core_hours:.4g} core hours, the first plan's {len(unlimited.bundles)} "
            f"points are expected to cost {unlimited.predicted_core_hours:.4g} (resources.expected_time)",
            hint="raise the budget, choose fewer or smaller points, fewer repetitions, or strategy 'design'",
        )
    return _with_conditions(session, next_plan(question, knowledge) if question.pilot else plan)


def make_plan(history: History) -> Plan:
    """Plan the next iteration; its filter, and models and outcomes of the plans so far, must exist."""
    if not history.plans:
        return first_plan(history.session)
    question = question_of(history)
    return _with_conditions(history.session, plan_after(history, question, knowledge_of(history, question)))


def plan_after(history: History, question: Question, knowledge: Knowledge) -> Plan:
    """Plan what follows, behind pilot runs that show whether the results of another campaign hold, if there is one.

    The pilot runs are left out where the budget does not reach for all of them.
    """
    earlier, draft = history.session.earlier, Draft(question, knowledge)
    if earlier is None or knowledge.rounds:
        return next_plan(question, knowledge)
    if not knowledge.plans:
        points = dict.fromkeys(earlier.pilot_points, question.repetitions)
        reason = f"pilot runs at {len(points)} points, to see whether the earlier version's results hold"
        plan = draft.plan(points, Purpose.PILOT, reason, knowledge.filter_text)
        return plan if len(plan.bundles) == len(points) else next_plan(question, knowledge)
    is_over, shown = earlier.judge(history)
    if is_over:
        return draft.done(shown, budget_reached=not knowledge.complete)
    plan = next_plan(question, knowledge)
    return replace(plan, reason=f"{shown}; {plan.reason}")


def _with_conditions(session: Session, plan: Plan) -> Plan:
    """Return a plan whose bundles say how they are run."""
    bundles = (
        replace(bundle, conditions=digest(session.target.configuration(bundle.point), 8)) for bundle in plan.bundles
    )
    return replace(plan, bundles=tuple(bundles))


def knowledge_of(history: History, question: Question) -> Knowledge:
    """Return what the iterations so far have taught; the models and outcomes of all of them must exist."""
    plans, campaign, earlier = history.plans, history.session.campaign, history.session.earlier
    if not plans:
        foreseen_s = {} if earlier is None else earlier.run_times(tuple(question.table))
        return Knowledge(filter_text=rules_of(history.filter(0) or ""), predicted_s=foreseen_s)
    last = plans[-1].iteration
    findings, filter_text = history.findings(last), history.filter(last + 1)
    assert filter_text is not None
    builds = {build.hash for plan in plans for build in plan.builds}
    build_core_hours = sum(history.build_outcome(build).cost_core_hours for build in sorted(builds))
    runs, outcomes = history.runs, tuple(history.outcomes(plans))
    walls = run_times(runs, Purpose.MODEL)
    trial = baseline(history.runs_of([plan for plan in plans if plan.pilot]), Purpose.PILOT)
    fitted = [history.findings(plan.iteration).runtime for plan in plans] if question.adaptive else []
    models = [runtime.models[0] for runtime in fitted if runtime is not None]
    measured, has_rounds = None, not all(plan.pilot for plan in plans)
    if question.adaptive and has_rounds:
        table = None if campaign.choices else history.table(last)
        times = history.models(last).get("time") if table is not None and findings.priors else None
        measured = _measured(campaign, findings, walls, table, times)
    # from the first timed run on a strategy that adapts predicts the times of its points
    foreseen = set(question.points) if measured is not None and measured.is_timed.any() else set()
    points = [point for point in question.table if point not in foreseen]
    predicted_s: RunTimes
    if earlier is not None and not has_rounds:
        predicted_s = earlier.run_times(points)
    else:
        predicted_s = run_times_at(history, findings, points, trial)
    return Knowledge(
        plans=plans,
        outcomes=outcomes,
        predicted_s=predicted_s,
        filter_text=rules_of(filter_text),
        measured=measured,
        errors=tuple(model.quality.smape for model in models if model is not None),
        build_core_hours=build_core_hours,
        unsteady=findings.unsteady,
        ratios=_ratios(findings, runs),
        pilot_s=max((max(walls) for walls in trial.values()), default=None),
        counts_settled=_counts_settled(findings),
        missed_limit=missed_limit(history, last),
        counting_proven=None if findings.pooled is None else cast(float | None, findings.pooled.get("proven")),
        start_s=_start_s(question.table, outcomes),
        choice=choice_of(plans[-1].filter_text, filter_text),
    )


def choice_of(before: str, after: str) -> str:
    """Say which functions a filter chooses beside the one before, which may be the default selection."""
    old, new = (parse(text).functions(True) for text in (before, after))
    if not old or not new:
        return f"the models chose {len(new)} functions" if new else "the models chose other functions"
    more, less = len(new - old), len(old - new)
    if not more:
        return f"the models chose fewer functions, {len(new)} of {len(old)}"
    return f"the models chose {counted(more, 'more function')}" + (f" and {less} fewer" if less else "")


def _ratios(findings: Findings, runs: Sequence[FinishedRun]) -> dict[Mode, float]:
    """Return what timed, counting and sampling runs take over the baseline: medians over points, newest filter first.

    Runs that sample are compared with any others of their points, as the first ones are made before the baseline's.
    """
    overheads = findings.overhead
    timed = [overhead.time_ratio for overhead in overheads if overhead.filter_number == overheads[-1].filter_number]
    plain = walls_by_point((run for run in runs if run.mode is not Mode.MEMORY), lambda run: run.cpu_s)
    sampling = [run.cpu_s / median(plain[run.point]) for run in runs if run.mode is Mode.MEMORY and run.point in plain]
    ratios: dict[Mode, Sequence[float | None]]
    ratios = {Mode.TIME: timed, Mode.EFFORT: [each.effort_ratio for each in overheads], Mode.MEMORY: sampling}
    measured = {mode: [ratio for ratio in values if ratio is not None] for mode, values in ratios.items()}
    return {mode: median(values) for mode, values in measured.items() if values}


def _start_s(table: Mapping[Point, Candidate], outcomes: Sequence[BundleOutcome]) -> float:
    """Return what runs were charged beyond their own time, in seconds: the median over those that were measured."""
    beyond = [
        3600 * run.cost_core_hours / table[outcome.point].cores - run.wall_s
        for outcome in outcomes
        for run in outcome.runs
        if run.status is Status.MEASURED and run.wall_s is not None
    ]
    return round(max(median(beyond), 0.0), 3) if beyond else 0.0


def _counts_settled(findings: Findings) -> bool:
    """Tell whether counting at more points would say nothing of the call paths that matter at the target."""
    seconds = {prior.call_path: abs(prior.at_target_s or 0.0) for prior in findings.priors}
    least = MATTERS * sum(seconds.values())
    return bool(seconds) and all(prior.settled or seconds[prior.call_path] < least for prior in findings.priors)


def _measured(
    campaign: Campaign,
    findings: Findings,
    walls: Mapping[Point, Sequence[float]],
    table: Experiment | None,
    times: ModelSet | None,
) -> Observations | None:
    """Return what strategies choose by: the call paths' times and counters, and the baseline's wall times.

    Without times of call paths, and with choices, at one of which they are modelled, the whole program takes their
    place.
    """
    names = tuple(campaign.points[0])
    full = {name: campaign.steps[name] for name in findings.not_repeated}
    whole = {
        tuple(float(point[name]) for name in names): seconds
        for point, seconds in walls.items()
        if has_all_steps(point, full)
    }
    if not whole:
        return None
    metrics = [name for name in ("time", *campaign.config.extra_metrics) if table and name in table.values]
    points = table.points_in(names) if table and metrics else np.array(list(whole), dtype=np.float64)
    seconds = np.full((len(points), max(map(len, whole.values()))), np.nan)
    for row, point in zip(seconds, points.tolist(), strict=True):
        known_s = whole.get(tuple(point), ())
        row[: len(known_s)] = known_s
    if table is None or not metrics:
        return Observations(points, seconds[None])
    observations = Observations.of(table, metrics, campaign.config.aggregate)
    known = _priors(findings.priors, times, names, campaign.ranks_parameter)
    work = _work(findings.priors, times, names)
    paths = [path if metric == "time" else "" for metric, path in observations.names]
    priors, counted = tuple(map(known.get, paths)), tuple(map(work.get, paths))
    return replace(observations, points=points, program_s=seconds, priors=priors, work=counted)


def _priors(
    said: Sequence[PathPrior], times: ModelSet | None, names: tuple[str, ...], ranks: str | None
) -> dict[str, Prior]:
    """Return what call paths' times are made of, as counts have told; their parameters are `names`, in that order.

    Its columns are the terms that are left in the models of an iteration, whose shares of the time are their effort,
    and misses of caches with what the machine lets expect of their cost.
    """
    resilient = {prior.call_path: prior for prior in said if prior.resilient}
    if times is None or not resilient:
        return {}
    moved = [names.index(name) for name in times.parameters]
    along_ranks = None if ranks is None else names.index(ranks)
    out = {}
    for path, model in zip(times.call_paths, times.models, strict=True):
        if path in resilient and model is not None:
            found = resilient[path]
            function = model.function.moved(moved)
            if found.misses:
                work = set(found.work.moved(moved).terms) if found.work else set()
                pairs = [pair for pair in zip(function.coefficients, function.terms, strict=True) if pair[1] in work]
                function = ModelFunction(0.0, tuple(c for c, _ in pairs), tuple(term for _, term in pairs))
            prior = computation_prior(function, found.source, along_ranks)
            columns = (*prior.columns, *(_misses(misses, moved) for misses in found.misses))
            repeated = (name for name, each in found.repeats.items() if Repeats(each).is_repeated)
            out[path] = replace(prior, columns=columns, repeated=tuple(map(names.index, repeated)))
    return out


def _work(said: Sequence[PathPrior], times: ModelSet | None, names: tuple[str, ...]) -> dict[str, ModelFunction]:
    """Return counted operations of call paths as functions of `names`, in that order."""
    if times is None:
        return {}
    moved = [names.index(name) for name in times.parameters]
    return {prior.call_path: prior.work.moved(moved) for prior in said if prior.work is not None}


def _misses(found: LevelMisses, moved: Sequence[int]) -> Column:
    cost, deviation = found.cost
    return Column("misses", found.misses.moved(moved), cost=(cost, max(deviation, MATTERS * cost)), level=found.level)
