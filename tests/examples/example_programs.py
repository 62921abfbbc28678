"""Where the example programs are and how a test starts them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

from patience import PATIENCE_S

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = ("stencil", "sweep", "treesort")
COUNTED = ("bodies", *NAMES)  # `bodies` is short: it neither tests itself nor its arguments

Run = Callable[..., subprocess.CompletedProcess[str]]


@cache
def launcher() -> tuple[str, ...]:
    """Return the MPI launcher with what it needs to start more ranks than cores."""
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True, check=False)
    return ("mpirun", "--oversubscribe") if "Open MPI" in version.stdout else ("mpirun",)


def launch(binary: Path, ranks: int | None, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run an MPI program on this machine; without a launcher if `ranks` is None."""
    allowed = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    start = () if ranks is None else (*launcher(), "-n", str(ranks))
    return subprocess.run(
        [*start, str(binary), *map(str, arguments)],
        env={**os.environ, **allowed, **environment},
        cwd=binary.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
