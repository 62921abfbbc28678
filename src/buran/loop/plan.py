"""Making the plan of an iteration from the campaign and the results of the iterations before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np

from buran.campaign.plan import BuildSpec, Mode, Plan, Purpose
from buran.campaign.point import Point
from buran.campaign.records import BuildOutcome, BundleOutcome
from buran.compare.fold import fold
from buran.errors import ConfigError
from buran.experiment.jsonl import read_jsonl
from buran.loop import program_model
from buran.loop.collect import FinishedRun, as_array, baseline, experiment_of, finished_runs, run_times
from buran.loop.comparison import changes_so_far
from buran.loop.findings import Findings
from buran.loop.imported import import_plan
from buran.loop.refine import begins_with_pilot, rules_of, tell_growth
from buran.loop.session import Session
from buran.model import Term, fit_models, read_models
from buran.profile.metrics import counted
from buran.select.design import COUNTS
from buran.select.observations import Observations
from buran.select.planner import next_plan
from buran.select.question import Knowledge, Question
from buran.select.space import MOST_REPETITIONS


def question_of(session: Session, plans: Sequence[Plan] = ()) -> Question:
    """Return the part of the campaign that plans depend on."""
    campaign, config = session.campaign, session.campaign.config
    return Question(
        points=campaign.points,
        evaluation_points=campaign.evaluation_points,
        metrics=frozenset(config.metrics),
        repetitions=campaign.repetitions,
        effort_repetitions=config.effort_repetitions,
        warmup=config.warmup,
        strategy=config.strategy.name,
        max_iterations=config.strategy.max_iterations,
        refine=config.refinement.enabled and config.goal != "models",
        seed=config.seed,
        build=partial(_build_spec, session, [plan.filter_text for plan in plans if not plan.imported]),
        cores=campaign.cores,
        ranks_parameter=campaign.ranks_parameter,
        expected_s=expected_s(session, plans),
        budget=campaign.budget_core_hours,
        target=campaign.refinement_target,
        base=config.strategy.base,
        choices=campaign.choices,
        base_repetitions=config.strategy.base_repetitions,
        batch=config.strategy.batch,
        accuracy=None if config.strategy.accuracy_percent is None else config.strategy.accuracy_percent / 100,
        patience=config.strategy.patience,
        most_repetitions=config.strategy.most_repetitions or MOST_REPETITIONS,
        retry_failed=config.strategy.retry_failed,
        pilot=_has_pilot(session),
        models=config.goal != "filter",
        earlier=() if session.earlier is None else session.earlier.points,
        earlier_counts=session.earlier is not None and session.earlier.has_counts and bool(counted(config.metrics)),
        paired=bool(campaign.choices) or config.model.kind == "cpr" or "time" not in config.metrics,
    )


def _has_pilot(session: Session) -> bool:
    config = session.campaign.config
    if session.earlier is not None:
        return False  # its filter is there
    if config.goal == "both":
        return config.refinement.enabled and begins_with_pilot(config.refinement, config.strategy.name)
    return config.goal == "filter"


def _build_spec(session: Session, filters: Sequence[str], mode: Mode, filter_text: str, point: Point) -> BuildSpec:
    """Return the build for a filter: its own, or an earlier one with this filter applied when it runs.

    Parameters
    ----------
    filters
        Of the iterations before this one, in order.
    """
    own = session.campaign.config.refinement
    hooks = None
    if mode is Mode.TIME and own.filtering != "compile":
        known = list(dict.fromkeys([*filters, filter_text]))
        number = known.index(filter_text)
        hooks = known[0 if own.filtering == "run" else number - number % own.rebuild_every]
    return session.target.build_spec(mode, filter_text, point, None if hooks == filter_text else hooks)


def first_plan(session: Session) -> Plan:
    """Plan the first iteration.

    Raises
    ------
    ConfigError
        The budget does not reach for the first plan.
    """
    if session.campaign.config.measurements:
        return import_plan(session.campaign, session.layout)
    question = question_of(session)
    path = session.layout.filter(session.id, 0)
    known = Knowledge(filter_text=rules_of(path.read_text()) if path.is_file() else "")
    if session.earlier is not None:
        known = replace(known, runtime=session.earlier.runtime)
    measuring = replace(question, pilot=question.pilot and not question.models)
    plan = next_plan(measuring, known)
    if plan.budget_reached:
        whole = next_plan(replace(measuring, budget=lambda full: None), known)
        raise ConfigError(
            "the budget is below the cost of the first plan",
            where=f"{session.campaign.path}, key budget",
            why=f"the budget is {plan.budget_core_hours:.4g} core hours, the first plan's {len(whole.bundles)} "
            f"points are expected to cost {whole.predicted_core_hours:.4g} (resources.expected_s)",
            hint="raise the budget, choose fewer or smaller points, fewer repetitions, or strategy 'design'",
        )
    return next_plan(question, known) if question.pilot else plan


def make_plan(session: Session, iteration: int) -> Plan:
    """Plan an iteration; earlier plans, bundles, models and the refined filter must exist."""
    if iteration == 0:
        return first_plan(session)
    layout, campaign = session.layout, session.id
    plans = tuple(layout.read_plan(campaign, each) for each in range(iteration))
    findings = Findings.read(layout.findings(campaign, iteration - 1))
    known = Knowledge(
        plans=plans,
        outcomes=tuple(outcomes(session, [plan for plan in plans if not plan.imported])),
        runtime=runtime_model(session, findings),
        filter_text=rules_of(layout.filter(campaign, iteration).read_text()),
        build_core_hours=_build_core_hours(session, plans),
        unsteady=findings.unsteady,
        changes=changes_so_far(session, plans),
        ratios=_ratios(findings),
        pilot_s=_longest_pilot_s(session, plans),
        counts_settled=_counts_settled(findings),
    )
    question = question_of(session, plans)
    usable = list[FinishedRun]()
    if plans[0].imported:
        usable = usable_imports(session, plans, known.filter_text)
        told = tell_growth({run.point for run in finished_runs(layout, plans[:1])}, session.campaign)
        known = replace(known, imported=frozenset(run.point for run in usable), tells_growth=told)
    if question.adaptive or plans[0].imported:
        found = _measured(session, plans, usable) if known.rounds else _measured_elsewhere(session, usable)
        known = replace(known, measured=found, errors=_errors(session, iteration))
    return next_plan(question, known)


def usable_imports(session: Session, plans: Sequence[Plan], filter_text: str) -> list[FinishedRun]:
    """Return the imported runs whose times go into models with those of the last filter, or the one about to be used.

    Parameters
    ----------
    filter_text
        Of the next iteration.
    """
    rounds = [plan for plan in plans if not plan.imported and not plan.pilot]
    judged = rounds[-1].iteration if rounds else 0
    findings = Findings.read(session.layout.findings(session.id, judged))
    pooled = {each["build"] for each in findings.imported if each["pooled"]}
    wanted = rounds[-1].filter_text if rounds else filter_text
    runs = finished_runs(session.layout, plans[:1])
    return [run for run in runs if run.build.hash in pooled and run.filter_text == wanted]


def expected_s(session: Session, plans: Sequence[Plan]) -> Callable[[Point], float | None]:
    """Return what a run is expected to take before there are models: as the campaign file says, else as imported."""
    campaign = session.campaign
    runs = [] if not plans or not plans[0].imported else finished_runs(session.layout, plans[:1])
    if campaign.formulas.expected_s is not None or not runs:
        return campaign.expected_s
    walls = _walls(runs)
    fitted = {point: median(own) for point, own in walls.items()}
    fit = fit_models(as_array(fitted, campaign.parameters), np.array([list(fitted.values())])).models[0]
    shortest, longest = min(fitted.values()), max(fitted.values())

    def predict(point: Point) -> float:
        if point in fitted:
            return fitted[point]
        value = longest if fit is None else float(fit.function.evaluate(as_array([point], campaign.parameters))[0])
        return max(value, shortest) if np.isfinite(value) else longest

    return predict


def _walls(runs: Sequence[FinishedRun]) -> dict[Point, list[float]]:
    """Return the times of whole runs by point, in seconds."""
    walls: dict[Point, list[float]] = {}
    for run in runs:
        walls.setdefault(run.point, []).append(run.wall_s)
    return walls


def _measured_elsewhere(session: Session, usable: Sequence[FinishedRun]) -> Observations | None:
    """Return what strategies choose by before the campaign's own first run: imported times."""
    experiment = experiment_of(usable, tuple(session.campaign.points[0]))
    if experiment is None or session.campaign.choices:
        return None
    return Observations.of(experiment, ["time"], session.campaign.config.aggregate)


def _build_core_hours(session: Session, plans: Sequence[Plan]) -> float:
    builds = (build for plan in plans for build in plan.builds if not plan.imported)
    pointers = {session.layout.build_pointer(build.hash) for build in builds}
    return sum(BuildOutcome.read(path).cost_core_hours for path in sorted(pointers))


def _ratios(findings: Findings) -> dict[Mode, float]:
    """Return what a timed and a counting run take over the baseline, as medians over points; newest filter first."""
    seen = findings.overhead
    timed = [each.time_ratio for each in seen if each.filter_number == seen[-1].filter_number]
    counted = [each.effort_ratio for each in seen]
    found = {Mode.TIME: timed, Mode.EFFORT: counted}
    known = {mode: [ratio for ratio in own if ratio is not None] for mode, own in found.items()}
    return {mode: median(own) for mode, own in known.items() if own}


def _counts_settled(findings: Findings) -> bool:
    """Tell whether counting at more points would say nothing of the call paths that matter at the target."""
    seconds = {each["call_path"]: abs(each["at_target_s"] or 0.0) for each in findings.priors}
    least = COUNTS * sum(seconds.values())
    open_ = [each["call_path"] for each in findings.priors if not each.get("settled", False)]
    return bool(seconds) and all(seconds[path] < least for path in open_)


def _longest_pilot_s(session: Session, plans: Sequence[Plan]) -> float | None:
    times = baseline(finished_runs(session.layout, [plan for plan in plans if plan.pilot]), Purpose.PILOT)
    return max((max(own) for own in times.values()), default=None)


def _measured(session: Session, plans: tuple[Plan, ...], imported: Sequence[FinishedRun] = ()) -> Observations | None:
    """Return what strategies choose by: the call paths' times and counters, and the baseline's wall times.

    Without times of call paths, and with choices, at one of which they are modelled, the whole program takes their
    place.
    """
    names = tuple(session.campaign.points[0])
    times = _walls(imported) | run_times(finished_runs(session.layout, plans), Purpose.MODEL)
    if not times:
        return None
    most = max(map(len, times.values()))
    walls = {tuple(float(point[name]) for name in names): own for point, own in times.items()}
    table = session.layout.table(session.id, plans[-1].iteration)
    config = session.campaign.config
    wanted = [name for name in ("time", *config.counters) if name in (*config.metrics, *config.counters)]
    if table.stat().st_size and wanted and not session.campaign.choices:
        experiment = read_jsonl(table)
        wanted = [name for name in wanted if name in experiment.values]
        if wanted:
            found = Observations.of(experiment, wanted, config.aggregate)
            points = found.points[:, [experiment.parameters.index(name) for name in names]]
            seconds = np.full((len(points), most), np.nan)
            for row, point in enumerate(points.tolist()):
                own = walls.get(tuple(point), [])
                seconds[row, : len(own)] = own
            terms = _terms(session, plans[-1].iteration, names)
            own_terms = tuple(terms.get((metric, path)) for metric, path in found.names)
            return _of_changed(session, plans, replace(found, points=points, program_s=seconds, skeletons=own_terms))
    points = np.array(list(walls), dtype=np.float64)
    values = np.full((1, len(points), most), np.nan)
    for row, own in enumerate(walls.values()):
        values[0, row, : len(own)] = own
    return Observations(points, values)


def _of_changed(session: Session, plans: Sequence[Plan], found: Observations) -> Observations:
    """Return what was measured of the call paths whose times changed since the earlier version; without one, of all.

    The others are predicted well enough already: by the earlier version's models.
    """
    changes = changes_so_far(session, plans)
    if changes is None or not changes.timed:
        return found
    changed = [path for metric, path in changes.changed if metric == "time"]
    paths = [path for _, path in found.names]
    known = list(dict.fromkeys(paths))
    kept = {known[place] for place in fold(changed, known).tolist() if place >= 0}
    rows = [row for row, path in enumerate(paths) if path in kept]
    return found.only(rows) if rows else found


def _terms(session: Session, iteration: int, names: tuple[str, ...]) -> dict[tuple[str, str], tuple[Term, ...]]:
    """Return the terms of call paths' times that counters of effort told, by metric and call path.

    The parameters of the terms are those called `names`, in that order.
    """
    findings = Findings.read(session.layout.findings(session.id, iteration))
    told = {each["call_path"] for each in findings.priors if each["resilient"]}
    if not told:
        return {}
    times = next(each for each in read_models(session.layout.models(session.id, iteration)) if each.metric == "time")
    column = [names.index(name) for name in times.parameters]
    return {
        ("time", path): tuple(_moved(term, column) for term in model.function.terms)
        for path, model in zip(times.call_paths, times.models, strict=True)
        if path in told and model is not None
    }


def _moved(term: Term, column: Sequence[int]) -> Term:
    """Return a term for points whose parameters come in another order."""
    factors = (replace(factor, parameter=column[factor.parameter]) for factor in term.factors)
    return Term(tuple(sorted(factors, key=lambda factor: factor.parameter)))


def _errors(session: Session, iteration: int) -> tuple[float, ...]:
    """Return the SMAPE of the program's model after each earlier iteration."""
    found = [Findings.read(session.layout.findings(session.id, each)).runtime for each in range(iteration)]
    models = [own.models[0] for own in found if own is not None]
    return tuple(model.quality.smape for model in models if model is not None)


def outcomes(session: Session, plans: Sequence[Plan]) -> list[BundleOutcome]:
    """Return what became of the plans' bundles."""
    return [BundleOutcome.read(session.layout.bundle_pointer(bundle.id)) for plan in plans for bundle in plan.bundles]


def runtime_model(session: Session, findings: Findings) -> Callable[[Point], float | None]:
    """Return the prediction of a run's wall time; never below the shortest run that was seen."""
    if findings.runtime is None:
        return (lambda point: None) if session.earlier is None else session.earlier.runtime
    model, names = findings.runtime, session.campaign.parameters
    tensor = None
    if findings.program_model[0] == "cpr":
        from buran.tensor import load_model

        tensor = load_model(session.layout.models(session.id, findings.iteration).with_name(program_model.FILE))[0]

    def predict(point: Point) -> float:
        at = as_array([point], names)
        value = model.predict(at)[0, 0] if tensor is None else tensor.predict(list(at.T), "clamp", "mean")[0][0]
        return float(max(value, findings.shortest_run_s))

    return predict
