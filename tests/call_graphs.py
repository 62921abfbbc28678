"""Call graphs from columns instead of records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from buran.instrumentation.callgraph import CalledFunction, CallGraph


def graph_of(
    symbols: Sequence[str], edges: Iterable[tuple[int, int]] = (), features: Mapping[str, Sequence[int]] | None = None,
    **columns: Sequence[Any],
) -> CallGraph:  # fmt: skip
    """Return a graph of functions whose attributes stand in columns."""
    sizes = features or {}
    functions = [
        CalledFunction(
            symbol,
            **{name: values[i] for name, values in columns.items()},
            features={name: values[i] for name, values in sizes.items()},
        )
        for i, symbol in enumerate(symbols)
    ]
    return CallGraph.of(functions, edges)
