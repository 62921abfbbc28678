"""Whether a program changed since an earlier version: where that is looked at, and what was found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buran.select.space import Array


@dataclass(frozen=True)
class Changes:
    """What comparing runs told so far.

    Attributes
    ----------
    earlier
        Name of the earlier version.
    changed
        Call paths that changed, with the metric, the largest first.
    counted, timed
        Points at which counts, and times, were compared; 0 where none was.
    run_time_within, within
        The run time of the program, and the time of each call path that matters, changed by less than this share
        at the points compared; infinite where intervals have no ends.
    open
        Why it cannot be told whether times changed; empty where it can.
    """

    earlier: str
    changed: tuple[tuple[str, str], ...] = ()
    counted: int = 0
    timed: int = 0
    run_time_within: float = float("inf")
    within: float = float("inf")
    open: str = ""

    def in_words(self) -> str:
        """Say what changed, or that nothing did and how well that is known."""
        if self.changed:
            named = [f"{path} ({metric})" for metric, path in self.changed[:_NAMED]]
            more = f" and {len(self.changed) - _NAMED} more" if len(self.changed) > _NAMED else ""
            return f"changed since {self.earlier}: {', '.join(named)}{more}"
        if self.open:
            return f"whether times changed since {self.earlier} cannot be told: {self.open}"
        parts = [f"counts are the same at {self.counted} points"] if self.counted else []
        if self.timed:
            parts.append(
                f"at {self.timed} points the run time is unchanged within {100 * self.run_time_within:.2g} % "
                f"and every call path that matters within {100 * self.within:.2g} %"
            )
        return f"nothing changed since {self.earlier}: {', and '.join(parts)}"


_NAMED = 3


def telling_places(points: Array) -> list[int]:
    """Return the places of points at which times are compared, ascending: the smallest, and the end of each line.

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
