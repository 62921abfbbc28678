"""Strategies: which points are measured first, and which next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from buran.campaign.point import Point

LINE_LENGTH = 5
"""Values along each parameter's line; with fewer, a one-parameter model cannot tell its terms apart."""


class Strategy(Protocol):
    """Chooses points in two stages: a base that needs no model, then the rest."""

    def base(self, points: Sequence[Point], cost: Callable[[Point], float], ranks: str | None) -> list[Point]:
        """Return the points to begin with.

        Parameters
        ----------
        points
            Feasible points, cheapest first.
        cost
            Relative cost of a run.
        ranks
            The parameter that is the number of ranks, if one is.
        """

    def rest(self, points: Sequence[Point], measured: Sequence[Point]) -> list[Point]:
        """Return the points to measure after `measured`, most wanted first."""


class Full:
    """Measures every point at once."""

    def base(self, points: Sequence[Point], cost: Callable[[Point], float], ranks: str | None) -> list[Point]:
        """Return all points."""
        return list(points)

    def rest(self, points: Sequence[Point], measured: Sequence[Point]) -> list[Point]:
        """Return nothing: all are measured."""
        return []


class Lines:
    """Measures the cheapest line along each parameter and, for each parameter, one point off the lines.

    With one rank nothing is communicated: lines along other parameters lie where there are two, if they can.
    In a space that is no product, the lines that hold most points are taken.
    """

    def base(self, points: Sequence[Point], cost: Callable[[Point], float], ranks: str | None) -> list[Point]:
        """Return the points on the lines and those off them, cheapest first."""
        names = tuple(points[0]) if points else ()
        chosen: dict[Point, None] = {}
        for name in names:
            chosen.update(dict.fromkeys(_line(points, name, cost, ranks)))
        for name in names if len(names) > 1 else ():
            # The only points that can tell a product of terms from a sum.
            off = [point for point in points if point not in chosen and _is_off(point, points, name)]
            if off:
                chosen[min(off, key=cost)] = None
        return sorted(chosen, key=cost)

    def rest(self, points: Sequence[Point], measured: Sequence[Point]) -> list[Point]:
        """Return nothing: the base is all."""
        return []


def _line(points: Sequence[Point], name: str, cost: Callable[[Point], float], ranks: str | None) -> list[Point]:
    """Return the line along a parameter that holds most points, the cheapest of those."""
    lines: dict[Point, list[Point]] = {}
    for point in points:
        lines.setdefault(Point.of({k: v for k, v in point.items() if k != name}), []).append(point)

    def merit(others: Point) -> tuple[int, bool, float]:
        cheapest = sorted(map(cost, lines[others]))[:LINE_LENGTH]
        communicates = name == ranks or ranks is None or others[ranks] > 1
        return len(cheapest), communicates, -sum(cheapest)

    return sorted(lines[max(lines, key=merit)], key=cost)[:LINE_LENGTH]


def _is_off(point: Point, points: Sequence[Point], name: str) -> bool:
    """Tell whether a point differs from the cheapest one in this parameter and in another one."""
    return point[name] != points[0][name] and sum(point[each] != points[0][each] for each in point) >= 2


STRATEGIES: Mapping[str, Strategy] = {"full": Full(), "lines": Lines()}
