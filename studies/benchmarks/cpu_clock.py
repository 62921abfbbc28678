"""How far the clock of computation is from the kernel's account, on a machine with more programs than cores.

    python studies/benchmarks/cpu_clock.py [--programs 6] [--compiler gcc]

Each program asks the kernel for the CPU time of its thread before and after two functions: one with a million visits of
0.6 us below it, one with a hundred of 7 ms. All run at once; beside both clocks stands the wall-clock time.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.toolchain import environment_for
from buran.measurement.toolchain.wrappers import MPICC, translate

FUNCTIONS = ("often", "seldom")
SOURCE = """
#include <stdio.h>
#include <time.h>
#define NOINLINE __attribute__((noinline))
static double cpu(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
NOINLINE void work(long n) { volatile double s = 0; for (long i = 0; i < n; i++) s += 1.0 / (double)(i + 1); }
NOINLINE void often(void) { for (long i = 0; i < 1000000; i++) work(200); }
NOINLINE void seldom(void) { for (long i = 0; i < 100; i++) work(2000000); }
int main(void) {
    double begin = cpu(); often();
    double middle = cpu(); seldom();
    printf("%.6f %.6f\\n", middle - begin, cpu() - middle);
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=6, help="that run at once (default 6)")
    parser.add_argument("--compiler", default="auto", help="auto, clang, gcc, or a path")
    arguments = parser.parse_args()
    tools = find_toolchain(compiler=arguments.compiler)
    with tempfile.TemporaryDirectory() as name:
        folder, binary = Path(name), Path(name) / "clocks"
        (folder / "clocks.c").write_text(SOURCE)
        rules = folder / "filter"
        rules.write_text("SCOREP_REGION_NAMES_BEGIN\nINCLUDE *\nSCOREP_REGION_NAMES_END\n")
        words = ["-O1", str(folder / "clocks.c"), "-o", str(binary)]
        command = translate(words, wrapper=MPICC, mode="time", toolchain=tools, filter_file=str(rules))
        environment = {**os.environ, **environment_for(tools, "time"), "BURAN_FILTER": str(rules)}
        subprocess.run(command, env=environment, check=True)
        profiles = [folder / f"run-{number}" for number in range(arguments.programs)]
        running = [
            subprocess.Popen(
                [binary], env={**os.environ, "BURAN_PROFILE_DIR": str(profile)}, stdout=subprocess.PIPE, text=True
            )
            for profile in profiles
        ]
        print(f"{'':8}{'kernel, s':>12}{'clock, s':>12}{'error':>10}{'wall, s':>10}")
        for profile, program in zip(profiles, running, strict=True):
            said = program.communicate()[0].split()
            measured = read_dumps(profile, 1)
            for function, kernel_s in zip(FUNCTIONS, map(float, said), strict=True):
                row = next(i for i, path in enumerate(measured.tree.names) if path.endswith(f"->{function}"))
                clock_s, wall_s = (float(measured.values[metric][row, 0]) for metric in ("time", "wall_time"))
                error = 100 * (clock_s / kernel_s - 1)
                print(f"{function:8}{kernel_s:12.4f}{clock_s:12.4f}{error:9.3f} %{wall_s:10.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
