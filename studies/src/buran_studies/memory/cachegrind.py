"""References to memory and simulated misses of a program, by function, as valgrind's cachegrind counts them."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from buran.campaign.launcher import Placement, launch
from buran.errors import FormatError, RunError, ToolError
from buran_studies.priors.runs import Workshop

_TIME_LIMIT_S = 600


@dataclass(frozen=True)
class References:
    """Of a function: reads and writes of data, how many miss the first and the last simulated cache; instructions."""

    reads: int = 0
    writes: int = 0
    misses: tuple[int, int] = (0, 0)
    instructions: int = 0

    @property
    def all(self) -> int:
        """Reads and writes."""
        return self.reads + self.writes


def references_of(command: Sequence[str], workshop: Workshop, caches: Sequence[str] = ()) -> dict[str, References]:
    """Run a program under cachegrind; return what functions, without their parameters, refer to.

    Parameters
    ----------
    caches
        Options of cachegrind that describe the caches.

    Raises
    ------
    ToolError
        There is no valgrind.
    RunError
        The program fails under it.
    """
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise ToolError("valgrind is not in PATH", hint="apt install valgrind")
    out = workshop.folder / "cachegrind.out"
    started = launch(
        workshop.backend.mpi_flavour,
        [valgrind, "--tool=cachegrind", "--cache-sim=yes", *caches, f"--cachegrind-out-file={out}", *command],
        Placement(1),
        program=workshop.backend.mpiexec,
        oversubscribe=False,
        as_root=os.geteuid() == 0,
    )
    environment = {**os.environ, **started.variables}
    done = subprocess.run(
        started.argv,
        cwd=workshop.folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=_TIME_LIMIT_S,
        check=False,
    )
    if done.returncode:
        raise RunError("a program fails under valgrind", where=command[0], why=done.stderr[-500:])
    return read_cachegrind(out.read_text(encoding="utf-8"), out)


def read_cachegrind(text: str, where: Path | str = "cachegrind's file") -> dict[str, References]:
    """Return references of data by function; raise `FormatError` for anything else than cachegrind's file."""
    events: list[str] = []
    found: dict[str, References] = {}
    function = ""
    for line in text.splitlines():
        key, _, rest = line.partition("=") if line[:3] == "fn=" else line.partition(": ")
        if key == "events":
            events = rest.split()
        elif key == "fn":
            function = rest.split("(")[0]
        elif line[:1].isdigit() and {"Dr", "Dw"} <= set(events):
            numbers = dict(zip(events, map(int, line.split()[1:]), strict=False))
            one = [numbers.get(name, 0) for name in ("Dr", "Dw", "D1mr", "D1mw", "DLmr", "DLmw")]
            before = found.get(function, References())
            first, last = before.misses[0] + one[2] + one[3], before.misses[1] + one[4] + one[5]
            executed = before.instructions + numbers.get("Ir", 0)
            found[function] = References(before.reads + one[0], before.writes + one[1], (first, last), executed)
    if not found:
        raise FormatError("this file has no reads and writes of functions", where=where)
    return found
