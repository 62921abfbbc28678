"""Examples and public codes, really executed on simulated machines: the loop against the manual way.

Ranks and sizes are small, so that a run takes seconds; P+ has four times the largest number of ranks, 256 (LULESH,
whose ranks make a cube, 512 for 125), and twice the largest size. Sizes are those of one rank.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buran_studies.campaign.measured import EXAMPLES as BUNDLED
from buran_studies.campaign.public import CMAKE, GRID, PRK, Example, checkouts

SHARES = (0.1, 1.0)
"""Budgets of Buran, over what the manual way costs."""
_SQUARES, _CUBES, _TWOS = (4, 9, 16, 36, 64), (1, 8, 27, 64, 125), (4, 8, 16, 32, 64)

CODES: Mapping[str, Example] = {
    code.name: code
    for code in (
        Example("sweep", BUNDLED["sweep"].build, "{n} 8", _SQUARES, (4, 6, 8, 10, 12), (256, 24), 1),
        Example("stencil", BUNDLED["stencil"].build, "{n} 5", _TWOS, (8, 10, 12, 14, 16), (256, 32), 1),
        Example(  # all ranks exchange with all others, which takes long to simulate
            "treesort", BUNDLED["treesort"].build, "{n}", (1, 2, 4, 8, 16), (1000, 2000, 3000, 4000, 5000),
            (64, 10000), 1,
        ),
        Example(
            "LULESH", CMAKE, "-s {n} -i 5", _CUBES, (3, 4, 5, 6, 7), (512, 14), 1, Path("LULESH"),
            {"binary": "build/lulesh2.0"},
        ),
        Example(
            "HPCCG", "make LINKER={mpicxx} CXX={mpicxx} CC={mpicxx} USE_MPI=-DUSING_MPI", "{n} {n} {n}",
            _TWOS, (3, 4, 5, 6, 7), (256, 14), 1, Path("HPCCG"), {"binary": "test_HPCCG", "compiler": "gcc"},
        ),
        Example(
            "miniFE", "make -C src CXX={mpicxx} CC={mpicc}", "nx={=n * px} ny={=n * py} nz={=n * pz}",
            _TWOS, (3, 4, 5, 6, 7), (256, 14), 1, Path("miniFE/ref"), {"binary": "src/miniFE.x", **GRID},
        ),
        Example(
            "CoMD", "cd src-mpi && cp Makefile.vanilla Makefile && make CC={mpicc} OPTFLAGS='-O2 -g'",
            "-e -i {px} -j {py} -k {pz} -x {=n * px} -y {=n * py} -z {=n * pz} -N 5 -n 5 -d {build}/pots",
            _TWOS, (4, 5, 6, 7, 8), (256, 16), 1, Path("CoMD"), {"binary": "bin/CoMD-mpi", **GRID},
        ),
        Example(  # lines of a grid, one rank after the other
            "PRK p2p", PRK + "Synch_p2p MPICC={mpicc} p2p",
            "3 {=n * p} {n}", _TWOS, (32, 48, 64, 80, 96), (256, 192), 1, Path("Kernels"),
            {"binary": "MPI1/Synch_p2p/p2p"},
        ),
        Example(
            "PRK Stencil", PRK + "Stencil MPICC={mpicc} stencil",
            "3 {=n * sqrt(p)}", _SQUARES, (16, 24, 32, 40, 48), (256, 96), 1, Path("Kernels"),
            {"binary": "MPI1/Stencil/stencil"},
        ),
        Example(  # blocks of n x n, from each rank to each other
            "PRK Transpose", PRK + "Transpose MPICC={mpicc} transpose",
            "3 {=n * p} 0", _TWOS, (8, 12, 16, 20, 24), (256, 48), 1, Path("Kernels"),
            {"binary": "MPI1/Transpose/transpose"},
        ),
    )
}  # fmt: skip


def available() -> tuple[str, ...]:
    """Return the names of the codes that are here: bundled examples, and checkouts."""
    return tuple(name for name, code in CODES.items() if code.source is None or (checkouts() / code.source).is_dir())


def on(machine: Mapping[str, Any], name: str) -> Example:
    """Return a code on a simulated machine."""
    code = CODES[name]
    environments = {"simulated": {"machine": dict(machine)}}
    # A run without hooks costs as much as one with them, and tells nothing of a simulated machine.
    further = {**code.further, "environments": environments, "effort_repetitions": 1}
    source = code.source and checkouts() / code.source
    return Example(
        code.name, code.build, code.arguments, code.ranks, code.sizes, code.target, code.repetitions, source, further
    )
