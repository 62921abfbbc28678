"""What one visit of a measured function costs: nanoseconds of CPU time for one enter and exit.

    python studies/benchmarks/hook_cost.py [--visits 2000000] [--compiler auto] [--json FILE]

Calls the hooks in a loop, as instrumented code does (hook_cost.c): always the same function; 4 or 32 in turn; 16 that
call each other; 32 or 1000 at random. The least of 7 rounds counts. Two thirds of the price or more are two readings of
the clock, which the line `clock` gives alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from buran.measurement.toolchain.runtime import NATIVE, find_toolchain
from buran.measurement.toolchain.toolchain import flags_for_linking

SOURCE = Path(__file__).with_name("hook_cost.c")


def cost(binary: Path, visits: int, clock: str) -> dict[str, float]:
    """Return nanoseconds by pattern of calls."""
    environment = {**os.environ, "BURAN_CLOCK": clock, "BURAN_PROFILE_DIR": ""}
    done = subprocess.run([str(binary), str(visits)], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visits", type=int, default=2_000_000, help="visits in a round (default 2000000)")
    parser.add_argument("--compiler", default="auto", help="auto, clang, gcc, or a path")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    tools = find_toolchain(compiler=arguments.compiler)
    with tempfile.TemporaryDirectory() as folder:
        binary = Path(folder) / "hook_cost"
        command = [tools.mpicc, "-O2", f"-I{NATIVE}", str(SOURCE), "-o", str(binary), *tools.objects["effort"]]
        subprocess.run([*command, *flags_for_linking(tools, "effort")], check=True)
        figures = {clock: cost(binary, arguments.visits, clock) for clock in ("counter", "system")}
    print(f"{'ns a visit':<16}" + "".join(f"{clock:>10}" for clock in figures))
    for name in figures["counter"]:
        print(f"{name:<16}" + "".join(f"{values[name]:>10.1f}" for values in figures.values()))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
