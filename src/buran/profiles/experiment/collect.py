"""Between the measurement table and files of single values, which know call paths by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.budget import check_memory
from buran.profiles.experiment.build import unique_points
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.metrics import metric_of
from buran.profiles.profile import SEPARATOR, CallTree, Region
from buran.profiles.regroup import preorder

_BYTES_OF_A_CELL = 8 * len(AGGREGATES)


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
        elif name.startswith(SEPARATOR, i) and (depth <= 0 or not balanced) and not name.endswith("operator", start, i):
            parts.append(name[start:i])
            start = i + len(SEPARATOR)
    parts.append(name[start:])
    return tuple(parts)


def _bytes_of_names(tree: CallTree) -> int:
    """Return the bytes of all call paths written out, each with its callers."""
    own = np.array([len(region.name) + len(SEPARATOR) for region in tree.regions])[tree.region]
    whole = own.tolist()
    for node, above in enumerate(tree.parent.tolist()):  # a caller comes first
        whole[node] += whole[above] if above >= 0 else 0
    return sum(whole)


@dataclass
class Collector:
    """Takes values in any order and makes a table of them.

    Attributes
    ----------
    parameters
        Names, in the order of the coordinates.
    """

    parameters: tuple[str, ...]
    _call_paths: dict[str, int] = field(default_factory=dict)
    _described: dict[int, tuple[Region, ...]] = field(default_factory=dict)
    _points: dict[tuple[float, ...], int] = field(default_factory=dict)
    _next: dict[tuple[int, str, int], int] = field(default_factory=dict)
    _cells: dict[str, dict[tuple[int, int, int], Sequence[float]]] = field(default_factory=dict)
    _units: dict[str, str] = field(default_factory=dict)

    def call_path(self, name: str, regions: Sequence[Region] | None = None) -> int:
        """Return the number of a call path.

        Parameters
        ----------
        name
            As the file calls it; if `regions` never come, it is split.
        regions
            From the root to the region itself.
        """
        number = self._call_paths.setdefault(name, len(self._call_paths))
        if regions is not None:
            self._described[number] = tuple(regions)
        return number

    def point(self, coordinates: Sequence[float]) -> int:
        """Return the number of a point."""
        return self._points.setdefault(tuple(coordinates), len(self._points))

    def add(
        self, call_path: int, metric: str, point: int, values: Sequence[float], repetition: int | None = None
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

    def tree(self) -> tuple[CallTree, NDArray[np.int64]]:
        """Return the call paths and the index of each number of `call_path`."""
        nodes: dict[tuple[int, str, str], int] = {}
        by_name: dict[tuple[int, str], int] = {}
        regions: list[Region] = []
        node_of: dict[int, int] = {}

        def step(above: int, region: Region, described: bool) -> int:
            if not described and (above, region.name) in by_name:
                return by_name[above, region.name]
            node = nodes.setdefault((above, region.mangled, region.name), len(regions))
            if node == len(regions):
                regions.append(region)
            by_name.setdefault((above, region.name), node)
            return node

        named = {number: name for name, number in self._call_paths.items()}
        # Those with regions first: a name without finds its callers among them.
        for number in sorted(named, key=lambda number: number not in self._described):
            described_regions = self._described.get(number)
            node = -1
            for region in described_regions or [Region(part) for part in split_call_path(named[number])]:
                node = step(node, region, described_regions is not None)
            node_of[number] = node
        if len(set(node_of.values())) != len(node_of):
            raise ValueError("two call paths with different names consist of the same regions")
        parent = np.array([above for above, _, _ in nodes], dtype=np.int64)
        order = preorder(parent)
        index = np.argsort(order)
        kinds: dict[Region, int] = {}
        kind = [kinds.setdefault(regions[node], len(kinds)) for node in order.tolist()]
        above = parent[order]
        tree = CallTree(tuple(kinds), np.array(kind, dtype=np.int64), np.where(above < 0, -1, index[above]))
        return tree, index[[node_of[number] for number in range(len(node_of))]]

    def finish(self, source: Path | None = None) -> Experiment:
        """Return the table; what was not added is NaN.

        Parameters
        ----------
        source
            The file that the values are from.

        Raises
        ------
        ValueError
            Two call paths are the same.
        FormatError
            The table, or the names of its call paths, would be far larger than what was added.
        """
        taken = _BYTES_OF_A_CELL * len(self) + sum(map(len, self._call_paths))
        tree, at_path = self.tree()
        check_memory(_bytes_of_names(tree), taken, source)
        points, at_point = unique_points(list(self._points))
        repetitions = max(self._next.values())
        cells_of_table = len(self._cells) * len(tree) * len(points) * repetitions
        check_memory(_BYTES_OF_A_CELL * cells_of_table, taken, source)
        values: dict[str, NDArray[np.float64]] = {}
        for metric, cells in self._cells.items():
            where = np.array(list(cells), dtype=np.int64)
            array = np.full((len(tree), len(points), repetitions, len(AGGREGATES)), np.nan)
            array[at_path[where[:, 0]], at_point[where[:, 1]], where[:, 2]] = list(cells.values())
            values[metric] = array
        units = {metric: self._units.get(metric, metric_of(metric).unit) for metric in values}
        return Experiment(self.parameters, points, tree, values, units)


def export_names(tree: CallTree, *, one_line: bool = False) -> list[str]:
    """Return call-path names that are unique, as formats need them that know call paths by their names.

    Two regions may have one name, as the constructors have that a compiler makes of one: later ones get their
    mangled name in brackets, or a number.

    Parameters
    ----------
    tree
        The call paths.
    one_line
        Make every white space one blank.
    """
    names: dict[str, None] = {}
    for plain, region in zip(tree.names, tree.region.tolist(), strict=True):
        name = " ".join(plain.split()) if one_line else plain
        if name in names:
            name += f" [{tree.regions[region].mangled or tree.regions[region].name}]"
            if one_line:
                name = " ".join(name.split())
        unique, number = name, 2
        while unique in names:
            unique = f"{name} #{number}"
            number += 1
        names[unique] = None
    return list(names)


def coordinates(point: Sequence[float]) -> list[float]:
    """Return a point with whole numbers as integers, so that files show 4 and not 4.0."""
    return [int(value) if value.is_integer() else value for value in np.asarray(point, dtype=float).tolist()]
