"""Strategies: which points are measured first, and which next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from buran.campaign.point import Point

LINE_LENGTH = 5
"""Values along each parameter's line; with fewer, a one-parameter model cannot tell its terms apart."""


class Strategy(Protocol):
    """Chooses points in two stages: a base that needs no model, then the rest."""

    def base(self, points: Sequence[Point], cost: Callable[[Point], float]) -> list[Point]:
        """Return the points to begin with.

        Parameters
        ----------
        points
            Feasible points, cheapest first.
        cost
            Relative cost of a run.
        """

    def rest(self, points: Sequence[Point], measured: Sequence[Point]) -> list[Point]:
        """Return the points to measure after `measured`, most wanted first."""


class Full:
    """Measures every point at once."""

    def base(self, points: Sequence[Point], cost: Callable[[Point], float]) -> list[Point]:
        """Return all points."""
        return list(points)

    def rest(self, points: Sequence[Point], measured: Sequence[Point]) -> list[Point]:
        """Return what is missing, cheapest first."""
        done = set(measured)
        return [point for point in points if point not in done]


class Lines(Full):
    """Begins with a line along each parameter, the others at their cheapest, and one point off each line."""

    def base(self, points: Sequence[Point], cost: Callable[[Point], float]) -> list[Point]:
        """Return the cheapest lines; in a space that is no product, the lines that hold most points."""
        chosen: dict[Point, None] = {}
        for name in points[0] if points else ():
            lines: dict[Point, list[Point]] = {}
            for point in points:
                lines.setdefault(Point.of({k: v for k, v in point.items() if k != name}), []).append(point)
            best = max(
                lines.values(),
                key=lambda line: (min(len(line), LINE_LENGTH), -sum(map(cost, line[:LINE_LENGTH]))),
            )
            line = sorted(best, key=cost)[:LINE_LENGTH]
            chosen.update(dict.fromkeys(line))
        for name in points[0] if points else ():
            # Off the lines: the only points that can tell a product of terms from a sum.
            lowest = min(point[name] for point in points)
            off = [
                point
                for point in points
                if point not in chosen and point[name] != lowest and _differs_twice(point, points[0])
            ]
            if off:
                chosen[min(off, key=cost)] = None
        return sorted(chosen, key=cost)


def _differs_twice(point: Mapping[str, float], origin: Mapping[str, float]) -> bool:
    return len(point) < 2 or sum(point[name] != origin[name] for name in point) >= 2


STRATEGIES: Mapping[str, Strategy] = {"full": Full(), "lines": Lines()}
