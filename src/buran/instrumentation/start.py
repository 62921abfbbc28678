"""The filter that a campaign starts with, before anything was measured."""

from __future__ import annotations

from typing import Literal

import numpy as np

from buran.instrumentation.aggregation import Cut, Size, initial_selection
from buran.instrumentation.callgraph import CallGraph
from buran.instrumentation.filter_file import Filter, Rule, format_filter, only

Start = Literal["default", "everything", "statements", "instructions", "branches", "loops"]
EVERY = ("*", "?*")
EVERYTHING = format_filter(Filter(regions=tuple(Rule(True, pattern) for pattern in EVERY)))
"""Every function; the second rule is for Score-P, whose plugin skips inline functions that only ``*`` lets through."""


def start_filter(start: Start, graph: CallGraph | None, cut: Cut | int = "unique_median") -> str:
    """Return the rules of the first filter; empty for the backend's own choice.

    Parameters
    ----------
    graph
        Call graph of the program; needed for all but ``default`` and ``everything``.
    cut
        Threshold of the aggregated size, see `threshold`.
    """
    if start == "default":
        return ""
    if start == "everything":
        return EVERYTHING
    assert graph is not None
    size: Size = start
    chosen = np.flatnonzero(initial_selection(graph, size, cut) & graph.has_body)
    return format_filter(only({graph.symbols[i] for i in chosen.tolist()} | {graph.symbols[graph.main]}))
