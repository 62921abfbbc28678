"""Making the plan of an iteration from the campaign and the results of the iterations before it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import cast

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.plan import Mode, Plan, Purpose
from buran.campaign.point import Point, has_all_steps
from buran.campaign.records import BundleOutcome, Status
from buran.campaign.sections import BudgetKeys
from buran.campaign.strategies import abilities_of
from buran.errors import ConfigError
from buran.files import digest
from buran.instrumentation.filter_file import parse
from buran.modeling.numerics.tuning import FEW, MATTERS, STEPS
from buran.modeling.pmnf import ModelFunction, fit_models
from buran.modeling.priors.campaign import LevelMisses
from buran.modeling.priors.prior import Column, Prior, computation_prior
from buran.modeling.priors.steps import Repeats
from buran.planning.draft import Draft
from buran.planning.observations import Observations
from buran.planning.planner import next_plan
from buran.planning.question import Candidate, Knowledge, Question, RunTimes
from buran.planning.space import Array
from buran.profiles.metrics import uncounted
from buran.workflow import program
from buran.workflow.collect import as_array, baseline, run_times
from buran.workflow.findings import Findings
from buran.workflow.history import FinishedRun, History
from buran.workflow.overhead import missed_limit
from buran.workflow.pool import foreign_points
from buran.workflow.refine import begins_with_pilot, rules_of
from buran.workflow.session import Session


def question_of(history: History) -> Question:
    """Return the part of the campaign that plans depend on."""
    session, full = history.session, _full_steps(history)
    campaign, config = session.campaign, session.campaign.config
    rebuild_every = {"compile": 1, "run": 0, "hybrid": config.refinement.rebuild_every}
    return Question(
        table=_table(history),
        points=tuple(point for point in campaign.points if has_all_steps(point, full)),
        full_matrix=campaign.full_matrix,
        evaluation_points=campaign.evaluation_points,
        metrics=frozenset(config.metrics),
        repetitions=campaign.repetitions,
        effort_repetitions=config.effort_repetitions,
        warmup=config.warmup,
        strategy=config.strategy.name,
        max_iterations=config.strategy.max_iterations or STEPS,
        refine=config.refinement.enabled and config.goal != "models",
        seed=config.seed,
        filters=tuple(plan.filter_text for plan in history.plans),
        rebuild_every=rebuild_every[config.refinement.filtering],
        ranks_parameter=campaign.ranks_parameter,
        budget=config.budget,
        target=campaign.target,
        base=config.strategy.base,
        choices=campaign.choices,
        base_repetitions=config.strategy.base_repetitions,
        batch=config.strategy.batch,
        accuracy=None if config.strategy.accuracy_percent is None else config.strategy.accuracy_percent / 100,
        patience=config.strategy.patience,
        most_repetitions=campaign.most_repetitions,
        retry_failed=config.strategy.retry_failed,
        pilot=_has_pilot(session),
        models=config.goal != "filter",
        pooled=config.model.pool_filters == "auto",
        counts_with_times=campaign.counts_with_times,
        counts_only=_counts_only(campaign),
        counting_tells_times=config.model.pool_filters == "auto"
        and "basic_blocks" in config.metrics
        and not config.extra_metrics
        and not campaign.choices,
        foreign=foreign_points(campaign),
        memory_points=None
        if campaign.memory_points and campaign.requested_memory_points is None
        else frozenset(campaign.memory_points),
        paired=bool(campaign.choices) or config.model.kind == "cpr" or "time" not in config.metrics,
    )


def _table(history: History) -> dict[Point, Candidate]:
    """Return what runs need at every point, and take before there are models, as the user says."""
    target, campaign = history.session.target, history.session.campaign
    points = (*campaign.points, *campaign.evaluation_points)
    return {
        point: Candidate(
            target.build_spec(Mode.VANILLA, "", point),
            campaign.charged_cores(point),
            campaign.expected_s(point),
        )
        for point in points
    }


def _counts_only(campaign: Campaign) -> bool:
    """Whether nothing is measured but counts, so that no timed run and no baseline is needed."""
    config = campaign.config
    timed = uncounted(config.metrics) or config.extra_metrics or config.refinement.enabled
    return not timed and not campaign.counts_with_times and abilities_of(config.strategy.name).all_at_once


def _full_steps(history: History) -> dict[str, int]:
    """Return the full numbers of steps where few do not stand for all: points with few are none to model then."""
    steps = history.session.campaign.steps
    plans = history.plans if steps else ()
    done = [plan for plan in plans if history.layout.findings(history.campaign, plan.iteration).is_file()]
    return {name: steps[name] for name in history.findings(done[-1].iteration).not_repeated} if done else {}


def _has_pilot(session: Session) -> bool:
    config = session.campaign.config
    if session.earlier is not None:
        return False  # its filter is there
    if config.goal == "filter":
        return True
    refined = config.goal == "both" and config.refinement.enabled
    if refined and begins_with_pilot(config.refinement, config.strategy.name):
        return True
    return config.refinement.pilot is None and _needs_trial(session.campaign)


def _needs_trial(campaign: Campaign) -> bool:
    """Tell whether a few small runs are to show first what all others will cost: a budget is to pay for these."""
    config = campaign.config
    return bool(config.budget.core_hours) and campaign.formulas.expected_time is None


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
    plans, earlier = history.plans, history.session.earlier
    if not plans:
        foreseen_s = {} if earlier is None else earlier.run_times(tuple(question.table))
        return Knowledge(filter_text=rules_of(history.filter(0) or ""), predicted_s=foreseen_s)
    findings, filter_text = history.findings(plans[-1].iteration), history.filter(history.iteration)
    assert filter_text is not None
    trial = _trial_times(history)
    outcomes = tuple(history.outcomes(plans))
    knowledge = Knowledge(
        plans=plans,
        outcomes=outcomes,
        filter_text=rules_of(filter_text),
        choice=choice_of(plans[-1].filter_text, filter_text),
        build_core_hours=_build_core_hours(history),
        unsteady=findings.unsteady,
        ratios=_ratios(findings, history.runs),
        pilot_s=max((max(walls) for walls in trial.values()), default=None),
        counts_settled=_counts_settled(findings),
        missed_limit=missed_limit(history, plans[-1].iteration),
        start_s=_start_s(history.session.campaign, outcomes),
        counting_proven=None if findings.pooled is None else cast(float | None, findings.pooled.get("proven")),
    )
    if question.adaptive:
        observations = _measured(history) if knowledge.rounds else None
        knowledge = replace(knowledge, measured=observations, errors=_errors(history))
    measured = knowledge.measured  # from the first timed run on a strategy that adapts predicts the times of its points
    foreseen = set(question.points) if measured is not None and measured.is_timed.any() else set()
    points = [point for point in question.table if point not in foreseen]
    predicted_s: RunTimes
    if earlier is not None and not knowledge.rounds:
        predicted_s = earlier.run_times(points)
    elif findings.runtime is None and len(trial) >= FEW:
        predicted_s = fitted_times(trial, points, history.session.campaign.parameters)
    else:
        predicted_s = run_times_at(history, findings, points)
    return replace(knowledge, predicted_s=predicted_s)


def choice_of(before: str, after: str) -> str:
    """Say which functions a filter chooses beside the one before, which may be the default selection."""
    old, new = (parse(text).functions(True) for text in (before, after))
    if not old or not new:
        return f"the models chose {len(new)} functions" if new else "the models chose other functions"
    more, less = len(new - old), len(old - new)
    if not more:
        return f"the models chose fewer functions, {len(new)} of {len(old)}"
    return f"the models chose {more} more {'function' if more == 1 else 'functions'}" + (
        f" and {less} fewer" if less else ""
    )


def fitted_times(
    walls: Mapping[Point, Sequence[float]], points: Sequence[Point], parameters: Sequence[str]
) -> dict[Point, float]:
    """Return wall times predicted at points from those measured at some; never below the shortest of them."""
    measured = {point: median(times) for point, times in walls.items()}
    fit = fit_models(as_array(measured, parameters), np.array([list(measured.values())])).models[0]
    shortest, longest = min(measured.values()), max(measured.values())
    values = np.full(len(points), longest)
    if fit is not None:
        values = one_by_one(fit.predict, as_array(points, parameters))
    values = np.where(np.isfinite(values), np.maximum(values, shortest), longest)
    return dict(zip(points, values.tolist(), strict=True)) | measured


def _build_core_hours(history: History) -> float:
    builds = {build.hash for plan in history.plans for build in plan.builds}
    return sum(history.build_outcome(build).cost_core_hours for build in sorted(builds))


def _ratios(findings: Findings, runs: Sequence[FinishedRun]) -> dict[Mode, float]:
    """Return what timed, counting and sampling runs take over the baseline: medians over points, newest filter first.

    Runs that sample are compared with any others of their points, as the first ones are made before the baseline's.
    """
    overheads = findings.overhead
    timed = [overhead.time_ratio for overhead in overheads if overhead.filter_number == overheads[-1].filter_number]
    counted = [overhead.effort_ratio for overhead in overheads]
    plain: dict[Point, list[float]] = {}
    for run in runs:
        if run.mode is not Mode.MEMORY:
            plain.setdefault(run.point, []).append(run.cpu_s)
    sampling = [run.cpu_s / median(plain[run.point]) for run in runs if run.mode is Mode.MEMORY and run.point in plain]
    ratios: dict[Mode, Sequence[float | None]]
    ratios = {Mode.TIME: timed, Mode.EFFORT: counted, Mode.MEMORY: sampling}
    measured = {mode: [ratio for ratio in values if ratio is not None] for mode, values in ratios.items()}
    return {mode: median(values) for mode, values in measured.items() if values}


def _start_s(campaign: Campaign, outcomes: Sequence[BundleOutcome]) -> float:
    """Return what runs were charged beyond their own time, in seconds: the median over those that were measured."""
    beyond = [
        3600 * run.cost_core_hours / campaign.charged_cores(outcome.point) - run.wall_s
        for outcome in outcomes
        for run in outcome.runs
        if run.status is Status.MEASURED and run.wall_s is not None
    ]
    return round(max(median(beyond), 0.0), 3) if beyond else 0.0


def _counts_settled(findings: Findings) -> bool:
    """Tell whether counting at more points would say nothing of the call paths that matter at the target."""
    seconds = {prior.call_path: abs(prior.at_target_s or 0.0) for prior in findings.priors}
    least = MATTERS * sum(seconds.values())
    open_ = [prior.call_path for prior in findings.priors if not prior.settled]
    return bool(seconds) and all(seconds[path] < least for path in open_)


def _trial_times(history: History) -> dict[Point, list[float]]:
    return baseline(history.runs_of([plan for plan in history.plans if plan.pilot]), Purpose.PILOT)


def _measured(history: History) -> Observations | None:
    """Return what strategies choose by: the call paths' times and counters, and the baseline's wall times.

    Without times of call paths, and with choices, at one of which they are modelled, the whole program takes their
    place.
    """
    campaign, last = history.session.campaign, history.iteration - 1
    names = tuple(campaign.points[0])
    times = run_times(history.runs, Purpose.MODEL)
    full = _full_steps(history)
    times = {point: runs for point, runs in times.items() if has_all_steps(point, full)}
    if not times:
        return None
    walls = {tuple(float(point[name]) for name in names): runs for point, runs in times.items()}
    most = max(map(len, times.values()))
    experiment = None if campaign.choices else history.table(last)
    metrics = [name for name in ("time", *campaign.config.extra_metrics) if experiment and name in experiment.values]
    if experiment is not None and metrics:
        observations = Observations.of(experiment, metrics, campaign.config.aggregate)
        points = experiment.points_in(names)
        seconds = np.full((len(points), most), np.nan)
        for row, point in enumerate(points.tolist()):
            runs = walls.get(tuple(point), [])
            seconds[row, : len(runs)] = runs
        known = _priors(history, last, names, campaign.ranks_parameter)
        priors = tuple(known.get(path) if metric == "time" else None for metric, path in observations.names)
        return replace(observations, points=points, program_s=seconds, priors=priors)
    points = np.array(list(walls), dtype=np.float64)
    values = np.full((1, len(points), most), np.nan)
    for row, runs in enumerate(walls.values()):
        values[0, row, : len(runs)] = runs
    return Observations(points, values)


def _priors(history: History, iteration: int, names: tuple[str, ...], ranks: str | None) -> dict[str, Prior]:
    """Return what call paths' times are made of, as counts have told; their parameters are `names`, in that order.

    Its columns are the terms that are left in the models of an iteration, whose shares of the time are their effort,
    and misses of caches with what the machine lets expect of their cost.
    """
    said = {prior.call_path: prior for prior in history.findings(iteration).priors if prior.resilient}
    if not said:
        return {}
    times = history.models(iteration)["time"]
    moved = [names.index(name) for name in times.parameters]
    along_ranks = None if ranks is None else names.index(ranks)
    out = {}
    for path, model in zip(times.call_paths, times.models, strict=True):
        if path in said and model is not None:
            found = said[path]
            function = model.function.moved(moved)
            if found.work and found.misses:
                work = set(found.work.moved(moved).terms)
                pairs = [pair for pair in zip(function.coefficients, function.terms, strict=True) if pair[1] in work]
                function = ModelFunction(0.0, tuple(c for c, _ in pairs), tuple(term for _, term in pairs))
            prior = computation_prior(function, found.source, along_ranks)
            columns = (*prior.columns, *(_misses(misses, moved) for misses in found.misses))
            repeated = (name for name, each in found.repeats.items() if Repeats(each).is_repeated)
            out[path] = replace(prior, columns=columns, repeated=tuple(map(names.index, repeated)))
    return out


def _misses(found: LevelMisses, moved: Sequence[int]) -> Column:
    cost, deviation = found.cost
    return Column("misses", found.misses.moved(moved), cost=(cost, max(deviation, MATTERS * cost)), level=found.level)


def _errors(history: History) -> tuple[float, ...]:
    """Return the SMAPE of the program's model after each earlier iteration."""
    sets = [history.findings(plan.iteration).runtime for plan in history.plans]
    models = [runtime.models[0] for runtime in sets if runtime is not None]
    return tuple(model.quality.smape for model in models if model is not None)


def tensor_model(history: History, findings: Findings) -> Callable[[Array], Array] | None:
    """Return the tensor model that predicts run times, of shape (point,); None where the normal form does."""
    if findings.program_model[0] != "cpr":
        return None
    from buran.modeling.tensor import load_model
    from buran.modeling.tensor.axes import columns_of

    models_file = history.layout.models(history.campaign, findings.iteration)
    tensor = load_model(models_file.with_name(program.FILE))[0]
    return lambda points: tensor.predict(columns_of(program.in_words(points)), "clamp", "mean")[0]


def run_times_at(history: History, findings: Findings, points: Sequence[Point]) -> RunTimes:
    """Return what models predict that runs take; never less than the shortest run that was seen."""
    session = history.session
    if findings.runtime is None:
        return {}
    model, tensor = findings.runtime, tensor_model(history, findings)
    predict = tensor or (lambda at: model.predict(at)[0])
    values = one_by_one(predict, as_array(points, session.campaign.parameters))
    return dict(zip(points, np.maximum(values, findings.shortest_run_s).tolist(), strict=True))


def one_by_one(predict: Callable[[Array], Array], points: Array) -> Array:
    """Return predictions, shape (point,), that do not depend on the other points: products of larger arrays round."""
    return np.array([predict(row[None])[0] for row in points], dtype=np.float64)
