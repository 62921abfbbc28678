"""What hooks in everything cost a program with tiny hot functions, and what the guard of the first run makes of it.

python studies/benchmarks/first_run.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from buran.campaign.plan import Mode
from buran.errors import ToolError
from buran.instrumentation.start import EVERYTHING, guard, guarded
from buran.measurement.backends.embedded import cost_of_hooks
from buran.measurement.toolchain.runtime import find_toolchain
from buran_studies.refinement.lab import Lab, Program

SOURCE = Path(__file__).parents[2] / "tests" / "workflow" / "hot"
HOT = Program("hot", "hot", "$CC -O2 hot.c -o hot", "hot", ("{n}",), ("n",), ((200,), (1000,), (2000,)))


def main() -> None:
    """Print CPU seconds: plain, with all hooks, with those that the smallest run leaves."""
    print("compiler     n  plain  everything  guarded")
    for compiler in ("clang", "gcc"):
        try:
            toolchain = find_toolchain(compiler=compiler)
        except ToolError as error:
            print(f"{compiler}: {error.what}")
            continue
        with tempfile.TemporaryDirectory(prefix="buran-first-run-") as name:
            lab = Lab(HOT, SOURCE, toolchain, Path(name))
            experiment, _, hooked_s = lab.experiment(EVERYTHING, HOT.points[:1], 1)
            plain_s = lab.run(lab.build(None)[0], HOT.points[0], Mode.VANILLA)[0]
            found = guard(experiment, hooked_s, plain_s, cost_of_hooks(toolchain).seconds)
            print(f"{compiler}: {found.sentence}")
            for point in HOT.points:
                variants = ((None, Mode.VANILLA), (EVERYTHING, Mode.TIME), (guarded(EVERYTHING, found), Mode.TIME))
                cpu_s = [lab.run(lab.build(text)[0], point, mode)[0] for text, mode in variants]
                print(f"{compiler:<8} {point[0]:>5}  {cpu_s[0]:5.2f}  {cpu_s[1]:10.2f}  {cpu_s[2]:7.2f}")


if __name__ == "__main__":
    main()
