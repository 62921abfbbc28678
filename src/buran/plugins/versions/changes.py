"""Whether a program changed since an earlier version: where that is looked at, and what was found."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from buran.planning.space import Array


@dataclass(frozen=True)
class Changes:
    """What comparing runs showed so far.

    Attributes
    ----------
    earlier
        Name of the earlier version.
    changed
        Call paths that changed, with the metric, the largest first.
    growth
        By metric and call path, the growth classes before and after, where both are known.
    counted, timed
        Points at which counts, and times, were compared; 0 where none was.
    call_paths, unsteady
        Call paths whose counts were compared, and those whose counts depend on the run and were not.
    run_time_within, within
        The run time of the program, and the time of each call path that matters, changed by less than this share
        at the points compared; infinite where intervals have no bounds.
    open
        Why it is unknown whether times changed; empty where it can.
    """

    earlier: str
    changed: tuple[tuple[str, str], ...] = ()
    growth: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    counted: int = 0
    call_paths: int = 0
    unsteady: int = 0
    timed: int = 0
    run_time_within: float = float("inf")
    within: float = float("inf")
    open: str = ""

    def in_words(self) -> str:
        """Say what changed; else what was compared, and how large a change may have been missed."""
        if self.changed:
            named = [f"{path} ({', '.join([metric, *self._class(metric, path)])})" for metric, path in self.changed]
            more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
            return f"changed since {self.earlier}: {', '.join(named[:_NAMED])}{more}"
        if self.open:
            return f"whether times changed since {self.earlier} is unknown: {self.open}"
        parts = [self.counts_in_words()] if self.counted else []
        if self.timed:
            parts.append(
                f"at {self.timed} points times show no difference: the run time may have changed by "
                f"{_percent(self.run_time_within)} at most, a call path that matters by {_percent(self.within)}"
            )
        return f"no change seen since {self.earlier}: {', and '.join(parts)}"

    def counts_in_words(self) -> str:
        """Say which counts are the same."""
        but = f", but for {self.unsteady} whose counts depend on the run" if self.unsteady else ""
        return f"the counts of all {self.call_paths} call paths are the same at {self.counted} points{but}"

    def _class(self, metric: str, path: str) -> list[str]:
        before, after = self.growth.get((metric, path), ("", ""))
        return [f"{before} → {after}"] if before != after else []


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if math.isfinite(share) else "an unknown part"


_NAMED = 3


def informative_indices(points: Array) -> list[int]:
    """Return the indices of points at which times are compared, ascending: the smallest, and the end of each line.

    A line goes from the smallest point along one parameter. There the program is as large as it gets for the cost, and
    a change that grows with any parameter shows.

    Parameters
    ----------
    points
        Shape (point, parameter), cheapest first.
    """
    chosen = {0}
    for column in range(points.shape[1]):
        others = np.delete(points, column, axis=1)
        line = np.flatnonzero((others == others[0]).all(axis=1))
        chosen.add(int(line[points[line, column].argmax()]))
    return sorted(chosen)
