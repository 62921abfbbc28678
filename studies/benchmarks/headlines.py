"""The demo's first answer, over and over: ``python studies/benchmarks/headlines.py [RUNS [BUSY]]``.

Each of RUNS campaigns measures the bundled demo anew in a folder of its own; beside the last half of them BUSY
processes keep the cores busy. Printed are the headline, the run time at the target and how far off the evaluation
point is; in the end, how many different headlines there were.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

BURAN = [sys.executable, "-m", "buran.cli"]
SPIN = [sys.executable, "-c", "while True: pass"]


def campaign(folder: Path) -> tuple[str, str, float, float]:
    """Return the headline, the answer to how sure it is, the error at the evaluation point, and seconds."""
    subprocess.run([*BURAN, "init", "--example", "bodies", str(folder), "--yes"], check=True, capture_output=True)
    begin = time.monotonic()
    subprocess.run([*BURAN, "run", str(folder / "campaign.yaml")], check=True, capture_output=True)
    report = subprocess.run(
        [*BURAN, "report", str(folder / "campaign.yaml")], check=True, capture_output=True, text=True
    ).stdout
    seconds = time.monotonic() - begin
    answers = [line.split("?", 1)[1].strip() for line in report.splitlines() if line.startswith(("Where", "How sure"))]
    (written,) = folder.glob("results/*/latest/report.json")
    tested = json.loads(written.read_text())["evaluation"]
    errors = [test["predicted_s"] / test["measured_s"] - 1 for test in tested]
    return answers[0], answers[1], max(errors, key=abs, default=float("nan")), seconds


def main(runs: int = 20, busy: int = 4) -> None:
    """Print a line for each campaign."""
    heads: Counter[str] = Counter()
    beside: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(runs):
            if number == runs // 2:
                beside = [subprocess.Popen(SPIN) for _ in range(busy)]
            with tempfile.TemporaryDirectory() as folder:
                head, sure, error, seconds = campaign(Path(folder) / "demo")
            heads[head] += 1
            print(
                f"{number + 1:>3} {len(beside)} busy  {seconds:4.0f} s  {100 * error:+4.0f} %  {sure:<12} {head}",
                flush=True,
            )
    finally:
        for process in beside:
            process.kill()
    print(f"{len(heads)} headlines: " + "; ".join(f"{count} {head}" for head, count in heads.most_common()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
