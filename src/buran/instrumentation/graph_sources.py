"""Call graphs from the compiler plugin's features, from measured call paths, and from files, which plug-ins read."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import numpy as np

from buran.extensions import ExtensionPoint
from buran.instrumentation.callgraph import CALL, FEATURES, MEASURED, POINTER, CallGraph, make_graph, with_edges
from buran.measurement.toolchain.static_features import INDIRECT, StaticFeatures, StaticFunction
from buran.profiles.profile import CallTree

_SYSTEM = ("/usr/include/", "/usr/lib/", "/usr/local/include/")


def graph_of_features(features: StaticFeatures) -> CallGraph:
    """Return the call graph of a program as its compiler plugin saw it.

    A call through a pointer, and of a virtual function, goes to every function whose address is taken anywhere in
    the program and that takes and returns the same: more than can happen, never less.
    """
    functions = features.functions
    number = {function.id: i for i, function in enumerate(functions)}
    outside = sorted(
        {call.callee for function in functions for call in function.calls} - set(number) - {INDIRECT}
    )  # defined in libraries
    number |= {symbol: len(functions) + i for i, symbol in enumerate(outside)}
    targets: dict[str, list[int]] = {}
    for i, function in enumerate(functions):
        if function.address_taken:
            targets.setdefault(function.type, []).append(i)
    edges = []
    for i, function in enumerate(functions):
        for call in function.calls:
            if call.callee == INDIRECT:
                edges += [(i, to, POINTER) for to in targets.get(call.type, ())]
            else:
                edges.append((i, number[call.callee], CALL))
    more = len(outside)
    return make_graph(
        (*(function.id for function in functions), *outside),
        edges,
        symbols=(*(function.mangled for function in functions), *outside),
        names=(*(function.name for function in functions), *outside),
        files=(*(function.file or function.unit for function in functions), *[""] * more),
        has_body=(*[True] * len(functions), *[False] * more),
        inline=(*(function.inline for function in functions), *[False] * more),
        system=(*(_is_system(function.file) for function in functions), *[False] * more),
        features={name: (*(_feature(function, name) for function in functions), *[-1] * more) for name in FEATURES},
    )


def _is_system(file: str) -> bool:
    return file.startswith(_SYSTEM) or "/include/c++/" in file


def _feature(function: StaticFunction, name: str) -> int:
    if name == "loops":
        return len(function.loops)
    if name == "loop_depth":
        return max((loop.depth for loop in function.loops), default=0)
    value: int | None = getattr(function, name)
    return -1 if value is None else value


def with_measured(graph: CallGraph, tree: CallTree) -> CallGraph:
    """Add the calls of measured call paths, and the functions that are missing in the graph.

    An edge leads from a measured function to the one measured below it: functions without hooks between them are not
    seen. The root of a profile, which stands for the executable, is no function.
    """
    regions = tree.regions
    nodes = [graph.find(region.mangled or region.name, region.name, region.file) for region in regions]
    is_function = [region.paradigm != "measurement" for region in regions]
    missing = [i for i, at in enumerate(nodes) if at is None and is_function[i]]
    whole = graph
    if missing:
        taken, ids = set(graph.ids), list[str]()
        for i in missing:
            ids.append(_unique(regions[i].mangled or regions[i].name, regions[i].file, taken))
            taken.add(ids[-1])
        for extra, i in enumerate(missing):
            nodes[i] = len(graph) + extra
        whole = _extended(
            graph,
            ids,
            [regions[i].mangled or regions[i].name for i in missing],
            [regions[i].name for i in missing],
            [regions[i].file for i in missing],
            [regions[i].paradigm == "compiler" for i in missing],
        )
    numbers = np.array([at if at is not None and is_function[i] else -1 for i, at in enumerate(nodes)], dtype=np.int64)
    below = numbers[tree.region]
    above = np.where(tree.parent >= 0, below[np.maximum(tree.parent, 0)], -1)
    real = (below >= 0) & (above >= 0)
    pairs = np.unique(np.stack([above[real], below[real]], axis=1), axis=0)
    return with_edges(whole, ((a, b, MEASURED) for a, b in pairs.tolist()))


def graph_of_tree(tree: CallTree) -> CallGraph:
    """Return the call graph that measured call paths show."""
    return with_measured(make_graph((), ()), tree)


def _unique(symbol: str, file: str, taken: Collection[str]) -> str:
    name, count = symbol, 0
    while name in taken:
        name = f"{symbol}@{file}" + (f"#{count}" if count else "")
        count += 1
    return name


def _extended(
    graph: CallGraph, ids: list[str], symbols: list[str], names: list[str], files: list[str], has_body: list[bool]
) -> CallGraph:
    none = np.zeros(len(ids), dtype=bool)
    unknown = np.full(len(ids), -1, dtype=np.int64)
    return replace(
        graph,
        ids=(*graph.ids, *ids),
        symbols=(*graph.symbols, *symbols),
        names=(*graph.names, *names),
        files=(*graph.files, *files),
        has_body=np.concatenate([graph.has_body, np.array(has_body, dtype=bool)]),
        inline=np.concatenate([graph.inline, none]),
        system=np.concatenate([graph.system, none]),
        features={name: np.concatenate([values, unknown]) for name, values in graph.features.items()},
    )


class GraphFormat(Protocol):
    """Reads files of call graphs."""

    @property
    def name(self) -> str:
        """Its name on command lines."""

    def recognises(self, path: Path) -> bool:
        """Return whether a file looks like one of this format."""

    def read(self, path: Path) -> CallGraph:
        """Read a file; raise `FormatError` if it is damaged."""


GRAPH_FORMATS: ExtensionPoint[GraphFormat] = ExtensionPoint("format of call graphs", "buran.graphs", GraphFormat, {})
