"""Queries for functions of a call graph, as in ``paths_to(name("MPI_*")) & loops(1) - inline``.

The text is parsed with `ast` and never evaluated by Python. ``|`` unites, ``&`` intersects, ``-`` takes away, ``~`` is
everything else.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import numpy as np

from buran.errors import UsageError
from buran.instrumentation.callgraph import CallGraph, Mask
from buran.instrumentation.pattern import matches, named_by_any

_LONGEST = 10_000
_DEEPEST = 100
_SETS: Mapping[str, Callable[[CallGraph], Mask]] = {
    "all": lambda graph: np.ones(len(graph), dtype=bool),
    "inline": lambda graph: graph.which(lambda each: each.inline),
    "system": lambda graph: graph.which(lambda each: each.system),
    "defined": lambda graph: graph.has_body,
    "main": lambda graph: np.arange(len(graph)) == graph.main,
}
_LEAST = {"loops": "loop_depth", "statements": "statements", "instructions": "instructions", "branches": "branches"}


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
        On a mistake in the query, with its place.
    """
    if len(query) > _LONGEST:
        raise UsageError("the query is too long", why=f"more than {_LONGEST} characters")
    try:
        tree = ast.parse(query.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        offset = getattr(error, "offset", None)
        where = query if offset is None else f"{query}, character {offset}"
        raise UsageError("the query cannot be read", where=where, why=str(error).split(" (")[0]) from None
    return _Selection(graph, query).of(tree, 0)


class _Selection:
    def __init__(self, graph: CallGraph, query: str) -> None:
        self.graph, self.query = graph, query

    def of(self, node: ast.expr, depth: int) -> Mask:
        if depth > _DEEPEST:
            raise self.mistake(node, "it is nested too deeply")
        if isinstance(node, ast.BinOp):
            left, right = self.of(node.left, depth + 1), self.of(node.right, depth + 1)
            if isinstance(node.op, ast.BitOr):
                return left | right
            if isinstance(node.op, ast.BitAnd):
                return left & right
            if isinstance(node.op, ast.Sub):
                return left & ~right
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            return ~self.of(node.operand, depth + 1)
        elif isinstance(node, ast.Name) and node.id in _SETS:
            return _SETS[node.id](self.graph)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
            return self.call(node, node.func.id, depth)
        raise self.mistake(node, f"expected a set, a function of sets, or | & - ~; sets are {', '.join(_SETS)}")

    def call(self, node: ast.Call, name: str, depth: int) -> Mask:
        graph = self.graph
        if name in ("name", "file"):
            patterns = [self.text(argument) for argument in node.args]
            if name == "file":
                return graph.which(lambda each: any(matches(pattern, each.file) for pattern in patterns))
            return graph.marked(named_by_any(patterns, zip(graph.names, graph.symbols, strict=True)))
        if len(node.args) != 1:
            raise self.mistake(node, f"{name} takes one argument")
        if name in _LEAST:
            least: Mask = graph.features[_LEAST[name]] >= self.number(node.args[0])
            return least
        if name == "below":
            reach: Mask = graph.inclusive["statements"] >= self.number(node.args[0])
            return reach
        if name in ("paths_to", "paths_from", "callers", "callees"):
            start = self.of(node.args[0], depth + 1)
            if name == "callees":
                return graph.callees(start)
            if name == "callers":
                out = np.zeros(len(graph), dtype=bool)
                out[graph.caller[start[graph.callee]]] = True
                return out
            return graph.reached(np.flatnonzero(start).tolist(), reverse=name == "paths_to")
        functions = ["name", "file", *_LEAST, "below", "paths_to", "paths_from", "callers", "callees"]
        raise self.mistake(node, f"there is no function {name!r}; there are {', '.join(functions)}")

    def text(self, node: ast.expr) -> str:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        raise self.mistake(node, "expected a text in quotes")

    def number(self, node: ast.expr) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            return node.value
        raise self.mistake(node, "expected a whole number")

    def mistake(self, node: ast.expr, why: str) -> UsageError:
        return UsageError("mistake in the query", where=f"{self.query}, character {node.col_offset + 1}", why=why)
