"""How long `buran simulate` takes: three parameters, 625 configurations, 40 kernels.

    python studies/benchmarks/simulate.py [--strategy design|full] [--budget 50]

`design` takes 5 repetitions, within the budget; `full` a single one at every point. Wall time depends on what else the
machine does, CPU time much less; it is that of all processes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from buran_studies.campaign.cases import Case, campaign, program

VALUES = {"p": (16, 32, 64, 128, 256), "n": (20, 40, 60, 80, 100), "m": tuple(range(10, 260, 10))}
# Programs are drawn for a case by its name.
CASE = Case("LULESH", VALUES, {"p": 4096, "n": 200, "m": 500}, 40, 1, 2.0, 0.02, 0.2)


def main() -> None:
    """Simulate, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strategy", choices=("design", "full"), default="design")
    parser.add_argument("--budget", type=float, default=50.0, help="core hours, for design")
    asked = parser.parse_args()
    full = asked.strategy == "full"
    changes = {"repetitions": 1, "effort_repetitions": 1, "warmup": False} if full else {"repetitions": 5}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "program.yaml").write_text(yaml.safe_dump(program(CASE, 1), sort_keys=False))
        file = folder / "campaign.yaml"
        file.write_text(yaml.safe_dump(campaign(CASE, 1, strategy={"name": asked.strategy}, **changes)))
        command = [sys.executable, "-m", "buran.cli", "simulate", str(file)]
        start = time.monotonic()
        done = subprocess.run(
            [*command, *([] if full else ["--budget", str(asked.budget)])], capture_output=True, text=True, check=True
        )
        wall_s = time.monotonic() - start
    used = os.times()
    print(done.stdout.split("models of time")[0])
    print(f"{wall_s:.0f} s, of it {used.children_user + used.children_system:.0f} s CPU")


if __name__ == "__main__":
    main()
