"""Campaigns under a real Score-P, beside the rules of PIRA II and the embedded measurement system.

    python studies/benchmarks/scorep.py run FOLDER [--lulesh CHECKOUT] [--hpcg CHECKOUT]
    python studies/benchmarks/scorep.py turns FOLDER [--rounds 5]
    python studies/benchmarks/scorep.py show FOLDER

Each takes `--only PROGRAM ...` and `--ways WAY ...`. `run` makes a campaign for each program and way, and runs those
that have not ended; but for
`everything`, they are killed in the middle (kill -9) and resumed. The ways of a program share
builds and runs that mean the same. `turns` runs the first and the last build for times of each in turn with the plain
program, and adds the CPU times of the processes to the file turns.json in the folder. `show` prints a table.

Ways: `everything` (one pass with hooks in everything: the reference of recall), `ours` (Score-P), `embedded`, `PIRA II`
(filter-and-expand, three passes, Score-P) and `PIRA II filter`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from buran.campaign.plan import BuildSpec, Mode
from buran.instrument.filter_file import parse
from buran.instrument.prediction import symbol_of
from buran.instrument.refine import Wishes, refine
from buran.loop.history import History
from buran.loop.refine import known_verdicts, refinement_of, rules_of, visit_cost_s
from buran.loop.session import open_session
from buran.measure.build import build, tree
from buran.profile.symbols import symbols_alike
from overhead import cpu_time_s

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARE = 0.01
TARGET = 4  # times the largest size, as in the study of refinement
_SLOW, _SLOW_ROUNDS = 3, 3
"""Builds that take so many times as long as the plain program are run in so many rounds only."""


@dataclass(frozen=True)
class Program:
    """What is built and run: `sizes` on one rank, the first of them on two as well where `two_ranks` says so.

    Attributes
    ----------
    largest
        Arguments of the runs in turn.
    """

    name: str
    build: str
    flags: str
    binary: str
    arguments: str
    sizes: tuple[int, ...]
    largest: str
    repetitions: int = 2
    two_ranks: bool = True


PROGRAMS = (
    Program(
        "stencil", "make MPICXX={mpicxx} CXXFLAGS='{flags}'", "-O2", "stencil", "{n} 100",
        (16, 24, 32, 40), "64 300",
    ),
    Program(
        "treesort", "make MPICXX={mpicxx} CXXFLAGS='{flags}'", "-O2", "treesort", "{n}",
        (65536, 131072, 262144, 524288), "4194304",
    ),
    Program("sweep", "make MPICC={mpicc} CFLAGS='{flags}'", "-O2", "sweep", "{n} 8", (8, 16, 24, 32), "96 8"),
    Program("relax", "make MPIFC={mpifort} FLAGS='{flags}'", "-O2", "relax", "{n}", (200, 300, 400, 600), "1000"),
    Program(
        "lulesh", "make CXX='{mpicxx} -DUSE_MPI=1' CXXFLAGS='{flags} -I.' LDFLAGS='{flags}'", "-O3", "lulesh2.0",
        "-s {n} -i 20", (8, 12, 16, 20, 24), "-s 24 -i 60", repetitions=1, two_ranks=False,
    ),
    Program(
        # Small enough for a pass with hooks in everything, which takes 60 times as long: the reference of recall.
        "lulesh-small", "make CXX='{mpicxx} -DUSE_MPI=1' CXXFLAGS='{flags} -I.' LDFLAGS='{flags}'", "-O3", "lulesh2.0",
        "-s {n} -i 20", (4, 6, 8, 10, 12), "-s 12 -i 60", repetitions=1, two_ranks=False,
    ),
    Program(
        "hpcg",
        "SCOREP_WRAPPER=off cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_COMPILER={mpicxx} "
        "-DCMAKE_CXX_FLAGS={flags} -DHPCG_ENABLE_MPI=ON && cmake --build build",
        "-O3", "build/xhpcg", "--nx={n} --ny={n} --nz={n} --rt=0", (16, 24, 32, 40), "--nx=40 --ny=40 --nz=40 --rt=0",
        repetitions=1, two_ranks=False,
    ),
)  # fmt: skip
_PIRA: Mapping[str, Any] = {
    "backend": "scorep",
    "strategy": {"max_iterations": 3},
    "model": {"priors": "off", "terms_per_parameter": 1, "criterion": "smape"},
}
WAYS: Mapping[str, Mapping[str, Any]] = {
    "everything": {
        "backend": "scorep", "strategy": {"max_iterations": 1}, "refinement": {"start": "everything", "pilot": False},
    },
    "ours": {"backend": "scorep", "refinement": {"start": "everything"}},
    "embedded": {"backend": "embedded", "refinement": {"start": "everything"}},
    "PIRA II": {
        **_PIRA, "refinement": {"strategy": "filter-and-expand", "start": "statements", "pilot": False},
    },
    "PIRA II filter": {**_PIRA, "refinement": {"strategy": "filter", "start": "statements", "pilot": False}},
}  # fmt: skip


def campaign_file(folder: Path, program: Program, way: str) -> Path:
    """Return where the campaign of a program and a way is described."""
    return folder / f"{program.name}-{way.replace(' ', '-')}.yaml"


def describe(program: Program, source: Path, way: str) -> dict[str, Any]:
    """Return a campaign file's content."""
    parameters: dict[str, Any] = {"n": {"role": "size", "values": list(program.sizes)}}
    target: dict[str, int] = {"n": TARGET * program.sizes[-1]}
    described: dict[str, Any] = {
        "name": program.name,
        "target": {
            "source": str(source),
            "build": program.build,
            "flags": program.flags,
            "binary": program.binary,
            "run": f"{{binary}} {program.arguments}",
        },
        "parameters": parameters,
        "repetitions": program.repetitions,
        "effort_repetitions": 1,
        "warmup": False,
        "compiler": "gcc",
        "resources": {"time_limit_s": 300},
        **WAYS[way],
    }
    if program.two_ranks:
        parameters["p"] = {"role": "ranks", "values": [1, 2]}
        described["constraints"] = [f"p == 1 or n == {program.sizes[0]}"]
        target["p"] = 2
    else:
        described["resources"]["ranks"] = 1
    return {**described, "refinement": {**WAYS[way]["refinement"], "share": SHARE, "target": target}}


def run(folder: Path, program: Program, source: Path, way: str) -> None:
    """Run a campaign to its end; one of ours is killed once in between."""
    file, record = campaign_file(folder, program, way), campaign_file(folder, program, way).with_suffix(".json")
    if record.is_file():
        return
    file.write_text(yaml.safe_dump(describe(program, source, way), sort_keys=False))
    command = [sys.executable, "-m", "buran.cli", "run", str(file)]
    start, kept = time.monotonic(), None
    with file.with_suffix(".log").open("a") as log:
        if way != "everything":
            kept = killed(command, folder / "results" / program.name, log)
        code = subprocess.run(command, cwd=folder, stdout=log, stderr=log).returncode
    found = {"exit": code, "wall_s": time.monotonic() - start}
    if kept is not None:
        changed = sum(not path.is_file() or path.stat().st_mtime_ns != at for path, at in kept.items())
        found |= {"kept": len(kept), "changed": changed}
    record.write_text(json.dumps(found) + "\n")
    print(f"{file.stem}: {found}", flush=True)


def killed(command: Sequence[str], results: Path, log: Any) -> dict[Path, int]:
    """Kill a campaign when it has some runs more; return the profiles that there are, with the times of their files."""
    pattern = "store/*/*/*~*/rep-*/profile.cubex"
    before = len(list(results.glob(pattern)))
    going = subprocess.Popen(command, cwd=results.parents[1], stdout=log, stderr=log)
    while len(list(results.glob(pattern))) < before + 6 and going.poll() is None:
        time.sleep(0.2)
    for process in reversed([going.pid, *descendants(going.pid)]):
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    going.wait()
    return {path: path.stat().st_mtime_ns for path in results.glob(pattern)}


def descendants(process: int) -> list[int]:
    """Return the processes that a process started, and those that they started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parent = dict(tuple(map(int, line.split())) for line in listed.splitlines())
    found = [process]
    for known in found:
        found += [other for other, of in parent.items() if of == known]
    return found[1:]


def ended_with(history: History, last: BuildSpec) -> BuildSpec:
    """Return the build with the list that a campaign ended with; it is made if it never was measured."""
    text = rules_of((history.layout.results(history.campaign) / "scorep.filter").read_text())
    spec = last if text == rules_of(last.filter_text) else replace(last, filter_text=text)
    build(history.session.target, history.layout, spec)
    return spec


def turns(folder: Path, program: Program, ways: Sequence[str], rounds: int) -> dict[str, list[float]]:
    """Run plain program, first and last build of each way in turn; return CPU seconds."""
    chosen: dict[str, tuple[History, BuildSpec]] = {}
    for way in ways:
        history = History.open(open_session(campaign_file(folder, program, way)))
        specs = [spec for plan in history.plans for spec in plan.builds]
        timed = [spec for spec in specs if spec.mode is Mode.TIME]
        chosen["plain"] = (history, next(spec for spec in specs if spec.mode is Mode.VANILLA))
        chosen |= {f"{way}, first": (history, timed[0]), f"{way}, last": (history, ended_with(history, timed[-1]))}
    spent: dict[str, list[float]] = {name: [] for name in chosen}
    for number in range(rounds + 1):
        for name in list(chosen) if number % 2 == 0 else reversed(list(chosen)):
            if number > _SLOW_ROUNDS and spent[name][0] > _SLOW * spent["plain"][0]:
                continue
            history, spec = chosen[name]
            binary = tree(history.layout, spec.hash) / program.binary
            with tempfile.TemporaryDirectory() as own:
                environment = {**os.environ, **history.session.target.backend.run_environment(spec.mode, Path(own))}
                cpu_s = cpu_time_s([str(binary), *shlex.split(program.largest)], environment, Path(own))
            if number > 0:  # the first round warms up
                spent[name].append(cpu_s)
    return spent


def kernels(folder: Path, program: Program) -> tuple[set[str], set[str]]:
    """Return which functions grow to a share of the reference: all, and those whose time is not that of hooks."""
    history = History.open(open_session(campaign_file(folder, program, "everything")))
    last = next(iter(history.newest_findings)).iteration
    findings, sets = history.findings(last), history.models(last)
    at = history.session.campaign.refinement_target
    target = np.array([at[name] for name in history.session.campaign.parameters], dtype=np.float64)
    wishes = Wishes(share=SHARE, overhead=None, coverage=0.0)
    cost_s = visit_cost_s(history, last)
    found = refine(findings.tree, sets["time"], sets["visits"], target, wishes, visit_cost_s=cost_s).prediction
    with np.errstate(invalid="ignore"):
        grow = (found.bare_share >= SHARE) & ~found.constant & found.filterable & ~found.main
        brief = found.mostly_hooks(0.1)
    names = [symbol_of(region) for region in found.tree.regions]
    return {names[i] for i in np.flatnonzero(grow)}, {names[i] for i in np.flatnonzero(grow & ~brief)}


def named(history: History) -> frozenset[str]:
    """Return the symbols of the list that a campaign ended with."""
    return parse((history.layout.results(history.campaign) / "scorep.filter").read_text()).named


def figures(folder: Path, program: Program, way: str) -> dict[str, Any]:
    """Return what a campaign came to."""
    history = History.open(open_session(campaign_file(folder, program, way)))
    last = next(iter(history.newest_findings)).iteration
    chosen = refinement_of(history, last, known_verdicts(history.session, last))
    timed = [spec for plan in history.plans for spec in plan.builds if spec.mode is Mode.TIME]
    listed = set(symbols_alike(sorted(named(history))))
    out: dict[str, Any] = {
        "iterations": len({plan.iteration for plan in history.plans if plan.builds}),
        "filters": len({spec.filter_text for spec in timed}),
        "reason": history.plans[-1].reason,
        "runs": len(history.runs),
        "core hours": sum(map(history.core_hours, history.plans)),
        "visit, ns": sorted({round(1e9 * r.visit_cost_s) for r in history.build_records if r.visit_cost_s}),
        "listed": len(listed),
        "coverage": None if chosen is None else float(chosen.coverage),
    }
    if way != "everything" and campaign_file(folder, program, "everything").with_suffix(".json").is_file():
        for name, wanted in zip(("recall, all", "recall"), kernels(folder, program), strict=True):
            lost = [
                each
                for each, alike in zip(sorted(wanted), symbols_alike(sorted(wanted)), strict=True)
                if alike not in listed
            ]
            out |= {name: f"{len(wanted) - len(lost)} of {len(wanted)}", f"lost ({name})": lost}
    return out | json.loads(campaign_file(folder, program, way).with_suffix(".json").read_text())


def show(folder: Path, programs: Sequence[Program], ways: Sequence[str]) -> None:
    """Print what was found of each program and way."""
    measured = folder / "turns.json"
    spent = json.loads(measured.read_text()) if measured.is_file() else {}
    for program in programs:
        own = spent.get(program.name, {})
        if own:
            print(f"{program.name}: plain {statistics.median(own['plain']):.2f} CPU s, {len(own['plain'])} rounds")
        for way in ways:
            if not campaign_file(folder, program, way).with_suffix(".json").is_file():
                continue
            print(f"  {way}: {json.dumps(figures(folder, program, way))}")
            for which in ("first", "last"):
                if cpu_s := own.get(f"{way}, {which}"):
                    ratios = [100 * (a / b - 1) for a, b in zip(cpu_s, own["plain"], strict=False)]
                    # The standard error of a median is that of a mean times sqrt(pi / 2).
                    error = 1.2533 * statistics.stdev(ratios) / len(ratios) ** 0.5
                    print(f"    {which} filter: {statistics.median(ratios):.1f} +- {error:.1f} %")


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "turns", "show"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lulesh", type=Path, help="checkout of LULESH")
    parser.add_argument("--hpcg", type=Path, help="checkout of HPCG")
    parser.add_argument("--only", nargs="+", choices=[program.name for program in PROGRAMS])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    folder = options.folder.resolve()
    programs = [program for program in PROGRAMS if options.only is None or program.name in options.only]
    if options.command == "show":
        return show(folder, programs, options.ways)
    if shutil.which("scorep") is None:
        parser.error("there is no program scorep in PATH")
    folder.mkdir(parents=True, exist_ok=True)
    given = {
        "lulesh": options.lulesh,
        "lulesh-small": options.lulesh,
        "hpcg": options.hpcg,
        "relax": Path(__file__).parent / "relax",
    }
    for program in programs:
        source = given.get(program.name, EXAMPLES / program.name)
        if options.command == "run" and source is not None:
            for way in options.ways:
                run(folder, program, source.resolve(), way)
        elif options.command == "turns":
            ended = [way for way in options.ways if campaign_file(folder, program, way).with_suffix(".json").is_file()]
            file = folder / "turns.json"
            spent = json.loads(file.read_text()) if file.is_file() else {}
            if ended:
                spent[program.name] = turns(folder, program, ended, options.rounds)
                file.write_text(json.dumps(spent, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
