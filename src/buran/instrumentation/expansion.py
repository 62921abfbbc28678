"""Functions that were never measured and might be kernels: found in the call graph, below those that are."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from buran.instrumentation.callgraph import CallGraph
from buran.instrumentation.prediction import Mask
from buran.instrumentation.verdicts import Verdicts
from buran.wording import counted


def unexplored_kernels(
    graph: CallGraph,
    symbols: Sequence[str],
    kernels: Mask,
    known: Verdicts,
    hooked: Collection[str],
    uncounted: Collection[str] = (),
) -> dict[str, str]:
    """Return linker symbols to try, with the reason.

    These are functions with loops of their own that kernels call, directly or through functions that were not
    measured either; also those of system headers, where templates have their loops. Nothing is tried twice.

    Parameters
    ----------
    symbols, kernels
        Of the measured regions.
    known
        What earlier iterations found out.
    hooked
        What had hooks, visited or not.
    uncounted
        What is not to be tried, as counts know nothing of it.
    """
    seen = {*symbols, *known, *hooked}
    new = graph.has_body & np.array([name not in seen for name in graph.symbols], dtype=bool)
    chosen = [name for name, kernel in zip(symbols, kernels, strict=True) if kernel]
    start = [at for name in chosen for at in graph.by_symbol.get(name, ())]
    reached = np.zeros(len(graph), dtype=bool)
    reached[start] = True
    waiting = reached.copy()
    while waiting.any():  # one step a level of functions that were not measured
        waiting = graph.callees(waiting) & new & ~reached
        reached |= waiting
    tried = np.array([name not in uncounted for name in graph.symbols], dtype=bool)
    promising = reached & new & tried & (graph.features["loops"] > 0)
    return {
        graph.symbols[
            i
        ]: f"never measured, {counted(int(graph.features['loops'][i]), 'loop')} below a function that matters"
        for i in np.flatnonzero(promising).tolist()
    }
