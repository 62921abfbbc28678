"""Call graphs from the compiler plugin's features, from measured call paths, and from files, which plug-ins read."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np

from buran.extensions import ExtensionPoint
from buran.instrumentation.callgraph import CalledFunction, CallGraph
from buran.measurement.toolchain.static_features import INDIRECT, StaticFeatures, StaticFunction
from buran.profiles.profile import CallTree

_SYSTEM = ("/usr/include/", "/usr/lib/", "/usr/local/include/")


def graph_of_features(features: StaticFeatures) -> CallGraph:
    """Return the call graph of a program as its compiler plugin saw it.

    A call through a pointer, and of a virtual function, goes to every function whose address is taken anywhere in
    the program and that takes and returns the same: more than can happen, never less.
    """
    functions = [_function(each) for each in features.functions]
    number = {function.id: i for i, function in enumerate(features.functions)}
    targets: dict[str, list[int]] = {}
    for i, function in enumerate(features.functions):
        if function.address_taken:
            targets.setdefault(function.type, []).append(i)
    edges = []
    for i, function in enumerate(features.functions):
        for call in function.calls:
            if call.callee == INDIRECT:
                edges += [(i, to) for to in targets.get(call.type, ())]
                continue
            if call.callee not in number:  # defined in a library
                number[call.callee] = len(functions)
                functions.append(CalledFunction(call.callee, has_body=False))
            edges.append((i, number[call.callee]))
    return CallGraph.of(functions, edges)


def _function(known: StaticFunction) -> CalledFunction:
    features = {"instructions": known.instructions, "branches": known.branches, "loops": len(known.loops)}
    features["loop_depth"] = max((loop.depth for loop in known.loops), default=0)
    if known.statements is not None:
        features["statements"] = known.statements
    is_system = known.file.startswith(_SYSTEM) or "/include/c++/" in known.file
    return CalledFunction(
        known.mangled,
        known.name,
        known.file or known.unit,
        inline=known.inline,
        system=is_system,
        features=features,
    )


def with_measured(graph: CallGraph, tree: CallTree) -> CallGraph:
    """Add the calls of measured call paths, and the functions that are missing in the graph.

    An edge leads from a measured function to the one measured below it: functions without hooks between them are not
    seen. The root of a profile, which stands for the executable, is no function.
    """
    is_function = np.array([region.paradigm != "measurement" for region in tree.regions], dtype=bool)
    numbers = np.where(is_function, graph.numbers(tree.regions), -1)
    new = np.flatnonzero(is_function & (numbers < 0))
    numbers[new] = len(graph) + np.arange(len(new))
    missing = [
        CalledFunction(each.mangled or each.name, each.name, each.file, has_body=each.paradigm == "compiler")
        for each in (tree.regions[i] for i in new)
    ]
    below = numbers[tree.region]
    above = np.where(tree.parent >= 0, below[np.maximum(tree.parent, 0)], -1)
    pairs = np.stack([above, below], axis=1)[(above >= 0) & (below >= 0)]
    return graph.extended(missing, map(tuple, pairs.tolist()))


def graph_of_tree(tree: CallTree) -> CallGraph:
    """Return the call graph that measured call paths show."""
    return with_measured(CallGraph.of((), ()), tree)


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
