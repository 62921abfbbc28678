"""Cost models of collective operations, held against the operations as four MPIs carry them out, message by message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.point import Point
from buran.features import known_mpi
from buran.modeling.functions.terms import Array, ModelFunction, power
from buran.modeling.numerics.least_squares import nonnegative
from buran.modeling.priors.communication import OPERATIONS
from buran.modeling.priors.effort import effort_of
from buran.modeling.priors.prior import KnownMpi, communication_prior
from buran.modeling.priors.waiting import others_pay
from buran_studies.machine.laboratory import bench_for

FLAVOURS = ("ompi", "mpich", "mvapich2", "impi")
FAILING = frozenset({("impi", 8)})  # SimGrid 3.32 ends in MPI_Bcast, with MPI_ERR_TRUNCATE
BYTES = (8, 64, 512, 4096, 32768)
_OPERATIONS: Mapping[str, str] = {
    "MPI_Bcast": "from, bytes, MPI_CHAR, 0",
    "MPI_Reduce": "from, to, bytes / 8, MPI_DOUBLE, MPI_SUM, 0",
    "MPI_Allreduce": "from, to, bytes / 8, MPI_DOUBLE, MPI_SUM",
    "MPI_Scatter": "from, bytes, MPI_CHAR, to, bytes, MPI_CHAR, 0",
    "MPI_Gather": "from, bytes, MPI_CHAR, to, bytes, MPI_CHAR, 0",
    "MPI_Allgather": "from, bytes, MPI_CHAR, to, bytes, MPI_CHAR",
    "MPI_Alltoall": "from, bytes, MPI_CHAR, to, bytes, MPI_CHAR",
    "MPI_Reduce_scatter_block": "from, to, bytes / 8, MPI_DOUBLE, MPI_SUM",
    "MPI_Scan": "from, to, bytes / 8, MPI_DOUBLE, MPI_SUM",
}
"""Arguments but the communicator; all of the same message size."""
_CALLS = 2
_MEETING_S = 1e-2  # longer than any operation takes to end in all ranks
# A second set of coefficients counts as a switch where it leaves less than this share of an error above that limit.
_HALF, _SMALL = 0.5, 0.1

_NOTHING = ModelFunction(0.0)
_Rows = Mapping[str, NDArray[np.float64]]  # of one operation, by quantity: shape (run,)


def program() -> str:
    """Return a program in which each operation has a call path for each size of a message."""
    calls = "\n".join(
        f"        meet(); {name}({arguments}, MPI_COMM_WORLD);" for name, arguments in _OPERATIONS.items()
    )
    sizes = "\n".join(f"static __attribute__((noinline)) void bytes_{size}(void) {{ all({size}); }}" for size in BYTES)
    return f"""#include <mpi.h>
#include <stdlib.h>
#include <time.h>
static char *from, *to;
/* A barrier lets ranks go one after the other, and the first would wait for the last in the operation. */
static __attribute__((noinline)) void meet(void) {{
    double now = MPI_Wtime(), latest;
    MPI_Allreduce(&now, &latest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    double left = latest + {_MEETING_S} - MPI_Wtime(); /* the simulated clock is one for all ranks */
    if (left > 0) {{
        struct timespec rest = {{(time_t)left, (long)(1e9 * (left - (time_t)left))}};
        nanosleep(&rest, NULL);
        MPI_Wtime(); /* what is slept is told at the next call */
    }}
}}
static inline __attribute__((always_inline)) void all(int bytes) {{
    for (int call = 0; call < {_CALLS}; call++) {{
{calls}
    }}
}}
{sizes}
int main(int argc, char **argv) {{
    int ranks;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    from = calloc(ranks, {BYTES[-1]});
    to = calloc(ranks, {BYTES[-1]});
    all(8); /* the first time, SimGrid sorts ranks by nodes */
    {" ".join(f"bytes_{size}();" for size in BYTES)}
    MPI_Finalize();
    return 0;
}}
"""


def executed(
    machine: Mapping[str, Any], flavour: str, ranks: Sequence[int], folder: Path
) -> tuple[dict[str, _Rows], KnownMpi | None]:
    """Run the program with the collectives of an MPI; return times and bytes, means over ranks, by operation.

    Beside them, what the machine tells of that MPI.
    """
    source = folder / "collectives"
    source.mkdir()
    (source / "collectives.c").write_text(program())
    keys = {
        "name": "collectives",
        "program": {
            "source": str(source),
            "build": "{mpicc} -O2 collectives.c -o collectives",
            "binary": "collectives",
            "run": "{binary}",
        },
        "environments": {"there": {"machine": {**machine, "collectives": flavour}}},
        "parameters": {"p": {"role": "ranks", "values": [*ranks]}},
    }
    bench = bench_for(keys, folder)
    rows: dict[str, list[dict[str, float]]] = {name: [] for name in _OPERATIONS}
    for p in ranks:
        profile, _ = bench.run_at(Point.of({"p": p}))
        places = {name.partition("->")[2]: at for at, name in enumerate(profile.tree.names)}
        metrics = {name: profile.exclusive(name) for name in ("time", "visits", "bytes_sent", "bytes_received")}
        for operation in _OPERATIONS:
            for size in BYTES:
                at = places[f"main->bytes_{size}->{operation}"]
                row = {name: float(values[at].mean()) for name, values in metrics.items()}
                rows[operation].append({"p": p, "bytes": size, **row})
    told: dict[str, _Rows] = {
        name: {key: np.array([row[key] for row in of]) for key in of[0]} for name, of in rows.items()
    }
    return told, known_mpi(bench.campaign)


def judged(operation: str, rows: _Rows, mpi: KnownMpi | None = None) -> dict[str, Any]:
    """Return how far the cost model is off: fitted to all runs, and at the most ranks from those with fewer.

    Coefficients are never negative, relative errors are made small, and other algorithms take part where they pay, as
    in priors. Errors are medians and maxima; `unknown` is what is left at the most ranks where nobody knows which MPI
    it is. A switch is the size of messages from which on other coefficients explain the times much better.
    """
    points, seconds = np.stack([rows["p"], rows["bytes"]], axis=1), rows["time"]
    designs = _designs(operation, rows, points, mpi)
    error = _errors(designs, seconds, np.ones(len(seconds), dtype=bool))
    fewer = rows["p"] < rows["p"].max()
    beyond = _errors(designs, seconds, fewer)[~fewer]
    unknown = _errors(_designs(operation, rows, points, None), seconds, fewer)[~fewer]
    choices = []
    for size in BYTES[1:-1]:
        large = rows["bytes"] >= size
        both = np.where(large, _errors(designs, seconds, large), _errors(designs, seconds, ~large))
        choices.append((float(np.median(both)), size))
    split, size = min(choices)
    middle = float(np.median(error))
    switches = middle > _SMALL and split < _HALF * middle
    return {
        "operation": operation,
        "error": middle,
        "worst": float(error.max()),
        "beyond": float(np.median(beyond)),
        "unknown": float(np.median(unknown)),
        "split": split,
        "switch_bytes": size if switches else None,
    }


def _designs(operation: str, rows: _Rows, points: Array, mpi: KnownMpi | None) -> tuple[Array, Array]:
    """Return the summands of the prior, shape (run, part), and with those of other algorithms."""
    counts = np.stack([rows[name] for name in ("visits", "bytes_sent", "bytes_received")])
    visits, sent, received = (function or _NOTHING for function in effort_of(points, counts).functions)
    model, ranks = OPERATIONS[operation], power(0, 1)
    prior = communication_prior(
        model, name=operation, visits=visits, size=ranks, sent=sent, received=received, mpi=mpi, parameters=("p", "n")
    )
    return prior.design(points), prior.widened.design(points)


def _errors(designs: tuple[Array, Array], seconds: Array, fitted: NDArray[np.bool_]) -> Array:
    """Fit some runs; return the relative errors of all. Columns of other algorithms must pay."""
    usual, wide = designs
    pays = others_pay(usual[fitted], wide[fitted], seconds[None, fitted])
    relative = (wide if pays.all() else usual) / seconds[:, None]
    coefficients = nonnegative(relative[fitted], np.ones(int(fitted.sum())))
    return np.abs(relative @ coefficients - 1.0)
