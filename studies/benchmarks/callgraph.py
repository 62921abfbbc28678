"""How long call graphs take: condensing, adding up everything reachable, paths.

    python studies/benchmarks/callgraph.py [--functions 100000] [--calls 300000] [--seed 1]

Graphs: `near` calls mostly functions close by, with 2000 calls back that close cycles; `far` calls any function behind;
`cyclic` calls any function at all; `chain` is one path through all. CPU time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

import numpy as np

from buran.instrumentation.callgraph import CalledFunction, CallGraph


def graph_of(kind: str, functions: int, calls: int, seed: int) -> CallGraph:
    """Return a graph with random sizes of functions."""
    rng = np.random.default_rng(seed)
    caller = rng.integers(0, functions - 1, calls)
    if kind == "chain":
        caller = np.arange(functions - 1)
        callee = caller + 1
    elif kind == "cyclic":
        callee = rng.integers(0, functions, calls)
    elif kind == "far":
        callee = caller + 1 + (rng.random(calls) * (functions - 1 - caller)).astype(np.int64)
    else:
        callee = np.minimum(functions - 1, caller + rng.geometric(50 / functions, calls))
        back = rng.integers(0, functions, 2000)
        caller = np.concatenate([caller, back])
        callee = np.concatenate([callee, np.maximum(0, back - rng.integers(0, 50, 2000))])
    edges = zip(caller.tolist(), callee.tolist(), strict=True)
    sizes = rng.integers(0, 50, functions).tolist()
    return CallGraph.of((CalledFunction(f"f{i}", features={"statements": size}) for i, size in enumerate(sizes)), edges)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print one line a graph."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=300_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args(arguments)
    print(f"{'graph':<8}{'make':>9}{'condense':>10}{'add up':>9}{'paths':>9}   CPU seconds")
    for kind in ("near", "far", "cyclic", "chain"):
        times = [time.process_time()]
        graph = graph_of(kind, options.functions, options.calls, options.seed)
        times.append(time.process_time())
        _ = graph.components
        times.append(time.process_time())
        _ = graph.inclusive
        times.append(time.process_time())
        graph.on_paths([0], [len(graph) - 1])
        times.append(time.process_time())
        make, condense, add, paths = np.diff(times)
        print(f"{kind:<8}{make:>9.2f}{condense:>10.2f}{add:>9.2f}{paths:>9.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
