"""What a report says, as values, and what its models say of the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from buran.campaign.point import Value
from buran.files import Stored
from buran.instrumentation.filter_list import FilterList
from buran.instrumentation.measured import Balance, FilterOverhead, Overhead, PointOverhead
from buran.modeling.numerics.tuning import ALLOWANCE
from buran.modeling.pmnf.model_set import ModelSet, allowed_times
from buran.modeling.priors.campaign import PathPrior
from buran.profiles.startup import is_startup_or_shutdown
from buran.reporting.summary import CampaignSummary
from buran.wording import named

LEVEL = 0.9
"""Level of the intervals in a report."""
Reach = tuple[float, float | None, float | None]
"""A prediction and the bounds of its interval, None where these are not known."""
_MATTERS = 0.01  # of the prediction at the target: less is not worth a word


@dataclass(frozen=True)
class Answer:
    """A question every reader has, with its answer in a few words, such as a call path, and the facts behind it."""

    question: str
    answer: str
    facts: Sequence[str]


@dataclass(frozen=True)
class EvaluationTest(Stored):
    """A predicted and a measured run time of the baseline at an evaluation point.

    Attributes
    ----------
    crowded
        Whether runs waited for cores: what was measured tests no prediction.
    """

    point: Mapping[str, Value]
    predicted_s: float
    measured_s: float
    crowded: bool = False

    @property
    def ratio(self) -> float:
        """Predicted over measured time."""
        return self.predicted_s / self.measured_s


@dataclass(frozen=True)
class Untested:
    """An evaluation point without a time: what is predicted there, None without a model, and why it has none."""

    point: Mapping[str, Value]
    predicted_s: float | None
    why: str


@dataclass(frozen=True)
class CorrectedKernel:
    """What the correction of a kernel's analytical model is worth.

    Attributes
    ----------
    formula
        Corrected and base model, line by line; empty for a kernel that cannot be corrected.
    beyond
        Continues the sentence on the values where the target is beyond what the correction was trained on.
    base_s, corrected_s
        Values at the target; None where there is none.
    refused
        Whether the base model was left as it is.
    """

    kernel: str
    model: str
    reason: str
    formula: Sequence[str] = ()
    notes: Sequence[str] = ()
    beyond: str = ""
    base_s: float | None = None
    corrected_s: float | None = None
    refused: bool = True


@dataclass(frozen=True)
class Unknown:
    """What is predicted at the target far beyond what counts allow, and so is not known.

    Attributes
    ----------
    call_paths
        They are in no share.
    total
        Whether the run time of the program is not known either.
    advice
        What would tell, as a next step; empty where nothing that matters is unknown.
    """

    call_paths: tuple[str, ...] = ()
    total: bool = False
    advice: str = ""


@dataclass(frozen=True)
class Report:
    """Everything a report says, as values.

    Attributes
    ----------
    summary
        What the campaign has done, and what that has cost.
    target_cores
        Ranks times threads at the target; None where the campaign does not say.
    parallel
        Parameters that the numbers of ranks and threads depend on.
    steps
        Parameters that only repeat work.
    target
        Point that run time is extrapolated to.
    models
        By metric.
    runtime
        Model of the whole program's wall time, not instrumented, in normal form; None where there is none.
    startup
        Model of start-up and shutdown, which `runtime` has on top of the call paths; None where it is not their sum.
    tensor
        Predicts that time where a tensor model does, from shape (point, parameter); None where `runtime` does.
    overhead
        For each point and filter.
    instrumentation
        For each filter.
    filter_list
        Functions to instrument and those left out, each with the reason; None without models of times and visits.
    overhead_by_point
        Overhead by point under the filter in force: measured, and what it is made of.
    unsteady
        Call paths whose counts differ between repetitions, by metric.
    priors
        What models of time are made from, one entry for each call path; empty without priors.
    points
        Modelling points measured, and of how many.
    modelling_core_hours
        What was spent without evaluation points.
    full_matrix_core_hours
        What measuring all of them once under one filter would cost by the model of the run time; None without one.
    results
        Where what lies, in words and relative paths.
    corrections
        For each kernel with an analytical model.
    balance
        Functions that ranks share unevenly, the worst first.
    further
        What the sections of features say, by the features' names; None for those that are left out.
    measured_on
        Machines and days; empty where no program ran, or on a simulated machine.
    simulated_on
        The simulated machine on which the programs ran; empty otherwise.
    unknown
        What is not known of the target.
    words
        Numbers that stand for words in models and in plain data.
    """

    summary: CampaignSummary
    notes: Sequence[str]
    parameters: tuple[str, ...]
    target: Mapping[str, float]
    points: tuple[int, int]
    models: Mapping[str, ModelSet]
    runtime: ModelSet | None
    overhead: Sequence[Overhead]
    unsteady: Mapping[str, Sequence[str]]
    evaluation: Sequence[EvaluationTest]
    priors: Sequence[PathPrior]
    modelling_core_hours: float
    full_matrix_core_hours: float | None
    next_steps: Sequence[str]
    results: Mapping[str, str]
    instrumentation: Sequence[FilterOverhead] = ()
    filter_list: FilterList | None = None
    overhead_by_point: Sequence[PointOverhead] = ()
    corrections: Sequence[CorrectedKernel] = ()
    balance: Sequence[Balance] = ()
    startup: ModelSet | None = None
    tensor: Callable[[NDArray[np.float64]], NDArray[np.float64]] | None = None
    further: Mapping[str, object] = field(default_factory=dict)
    measured_on: str = ""
    simulated_on: str = ""
    parallel: tuple[str, ...] = ()
    target_cores: int | None = None
    steps: tuple[str, ...] = ()
    untested: Sequence[Untested] = ()
    unknown: Unknown = Unknown()
    words: Mapping[str, float] = field(default_factory=dict)

    @property
    def machine(self) -> str:
        """On which machines the program ran, in a sentence; empty if it did not."""
        if self.simulated_on:
            return f"Simulated, not measured: all times are those of {self.simulated_on}."
        return f"Measured on {self.measured_on}." if self.measured_on else ""


def at_point(models: ModelSet, point: Mapping[str, float]) -> NDArray[np.float64]:
    """Return a point as models predict it: shape (1, parameter)."""
    return np.array([[point[name] for name in models.parameters]], dtype=np.float64)


def target_values(models: ModelSet, target: Mapping[str, float]) -> NDArray[np.float64]:
    """Return shape (call path,): predictions at the target; missing ones are 0."""
    values = models.predict(at_point(models, target))[:, 0]
    return np.where(np.isfinite(values), values, 0.0)


def start_and_end(models: ModelSet) -> NDArray[np.bool_]:
    """Return shape (call path,): whether its time is an account of its own, as it starts or ends MPI."""
    rows = is_startup_or_shutdown(models.call_paths)
    return rows if models.unit == "sec" else np.zeros_like(rows)


def run_time_at_target(report: Report) -> float:
    """Return the prediction of the program's run time at the target in seconds, as it is shown everywhere."""
    assert report.runtime is not None
    if report.tensor is not None:
        return float(report.tensor(at_point(report.runtime, report.target))[0])
    return float(target_values(report.runtime, report.target)[0])


@dataclass(frozen=True)
class Total:
    """What a run takes at the target, in seconds: the sum of call paths, and start-up and shutdown."""

    whole_s: float
    call_paths_s: float
    startup_s: float


def total_at_target(report: Report) -> Total | None:
    """Return what a run takes at the target; None where that is not known, or is not modelled as a sum."""
    if report.startup is None or report.runtime is None or report.unknown.total:
        return None
    startup_s = float(target_values(report.startup, report.target)[0])
    whole_s = run_time_at_target(report)
    return Total(whole_s, whole_s - startup_s, startup_s)


def run_time_reach(report: Report) -> tuple[float, float, float] | None:
    """Return the run time at the target and the bounds of its interval, NaN where there is none.

    None without a model, and where the run time is not known.
    """
    if report.runtime is None or report.unknown.total:
        return None
    low, high = np.nan, np.nan
    if report.tensor is None:
        _, low, high = _interval(report.runtime, report.target)
    return run_time_at_target(report), *((max(low, 0.0), high) if np.isfinite(low + high) else (np.nan, np.nan))


def _interval(models: ModelSet, point: Mapping[str, float]) -> tuple[float, float, float]:
    """Return what the first of some models predicts at a point, with the bounds of its interval."""
    at = at_point(models, point)
    low, high = (float(end[0, 0]) for end in models.predict_interval(at, LEVEL))
    return float(models.predict(at)[0, 0]), low, high


def reach_of(value: float, low: float, high: float) -> Reach:
    """Return a prediction with the bounds of its interval, where they are known."""
    return (value, low, high) if np.isfinite(low + high) else (value, None, None)


def reach_at(models: ModelSet, point: Mapping[str, float]) -> Reach | None:
    """Return what the first of some models predicts at a point; None without a model."""
    return None if models.models[0] is None else reach_of(*_interval(models, point))


def startup_at_target(report: Report) -> float:
    """Return what start-up and shutdown take at the target in seconds; MPI's part of it where no more is known."""
    if total := total_at_target(report):
        return total.startup_s
    models = report.models.get("time")
    return 0.0 if models is None else float(target_values(models, report.target)[start_and_end(models)].sum())


def reach_text(reach: Reach | None) -> str:
    """Return a prediction and its interval as ``12.3 [11.8, 13.1]``."""
    if reach is None:
        return "–"
    value, low, high = reach
    return f"{value:.4g}" if low is None or high is None else f"{value:.4g} [{low:.3g}, {high:.3g}]"


def unknown_rows(report: Report, models: ModelSet) -> NDArray[np.bool_]:
    """Return shape (call path,): whether its time at the target is not known."""
    rows: NDArray[np.bool_] = np.isin(models.call_paths, report.unknown.call_paths)
    return rows if models.metric == "time" else np.zeros_like(rows)


def unknown_at_target(report: Report) -> Unknown:
    """Return what of the predictions at the target is more than `ALLOWANCE` times what counts allow."""
    times, target = report.models.get("time"), np.array([report.target[name] for name in report.parameters])
    if times is None or times.unit != "sec" or not times.call_paths:
        return Unknown()
    counts = {metric: models for metric, models in report.models.items() if models is not times}
    allowed, apart = allowed_times(times, counts, target), start_and_end(times)
    excess = np.where(apart, 0.0, target_values(times, report.target) - ALLOWANCE * allowed)
    total, models, row = False, times, int(excess.argmax())
    if report.runtime is not None and report.startup is not None:
        parts_s = run_time_at_target(report) - float(target_values(report.startup, report.target)[0])
        total = parts_s > ALLOWANCE * allowed[~apart].sum()
    elif report.runtime is not None:
        total = run_time_at_target(report) > ALLOWANCE * allowed_times(report.runtime, counts, target)[0]
        models, row = (times, row) if excess[row] > 0 else (report.runtime, 0)
    if not total and excess[row] <= 0:
        return Unknown()
    order = np.argsort(-excess, kind="stable")[: int((excess > 0).sum())]
    beyond = tuple(times.call_paths[position] for position in order)
    predicted = np.where(apart, 0.0, target_values(times, report.target))
    unknown_s = predicted[excess > 0].sum()
    if not total and unknown_s <= _MATTERS * predicted.sum():
        return Unknown(beyond)
    total = total or unknown_s > predicted.sum() / 2  # most of the sum is what cannot be true
    return Unknown(beyond, bool(total), _advice(models, counts, row, target))


def _advice(times: ModelSet, counts: Mapping[str, ModelSet], row: int, target: NDArray[np.float64]) -> str:
    """Say which values of the parameter along which a prediction outgrows its counts most would tell more."""
    points = np.array(times.points, dtype=np.float64)
    largest = points[int(np.nan_to_num(times.predict(points))[row].argmax())]
    beyond = []
    for parameter in range(len(target)):
        moved = largest.copy()
        moved[parameter] = target[parameter]
        beyond.append(times.predict(moved[None])[row, 0] / max(allowed_times(times, counts, moved)[row], 1e-300))
    parameter = int(np.nan_to_num(np.array(beyond)).argmax())
    most = points[:, parameter].max()
    values = dict.fromkeys(min(factor * most, target[parameter]) for factor in (2.0, 4.0))
    name = times.parameters[parameter]
    shown = " and ".join(named({name: value}) for value in values)
    return f"measure {shown}: models of time outgrow what is counted along {name}, by more than can be true"
