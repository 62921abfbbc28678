"""Queries for functions of a call graph, as in ``paths_to(name("MPI_*")) & loops(1) - inline``.

The text is parsed with `ast` and never evaluated by Python. ``|`` unites, ``&`` intersects, ``-`` takes away, ``~`` is
everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from buran.errors import UsageError
from buran.instrumentation.callgraph import CallGraph, Ids, Mask
from buran.instrumentation.pattern import matches, named_by_any

_T = TypeVar("_T", str, int)
_SETS: Mapping[str, Callable[[CallGraph], Mask]] = {
    "all": lambda graph: np.ones(len(graph), dtype=bool),
    "inline": lambda graph: graph.which(lambda each: each.inline),
    "system": lambda graph: graph.which(lambda each: each.system),
    "defined": lambda graph: graph.has_body,
    "main": lambda graph: graph.marked(np.array([graph.main])),
}
_OPERATORS: Mapping[type[ast.operator], Callable[[Mask, Mask], Mask]] = {
    ast.BitOr: lambda left, right: left | right,
    ast.BitAnd: lambda left, right: left & right,
    ast.Sub: lambda left, right: left & ~right,
}
_NAMED = ("name", "file")
_LARGE: Mapping[str, Callable[[CallGraph], Ids]] = {
    "loops": lambda graph: graph.features["loop_depth"],
    "statements": lambda graph: graph.features["statements"],
    "instructions": lambda graph: graph.features["instructions"],
    "branches": lambda graph: graph.features["branches"],
    "below": lambda graph: graph.inclusive["statements"],
}
_AROUND: Mapping[str, Callable[[CallGraph, Mask], Mask]] = {
    "paths_to": lambda graph, chosen: graph.reached(np.flatnonzero(chosen).tolist(), reverse=True),
    "paths_from": lambda graph, chosen: graph.reached(np.flatnonzero(chosen).tolist()),
    "callers": lambda graph, chosen: graph.marked(graph.caller[chosen[graph.callee]]),
    "callees": lambda graph, chosen: graph.callees(chosen),
}


def select(graph: CallGraph, query: str) -> Mask:
    """Return shape (function,): what a query asks for.

    ``name("PATTERN", ...)`` and ``file("PATTERN", ...)`` match as shell patterns do, names also as linker symbols.
    ``paths_to(SET)`` and ``paths_from(SET)`` add callers and callees, direct or not; ``callers(SET)`` and
    ``callees(SET)`` are the direct ones alone. ``loops(N)`` are functions with loops nested at least that deep,
    ``statements(N)``, ``instructions(N)`` and ``branches(N)`` those of at least that size, and ``below(N)`` those
    that reach at least as many statements in all. ``all``, ``defined``, ``inline``, ``system``, ``main`` are sets.

    Raises
    ------
    UsageError
        On a mistake in the query, with its position.
    """
    try:
        return _Selection(graph, query).of(ast.parse(query.strip(), mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        offset = getattr(error, "offset", None)
        where = query if offset is None else f"{query}, character {offset}"
        raise UsageError("the query cannot be read", where=where, why=str(error).split(" (")[0]) from None


class _Selection:
    def __init__(self, graph: CallGraph, query: str) -> None:
        self.graph, self.query = graph, query

    def of(self, node: ast.expr) -> Mask:
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](self.of(left), self.of(right))
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return ~self.of(operand)
            case ast.Name(id=name) if name in _SETS:
                return _SETS[name](self.graph)
            case ast.Call(func=ast.Name(id=name), keywords=[]):
                return self.call(node, name)
        raise self.mistake(node, f"expected a set, a function of sets, or | & - ~; sets are {', '.join(_SETS)}")

    def call(self, node: ast.Call, name: str) -> Mask:
        graph = self.graph
        if name in _NAMED:
            patterns = [self.literal(argument, str, "a text in quotes") for argument in node.args]
            if name == "file":
                return graph.which(lambda each: any(matches(pattern, each.file) for pattern in patterns))
            return graph.marked(np.array(named_by_any(patterns, zip(graph.names, graph.symbols, strict=True)), int))
        functions = (*_NAMED, *_LARGE, *_AROUND)
        if name not in functions:
            raise self.mistake(node, f"there is no function {name!r}; there are {', '.join(functions)}")
        if len(node.args) != 1:
            raise self.mistake(node, f"{name} takes one argument")
        if name in _AROUND:
            return _AROUND[name](graph, self.of(node.args[0]))
        least: Mask = _LARGE[name](graph) >= self.literal(node.args[0], int, "a whole number")
        return least

    def literal(self, node: ast.expr, kind: type[_T], expected: str) -> _T:
        if isinstance(node, ast.Constant) and type(node.value) is kind:
            return node.value
        raise self.mistake(node, f"expected {expected}")

    def mistake(self, node: ast.expr, why: str) -> UsageError:
        return UsageError("mistake in the query", where=f"{self.query}, character {node.col_offset + 1}", why=why)
