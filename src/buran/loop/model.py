"""Making the models of an iteration: times under its filter, counts under the widest instrumentation."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from buran.campaign.plan import Mode, Plan, Purpose
from buran.errors import RunError
from buran.experiment.jsonl import write_jsonl
from buran.experiment.merge import merge_metrics
from buran.experiment.modelling import model_experiment
from buran.experiment.table import Experiment
from buran.instrument.balance import Balance, balance_of
from buran.instrument.measured import ends_s, imbalance_s
from buran.loop import collect
from buran.loop.comparison import compare_runs
from buran.loop.findings import Findings
from buran.loop.mixing import judge, said_of
from buran.loop.pool import pooled_times
from buran.loop.program_model import FILE, choose_kind, cross_validated, fit_program, write_program
from buran.loop.refine import tell_growth
from buran.loop.session import Session
from buran.measure.bundle import PROFILE
from buran.model import SearchOptions
from buran.model.fit import fit_models
from buran.model.model_set import ModelSet, write_models
from buran.prior.campaign import noise_resilient
from buran.profile.call_paths import read_profile
from buran.profile.metrics import counted as counted_metrics
from buran.profile.metrics import uncounted
from buran.profile.profile import CallTree

if TYPE_CHECKING:
    from buran.tensor import CPRegressor


def make_models(session: Session, iteration: int, models_path: Path, findings_path: Path, table_path: Path) -> None:
    """Fit models to everything measured up to an iteration; write models, findings and the table."""
    layout, config = session.layout, session.campaign.config
    parameters = session.campaign.parameters
    plans: Sequence[Plan] = [layout.read_plan(session.id, each) for each in range(iteration + 1)]
    if plans[-1].comparison:
        compare_runs(session, iteration, models_path, findings_path, table_path)
        return
    filter_text = plans[-1].filter_text
    runs = collect.finished_runs(layout, plans)
    purpose = Purpose.PILOT if plans[-1].pilot else Purpose.MODEL
    modelled = [run for run in runs if run.purpose is purpose]
    choices, at = session.campaign.choices, session.campaign.refinement_target
    # Models of call paths have numbers only: they are made at the target's choices.
    own = collect.there(run for run in modelled if all(run.point[name] == at[name] for name in choices))
    earlier = config.model.pool_filters == "auto" and purpose is Purpose.MODEL
    own, imports = judge(session, own, parameters, filter_text, earlier)
    which = [run for run in own if earlier or run.filter_text == filter_text]
    pooled = pooled_times(session, which, parameters, filter_text, iteration)
    timed = None if pooled is None else pooled.table
    uncorrected = None if pooled is None else pooled.uncorrected
    times, counts = [*uncounted(config.metrics), *config.counters], list(counted_metrics(config.metrics))
    counted = collect.experiment_of([run for run in own if run.mode is Mode.EFFORT], parameters)
    tables, sets = [], dict[str, ModelSet]()
    for measured, wanted in ((timed, times), (counted, counts)):
        if measured is not None and wanted:
            tables.append(collect.only(measured, wanted))
            sets |= _models(session, tables[-1])
    for each in imports:
        if not each.pooled and iteration:
            alone = collect.experiment_of([run for run in modelled if run.build.hash == each.build], parameters)
            assert alone is not None
            path = models_path.with_name(imported_models(each.build))
            write_models(path, list(_models(session, collect.only(alone, times)).values()))
    said: tuple[dict[str, Any], ...] = ()
    if config.model.priors == "auto" and config.model.strong_scaling is None and timed is not None and "time" in sets:
        processes = session.campaign.ranks_parameter
        target = [session.campaign.refinement_target[name] for name in parameters]
        sets["time"], said = noise_resilient(
            timed,
            counted,
            sets["time"],
            processes=processes,
            aggregate=config.aggregate,
            repetition=config.model.repetition,
            target=target,
        )
    table = merge_metrics(*tables) if tables else None
    if table is None:
        tree = CallTree((), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        table_path.write_text("")
    else:
        tree = timed.tree if timed is not None else table.tree
        write_jsonl(table, table_path)
    baseline = collect.run_times(modelled, Purpose.MODEL)  # those of pilots are too small to predict others
    if plans[0].imported and not tell_growth(baseline, session.campaign):
        baseline = {}  # a few runs beside imported ones do not tell how the program's run time grows
    runtime, shortest_s = _runtime(baseline, parameters)
    kind, reason = choose_kind(
        config.model.kind, len(parameters), len(baseline), len(choices), partial(_errors, baseline, parameters)
    )
    tensor = None
    if kind == "cpr" and len(baseline) >= 2:
        medians = np.array([median(each) for each in baseline.values()])
        tensor = fit_program(collect.as_array(baseline, parameters), medians, tuple(parameters), choices)
        write_program(models_path.with_name(FILE), tensor, reason)
    elif kind == "cpr":
        kind, reason = "pmnf", "a tensor model needs two measured points at least"
    Findings(
        iteration=iteration,
        filter_text=filter_text,
        tree=tree,
        imbalance_s=() if uncorrected is None else tuple(imbalance_s(uncorrected).tolist()),
        ends_s=() if uncorrected is None else tuple(map(tuple, ends_s(uncorrected).tolist())),
        runtime=runtime,
        shortest_run_s=shortest_s,
        overhead=collect.overhead(modelled),
        unsteady=collect.unsteady_call_paths(counted, counts) if counted is not None else {},
        evaluation=_evaluation(collect.baseline(runs, Purpose.EVALUATION), runtime, tensor, parameters),
        program_model=(kind, reason),
        priors=said,
        balance=_balance(own, filter_text),
        pooled=None if pooled is None else pooled.account,
        imported=said_of(imports),
    ).write(findings_path)
    write_models(models_path, [sets[name] for name in (*config.metrics, *config.counters) if name in sets])


def imported_models(build: str) -> str:
    """Return the name of the file with models of imported times that are not mixed with others, beside the models."""
    return f"imported-{build}.json"


def _models(session: Session, table: Experiment) -> dict[str, ModelSet]:
    config = session.campaign.config
    return model_experiment(
        table,
        aggregate=config.aggregate,
        repetition=config.model.repetition,
        processes=config.model.strong_scaling,
        options=SearchOptions(
            nonnegative=config.model.nonnegative,
            terms_per_parameter=config.model.terms_per_parameter,
            criterion=config.model.criterion,
        ),
    )


def _balance(runs: Sequence[collect.FinishedRun], filter_text: str) -> tuple[Balance, ...]:
    """Look at the instrumented run that took most CPU time: there ranks are as uneven as it was seen."""
    timed = [run for run in runs if run.mode in (Mode.TIME, Mode.IMPORTED) and run.filter_text == filter_text]
    if not timed:
        return ()
    return balance_of(read_profile(max(timed, key=lambda run: run.cpu_s).folder / PROFILE))


def _errors(times: dict[Any, list[float]], parameters: Sequence[str]) -> tuple[float, float]:
    medians = np.array([median(each) for each in times.values()])
    return cross_validated(collect.as_array(times, parameters), medians, tuple(parameters))


def _runtime(times: dict[Any, list[float]], parameters: Sequence[str]) -> tuple[ModelSet | None, float]:
    """Model the baseline's wall time, the median of repetitions at each point."""
    if not times:
        return None, 0.0
    points = collect.as_array(times, parameters)
    values = np.array([[median(each) for each in times.values()]])
    fit = fit_models(points, values)
    model_set = ModelSet(
        tuple(parameters),
        "runtime",
        "sec",
        ("whole program, not instrumented",),
        fit.models,
        "wall",
        "median",
        tuple(tuple(map(float, point)) for point in points),
    )
    return model_set, float(min(map(min, times.values())))


def _evaluation(
    times: dict[Any, list[float]], runtime: ModelSet | None, tensor: CPRegressor | None, parameters: Sequence[str]
) -> tuple[dict[str, Any], ...]:
    if not times or runtime is None:
        return ()
    points = collect.as_array(times, parameters)
    predicted = runtime.predict(points)[0] if tensor is None else tensor.predict(points)
    if not np.isfinite(predicted).all():
        raise RunError("the run-time model gives no prediction at an evaluation point")
    return tuple(
        {"point": dict(point), "predicted_s": float(value), "measured_s": median(measured)}
        for (point, measured), value in zip(times.items(), predicted, strict=True)
    )
