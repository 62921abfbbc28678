"""What a visit of an instrumented function costs on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from buran.errors import RunError
from buran.measurement.toolchain.installed import run_tool
from buran.measurement.toolchain.toolchain import Toolchain

_PROGRAM = """\
#include <stdio.h>
#include <time.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
__attribute__((noinline)) int visited(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
__attribute__((noinline)) int plain(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
int main(void) {
    double hooked = 1e9, bare = 1e9;
    for (int round = 0, since = 0; round < MOST && since < STABLE; round++) {
        double start = now();
        int n = 0;
        for (int i = 0; i < VISITS; i++) n = visited(n);
        double middle = now();
        for (int i = 0; i < VISITS; i++) n = plain(n);
        double end = now();
        printf("%.9g %.9g\\n", (middle - start) / VISITS, (end - middle) / VISITS);
        since = middle - start < 0.99 * hooked || end - middle < 0.99 * bare ? 0 : since + 1;
        if (middle - start < hooked) hooked = middle - start;
        if (end - middle < bare) bare = end - middle;
    }
    return 0;
}
"""
# Visits whose mean is the cost of one, in a round; rounds without a new minimum, by a percent, after which the least is
# taken for what a visit costs without disturbance; rounds in all. Load comes and goes within some rounds of 20 ms.
_SIZES = {"VISITS": 200_000, "STABLE": 12, "MOST": 100}
_FILTER = """\
SCOREP_REGION_NAMES_BEGIN
EXCLUDE *
INCLUDE MANGLED main visited
SCOREP_REGION_NAMES_END
"""
_WHAT = "the cost of instrumentation cannot be measured"


@dataclass(frozen=True)
class VisitCost:
    """What a visit of a function with hooks costs, in CPU time without the call itself.

    Attributes
    ----------
    seconds
        The least of all rounds with hooks, without the least of all rounds without.
    spread_s
        By how much more expensive the median round was: what other work on the machine adds.
    """

    seconds: float
    spread_s: float = 0.0


_measured: dict[str, VisitCost] = {}  # by the measurement system's identity, of this process


def cost_of_hooks(toolchain: Toolchain) -> VisitCost:
    """Return what a visit costs with the embedded backend's hooks; see `visit_cost`."""

    def build(filter_file: Path) -> dict[str, str]:
        described = filter_file.with_name("toolchain.json")
        described.write_text(toolchain.to_json(), encoding="utf-8")
        return {
            "BURAN_MODE": "time",
            "BURAN_TOOLCHAIN": str(described),
            "BURAN_FILTER": str(filter_file),
            "BURAN_WRAPPER": "",
        }

    def run(folder: Path) -> dict[str, str]:
        return {"BURAN_PROFILE_DIR": str(folder), "BURAN_COUNTERS": "", "BURAN_RUN_FILTER": ""}

    return visit_cost(toolchain.fingerprint, Path(sys.executable).parent / "buran-cc", build, run)


def visit_cost(
    identity: str, compiler: Path, build: Callable[[Path], Mapping[str, str]], run: Callable[[Path], Mapping[str, str]]
) -> VisitCost:
    """Measure what a visit costs, in rounds until none is cheaper than those before.

    Parameters
    ----------
    identity
        Identity of the measurement system: it is asked once in a process.
    compiler
        Wrapper that puts hooks into C programs.
    build, run
        Return environment variables for the build with a filter file, and for a run that leaves a profile in a folder.

    Raises
    ------
    ToolError, RunError
        The small program that measures it cannot be built, or says nothing sensible.
    """
    if identity in _measured:
        return _measured[identity]
    with tempfile.TemporaryDirectory(prefix="buran-hooks-") as name:
        folder = Path(name)
        (folder / "hooks.c").write_text(_PROGRAM, encoding="utf-8")
        (folder / "filter").write_text(_FILTER, encoding="utf-8")
        sizes = [f"-D{name}={size}" for name, size in _SIZES.items()]
        words: list[str | Path] = [compiler, "-O2", *sizes, folder / "hooks.c", "-o", folder / "hooks"]
        run_tool(words, what=_WHAT, env={**os.environ, **build(folder / "filter")})
        text = run_tool([folder / "hooks"], what=_WHAT, env={**os.environ, **run(folder)})
    hooked, bare = np.array([line.split() for line in text.splitlines()], dtype=np.float64).T
    cost = float(hooked.min() - bare.min())
    if not 0 < cost < 1e-4:
        raise RunError(_WHAT, why=f"{cost} s for a visit")
    _measured[identity] = VisitCost(cost, max(float(np.median(hooked - bare)) - cost, 0.0))
    return _measured[identity]
