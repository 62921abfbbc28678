"""Making the models of an iteration: times under its filter, counts under the widest instrumentation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from buran.campaign.plan import Mode, Plan, Purpose
from buran.errors import RunError
from buran.experiment.jsonl import write_jsonl
from buran.experiment.merge import merge_metrics
from buran.experiment.modelling import model_experiment
from buran.instrument.measured import ends_s, imbalance_s
from buran.model.fit import fit_models
from buran.model.model_set import ModelSet, write_models
from buran.profile.profile import CallTree
from buran.select.planner import EFFORT_METRICS
from buran.steps import collect
from buran.steps.findings import Findings
from buran.steps.session import Session


def make_models(session: Session, iteration: int, models_path: Path, findings_path: Path, table_path: Path) -> None:
    """Fit models to everything measured up to an iteration; write models, findings and the table."""
    layout, config = session.layout, session.campaign.config
    parameters = session.campaign.parameters
    plans: Sequence[Plan] = [layout.read_plan(session.id, each) for each in range(iteration + 1)]
    filter_text = plans[-1].filter_text
    runs = collect.finished_runs(layout, plans)
    own = [run for run in runs if run.purpose is Purpose.MODEL]
    timed = collect.experiment_of(
        [run for run in own if run.mode is Mode.TIME and run.filter_text == filter_text], parameters
    )
    times = [*(name for name in config.metrics if name not in EFFORT_METRICS), *config.counters]
    counts = [name for name in config.metrics if name in EFFORT_METRICS]
    counted = collect.experiment_of([run for run in own if run.mode is Mode.EFFORT], parameters)
    tables, sets = [], dict[str, ModelSet]()
    for measured, wanted in ((timed, times), (counted, counts)):
        if measured is not None and wanted:
            tables.append(collect.only(measured, wanted))
            sets |= model_experiment(tables[-1], aggregate=config.aggregate)
    table = merge_metrics(*tables) if tables else None
    if table is None:
        tree = CallTree((), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
        table_path.write_text("")
    else:
        tree = timed.tree if timed is not None else table.tree
        write_jsonl(table, table_path)
    runtime, shortest_s = _runtime(collect.baseline(own, Purpose.MODEL), parameters)
    Findings(
        iteration=iteration,
        filter_text=filter_text,
        tree=tree,
        imbalance_s=() if timed is None else tuple(imbalance_s(timed).tolist()),
        ends_s=() if timed is None else tuple(map(tuple, ends_s(timed).tolist())),
        runtime=runtime,
        shortest_run_s=shortest_s,
        overhead=collect.overhead(own),
        unsteady=collect.unsteady_call_paths(counted, counts) if counted is not None else {},
        evaluation=_evaluation(collect.baseline(runs, Purpose.EVALUATION), runtime, parameters),
    ).write(findings_path)
    write_models(models_path, [sets[name] for name in (*config.metrics, *config.counters) if name in sets])


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
    times: dict[Any, list[float]], runtime: ModelSet | None, parameters: Sequence[str]
) -> tuple[dict[str, Any], ...]:
    if not times or runtime is None:
        return ()
    predicted = runtime.predict(collect.as_array(times, parameters))[0]
    if not np.isfinite(predicted).all():
        raise RunError("the run-time model gives no prediction at an evaluation point")
    return tuple(
        {"point": dict(point), "predicted_s": float(value), "measured_s": median(measured)}
        for (point, measured), value in zip(times.items(), predicted, strict=True)
    )
