"""What measurements say without models: what hooks cost, how unevenly ranks share the work, and how times change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.campaign.point import Value
from buran.files import Stored
from buran.modeling.numerics.intervals import of_median
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import TEAM_IMBALANCE, WORKING_THREADS

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MeasuredOverhead:
    """What instrumentation costs, over points.

    Attributes
    ----------
    share
        CPU time beyond that of the baseline over that of the baseline, median.
    interval
        Of 90 %; None for a single point, which tells nothing of it.
    """

    share: float
    interval: tuple[float, float] | None

    @classmethod
    def of(cls, ratios: Iterable[float | None]) -> MeasuredOverhead | None:
        """Return that of some points, from CPU times over the baseline's; None where none is known."""
        shares = np.array([ratio - 1 for ratio in ratios if ratio is not None])
        return cls(float(np.median(shares)), of_median(shares, 0.9)) if len(shares) else None

    def exceeds(self, allowed: float | None) -> bool:
        """Tell whether it is above the limit with its whole interval."""
        return allowed is not None and self.interval is not None and self.interval[0] > allowed

    def __str__(self) -> str:
        if self.interval is None:
            return f"{100 * self.share:+.1f} %"
        lower, upper = self.interval
        return f"{100 * self.share:+.1f} % ({100 * lower:+.1f} to {100 * upper:+.1f})"


@dataclass(frozen=True)
class Overhead(Stored):
    """What instrumentation costs at a point: medians over pairs of runs made side by side.

    Attributes
    ----------
    time_ratio, effort_ratio
        CPU time of the instrumented runs over that of the baseline; None where either is missing.
    """

    point: Mapping[str, Value]
    filter_number: int
    vanilla_cpu_s: float
    time_ratio: float | None
    effort_ratio: float | None


@dataclass(frozen=True)
class FilterOverhead:
    """What a filter instruments, what that was predicted to cost, and what it did.

    Attributes
    ----------
    functions, left_out
        How many functions it names, and how many it excludes from everything or from the default selection; None where
        none are named, and for the default selection as it is.
    points
        At how many points it was timed.
    predicted
        Largest overhead at a measured point; None where none was predicted.
    time, without_startup, counts
        Overhead of the runs for times, the same beyond start-up of the measurement system, and of those for counts.
    allowed, within
        Largest overhead allowed, and whether the measured one keeps to it; None where nothing limits it.
    """

    filter_number: int
    functions: int | None
    left_out: int | None
    points: int
    predicted: float | None
    time: MeasuredOverhead | None
    without_startup: MeasuredOverhead | None
    counts: MeasuredOverhead | None
    allowed: float | None
    within: bool | None


@dataclass(frozen=True)
class PointOverhead:
    """What instrumentation cost at a point, and what it is made of; shares of the CPU time of the plain program.

    Attributes
    ----------
    plain_s
        CPU time without instrumentation, of all ranks.
    measured
        What the instrumented runs took beyond it.
    hooks, openmp
        Predicted, of functions in the filter and of OpenMP constructs, which no filter reaches; 0 where unknown.
    startup
        Starting and ending the measurement system: the same time in every run, fitted to what hooks leave.
    """

    point: Mapping[str, Value]
    plain_s: float
    measured: float
    hooks: float
    openmp: float
    startup: float


def extremes_s(experiment: Experiment) -> Floats:
    """Return shape (call path, 2): mean times over ranks at the points with the least and the most time in all.

    The median over repetitions; 0 where nothing was measured.
    """
    if "time" not in experiment.values or not len(experiment.points):
        return np.zeros((len(experiment.tree), 2))
    values = experiment.over_locations("time")
    whole = np.nanmax(np.nansum(values, axis=0), axis=1)
    chosen = values[:, [int(whole.argmin()), int(whole.argmax())]]
    return _median(chosen)


def imbalance_s(experiment: Experiment) -> Floats:
    """Return shape (call path,): the slowest rank's time above the mean, at the point that takes longest.

    With it goes what the slowest threads of teams work above their means.

    The median over repetitions; 0 where nothing was measured.
    """
    if "time" not in experiment.values or not len(experiment.points):
        return np.zeros(len(experiment.tree))
    most, mean = (experiment.over_locations("time", which) for which in ("max", "mean"))
    largest = int(np.nanmax(np.nansum(mean, axis=0), axis=1).argmax())
    uneven = _median((most - mean)[:, largest])
    if TEAM_IMBALANCE in experiment.values:
        uneven = uneven + _median(experiment.over_locations(TEAM_IMBALANCE)[:, largest])
    return uneven


def threads_of(experiment: Experiment) -> Floats | None:
    """Return shape (call path, point): how many threads of a rank came there, at least 1; None where all had one."""
    if WORKING_THREADS.name not in experiment.values:
        return None
    return np.maximum(_median(experiment.over_locations(WORKING_THREADS.name)), 1.0)


def _median(values: Floats) -> Floats:
    """Return the median over the last axis; 0 where nothing was measured."""
    measured = np.isfinite(values).any(axis=-1)
    out = np.zeros(measured.shape)
    out[measured] = np.nanmedian(values[measured], axis=-1)
    return out
