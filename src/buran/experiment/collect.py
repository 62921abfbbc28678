"""From single values, as files have them, to the measurement table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from buran.experiment.build import default_unit, unique_points
from buran.experiment.table import AGGREGATES, Experiment
from buran.profile.profile import SEPARATOR, CallTree, Region
from buran.profile.regroup import preorder


def split_call_path(name: str) -> tuple[str, ...]:
    """Split a call path into the names of its regions.

    The separator is also an operator of C++: it does not count in ``operator->``, nor within parentheses, as
    in ``decltype ((a)->b)``, if they are balanced.
    """
    balanced = name.count("(") == name.count(")")
    parts: list[str] = []
    start = depth = 0
    for i, char in enumerate(name):
        if char in "()":
            depth += 1 if char == "(" else -1
        elif (
            name.startswith(SEPARATOR, i)
            and (depth <= 0 or not balanced)
            and not name.endswith("operator", start, i)
        ):
            parts.append(name[start:i])
            start = i + len(SEPARATOR)
    parts.append(name[start:])
    return tuple(parts)


@dataclass
class Collector:
    """Takes values in any order and makes a table of them.

    Attributes
    ----------
    parameters
        Names, in the order of the coordinates.
    """

    parameters: tuple[str, ...]
    _paths: dict[tuple[int, str], int] = field(default_factory=dict)
    _regions: dict[int, Region] = field(default_factory=dict)
    _named: dict[str, int] = field(default_factory=dict)
    _points: dict[tuple[float, ...], int] = field(default_factory=dict)
    _next: dict[tuple[int, str, int], int] = field(default_factory=dict)
    _cells: dict[str, dict[tuple[int, int, int], Sequence[float]]] = field(default_factory=dict)
    _units: dict[str, str] = field(default_factory=dict)

    def call_path(self, name: str, regions: Sequence[Region] | None = None) -> int:
        """Return the number of a call path.

        Parameters
        ----------
        name
            As the file calls it; it is split if `regions` is not given here or was not given before.
        regions
            From the root to the region itself.
        """
        if regions is None:
            if name in self._named:
                return self._named[name]
            regions = [Region(part) for part in split_call_path(name)]
        node = -1
        for region in regions:
            node = self._paths.setdefault((node, region.mangled or region.name), len(self._paths))
            self._regions.setdefault(node, region)
        self._named[name] = node
        return node

    def point(self, coordinates: Sequence[float]) -> int:
        """Return the number of a point."""
        return self._points.setdefault(tuple(coordinates), len(self._points))

    def add(
        self,
        call_path: int,
        metric: str,
        point: int,
        values: Sequence[float],
        repetition: int | None = None,
    ) -> bool:
        """Add one repetition.

        Parameters
        ----------
        call_path, point
            Numbers of `call_path` and `point`.
        metric
            Its name.
        values
            In the order of `AGGREGATES`.
        repetition
            Position; the next free one by default.

        Returns
        -------
        bool
            Whether the repetition was free; nothing is added if not.
        """
        key = (call_path, metric, point)
        following = self._next.get(key, 0)
        if repetition is None:
            repetition = following
        cells = self._cells.setdefault(metric, {})
        if (call_path, point, repetition) in cells:
            return False
        cells[call_path, point, repetition] = values
        self._next[key] = max(following, repetition + 1)
        return True

    def add_value(self, call_path: int, metric: str, point: int, value: float) -> None:
        """Add a value that stands for all locations, as the next repetition."""
        self.add(call_path, metric, point, (value, value, value, value, np.nan))

    def set_unit(self, metric: str, unit: str) -> None:
        """Note the unit of a metric."""
        self._units[metric] = unit

    def __len__(self) -> int:
        return sum(len(cells) for cells in self._cells.values())

    def finish(self) -> Experiment:
        """Return the table; what was not added is NaN."""
        keys = list(self._paths)
        parent = np.array([above for above, _ in keys], dtype=np.int64)
        order = preorder(parent)
        index = np.argsort(order)
        regions: dict[Region, int] = {}
        region = [regions.setdefault(self._regions[node], len(regions)) for node in order.tolist()]
        above = parent[order]
        tree = CallTree(
            tuple(regions), np.array(region, dtype=np.int64), np.where(above < 0, -1, index[above])
        )
        points, at_point = unique_points(list(self._points))
        repetitions = max(self._next.values())
        values: dict[str, NDArray[np.float64]] = {}
        for metric, cells in self._cells.items():
            where = np.array(list(cells), dtype=np.int64)
            values[metric] = np.full((len(tree), len(points), repetitions, len(AGGREGATES)), np.nan)
            values[metric][index[where[:, 0]], at_point[where[:, 1]], where[:, 2]] = list(cells.values())
        units = {metric: self._units.get(metric, default_unit(metric)) for metric in values}
        return Experiment(self.parameters, points, tree, values, units)
