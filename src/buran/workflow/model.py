"""Making the models of an iteration: times under its filter, counts under the widest instrumentation."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from buran.campaign.config import Campaign
from buran.campaign.plan import Mode, Purpose
from buran.errors import RunError
from buran.features import FEATURES, known_mpi
from buran.instrumentation.measured import Balance, balance_of, extremes_s, imbalance_s, threads_of
from buran.measurement.attempt import PROFILE
from buran.modeling.experiments import model_experiment
from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import Lead, full_spaces, wider_space
from buran.modeling.numerics.tuning import MATTERS, STEADY
from buran.modeling.pmnf import SearchOptions
from buran.modeling.pmnf.model_set import ModelSet, write_models
from buran.modeling.priors.campaign import PathPrior, models_from_priors, noise_resilient
from buran.modeling.priors.paths import PathModel
from buran.modeling.priors.prior import Account
from buran.modeling.priors.resilient import PUBLISHED, FitOptions
from buran.profiles.cubex_read import read_profile
from buran.profiles.experiment.jsonl import write_jsonl
from buran.profiles.experiment.merge import merge_metrics
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import counted as counted_metrics
from buran.profiles.metrics import metric_of, uncounted
from buran.profiles.profile import NO_CALL_PATHS
from buran.reporting.content import EvaluationTest
from buran.workflow import collect
from buran.workflow.collect import Material, are_in, gather
from buran.workflow.findings import Findings
from buran.workflow.history import FinishedRun, History, as_array, baseline, overhead, run_times
from buran.workflow.notes import crowded_points, points_without_cores
from buran.workflow.program import FILE, add_up, choose_kind, cross_validated, fit_program, in_words, write_program

if TYPE_CHECKING:
    from buran.modeling.tensor import CPRegressor

# Factor between counts of one point beyond which runs did different things. Tuned: judgement.
MIXED = 2.0


@dataclass(frozen=True, eq=False)
class _Program:
    """What is known of the program's run time, and of start-up and shutdown where that is the rest of a sum."""

    runtime: ModelSet | None
    startup: ModelSet | None
    shortest_s: float
    kind: Literal["pmnf", "cpr"]
    reason: str
    tensor: CPRegressor | None


def make_models(history: History, models_path: Path, findings_path: Path, table_path: Path) -> None:
    """Fit models to everything measured so far; write models, findings and the table."""
    campaign = history.session.campaign
    material = gather(history)
    tables = tables_of(campaign, material)
    sets = fit_metrics(campaign, material)
    sets, priors = fit_resilient(campaign, material, sets)
    program = _fit_program(history, material.runs, sets.get("time"))
    if program.tensor is not None:
        write_program(models_path.with_name(FILE), program.tensor, program.reason)
    table = merge_metrics(*tables) if tables else None
    if table is None:
        table_path.write_text("", encoding="utf-8")
    else:
        write_jsonl(table, table_path)
    _findings(history, material, program, priors, table).write(findings_path)
    further = [name for experiment in material.further for name in experiment.metrics]
    names = dict.fromkeys((*campaign.config.metrics, *campaign.config.extra_metrics, *further))
    write_models(models_path, [sets[name] for name in names if name in sets])


def _timed_metrics(campaign: Campaign) -> list[str]:
    return [*uncounted(campaign.config.metrics), *campaign.config.extra_metrics]


def tables_of(campaign: Campaign, material: Material) -> list[Experiment]:
    """Return the tables of all metrics, as they were measured."""
    pooled, counted = None if material.pooled is None else material.pooled.table, material.counted
    sources = (pooled, _timed_metrics(campaign)), (counted, counted_metrics(campaign.config.metrics))
    tables = [collect.only(table, metrics) for table, metrics in sources if table is not None and metrics]
    return [*tables, *(table for table in material.further if table.metrics)]


def fit_metrics(campaign: Campaign, material: Material) -> dict[str, ModelSet]:
    """Fit models of call paths, by metric; counts first, as they tell how fast times may grow."""
    counts, times = counted_metrics(campaign.config.metrics), _timed_metrics(campaign)
    further = [(table, table.metrics) for table in material.further]
    sets = dict[str, ModelSet]()
    for table, metrics in ((material.counted, counts), *further[:1], (material.timed, times), *further[1:]):
        if table is not None and metrics:
            growth = proven_growth(sets.values()) if table is material.timed else None
            for models in _models(campaign, collect.only(table, metrics), growth).values():
                sets[models.metric] = of_steady_counts(models, table)
    return sets


def fit_resilient(
    campaign: Campaign, material: Material, sets: dict[str, ModelSet]
) -> tuple[dict[str, ModelSet], tuple[PathPrior, ...]]:
    """Put noise-resilient models in place of those of times, where counts tell growth; also say what of priors."""
    timed = material.timed
    if not campaign.counts_tell_growth or timed is None or "time" not in sets:
        return sets, ()
    made = path_models(campaign, material, timed, accounts_of(campaign, material, timed))
    target = [campaign.target[name] for name in campaign.parameters]
    times, priors = noise_resilient(made, sets["time"], target)
    return {**sets, "time": times}, priors


def of_steady_counts(models: ModelSet, counted: Experiment) -> ModelSet:
    """Return models without those of counts that follow nothing, or that are of several kinds at one point.

    A program that times several algorithms and takes the fastest may take another one in each run: the median of what
    they send is what none of them sends, or what one of them does by chance.
    """
    if metric_of(models.metric).role != "exact":
        return models
    mixed = collect.differing(counted, models.metric, MIXED).tolist()
    kept = tuple(
        None if mixture or (model is not None and model.quality.error > STEADY) else model
        for model, mixture in zip(models.models, mixed, strict=True)
    )
    return replace(models, models=kept)


def proven_growth(counted: Collection[ModelSet]) -> list[Lead] | None:
    """Return for each parameter the fastest growth that counts of any call path prove; None where they prove none.

    Times alone do not show steeper growth than that, but for a logarithm by which work may get more expensive.
    """
    functions = [
        model.function
        for models in counted
        for model in models.models
        if model is not None and model.quality.smape <= 100 * MATTERS
    ]
    columns = range(max((len(models.parameters) for models in counted), default=0))
    return [max(function.lead(p) for function in functions) for p in columns] if functions else None


def accounts_of(campaign: Campaign, material: Material, timed: Experiment) -> list[Account]:
    """Return what features know of the times of `material` beside its counts."""
    known = (feature.accounts for feature in FEATURES if feature.accounts is not None)
    return [account for of in known for account in of(campaign, material.modelled, timed, material.counted)]


def path_models(
    campaign: Campaign, material: Material, timed: Experiment, accounts: Sequence[Account]
) -> tuple[PathModel, ...]:
    """Return the noise-resilient models of the call paths of `timed`, the times of `material`."""
    config = campaign.config
    return models_from_priors(
        timed,
        material.counted,
        processes=campaign.ranks_parameter,
        aggregate=config.aggregate,
        repetition=config.model.repetition,
        options=PUBLISHED if config.model.prior_fit == "published" else FitOptions(),
        accounts=accounts,
        mpi=known_mpi(campaign),
        steps=campaign.steps,
        derived=campaign.derived,
    )


def _fit_program(history: History, runs: Sequence[FinishedRun], times: ModelSet | None) -> _Program:
    """Fit models of the program's run time."""
    campaign = history.session.campaign
    parameters, choices = campaign.parameters, campaign.choices
    walls = run_times(runs, Purpose.MODEL)  # those of pilots are too small to predict others
    points, medians = as_array(walls, parameters), np.array([median(times) for times in walls.values()])
    runtime, startup, tensor = _runtime(points, medians, parameters) if walls else None, None, None
    errors = partial(cross_validated, points, medians, tuple(parameters))
    kind, reason = choose_kind(campaign.config.model.kind, len(parameters), len(walls), len(choices), errors)
    if kind == "cpr" and len(walls) >= 2:
        tensor = fit_program(points, medians, tuple(parameters), choices)
    elif kind == "cpr":
        kind, reason = "pmnf", "a tensor model needs two measured points at least"
    if walls and times is not None and kind == "pmnf" and not choices:
        # beside points with a core for each rank, others say how ranks take turns, not how the program starts
        crowded = crowded_points(history, runs) if campaign.config.model.waiting == "auto" else []
        alone = ~are_in(points, as_array(crowded, parameters))
        alone |= not alone.any()
        added = add_up(times, points[alone], medians[alone], campaign.ranks_parameter, campaign.steps)
        runtime, startup = (runtime, None) if added is None else added
    shortest_s = float(min(map(min, walls.values()), default=0.0))
    return _Program(runtime, startup, shortest_s, kind, reason, tensor)


def _findings(
    history: History,
    material: Material,
    program: _Program,
    priors: tuple[PathPrior, ...],
    table: Experiment | None,
) -> Findings:
    """Say what was found out in addition to the models."""
    campaign, counted = history.session.campaign, material.counted
    tree = NO_CALL_PATHS
    if table is not None:
        tree = table.tree if material.timed is None else material.timed.tree
    uncorrected = None if material.pooled is None else material.pooled.uncorrected
    threads = None if uncorrected is None else threads_of(uncorrected)
    metrics = [name for name in counted_metrics(campaign.config.metrics) if metric_of(name).role == "exact"]
    return Findings(
        iteration=history.plans[-1].iteration,
        filter_text=material.filter_text,
        tree=tree,
        imbalance_s=() if uncorrected is None else tuple(imbalance_s(uncorrected).tolist()),
        extremes_s=() if uncorrected is None else tuple(map(tuple, extremes_s(uncorrected).tolist())),
        threads=() if threads is None else tuple(map(tuple, threads.tolist())),
        runtime=program.runtime,
        startup=program.startup,
        shortest_run_s=program.shortest_s,
        overhead=overhead(material.runs),
        unsteady={} if counted is None else collect.unsteady_call_paths(counted, metrics),
        evaluation=_evaluation(history, program.runtime, program.tensor),
        program_model=(program.kind, program.reason),
        priors=priors,
        balance=_balance(material.modelled, material.filter_text),
        pooled=None if material.pooled is None else material.pooled.account,
        not_repeated=material.not_repeated,
    )


def _models(campaign: Campaign, table: Experiment, growth: Sequence[Lead] | None = None) -> dict[str, ModelSet]:
    """Fit models of the metrics of a table, which grow no faster than `growth` but for what the campaign adds."""
    config = campaign.config
    spaces = full_spaces(table.parameters, campaign.ranks_parameter, campaign.steps)
    if growth is not None:
        spaces = tuple(space.up_to(lead) for space, lead in zip(spaces, growth, strict=True))
    further = [config.model.space.get(name, ()) for name in table.parameters]
    spaces = tuple(wider_space(lines, space) for lines, space in zip(further, spaces, strict=True))
    return model_experiment(
        table,
        aggregate=config.aggregate,
        repetition=config.model.repetition,
        space=spaces,
        options=SearchOptions(
            terms_per_parameter=config.model.terms_per_parameter,
            criterion=config.model.criterion,
        ),
        derived=campaign.derived,
    )


def _balance(runs: Sequence[FinishedRun], filter_text: str) -> tuple[Balance, ...]:
    """Look at the instrumented run that took most CPU time: there ranks are as uneven as it was seen."""
    timed = [run for run in runs if run.mode is Mode.TIME and run.filter_text == filter_text]
    if not timed:
        return ()
    return balance_of(read_profile(max(timed, key=lambda run: run.cpu_s).folder / PROFILE))


def _runtime(points: NDArray[np.float64], medians: NDArray[np.float64], parameters: Sequence[str]) -> ModelSet:
    """Model the baseline's wall time, the median of repetitions at each point."""
    return ModelSet(
        tuple(parameters),
        "runtime",
        "sec",
        ("whole program, not instrumented",),
        fit_models(points, medians[None]).models,
        "wall",
        "median",
        tuple(tuple(map(float, point)) for point in points),
    )


def _evaluation(history: History, runtime: ModelSet | None, tensor: CPRegressor | None) -> tuple[EvaluationTest, ...]:
    walls = baseline(history.runs, Purpose.EVALUATION)
    times = {point: seconds for point, measured in walls.items() if (seconds := median(measured)) > 0}
    if not times or runtime is None:
        return ()
    crowded = points_without_cores(history, (run for run in history.runs if run.purpose is Purpose.EVALUATION))
    points = as_array(times, history.session.campaign.parameters)
    predicted = runtime.predict(points)[0] if tensor is None else tensor.predict(in_words(points))
    if not np.isfinite(predicted).all():
        raise RunError("the run-time model gives no prediction at an evaluation point")
    return tuple(
        EvaluationTest(dict(point), float(value), seconds, point in crowded)
        for (point, seconds), value in zip(times.items(), predicted, strict=True)
    )
