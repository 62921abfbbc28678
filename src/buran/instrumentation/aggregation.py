"""Choosing functions before anything was measured: sizes added up over everything a function can reach.

The rule is that of PIRA (Section V-B of the PIRA II paper, and the first paper on it): the more statements lie below a
function, each counted once, the likelier it matters.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from buran.errors import UsageError
from buran.instrumentation.callgraph import CallGraph, Ids, Mask

Size = Literal["statements", "instructions", "branches", "loops"]
Cut = Literal["unique_median", "median", "half_of_largest"]
CUTS: tuple[Cut, ...] = get_args(Cut)


def threshold(sizes: Ids, cut: Cut | int) -> int:
    """Return the least aggregated size that is worth a measurement.

    Parameters
    ----------
    sizes
        Aggregated sizes of the functions in question.
    cut
        ``unique_median``: upper median of the distinct sizes. ``median``: upper median of all. ``half_of_largest``.
        Or the threshold itself.
    """
    if isinstance(cut, int):
        return cut
    if not len(sizes):
        return 0
    if cut == "half_of_largest":
        return int(sizes.max()) // 2
    ordered = np.unique(sizes) if cut == "unique_median" else np.sort(sizes)
    return int(ordered[len(ordered) // 2])


def initial_selection(graph: CallGraph, by: Size = "statements", cut: Cut | int = "unique_median") -> Mask:
    """Return shape (function,): functions below ``main`` whose aggregated size reaches the threshold.

    Callers of a selected function are selected too: what they reach is never smaller.

    Raises
    ------
    UsageError
        The sizes are not known, or there is no single main function.
    """
    if not (graph.features[by] >= 0).any():
        raise UsageError(
            f"the call graph has no {by} of any function",
            hint="compile with line tables (-g), or choose another size" if by == "statements" else "choose another",
        )
    below = graph.reached([graph.main])
    sizes = graph.inclusive[by]
    least = threshold(sizes[below], cut)
    return below & (sizes >= least) & (graph.has_body | (sizes > 0))
