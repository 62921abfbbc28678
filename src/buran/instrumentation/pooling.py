"""Times of other runs as they would be under the newest filter: without hooks that are gone, and without counting.

Functions that are no longer measured give their time to the one they are called from, and what their hooks cost is
taken off there. It does not matter how a hook's cost is shared between a function and its caller: both are in the same
call path then. Hooks that both filters have cost the same in both. Runs that count basic blocks take a little longer
for each block: how much, points with runs of both kinds show. At two of them the corrected times of a call path must
agree with those measured without counting.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from buran.campaign.plan import POINTS_OF_BOTH
from buran.instrumentation.prediction import FILTERABLE, SCATTER, Floats, Mask, symbol_of
from buran.modeling.numerics.tuning import FEW, FLOOR, MATTERS
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.metrics import Metric
from buran.profiles.profile import CallTree, Profile, Region
from buran.profiles.regroup import fold, project

# Of the cost in a loop: a program has other caches, and loses inlining. Tuned: judgement.
LOOP_UNCERTAINTY = 0.5
# Of any cost: functions are not alike. Tuned: judgement.
LEAST_UNCERTAINTY = 0.2
# Of the time, that counting takes before the program itself shows it. Tuned: six programs: evidence/overhead.md.
COUNTING_SHARE = 0.05
# Standard deviation of that between call paths. Tuned: evidence/overhead.md.
COUNTING_SPREAD = 0.08

_SHARE, _UNCERTAINTY, _BLOCKS = "correction_share", "correction_uncertainty", "correction_blocks"
_CHANCE = float(ndtri(1 - MATTERS / 2))  # standard deviations: more is chance in one of a hundred cases
_EXACT = 1e-30  # squares below are none
_HOPELESS = 1e6  # uncertainties are cut there: an infinite one is no number to work with


@dataclass(frozen=True)
class HookCost:
    """What a visit of an instrumented function costs, and the standard deviation of that, in seconds."""

    seconds: float
    uncertainty_s: float


def hook_cost(calibrated_s: float, hooked_s: Floats, plain_s: Floats, visits: Floats) -> HookCost:
    """Find the cost of a visit from a calibrating loop and from the program itself.

    Both are averaged by their precision; where they contradict each other, the uncertainty is larger by as much.

    Parameters
    ----------
    calibrated_s
        In a loop over an empty function; 0 on a simulated machine, where hooks cost nothing.
    hooked_s, plain_s
        Shape (pair,): CPU time of runs side by side with hooks and without, of all ranks.
    visits
        Shape (pair,): of functions with hooks, of all ranks.
    """
    if calibrated_s == 0.0:
        return HookCost(0.0, 0.0)
    values, uncertainties = [calibrated_s], [LOOP_UNCERTAINTY * calibrated_s]
    some = (visits > 0) & (plain_s > 0)
    if some.sum() >= FEW:
        share = visits[some] / plain_s[some]  # noise is a share of the time
        gain = (hooked_s[some] - plain_s[some]) / plain_s[some]
        slope = float((share * gain).sum() / (share**2).sum())
        rest = float(((gain - slope * share) ** 2).sum() / (some.sum() - 1))
        if slope > 0:
            values.append(slope)
            uncertainties.append(max(float(np.sqrt(rest / (share**2).sum())), FLOOR * slope))
    value, uncertainty = np.array(values), np.array(uncertainties)
    precision = 1 / uncertainty**2
    mean = float((precision * value).sum() / precision.sum())
    sigma = float(np.sqrt(1 / precision.sum()))
    chi = float(np.sqrt((((value - mean) / uncertainty) ** 2).sum() / max(len(value) - 1, 1)))
    return HookCost(mean, max(sigma * max(chi, 1.0), LEAST_UNCERTAINTY * mean))


def without_hooks(profile: Profile, keep: Mask, cost: HookCost, counting: bool = False) -> Profile:
    """Take the hooks of functions out of a profile.

    Share and uncertainty of what was taken off are metrics of their own, so that they go through the same unions as the
    times, as do the basic blocks of a run that counted.

    Parameters
    ----------
    profile
        As measured, with times and visits.
    keep
        Shape (region,): those that keep their hooks, or never had any.
    """
    tree = profile.tree
    gone = ~keep[tree.region] & (tree.parent >= 0)
    exclusive = {_SHARE: np.where(gone[:, None], profile.exclusive("visits"), 0.0)}  # visits first, a share below
    if counting:
        exclusive[_BLOCKS] = profile.exclusive("basic_blocks")
    metrics = {name: profile.metrics[name] for name in ("time", "visits")}
    added = {name: Metric(name, "", "exclusive", "DOUBLE") for name in exclusive}
    values = {**{name: profile.values[name] for name in metrics}, **exclusive}
    left = project(replace(profile, metrics=metrics | added, values=values), keep)
    taken = left.values[_SHARE].astype(np.float64) * cost.seconds
    seconds = left.exclusive("time") - taken
    off, rest = taken.mean(axis=1), seconds.mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(off > 0, np.where(rest > 0, off / rest, np.inf), 0.0)
    uncertainty = share * (cost.uncertainty_s / cost.seconds if cost.seconds > 0 else 0.0)
    marks = {
        name: np.repeat(np.minimum(each, _HOPELESS)[:, None], len(profile.locations), axis=1)
        for name, each in ((_SHARE, share), (_UNCERTAINTY, uncertainty))
    }
    unions = {name: Metric(name, "", "exclusive", "MAXDOUBLE") for name in (*marks, *exclusive)}
    time = replace(metrics["time"], kind="exclusive")
    return replace(left, metrics=metrics | unions | {"time": time}, values={**left.values, **marks, "time": seconds})


@dataclass(frozen=True, eq=False)
class EarlierRuns:
    """Runs under another filter than that of the models, or that counted basic blocks.

    Attributes
    ----------
    runs
        As measured.
    had
        Whether a region had hooks in these runs.
    keeps
        Whether a region has hooks under the filter of the models.
    counting
        Whether they counted basic blocks.
    """

    runs: Iterable[Run]
    had: Callable[[Region], bool]
    keeps: Callable[[Region], bool]
    counting: bool = False


@dataclass(frozen=True)
class Pooled:
    """One table of runs under several filters, as if all were under one.

    Attributes
    ----------
    table
        Time and visits of earlier runs are corrected; their other metrics, and what is too uncertain, are NaN.
    uncorrected
        The runs under the filter of the models alone, on the same call paths.
    direct
        Shape (repetition,): those of the table that are under that filter.
    cost
        What was taken off for a visit.
    runs
        How many earlier runs tell the time of at least one call path.
    values, lost
        How many times of theirs were taken, and how many were not.
    share, uncertainty
        The largest of those that were taken: what was taken off over what is left, and its uncertainty.
    proven
        At points with and without counting, the share of the time in call paths whose corrected times agree; None
        without enough such points.
    """

    table: Experiment
    uncorrected: Experiment
    direct: Mask
    cost: HookCost = HookCost(0.0, 0.0)
    runs: int = 0
    values: int = 0
    lost: int = 0
    share: float = 0.0
    uncertainty: float = 0.0
    proven: float | None = None

    @classmethod
    def of(cls, table: Experiment, direct: Mask, cost: HookCost) -> Pooled:
        """Return a table of which nothing is left out so far."""
        there = np.isfinite(table.over_locations("time")[:, :, direct]).any(axis=(0, 2))
        values = {name: cells[:, there][:, :, direct] for name, cells in table.values.items()}
        return cls(table, replace(table, points=table.points[there], values=values), direct, cost)

    @property
    def account(self) -> Mapping[str, float] | None:
        """What was corrected, and by what; None where nothing was."""
        if not self.runs and self.proven is None:
            return None
        return {
            "runs": self.runs,
            "values": self.values,
            "left_out": self.lost,
            "largest_share": self.share,
            "largest_uncertainty": self.uncertainty,
            "visit_cost_s": self.cost.seconds,
            "visit_cost_uncertainty_s": self.cost.uncertainty_s,
            **({} if self.proven is None else {"proven": self.proven}),
        }


def pool(direct: Iterable[Run], earlier: Sequence[EarlierRuns], cost: HookCost) -> Pooled:
    """Bring runs under one filter and corrected ones under others into one table.

    A time is left out where functions are measured now that were not then: how it would be shared is not known; where
    its uncertainty is above `SCATTER`; beside uncorrected times of its point, if it is more uncertain than a
    run scatters; and for a call path whose corrected times contradict the uncorrected ones where both are known.

    Parameters
    ----------
    direct
        Runs under the filter of the models.
    earlier
        By filter.
    """
    seen: set[str] = set()
    columns: dict[tuple[EarlierRuns | None, int], int] = {}  # of the table, in the order of runs

    def every() -> Iterator[Run]:
        for point, number, profile in direct:
            seen.update(map(symbol_of, profile.tree.regions))
            yield point, columns.setdefault((None, number), len(columns)), profile
        for group in earlier:
            for point, number, profile in group.runs:
                keep = [_is_free(each) or symbol_of(each) in seen or group.keeps(each) for each in profile.tree.regions]
                corrected = without_hooks(profile, np.array(keep, dtype=bool), cost, group.counting)
                yield point, columns.setdefault((group, number), len(columns)), corrected

    whole = experiment_from_profiles(every())
    return _judged(whole, [group for group, _ in columns], earlier, cost)


def cost_of_counting(without: Floats, with_: Floats, counted: Floats) -> tuple[Floats, Floats, Mask]:
    """Estimate what counting a basic block costs in each call path, in seconds.

    What it costs a loop depends on what the compiler makes of it, so each call path has a cost of its own. Two points
    with runs of both kinds measure it no better than runs scatter: 10 to 30 % on a noisy machine, where counting
    itself takes some per cent. What it takes in other programs is therefore the prior, a normal distribution.

    Parameters
    ----------
    without, with_, counted
        Shape (call path, point): seconds without counting and with it, and basic blocks; NaN where unknown.

    Returns
    -------
    cost, uncertainty, enough
        Shape (call path,): the cost; the standard deviation of the time without counting that follows from it, as a
        share of that time; whether enough points have both times.
    """
    both = (without > 0) & (with_ > 0) & (counted > 0)
    base = np.where(both, without, 1.0)
    # (E - D) / D = b B / D + noise, for each call path over its points; b may be below 0: the compiler made other code
    share, gain = (np.where(both, values, 0.0) / base for values in (counted, with_ - without))
    points, square = both.sum(axis=1), (share**2).sum(axis=1)
    known = (points >= POINTS_OF_BOTH) & (square > 0)
    square = np.where(known, square, 1.0)
    cost = (share * gain).sum(axis=1) / square
    rest = np.where(both, (gain - cost[:, None] * share) ** 2, 0.0).sum(axis=1)
    # s^2 of a call path from its n - 1 degrees of freedom, and one more by what half of the time stays below
    own = rest / np.maximum(points - 1, 1)
    order = np.argsort(np.where(known, own, np.inf), kind="stable")
    weight = np.cumsum(np.where(known, np.where(both, base, 0.0).sum(axis=1), 0.0)[order])
    common = float(own[order][np.searchsorted(weight, weight[-1] / 2)]) if len(own) else 0.0
    variance = np.maximum((rest + common) / np.maximum(points, 1), _EXACT)
    # b = N(g / r, (u / r)^2) before, with r = rms of B / D: counting takes the share g +- u of a run in other programs
    ratio = np.sqrt(square / np.maximum(points, 1))
    precision, before = square / variance, (ratio / COUNTING_SPREAD) ** 2
    cost = np.where(known, (precision * cost + before * COUNTING_SHARE / ratio) / (precision + before), 0.0)
    deviation = np.maximum(1 / np.sqrt(precision + before), LEAST_UNCERTAINTY * np.abs(cost))
    return cost, np.where(known, deviation * ratio, 0.0), points >= POINTS_OF_BOTH


def without_counting(whole: Experiment, known: Floats, counting: Mask) -> Experiment:
    """Take what counting basic blocks has cost off the times of runs that counted.

    Parameters
    ----------
    known
        Shape (call path, point, repetition): seconds without counting; NaN where there are none.
    counting
        Shape (repetition,): runs that counted.

    Returns
    -------
    Experiment
        Times with counting are NaN for call paths with blocks and fewer than `POINTS_OF_BOTH` points of both kinds.
    """
    time, blocks = whole.over_locations("time"), whole.over_locations(_BLOCKS)
    time = np.where(np.nan_to_num(whole.over_locations(_UNCERTAINTY)) <= SCATTER, time, np.nan)
    # D, E, B: seconds without and with counting, and blocks, shape (call path, point)
    without, with_, counted = (
        over_repetitions(values, "median") for values in (known, time[:, :, counting], blocks[:, :, counting])
    )
    cost, uncertainty, enough = cost_of_counting(without, with_, counted)
    values = {name: cells.copy() for name, cells in whole.values.items()}
    number = np.nan_to_num(values[_BLOCKS][:, :, counting])
    values["time"][:, :, counting] -= cost[:, None, None, None] * number
    left = values["time"][:, :, counting][..., AGGREGATES.index("mean")][..., None]
    with np.errstate(divide="ignore", invalid="ignore"):
        taken = np.nan_to_num(np.where(number > 0, np.abs(cost)[:, None, None, None] * number / left, 0.0))
    values[_SHARE][:, :, counting] += np.clip(taken, 0.0, _HOPELESS)
    # of the call path, not of each value: else values that happen to be low would be left out, and high ones not
    unsure = np.where(number > 0, np.where(left > 0, uncertainty[:, None, None, None], _HOPELESS), 0.0)
    values[_UNCERTAINTY][:, :, counting] = np.hypot(values[_UNCERTAINTY][:, :, counting], unsure)
    unproven = ~enough & (np.nan_to_num(counted).max(axis=1) > 0)
    values["time"][np.ix_(unproven, np.ones(time.shape[1], dtype=bool), counting)] = np.nan
    return replace(whole, values=values)


def _is_free(region: Region) -> bool:
    """Tell whether no filter decides about a region."""
    return region.paradigm not in FILTERABLE


def _judged(
    whole: Experiment, groups: Sequence[EarlierRuns | None], earlier: Sequence[EarlierRuns], cost: HookCost
) -> Pooled:
    """Leave out what is not to be trusted, of a table whose repetitions are of these groups, None for direct ones."""
    values = {name: cells.copy() for name, cells in whole.values.items() if name not in (_SHARE, _UNCERTAINTY, _BLOCKS)}
    direct: Mask = np.array([group is None for group in groups])
    plain = Pooled.of(replace(whole, values=values), direct, cost)
    if direct.all():
        return plain
    share, uncertainty = (whole.over_locations(name) for name in (_SHARE, _UNCERTAINTY))
    time = whole.over_locations("time")
    has_direct: Mask = np.asarray(np.isfinite(time[:, :, direct]).any(axis=2))
    taken = np.zeros(time.shape, dtype=bool)
    shown: float | None = None
    for group in sorted(earlier, key=lambda group: group.counting):
        columns = np.array([each is group for each in groups])
        known = time[:, :, direct]
        if group.counting:
            # compared with all times that are taken, under whatever filter: those under earlier ones are judged by now
            known = np.where(taken | direct, time, np.nan)
            whole = without_counting(whole, known, columns)
            share, uncertainty, time = (whole.over_locations(name) for name in (_SHARE, _UNCERTAINTY, "time"))
            values["time"][:, :, columns] = whole.values["time"][:, :, columns]
        comparable = _comparable(whole.tree, group.had)
        for name in values:
            values[name][np.ix_(~comparable, np.ones(time.shape[1], dtype=bool), columns)] = np.nan
        sure = np.isfinite(time[:, :, columns]) & (uncertainty[:, :, columns] <= SCATTER)
        sure &= comparable[:, None, None]
        proven = POINTS_OF_BOTH if group.counting else 0
        agrees = _agrees(known, np.where(sure, time[:, :, columns], np.nan), uncertainty[:, :, columns], proven)
        as_good = ~has_direct[:, :, None] | (uncertainty[:, :, columns] <= _scatter(time[:, :, direct])[:, None, None])
        taken[:, :, columns] = sure & agrees[:, None, None] & as_good
        if group.counting:
            shown = _share_of_time(known, time[:, :, columns], sure & agrees[:, None, None])
    corrected: Mask = np.isfinite(time) & ~direct
    values["time"][corrected & ~taken] = np.nan
    return replace(
        plain,
        runs=int(taken.any(axis=0).sum()),
        values=int(taken.sum()),
        lost=int((corrected & ~taken).sum()),
        share=float(share[taken].max(initial=0.0)),
        uncertainty=float(uncertainty[taken].max(initial=0.0)),
        proven=shown,
    )


def _scatter(time: Floats) -> Floats:
    """Return shape (call path,): by what share a run differs from others of its point, `SCATTER` before any.

    What is known beforehand is worth one run, so that two that happen to be alike do not prove that there is none.
    """
    middle = over_repetitions(time, "mean")[:, :, None]
    known = np.isfinite(time) & (middle > 0)
    squares = np.where(known, (time / np.where(middle > 0, middle, 1.0) - 1) ** 2, 0.0).sum(axis=(1, 2))
    free = np.maximum(known.sum(axis=2) - 1, 0).sum(axis=1)
    return np.asarray(np.sqrt((squares + SCATTER**2) / (free + 1)))


def _share_of_time(direct: Floats, corrected: Floats, sure: Mask) -> float | None:
    """Return the share of the time, at points with both, of values (call path, point, repetition) that are `sure`."""
    seconds = over_repetitions(direct, "median")
    both: Mask = (np.nansum(seconds, axis=0) > 0) & np.isfinite(corrected).any(axis=(0, 2))
    whole = float(np.nansum(seconds[:, both])) if both.sum() >= POINTS_OF_BOTH else 0.0
    agreed: Mask = np.asarray(sure.any(axis=2))
    return float(np.nansum(seconds[agreed & both])) / whole if whole > 0 else None


def _comparable(tree: CallTree, had: Callable[[Region], bool]) -> Mask:
    """Mark call paths that were measured as they are now: no function below them has hooks that it had not then."""
    folding = fold(tree, lambda region: _is_free(region) or had(region))
    members: NDArray[np.int64] = np.bincount(folding.target, minlength=len(folding.tree))
    alone: Mask = members[folding.target] == 1
    return folding.stays & alone


def _agrees(direct: Floats, corrected: Floats, uncertainty: Floats, proven: int = 0) -> Mask:
    """Mark call paths whose corrected times are not known to be others than the uncorrected ones of the same points.

    Parameters
    ----------
    direct, corrected
        Shape (call path, point, repetition); NaN where there is none.
    uncertainty
        Shape of `corrected`: relative standard deviation.
    proven
        Points, at least, at which both must be known; with 0, fewer than two contradict nothing.
    """
    one, other = (over_repetitions(values, "median") for values in (direct, corrected))
    common = (one > 0) & (other > 0)
    gap = np.log(np.where(common, other, 1.0) / np.where(common, one, 1.0))
    number = common.sum(axis=1)
    mean = gap.sum(axis=1) / np.maximum(number, 1)
    # two gaps may agree by chance: what one pair scatters by is one more degree of freedom
    squares = np.where(common, (gap - mean[:, None]) ** 2, 0.0).sum(axis=1) + SCATTER**2
    spread = np.sqrt(squares) / np.maximum(number, 1)
    largest = np.where(np.isfinite(corrected), np.nan_to_num(uncertainty), 0.0).max(axis=(1, 2))
    near: Mask = np.abs(mean) <= MATTERS + _CHANCE * np.hypot(spread, largest)
    # one pair of single runs, of which one may have been disturbed, refutes nothing
    agreeing: Mask = (number >= proven) & ((number < POINTS_OF_BOTH) | near)
    return agreeing
