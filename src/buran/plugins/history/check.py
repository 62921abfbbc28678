"""The alarm: what an entry counts and takes compared with the last ones of its campaign."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.intervals import ROUNDING
from buran.plugins.history.entry import RUN_TIME, TIME, Version
from buran.profiles.experiment.collect import split_call_path
from buran.profiles.metrics import noise_resilient
from buran.profiles.profile import SEPARATOR
from buran.reporting.tables import name_of
from buran.wording import named

LEVEL = 0.99  # probability that no time is outside of its interval where nothing changed
SHARE = 0.01  # of the time at a point, from which on a call path counts
FEWEST = 4  # versions that make an interval: with three it is wider than most changes of a program
SHORTEST_S = 1e-9  # nothing is shorter to a clock
TIMES = (RUN_TIME, TIME)
Point = Mapping[str, float]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Alarm:
    """Something that changed.

    Attributes
    ----------
    before
        An exact count of the version before, or the bounds of the interval of a time.
    growth
        Growth classes of the version before and of this one; empty where there is no model.
    """

    metric: str
    call_path: str
    point: Point
    before: tuple[float, ...]
    now: float
    growth: tuple[str, str]

    def __str__(self) -> str:
        """Say it in a line."""
        of = f"{self.metric} of {name_of(self.call_path)} at {named(self.point)}"
        numbers = " to ".join(f"{number:.6g}" for number in self.before)
        growth = "; growth {} -> {}".format(*(each or "unknown" for each in self.growth))
        said = f"{of}: {self.now:.6g}, {'outside of' if len(self.before) > 1 else 'before'} {numbers}"
        return said + growth * (self.growth[0] != self.growth[1])


@dataclass(frozen=True)
class CheckResult:
    """What came out: alarms, how many counts and times were compared, and what was not, in sentences."""

    alarms: tuple[Alarm, ...]
    counts: int
    times: int
    notes: tuple[str, ...]


def check(entry: Version, last: Sequence[Version]) -> CheckResult:
    """Compare an entry with the last ones, the newest first: counts with the newest, times with all of one machine."""
    if not last:
        return CheckResult((), 0, 0, ("This is the first version: there is nothing to compare it with.",))
    alarms, counts, notes = _counts(entry, last[0])
    outside, times, more = _times(entry, [each for each in last if each["machine"] == entry["machine"]])
    return CheckResult((*alarms, *outside), counts, times, (*notes, *more))


def _counts(entry: Version, before: Version) -> tuple[list[Alarm], int, list[str]]:
    """Compare exact counts at common points, other growth first; a call path that is not there counts nothing."""
    worst: dict[tuple[str, str], tuple[float, Point, float, float]] = {}
    compared = 0
    for metric, point in product(noise_resilient(entry["measured"]), entry["points"]):
        old, new = _at(before, metric, point), _at(entry, metric, point)
        for path in dict.fromkeys((*new, *old)) if new and old else ():
            first, second = old.get(path, 0.0), new.get(path, 0.0)
            if first is None or second is None:
                continue
            compared += 1
            gap = abs(second - first) / max(abs(first), abs(second), ROUNDING)
            if gap > max(ROUNDING, worst.get((metric, path), (0.0,))[0]):
                worst[metric, path] = gap, point, first, second
    alarms = [
        Alarm(*name, point, (first,), second, (_growth(before, *name), _growth(entry, *name)))
        for name, (_, point, first, second) in worst.items()
    ]
    alarms.sort(key=lambda alarm: (alarm.growth[0] == alarm.growth[1], -alarm.now))
    return alarms, compared, [] if compared else ["No count is compared: none is of a point that both versions have."]


def _at(entry: Version, metric: str, point: Point) -> dict[str, float | None]:
    """Return the values of call paths at a point, None for what is not known; nothing if all is not."""
    number = next((number for number, each in enumerate(entry["points"]) if each == point), sys.maxsize)
    rows = entry["measured"].get(metric, {})
    values = {path: row[number] for path, row in rows.items() if number < len(row)}
    return values if any(value is not None for value in values.values()) else {}


def _known(entry: Version, metric: str, point: Point) -> dict[str, float]:
    return {path: value for path, value in _at(entry, metric, point).items() if value is not None}


def _growth(entry: Version, metric: str, path: str) -> str:
    return str(entry["predicted"].get(metric, {}).get(path, (0.0, ""))[1])


def _times(entry: Version, last: Sequence[Version]) -> tuple[list[Alarm], int, list[str]]:
    """Compare times at the points that are farthest along each parameter, of those that the newest version has too.

    A time is outside where those of all repetitions are: a campaign may be noisier than those before.
    """
    names: list[tuple[str, str, Point]] = []
    series: list[Array] = []
    both = [point for point in entry["points"] if last and any(_at(last[0], metric, point) for metric in TIMES)]
    farthest = [_farthest(both, name) for name in (both or [{}])[0]]
    for metric, point in product(TIMES, {tuple(point.items()): point for point in farthest}.values()):
        found, *earlier = (_known(side, metric, point) for side in (entry, *last))
        sides = [found, *filter(None, earlier)]
        common = [path for path in found if all(path in of_side for of_side in sides)]
        bounds = [found | _known(entry, f"{end} {metric}", point) for end in ("least", "most")]
        rows = [_folded(of_side, common) for of_side in (*sides, *bounds)]
        table = np.array(rows, dtype=np.float64).reshape(len(rows), len(common))
        table, *reach = table[:-2], table[-2], table[-1]
        share = table / np.maximum(table.sum(axis=1, keepdims=True), SHORTEST_S)
        matters = np.maximum(share[0], share[1:].mean(axis=0)) >= SHARE if len(sides) > FEWEST else []
        for column in np.flatnonzero(matters).tolist():
            names.append((metric, common[column], point))
            series.append(np.array([*table[:, column], *(end[column] for end in reach)]))
    alarms = [
        Alarm(*name, bounds, float(of[0]), (_growth(last[0], *name[:2]), _growth(entry, *name[:2])))
        for name, of, bounds in zip(names, series, intervals_of_next([of[1:-2] for of in series], LEVEL), strict=True)
        if of[-2] > bounds[1] * (1 + ROUNDING) or of[-1] < bounds[0] * (1 - ROUNDING)
    ]
    why = (
        f"No time is compared: an interval needs {FEWEST} earlier versions with times at such a point, on this machine."
    )
    return alarms, len(names), [] if names else [why]


def _farthest(points: Sequence[Point], name: str) -> Point:
    """Return the point with the largest value of a parameter; of several the one with the largest others."""
    return max(points, key=lambda point: (point[name], prod(point.values())))


def _folded(seconds: Mapping[str, float], common: Sequence[str]) -> list[float]:
    """Add what a call path takes that not all versions have to its nearest caller that all have.

    A filter that instruments fewer functions would look like a caller that became slow.
    """
    sums = dict.fromkeys(common, 0.0)
    for path, value in seconds.items():
        parts = split_call_path(path)
        callers = (SEPARATOR.join(parts[:end]) for end in range(len(parts), 0, -1))
        caller = next((each for each in callers if each in sums), None)
        if caller is not None:
            sums[caller] += value
    return list(sums.values())


def intervals_of_next(series: Sequence[Array], level: float) -> list[tuple[float, float]]:
    """Return the bounds between which one further value of each series lies, of all with the probability `level`.

    By the t distribution, from the scatter of the logarithms of two values or more; together by Bonferroni's
    inequality, as call paths share the noise of their runs.
    """
    from scipy.special import stdtrit

    bounds = []
    for values in series:
        logs = np.log(np.maximum(values, SHORTEST_S))
        quantile = stdtrit(len(logs) - 1.0, 1 - (1 - level) / 2 / len(series))
        middle, reach = logs.mean(), quantile * logs.std(ddof=1) * np.sqrt(1 + 1 / len(logs))
        with np.errstate(over="ignore"):  # two values that differ much leave the interval without an upper bound
            bounds.append((float(np.exp(middle - reach)), float(np.exp(middle + reach))))
    return bounds
