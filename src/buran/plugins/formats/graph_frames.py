"""Tables as graph frames of Hatchet, and back; what Hatchet reads from other tools comes this way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.errors import FormatError, UsageError
from buran.extensions import from_extra
from buran.profiles.experiment.collect import Collector
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import SEPARATOR, Region

EXTRA = "hatchet"
_INCLUSIVE = " (inc)"
_UNITS = "units"
_INCLUSIVE_TOO = {"Avg time/rank": "time", "Total time": "total_time"}
"""Columns that Caliper fills with inclusive times, and Hatchet takes for exclusive ones."""
_EXTREMES = {"Min time/rank", "Max time/rank"}
"""Columns of inclusive times: those of exclusive ones are not known."""
_ROUNDING = 1e-9
"""Share of an inclusive value; it is a sum of many doubles."""


def to_graphframe(experiment: Experiment, point: Mapping[str, float], repetition: int = 0) -> Any:
    """Return a run as a graph frame: for each metric a column of exclusive means over ranks, and one of inclusive ones.

    The columns are called `time` and `time (inc)`; the metadata hold the parameters, and the units.

    Raises
    ------
    ToolError
        Hatchet is not installed.
    UsageError
        There is no such run.
    """
    wanted = [point.get(name, np.nan) for name in experiment.parameters]
    rows = np.flatnonzero((experiment.points == wanted).all(axis=1))
    if not len(rows):
        raise UsageError("there is no such point", where=", ".join(f"{name}={value}" for name, value in point.items()))
    row = int(rows[0])
    needed = ("hatchet", "hatchet.graph", "hatchet.node", "hatchet.frame", "pandas")
    hatchet, graphs, nodes_of, frames, pandas = (from_extra(name, EXTRA, "graph frames") for name in needed)
    tree, nodes = experiment.tree, list[Any]()
    for region, parent in zip(tree.region.tolist(), tree.parent.tolist(), strict=True):
        described = tree.regions[region]
        attributes = {"name": described.name, "type": "function"}
        attributes |= {"mangled": described.mangled} if described.mangled else {}
        above = nodes[parent] if parent >= 0 else None
        node = nodes_of.Node(frames.Frame(attributes), parent=above)
        if above is not None:
            above.add_child(node)
        nodes.append(node)
    graph = graphs.Graph([node for node, parent in zip(nodes, tree.parent.tolist(), strict=True) if parent < 0])
    graph.enumerate_traverse()
    columns: dict[str, Any] = {"name": [tree.regions[region].name for region in tree.region.tolist()]}
    exclusive, inclusive = list[str](), list[str]()
    for name in experiment.metrics:
        values = experiment.over_locations(name)
        if repetition < values.shape[2] and np.isfinite(values[:, row, repetition]).any():
            columns[name] = values[:, row, repetition]
            columns[name + _INCLUSIVE] = tree.inclusive(np.nan_to_num(values[:, row, repetition]))
            exclusive.append(name)
            inclusive.append(name + _INCLUSIVE)
    index = pandas.Index(nodes, name="node")
    point = dict(zip(experiment.parameters, experiment.points[row].tolist(), strict=True))
    metadata = {**point, "repetition": repetition, _UNITS: json.dumps(dict(experiment.units))}
    frame = pandas.DataFrame(columns, index=index)
    return hatchet.GraphFrame(graph, frame, exclusive, inclusive, metadata=metadata)


def from_graphframes(runs: Iterable[tuple[Mapping[str, float], Any]]) -> Experiment:
    """Return the table of graph frames, as Hatchet reads them from HPCToolkit, TAU or Caliper.

    Parameters
    ----------
    runs
        The parameters of each run, and its graph frame. Runs with the same parameters are repetitions. Exclusive
        metrics are taken; an inclusive one of which there is no exclusive one loses the values of callees. A call path
        that is missing in a run is 0.

    Raises
    ------
    FormatError
        There are no runs, they have different parameters or no metric, a value is no number, or a node has two callers.
    """
    tables = [(dict(point), *_exclusive(frame)) for point, frame in runs]
    if not tables:
        raise FormatError("there are no graph frames", hint="give pairs of parameters and graph frame")
    parameters = tuple(tables[0][0])
    paths = list(dict.fromkeys(path for _, values, _ in tables for cells in values.values() for path in cells))
    collector = Collector(parameters)
    for number, (point, values, units) in enumerate(tables):
        if set(point) != set(parameters):
            why = f"run {number} has {', '.join(point) or 'none'}, the first one {', '.join(parameters) or 'none'}"
            raise FormatError("graph frames need the same parameters", why=why)
        index = collector.point([float(point[name]) for name in parameters])
        for metric, cells in values.items():
            if metric in units:
                collector.set_unit(metric, units[metric])
            for path in paths:
                node = collector.call_path(SEPARATOR.join(region.name for region in path), path)
                collector.add(node, metric, index, cells.get(path, (0.0,) * len(AGGREGATES)))
    return collector.finish()


_Path = tuple[Region, ...]
_FUNCTIONS = {"function", "region", "entry", None}
"""Types of nodes that are call paths; what others take, as lines and loops, is their function's."""


def _call_paths(graph: Any) -> dict[Any, _Path]:
    paths: dict[Any, _Path] = {}
    for node in graph.traverse():
        if len(node.parents) > 1:
            raise FormatError("a node has two callers", where=str(node.frame), why="graph frames must be trees here")
        above = paths[node.parents[0]] if node.parents else ()
        if above and node.frame.get("type") not in _FUNCTIONS:
            paths[node] = above
            continue
        described = node.frame.attrs
        name = str(described.get("name") or f"{described.get('type')} {described.get('file')}:{described.get('line')}")
        # HPCToolkit's names of callees have the line that they are called from.
        region = Region(re.sub(r"^\d+:(?!:)", "", name), str(described.get("mangled") or ""))
        paths[node] = (*above, region)
    return paths


def _exclusive(frame: Any) -> tuple[dict[str, dict[_Path, tuple[float, ...]]], dict[str, str]]:
    """Return exclusive values by metric and call path, in the order of `AGGREGATES`; and units as far as known."""
    paths = _call_paths(frame.graph)
    number = {path: position for position, path in enumerate(dict.fromkeys(paths.values()))}
    order = {node: position for position, node in enumerate(paths)}
    rows = frame.dataframe
    node = np.array([order[each] for each in rows.index.get_level_values("node")], dtype=np.int64)
    index, indices = np.zeros(len(rows), dtype=np.int64), 1
    if rows.index.nlevels > 1:  # of ranks and threads: one without a row of a call path was not there
        locations = rows.index.droplevel("node").to_flat_index()
        index, indices = locations.factorize()[0], locations.nunique()
    values: dict[str, dict[_Path, tuple[float, ...]]] = {}
    for column in (*frame.exc_metrics, *frame.inc_metrics):
        name = _INCLUSIVE_TOO.get(column, column.removesuffix(_INCLUSIVE))
        if name in values or column not in rows or rows[column].dtype.kind not in "iuf" or column in _EXTREMES:
            continue
        table = np.zeros((len(paths), indices))
        table[node, index] = rows[column].to_numpy(dtype=float)
        if column in _INCLUSIVE_TOO or column not in frame.exc_metrics:
            table = _without_callees(table, np.isin(np.arange(len(paths)), node), paths, order)
        together = np.zeros((len(number), indices))  # two nodes may have one name
        np.add.at(together, [number[path] for path in paths.values()], table)
        if indices == 1:
            statistics = [(value, value, value, value, np.nan) for value in together[:, 0].tolist()]
        else:
            parts = [getattr(np, statistic)(together, axis=1).tolist() for statistic in AGGREGATES]
            statistics = list(zip(*parts, strict=True))
        values[name] = dict(zip(number, statistics, strict=True))
    if not values:
        raise FormatError("the graph frame has no metric", why=f"it has {', '.join(map(str, rows.columns))}")
    return values, json.loads((frame.metadata or {}).get(_UNITS, "{}"))


def _without_callees(
    inclusive: NDArray[np.float64], has_row: NDArray[np.bool_], paths: Mapping[Any, _Path], order: Mapping[Any, int]
) -> NDArray[np.float64]:
    """Return exclusive values, shape (node, location); differences within rounding are 0."""
    exclusive = inclusive.copy()
    for node in paths:
        if node.parents and has_row[order[node.parents[0]]]:
            exclusive[order[node.parents[0]]] -= inclusive[order[node]]
    rounding = (exclusive < 0) & (exclusive >= -_ROUNDING * inclusive)
    return np.where(rounding, 0.0, exclusive)
