"""Programs that campaigns really measure: the description of one, and public codes, of which there are checkouts.

Sizes are such that the largest run takes seconds, so that its work is most of it; P+ has twice the largest size.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from buran.assets import folder as assets

CHECKOUTS = "BURAN_CHECKOUTS"
"""Names a folder with checkouts of public codes in the environment."""
GRID = {"values": {"px": "grid3(p, 1)", "py": "grid3(p, 2)", "pz": "grid3(p, 3)"}}
PRK = "cp common/make.defs.gcc common/make.defs && make -C MPI1/"
CMAKE = "cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER={mpicxx} && cmake --build build"


def checkouts() -> Path:
    """Return where checkouts of public codes are."""
    return Path(os.environ.get(CHECKOUTS) or "checkouts").resolve()


@dataclass(frozen=True)
class Example:
    """A bundled example and what is measured of it.

    Attributes
    ----------
    name
        Of the program, and of the file that its build makes unless `further` names another.
    arguments
        ``{n}`` being its size.
    ranks, sizes
        All combinations are measured.
    target
        Ranks and size of P+.
    source
        Folder of the program; None for the bundled example.
    further
        Keys of its campaign.
    samples
        Whether Buran samples its accesses to memory, which takes a calibration of the machine.
    steps
        How often the program repeats its step, ``{s}`` in `arguments`; None where its arguments do not tell.
    """

    name: str
    build: str
    arguments: str
    ranks: tuple[int, ...]
    sizes: tuple[int, ...]
    target: tuple[int, int]
    repetitions: int = 3
    source: Path | None = None
    further: Mapping[str, Any] = field(default_factory=dict)
    samples: bool = False
    steps: int | None = None

    @property
    def folder(self) -> Path:
        """Folder of the sources; of public codes below that of checkouts."""
        return assets("examples") / self.name if self.source is None else checkouts() / self.source

    @property
    def is_simulated(self) -> bool:
        """Whether it runs on a simulated machine: there, waiting is no chance, and each call path is judged."""
        return "environments" in self.further

    @property
    def parameters(self) -> dict[str, Any]:
        """The campaign's parameters; a single number of ranks is none."""
        ranks = {"p": {"role": "ranks", "values": list(self.ranks)}} if len(self.ranks) > 1 else {}
        steps = {} if self.steps is None else {"s": {"role": "steps", "value": self.steps}}
        return {**ranks, "n": {"role": "size", "values": list(self.sizes)}, **steps}

    @property
    def with_all_steps(self) -> Example:
        """The program whose number of steps is no parameter."""
        return replace(self, arguments=self.arguments.replace("{s}", str(self.steps)), steps=None)

    @property
    def at(self) -> dict[str, int]:
        """P+."""
        point = dict(zip(("p", "n", "s"), (*self.target, self.steps or 0), strict=True))
        return {name: point[name] for name in self.parameters}


_RANKS = (1, 2)
PUBLIC = (
    Example(  # whose ranks make a cube
        "LULESH", CMAKE, "-s {n} -i {s}", (1,), (10, 14, 18, 22, 26), (1, 52), 5, Path("LULESH"),
        {"binary": "build/lulesh2.0"}, steps=200,
    ),
    Example(
        "HPCCG", "make LINKER={mpicxx} CXX={mpicxx} CC={mpicxx} USE_MPI=-DUSING_MPI", "{n} {n} {n}", _RANKS,
        (32, 40, 48, 56, 64), (2, 128), 5, Path("HPCCG"), {"binary": "test_HPCCG", "compiler": "gcc"},
    ),
    Example(
        "miniFE", "make -C src CXX={mpicxx} CC={mpicc}", "nx={=n * px} ny={=n * py} nz={=n * pz}", _RANKS,
        (20, 26, 32, 38, 44), (2, 88), 5, Path("miniFE/ref"), {"binary": "src/miniFE.x", **GRID},
    ),
    Example(
        "CoMD", "cd src-mpi && cp Makefile.vanilla Makefile && make CC={mpicc} OPTFLAGS='-O2 -g'",
        "-e -i {px} -j {py} -k {pz} -x {=n * px} -y {=n * py} -z {=n * pz} -N {s} -n {s} -d {build}/pots", _RANKS,
        (8, 10, 12, 14, 16), (2, 32), 5, Path("CoMD"), {"binary": "bin/CoMD-mpi", **GRID}, steps=30,
    ),
    Example(
        "PRK p2p", PRK + "Synch_p2p MPICC={mpicc} p2p", "{s} {n} {n}", _RANKS,
        (500, 700, 1000, 1400, 2000), (2, 4000), 5, Path("Kernels"), {"binary": "MPI1/Synch_p2p/p2p"}, steps=200,
    ),
    Example(
        "PRK Stencil", PRK + "Stencil MPICC={mpicc} stencil", "{s} {n}", _RANKS,
        (500, 700, 1000, 1400, 2000), (2, 4000), 5, Path("Kernels"), {"binary": "MPI1/Stencil/stencil"}, steps=200,
    ),
    Example(
        "PRK Transpose", PRK + "Transpose MPICC={mpicc} transpose", "{s} {n} 0", _RANKS,
        (512, 720, 1024, 1440, 2048), (2, 4096), 5, Path("Kernels"), {"binary": "MPI1/Transpose/transpose"}, steps=100,
    ),
)  # fmt: skip
