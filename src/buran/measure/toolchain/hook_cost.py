"""What a visit of an instrumented function costs on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from buran.errors import RunError
from buran.measure.toolchain.tool import run_tool
from buran.measure.toolchain.toolchain import Toolchain

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
    for (int round = 0; round < 9; round++) {
        double start = now();
        int n = 0;
        for (int i = 0; i < VISITS; i++) n = visited(n);
        double middle = now();
        for (int i = 0; i < VISITS; i++) n = plain(n);
        double end = now();
        if (middle - start < hooked) hooked = middle - start;
        if (end - middle < bare) bare = end - middle;
    }
    printf("%.12g\\n", (hooked - bare) / VISITS);
    return 0;
}
"""
_VISITS = 200_000  # that the cost of one is the mean of
_FILTER = """\
SCOREP_REGION_NAMES_BEGIN
EXCLUDE *
INCLUDE MANGLED main visited
SCOREP_REGION_NAMES_END
"""
_WHAT = "the cost of hooks cannot be measured"
_measured: dict[str, float] = {}  # by the measurement system's identity, of this process


def hook_cost_s(toolchain: Toolchain) -> float:
    """Return what a visit costs with the embedded backend's hooks, in seconds; see `visit_cost_s`."""

    def build(filter_file: Path) -> dict[str, str]:
        described = filter_file.with_name("toolchain.json")
        described.write_text(toolchain.to_json())
        return {
            "BURAN_MODE": "time",
            "BURAN_TOOLCHAIN": str(described),
            "BURAN_FILTER": str(filter_file),
            "BURAN_WRAPPER": "",
        }

    def run(folder: Path) -> dict[str, str]:
        return {"BURAN_PROFILE_DIR": str(folder), "BURAN_COUNTERS": "", "BURAN_RUN_FILTER": ""}

    return visit_cost_s(toolchain.fingerprint, Path(sys.executable).parent / "buran-cc", build, run)


def visit_cost_s(
    identity: str, compiler: Path, build: Callable[[Path], Mapping[str, str]], run: Callable[[Path], Mapping[str, str]]
) -> float:
    """Return the CPU time of one visit in seconds: the least of a few rounds, without the call itself.

    Parameters
    ----------
    identity
        Of the measurement system: it is asked once in a process.
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
        (folder / "hooks.c").write_text(_PROGRAM)
        (folder / "filter").write_text(_FILTER)
        words: list[str | Path] = [compiler, "-O2", f"-DVISITS={_VISITS}", folder / "hooks.c", "-o", folder / "hooks"]
        run_tool(words, what=_WHAT, env={**os.environ, **build(folder / "filter")})
        text = run_tool([folder / "hooks"], what=_WHAT, env={**os.environ, **run(folder)})
    cost = float(text)
    if not 0 < cost < 1e-4:
        raise RunError(_WHAT, why=f"{cost} s for a visit")
    _measured[identity] = cost
    return cost
