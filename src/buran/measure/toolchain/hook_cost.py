"""What a visit of an instrumented function costs on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
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
_VISITS = 200_000
_known: dict[str, float] = {}  # by the toolchain's fingerprint, of this process


def hook_cost_s(toolchain: Toolchain) -> float:
    """Return the time of one visit in seconds: the least of a few rounds, without the call itself.

    Raises
    ------
    ToolError, RunError
        The small program that measures it cannot be built, or says nothing sensible.
    """
    if toolchain.fingerprint in _known:
        return _known[toolchain.fingerprint]
    with tempfile.TemporaryDirectory(prefix="buran-hooks-") as name:
        folder = Path(name)
        (folder / "hooks.c").write_text(_PROGRAM)
        (folder / "toolchain.json").write_text(toolchain.to_json())
        rules = "EXCLUDE *\nINCLUDE MANGLED main visited"
        (folder / "filter").write_text(f"SCOREP_REGION_NAMES_BEGIN\n{rules}\nSCOREP_REGION_NAMES_END\n")
        build = {
            "BURAN_MODE": "time",
            "BURAN_TOOLCHAIN": str(folder / "toolchain.json"),
            "BURAN_FILTER": str(folder / "filter"),
            "BURAN_WRAPPER": "",
        }
        compiler = Path(sys.executable).parent / "buran-cc"
        what = "the cost of hooks cannot be measured"
        words: list[str | Path] = [compiler, "-O2", f"-DVISITS={_VISITS}", folder / "hooks.c", "-o", folder / "hooks"]
        run_tool(words, what=what, env={**os.environ, **build})
        run = {"BURAN_PROFILE_DIR": str(folder), "BURAN_COUNTERS": "", "BURAN_RUN_FILTER": ""}
        text = run_tool([folder / "hooks"], what=what, env={**os.environ, **run})
    cost = float(text)
    if not 0 < cost < 1e-4:
        raise RunError(what, why=f"{cost} s for a visit")
    _known[toolchain.fingerprint] = cost
    return cost
