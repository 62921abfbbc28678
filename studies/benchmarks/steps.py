"""Few steps for many: campaigns with and without the role steps, for the same core hours.

    python studies/benchmarks/steps.py FOLDER [--codes CODES] [--only PROGRAM ...] [--percent 20]

For each program two campaigns are run with the strategy `design` and the same share of the full matrix, all sizes with
the full number of steps: one with the role `steps`, one that always runs all of them. Neither sees the target, which
is measured as evaluation point. Printed are the error there, the core seconds spent, and how many call paths counts
prove to repeat their work; each of these is checked at all points, with the full number of steps, of the other
campaign. What was run is not run again.

CODES is a folder of YAML files, each describing a program as `Program` does; `source` is relative to the file.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from buran.errors import Exit
from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.modeling.priors.steps import Repeats
from buran.profiles.experiment.table import Experiment
from buran.workflow.history import History
from buran.workflow.session import open_session

_ALLOWED = {Repeats.PROVEN: 1e-6, Repeats.NEARLY: MATTERS}  # relative
EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Program:
    """What is built and run on one rank.

    Attributes
    ----------
    run
        Arguments, with `{n}` and `{s}`.
    target
        Size of the evaluation point.
    steps
        The full number.
    """

    name: str
    source: Path
    build: str
    flags: str
    binary: str
    run: str
    sizes: tuple[int, ...]
    target: int
    steps: int

    @classmethod
    def read(cls, file: Path) -> Program:
        """Read a description; its name is that of the file."""
        found = yaml.safe_load(file.read_text())
        own = {"name": file.stem, "source": (file.parent / found["source"]).resolve(), "sizes": tuple(found["sizes"])}
        return cls(**{**found, **own})


PROGRAMS = (
    Program(
        "stencil", EXAMPLES / "stencil", "make MPICXX={mpicxx} CXXFLAGS='{flags}'", "-O2", "stencil", "{n} {s}",
        (16, 24, 32, 40, 48), 64, 3000,
    ),
    Program(
        "sweep", EXAMPLES / "sweep", "make MPICC={mpicc} CFLAGS='{flags}'", "-O2", "sweep", "{n} 8 {s}",
        (8, 14, 20, 26, 32), 42, 150,
    ),
)  # fmt: skip


def describe(program: Program, role: str, percent: float) -> dict[str, Any]:
    """Return a campaign file's content; with the role `all` the number of steps is fixed."""
    parameters: dict[str, Any] = {"n": {"role": "size", "values": list(program.sizes)}}
    run = f"{{binary}} {program.run}"
    if role == "steps":
        parameters["s"] = {"role": "steps", "value": program.steps}
    else:
        run = run.replace("{s}", str(program.steps))
    return {
        "name": f"{program.name}-{role}",
        "program": {
            "source": str(program.source),
            "build": program.build,
            "flags": program.flags,
            "binary": program.binary,
            "run": run,
        },
        "parameters": parameters,
        "evaluation_points": [{"n": program.target}],
        "repetitions": 2,
        "strategy": {"name": "design"},
        "budget": {"percent_of_full_matrix": percent},
        "resources": {"ranks": 1, "time_limit": 600},
        "target": {"n": program.target},
        "refinement": {"enabled": False},
    }


def run(folder: Path, program: Program, role: str, percent: float) -> Path | None:
    """Run a campaign to its end; its file, None where it failed."""
    file = folder / f"{program.name}-{role}.yaml"
    done = file.with_suffix(".done")
    if not done.is_file():
        file.write_text(yaml.safe_dump(describe(program, role, percent), sort_keys=False))
        with file.with_suffix(".log").open("a") as log:
            code = subprocess.run(
                [sys.executable, "-m", "buran.cli", "run", str(file)], cwd=folder, stdout=log, stderr=log
            ).returncode
        if code not in (Exit.DONE, Exit.BUDGET_REACHED):
            print(f"{file.stem}: exit code {code}, see {file.with_suffix('.log')}", flush=True)
            return None
        done.write_text("")
    return file


def found(file: Path) -> tuple[Experiment | None, dict[str, Any]]:
    """Return what a campaign measured, and its row of the table."""
    history = History.open(open_session(file))
    last = max(plan.iteration for plan in history.plans if not plan.done)
    findings = history.findings(last)
    (at,) = findings.evaluation
    outcomes = [each for each in history.outcomes(history.plans) if each.purpose.value != "evaluation"]
    core_s = 3600 * sum(run.cost_core_hours for outcome in outcomes for run in outcome.runs)
    seconds = {prior.call_path: abs(prior.at_target_s or 0.0) for prior in findings.priors}
    verdicts = {prior.call_path: prior.repeats.get("s", Repeats.OPEN) for prior in findings.priors}
    share = {
        verdict: sum(seconds[path] for path, each in verdicts.items() if each == verdict) / (sum(seconds.values()) or 1)
        for verdict in Repeats
    }
    row = {
        "error_percent": 100 * (at.predicted_s / at.measured_s - 1),
        "measured_s": at.measured_s,
        "core_s": core_s,
        "paths": {verdict: sum(each == verdict for each in verdicts.values()) for verdict in Repeats},
        "share": share,
        "proven": {path: _ALLOWED[Repeats(each)] for path, each in verdicts.items() if Repeats(each).is_repeated},
        "refuted": findings.not_repeated.get("s", ()),
    }
    return history.table(last), row


def wrongly_proven(few: Experiment, whole: Experiment, proven: Mapping[str, float], full: int) -> list[str]:
    """Return call paths whose counts of all steps are not what a line through those of few steps says.

    At each size that both campaigns counted, with two numbers of few steps in the first and all of them in the second.
    Each call path has its relative tolerance.
    """
    wrong = []
    in_few, in_whole = ({name: row for row, name in enumerate(table.tree.names)} for table in (few, whole))
    sizes, steps = few.points[:, few.parameters.index("n")], few.points[:, few.parameters.index("s")]
    for metric in ("basic_blocks", "visits"):
        here, there = (over_repetitions(table.over_locations(metric, "mean"), "mean") for table in (few, whole))
        for row, n in enumerate(whole.points[:, 0].tolist()):
            at = np.flatnonzero((sizes == n) & (steps < full))
            if len(at) < 2:
                continue
            for path in proven.keys() & in_few.keys() & in_whole.keys():
                line = np.polyfit(steps[at], here[in_few[path], at], 1)
                counted = there[in_whole[path], row]
                if abs(np.polyval(line, full) - counted) > proven[path] * max(counted, 1.0):
                    wrong.append(f"{path} ({metric}, n = {n:g})")
    return wrong


def show(program: Program, files: dict[str, Path]) -> None:
    """Print the row of a program."""
    (few, with_steps), (whole, always) = (found(files[role]) for role in ("steps", "all"))
    wrong = []
    if few is not None and whole is not None:
        wrong = wrongly_proven(few, whole, with_steps["proven"], program.steps)
    paths, share = with_steps["paths"], with_steps["share"]
    verdicts = (Repeats.PROVEN, Repeats.NEARLY, Repeats.REFUTED)
    shares = " | ".join(f"{paths[each]}, {100 * share[each]:.1f} %" for each in verdicts)
    print(
        f"| {program.name} | {shares} | {len(wrong)} | {with_steps['measured_s']:.2f} | "
        f"{with_steps['error_percent']:+.1f}, {with_steps['core_s']:.1f} | "
        f"{always['error_percent']:+.1f}, {always['core_s']:.1f} |",
        flush=True,
    )
    for each in wrong:
        print(f"  wrongly proven: {each}")
    for each in with_steps["refuted"]:
        print(f"  few steps are in no model: {each} is not linear in them")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--codes", type=Path)
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--percent", type=float, default=20.0)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    given = sorted(arguments.codes.glob("*.yaml")) if arguments.codes else []
    programs = [each for each in (*PROGRAMS, *map(Program.read, given)) if each.name in (arguments.only or [each.name])]
    print("| program | proven | nearly linear | not linear | wrong | target s | steps: error %, core s | all |")
    for program in programs:
        files = {role: run(arguments.folder.resolve(), program, role, arguments.percent) for role in ("steps", "all")}
        if None not in files.values():
            show(program, {role: file for role, file in files.items() if file is not None})


if __name__ == "__main__":
    main()
