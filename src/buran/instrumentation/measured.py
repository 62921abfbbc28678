"""What measurements say without models: what hooks cost, how unevenly ranks share the work, and how times change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from buran.campaign.point import Value
from buran.files import Stored
from buran.instrumentation.prediction import Floats, by_region
from buran.modeling.numerics.intervals import of_median
from buran.modeling.numerics.least_squares import nonnegative
from buran.profiles.experiment.table import Experiment
from buran.profiles.metrics import TEAM_IMBALANCE, WORKING_THREADS
from buran.profiles.profile import Profile
from buran.profiles.startup import STARTUP

# Times the calibrated cost that a visit has at most where hooks prevent inlining: what else a run with hooks takes
# longer is the start and end of the measurement system. Tuned: judgement.
MOST_EXPENSIVE_VISIT = 20.0


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


def times_as_expensive(predicted: Floats, measured: Floats, plain_s: Floats) -> float:
    """Return how many times what was predicted hooks cost in the program itself, up to `MOST_EXPENSIVE_VISIT`.

    Hooks keep a compiler from inlining, and a loop over an empty function has its caches for itself. Start-up and
    shutdown of the measurement, which take as long in every run, are fitted beside the factor.

    Parameters
    ----------
    predicted, measured
        Shape (point,): overhead.
    plain_s
        Shape (point,): CPU time without hooks.
    """
    some = (predicted > 0) & (plain_s > 0)
    if not some.any():
        return 1.0
    columns = np.stack([predicted[some], 1 / plain_s[some]], axis=1)
    factor = float(nonnegative(columns if some.sum() > 1 else columns[:, :1], measured[some])[0])
    return min(max(factor, 1.0), MOST_EXPENSIVE_VISIT)


def beyond_startup(left: Floats, plain_s: Floats, ranks: Floats) -> tuple[MeasuredOverhead | None, Floats]:
    """Tell what grows with the run time from start-up of the measurement system, the same time in every process.

    Parameters
    ----------
    left
        Shape (point,): measured overhead, of the time without instrumentation.
    plain_s
        Shape (point,): CPU time without instrumentation, of all ranks.
    ranks
        Shape (point,): number of processes.

    Returns
    -------
    beyond
        Share that is the same at all points, with its 90 % interval; None without points, and without an interval where
        fewer than four tell.
    startup
        Shape (point,): share of start-up. It takes all where the points do not prove that something else grows.
    """
    from scipy.special import stdtrit

    if not len(left):
        return None, np.zeros(0)
    # left = beyond + seconds * ranks / plain, seconds >= 0
    each = ranks / plain_s
    columns = np.stack([np.ones_like(each), each], axis=1)
    solution, *_ = np.linalg.lstsq(columns, left, rcond=None)
    if solution[1] < 0 or np.ptp(each) <= 0:
        columns, solution = columns[:, :1], np.array([left.mean(), 0.0])
    free = len(left) - columns.shape[1]
    interval = None
    if free >= 2:
        scatter = float(((left - columns @ solution[: columns.shape[1]]) ** 2).sum()) / free
        error = float(np.sqrt(scatter * np.linalg.inv(columns.T @ columns)[0, 0])) * float(stdtrit(free, 0.95))
        interval = (float(solution[0]) - error, float(solution[0]) + error)
    proven = interval is not None and interval[0] > 0
    alone = max(float((left * each).sum() / (each**2).sum()), 0.0)
    return MeasuredOverhead(float(solution[0]), interval), (solution[1] if proven else alone) * each


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


@dataclass(frozen=True)
class Balance:
    """One function at one point.

    Attributes
    ----------
    name
        As shown.
    mean_s, most_s
        Exclusive time over ranks and threads: mean and largest.
    lost_share
        Share of the time of the whole run: by how much the slowest exceeds the mean.
    efficiency
        Mean over largest; 1 is even.
    imbalance
        ``(most - mean) / most * n / (n - 1)``: 0 is even, 1 is all on one.
    variation
        Standard deviation over mean.
    """

    name: str
    mean_s: float
    most_s: float
    lost_share: float
    efficiency: float
    imbalance: float
    variation: float


def balance_of(profile: Profile, least_share: float = 0.01) -> tuple[Balance, ...]:
    """Return the functions in which the slowest rank or thread loses a share of the time, the worst first.

    Nothing for runs of one rank and thread. A location that never comes to a function counts with no time.
    """
    number = len(profile.locations)
    if number < 2 or "time" not in profile.values:
        return ()
    tree = profile.tree
    seconds = by_region(tree, profile.exclusive("time"))
    seconds[[region.name in STARTUP for region in tree.regions]] = 0.0
    mean, most = seconds.mean(axis=1), seconds.max(axis=1)
    lost: Floats = (most - mean) / (float(mean.sum()) or 1.0)
    order = np.argsort(-lost, kind="stable")
    order = order[((lost >= least_share) & (most > 0))[order]]
    mean, most, spread = mean[order], most[order], seconds[order].std(axis=1)
    uneven = (most - mean) / most * number / (number - 1)
    columns = np.stack([mean, most, lost[order], mean / most, uneven, spread / mean], axis=1)
    return tuple(Balance(tree.regions[i].name, *row) for i, row in zip(order, columns.tolist(), strict=True))
