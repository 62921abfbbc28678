"""Filter lists under a real Score-P: its own, that of PIRA II's rules, ours, and that of the embedded system.

    python studies/benchmarks/scorep.py run FOLDER [--codes CODES]
    python studies/benchmarks/scorep.py turns FOLDER [--codes CODES] [--rounds 5] [--first]
    python studies/benchmarks/scorep.py recall FOLDER [--codes CODES]
    python studies/benchmarks/scorep.py show FOLDER [--codes CODES]

Each takes `--only PROGRAM ...` and `--ways WAY ...`. `run` makes a campaign for each program and way, and runs those
that have not ended. The ways of a program share builds and runs that mean the same. `turns` runs the plain program,
Score-P's own hooks, the list of `scorep-score -g` (from a run with these hooks at the largest size of the campaigns),
that of statement aggregation, and the list that each campaign ended with (`--first`: began with) in turn, and keeps
the CPU times of the processes in the file turns.json of the folder. `recall` runs each of them once more, and the
plain program under `perf record`: which functions take a share of the time, by Score-P's own hooks and by samples,
and which are recorded (recall.json). What is in these files is not measured again. `show` prints the tables.

CODES is a folder of YAML files, each describing a program as `Program` does; `source` is relative to the file.

Ways: `ours` (Score-P), `embedded`, and `PIRA II` (filter-and-expand, three passes, Score-P).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.records import Status
from buran.errors import BuildError, BuranError, Exit
from buran.instrumentation.filter_file import parse
from buran.instrumentation.prediction import symbol_of
from buran.measurement.build import build, tree
from buran.profiles.profile import Profile
from buran.profiles.symbols import symbols_alike
from buran.workflow.history import History, rules_of
from buran.workflow.refine import known_verdicts, refinement_of
from buran.workflow.session import open_session
from overhead import cpu_time_s

EXAMPLES = Path(__file__).parents[2] / "examples"
SHARE = 0.01
TARGET = 4  # times the largest size, as in the study of refinement
_SLOW, _SLOW_ROUNDS = 3, 3
"""Builds that take so many times as long as the plain program are run in so many rounds only."""
_SAMPLES_HZ = 4000
_MAINS = frozenset(("main", "MAIN__"))  # every list has them
_OUTLINED = re.compile(r"\._omp_fn\.\d+$")  # a parallel region that gcc made a function
_HOOKS, _SCORE, _STATEMENTS = "default hooks", "scorep-score -g", "statements"


@dataclass(frozen=True)
class Program:
    """What is built and run: `sizes` on one rank, the first of them on two as well where `two_ranks` says so.

    Attributes
    ----------
    arguments
        Of the runs of campaigns, with `{n}`.
    largest
        Of the runs in turn. Both may name files that the build makes: `{build}`.
    exit_codes
        Of runs that did not fail.
    campaign
        More keys of the campaign files, such as `scorep`, which is left out where it has no meaning.
    """

    name: str
    build: str
    flags: str
    binary: str
    arguments: str
    sizes: tuple[int, ...]
    largest: str
    source: Path
    repetitions: int = 2
    two_ranks: bool = True
    exit_codes: tuple[int, ...] = (0,)
    campaign: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, file: Path) -> Program:
        """Read a description; its name is that of the file."""
        found = yaml.safe_load(file.read_text())
        tuples = {name: tuple(found[name]) for name in ("sizes", "exit_codes") if name in found}
        return cls(**{"name": file.stem, **found, **tuples, "source": (file.parent / found["source"]).resolve()})


PROGRAMS = (
    Program(
        "stencil", "make MPICXX={mpicxx} CXXFLAGS='{flags}'", "-O2", "stencil", "{n} 100",
        (16, 24, 32, 40), "64 300", EXAMPLES / "stencil",
    ),
    Program(
        "treesort", "make MPICXX={mpicxx} CXXFLAGS='{flags}'", "-O2", "treesort", "{n}",
        (65536, 131072, 262144, 524288), "4194304", EXAMPLES / "treesort",
    ),
    Program(
        "sweep", "make MPICC={mpicc} CFLAGS='{flags}'", "-O2", "sweep", "{n} 8",
        (8, 16, 24, 32), "96 8", EXAMPLES / "sweep",
    ),
    Program(
        "relax", "make MPIFC={mpifort} FLAGS='{flags}'", "-O2", "relax", "{n}",
        (200, 300, 400, 600), "1600", Path(__file__).parent / "relax",
    ),
)  # fmt: skip
WAYS: Mapping[str, Mapping[str, Any]] = {
    "ours": {"backend": "scorep", "refinement": {"start": "everything"}},
    "embedded": {"backend": "embedded", "refinement": {"start": "everything"}},
    "PIRA II": {
        "backend": "scorep",
        "strategy": {"max_iterations": 3},
        "model": {"priors": "off", "terms_per_parameter": 1, "criterion": "smape"},
        "refinement": {"strategy": "filter-and-expand", "start": "statements", "pilot": False},
    },
}  # fmt: skip


def campaign_file(folder: Path, program: Program, way: str) -> Path:
    """Return where the campaign of a program and a way is described."""
    return folder / f"{program.name}-{way.replace(' ', '-')}.yaml"


def describe(program: Program, way: str) -> dict[str, Any]:
    """Return a campaign file's content."""
    parameters: dict[str, Any] = {"n": {"role": "size", "values": list(program.sizes)}}
    target: dict[str, int] = {"n": TARGET * program.sizes[-1]}
    own = {key: value for key, value in program.campaign.items() if key != "scorep" or WAYS[way]["backend"] == "scorep"}
    described: dict[str, Any] = {
        "name": program.name,
        "program": {
            "source": str(program.source),
            "build": program.build,
            "flags": program.flags,
            "binary": program.binary,
            "run": f"{{binary}} {program.arguments}",
            "exit_codes": list(program.exit_codes),
        },
        "parameters": parameters,
        "repetitions": program.repetitions,
        "effort_repetitions": 1,
        "warmup": False,
        "compiler": "gcc",
        "resources": {"time_limit": 300},
        **own,
        **WAYS[way],
    }
    if program.two_ranks:
        parameters["p"] = {"role": "ranks", "values": [1, 2]}
        described["constraints"] = [f"p == 1 or n == {program.sizes[0]}"]
        target["p"] = 2
    else:
        described["resources"]["ranks"] = 1
    return {**described, "target": target, "refinement": {**WAYS[way]["refinement"], "share": SHARE}}


def ended(folder: Path, program: Program, way: str) -> bool:
    """Tell whether a campaign was run to its end."""
    return campaign_file(folder, program, way).with_suffix(".json").is_file()


def run(folder: Path, program: Program, way: str) -> None:
    """Run a campaign to its end."""
    file = campaign_file(folder, program, way)
    if ended(folder, program, way):
        return
    file.write_text(yaml.safe_dump(describe(program, way), sort_keys=False))
    command = [sys.executable, "-m", "buran.cli", "run", str(file)]
    start = time.monotonic()
    with file.with_suffix(".log").open("a") as log:
        code = subprocess.run(command, cwd=folder, stdout=log, stderr=log).returncode
    found = {"exit": code, "wall_s": round(time.monotonic() - start)}
    if code in (Exit.DONE, Exit.SOME_RUNS_FAILED):
        file.with_suffix(".json").write_text(json.dumps(found) + "\n")
    print(f"{file.stem}: {found}", flush=True)


def made(history: History, spec: BuildSpec, text: str) -> BuildSpec:
    """Return a build for times with a list, which is made if it never was."""
    if rules_of(text) != rules_of(spec.filter_text) or spec.hooks is not None:
        spec = replace(spec, filter_text=text, hooks=None)
    outcome = build(history.session.target, history.layout, spec)
    if outcome.status is not Status.MEASURED:
        raise BuildError("a build failed", where=outcome.folder, why=outcome.reason or "")
    return spec


Variant = tuple[History, BuildSpec]


def variants(folder: Path, program: Program, ways: Iterable[str], first: bool = False) -> dict[str, Variant]:
    """Return the builds that are compared, by the list that they have."""
    chosen: dict[str, Variant] = {}
    for way in ways:
        history = History.open(open_session(campaign_file(folder, program, way)))
        specs = [spec for plan in history.plans for spec in plan.builds]
        timed = [spec for spec in specs if spec.mode is Mode.TIME]
        chosen.setdefault("plain", (history, next(spec for spec in specs if spec.mode is Mode.VANILLA)))
        if WAYS[way]["backend"] == "scorep" and _HOOKS not in chosen:
            chosen[_HOOKS] = hooks = history, made(history, timed[0], "")
            chosen[_SCORE] = history, made(history, timed[0], generated(folder, program, hooks)["filter"])
        if first:
            chosen[f"{way}, first"] = history, timed[0]
        if WAYS[way]["refinement"]["start"] == _STATEMENTS:
            chosen[_STATEMENTS] = history, timed[0]
        chosen[way] = history, made(history, timed[-1], last_filter(history))
    return chosen


def once(program: Program, variant: Variant, arguments: str, own: Path, under: Sequence[str] = ()) -> float:
    """Run a build in a folder, on one rank and thread; return its CPU seconds."""
    history, spec = variant
    folder = tree(history.layout, spec.hash)
    backend = history.session.target.backend
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **backend.run_environment(spec.mode, own)}
    command = [*under, str(folder / program.binary), *shlex.split(arguments.replace("{build}", str(folder)))]
    return cpu_time_s(command, environment, own, program.exit_codes)


def generated(folder: Path, program: Program, hooks: Variant) -> dict[str, Any]:
    """Return the list that Score-P makes of a run with its own hooks, and what that run took; it is kept."""
    kept = folder / f"{program.name}-score.json"
    if not kept.is_file():
        with tempfile.TemporaryDirectory() as own:
            cpu_s = once(program, hooks, program.arguments.replace("{n}", str(program.sizes[-1])), Path(own))
            command = ["scorep-score", "-g", "scorep/profile.cubex"]
            subprocess.run(command, cwd=own, check=True, stdout=subprocess.DEVNULL)
            made_of_it = (Path(own) / "initial_scorep.filter").read_text()
        kept.write_text(json.dumps({"cpu_s": cpu_s, "filter": made_of_it}) + "\n")
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def turns(program: Program, chosen: Mapping[str, Variant], rounds: int) -> dict[str, list[float]]:
    """Run all builds in turn; return CPU seconds."""
    spent: dict[str, list[float]] = {name: [] for name in chosen}
    for number in range(rounds + 1):
        for name in list(chosen) if number % 2 == 0 else reversed(list(chosen)):
            if number > _SLOW_ROUNDS and spent[name][0] > _SLOW * spent["plain"][0]:
                continue
            with tempfile.TemporaryDirectory() as own:
                cpu_s = once(program, chosen[name], program.largest, Path(own))
            if number > 0:  # the first round warms up
                spent[name].append(cpu_s)
    return spent


def recorded(program: Program, variant: Variant) -> dict[str, float]:
    """Return the functions of the program that a run records, with their shares of the exclusive time."""
    history, spec = variant
    with tempfile.TemporaryDirectory() as own:
        once(program, variant, program.largest, Path(own))
        profile: Profile = history.session.target.backend.collect(spec.mode, Path(own), 1)
    seconds = profile.exclusive("time").sum(axis=1)
    found: Counter[str] = Counter()
    for region, share in zip(profile.tree.region, seconds / seconds.sum(), strict=True):
        if profile.tree.regions[region].paradigm == "compiler":
            found[symbol_of(profile.tree.regions[region])] += float(share)
    return alike(found)


def sampled(program: Program, plain: Variant) -> dict[str, float]:
    """Return the functions of the plain program with their shares of the samples of all its process does."""
    with tempfile.TemporaryDirectory() as own:
        data = f"{own}/perf.data"
        record = ("perf", "record", "-q", "-F", str(_SAMPLES_HZ), "-o", data, "--")
        once(program, plain, program.largest, Path(own), record)
        report = ("perf", "report", "-i", data, "-q", "--stdio", "--no-demangle", "-F", "period,dso,symbol", "-t", "\t")
        text = subprocess.run(report, capture_output=True, text=True, check=True).stdout
    rows = [[cell.strip() for cell in line.split("\t")] for line in text.splitlines() if line.strip()]
    found: Counter[str] = Counter()
    for period, where, symbol in rows:
        if where == Path(program.binary).name:
            found[_OUTLINED.sub("", symbol.removeprefix("[.] "))] += int(period)
    every = sum(int(row[0]) for row in rows)
    return alike({symbol: period / every for symbol, period in found.items()})


def alike(shares: Mapping[str, float]) -> dict[str, float]:
    """Return shares by symbols without what differs between compilers and clones, the largest first."""
    found: Counter[str] = Counter()
    for symbol, share in zip(symbols_alike(shares), shares.values(), strict=True):
        if symbol not in _MAINS:
            found[symbol] += share
    return {symbol: share for symbol, share in found.most_common() if share > 0}


def last_filter(history: History) -> str:
    """Return the list that a campaign ended with."""
    return (history.layout.results(history.campaign) / "scorep.filter").read_text()


def settled_at(history: History) -> int | None:
    """Return the first iteration from which on the same functions have hooks as by the last list; None without one."""
    timed = [(plan.iteration, spec) for plan in history.plans for spec in plan.builds if spec.mode is Mode.TIME]
    lists = {text: parse(text) for text in (last_filter(history), *(spec.filter_text for _, spec in timed))}
    known = {symbol for each in lists.values() for symbol in each.named}
    for findings in history.newest_findings:
        known |= {symbol_of(region) for region in findings.tree.regions if region.paradigm == "compiler"}
    hooked = {
        text: set(symbols_alike(symbol for symbol in known if each.matches(symbol, symbol))) - _MAINS
        for text, each in lists.items()
    }
    same = [(iteration, hooked[spec.filter_text] == hooked[last_filter(history)]) for iteration, spec in timed]
    others = max((iteration for iteration, is_same in same if not is_same), default=-1)
    return min((iteration for iteration, _ in same if iteration > others), default=None)


def figures(folder: Path, program: Program, way: str) -> dict[str, Any]:
    """Return what a campaign came to, and what it took until its list was the last one."""
    history = History.open(open_session(campaign_file(folder, program, way)))
    last = next(iter(history.newest_findings)).iteration
    chosen = refinement_of(history, last, known_verdicts(history.session, last))
    settled = settled_at(history)
    return {
        "reason": history.plans[-1].reason,
        "lists": len({spec.filter_text for plan in history.plans for spec in plan.builds if spec.mode is Mode.TIME}),
        "runs": len(history.runs),
        "until settled": settled and sum(each.iteration < settled for each in history.runs),
        "core s": 3600 * sum(map(history.core_hours, history.plans)),
        "CPU s": sum(each.cpu_s for each in history.runs),
        "visit, ns": sorted({round(1e9 * r.visit_cost_s) for r in history.build_records if r.visit_cost_s}),
        "named": len(set(symbols_alike(parse(last_filter(history)).named))),
        "coverage": None if chosen is None else float(chosen.coverage),
        **json.loads(campaign_file(folder, program, way).with_suffix(".json").read_text()),
    }


def overhead(cpu_s: Sequence[float], plain: Sequence[float]) -> str:
    """Return the median of the pairs' differences in percent with its standard error, that of a mean times 1.25."""
    ratios = [100 * (a / b - 1) for a, b in zip(cpu_s, plain, strict=False)]
    error = 1.2533 * statistics.stdev(ratios) / len(ratios) ** 0.5 if len(ratios) > 1 else float("nan")
    return f"{statistics.median(ratios):.1f} ± {error:.1f}"


def show(folder: Path, programs: Sequence[Program], ways: Sequence[str]) -> None:
    """Print what was found of each program and way."""
    columns = ("program", "list", "overhead, %", "recall, hooks", "recall, samples", "recorded")
    columns += ("runs", "until settled", "core s", "CPU s")
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    remarks = []
    spent, seen = kept(folder, "turns"), kept(folder, "recall")
    for program in programs:
        costs: dict[str, dict[str, Any]] = {w: figures(folder, program, w) for w in ways if ended(folder, program, w)}
        remarks += [f"{program.name}, {way}: {json.dumps(found)}" for way, found in costs.items()]
        score = folder / f"{program.name}-score.json"
        if score.is_file():
            cpu_s = json.loads(score.read_text())["cpu_s"]
            costs[_SCORE] = {"runs": 1, "until settled": 1, "core s": cpu_s, "CPU s": cpu_s}
        own, found = spent.get(program.name, {}), seen.get(program.name, {})
        for name in dict.fromkeys([*own, *found, *costs]):
            if name in ("plain", "samples"):
                continue
            cells = [program.name, name, overhead(own[name], own["plain"]) if name in own else ""]
            for reference in (_HOOKS, "samples"):
                wanted = {symbol for symbol, share in found.get(reference, {}).items() if share >= SHARE}
                lost = wanted - set(found.get(name, ()))
                cells.append(f"{len(wanted) - len(lost)} of {len(wanted)}" if name in found else "")
                if name in found and lost:
                    shares = (f"{s} {100 * found[reference][s]:.1f} %" for s in found[reference] if s in lost)
                    remarks.append(f"{program.name}, {name}, lost of {reference}: {', '.join(shares)}")
            cost = costs.get(name, {"runs": 0, "until settled": 0} if name in (_HOOKS, _STATEMENTS) else {})
            cells += [str(len(found[name])) if name in found else "", str(cost.get("runs", ""))]
            cells.append("no" if cost.get("until settled", "") is None else str(cost.get("until settled", "")))
            cells += [f"{cost[key]:.0f}" if key in cost else "" for key in ("core s", "CPU s")]
            print(f"| {' | '.join(cells)} |")
        if own:
            remarks.append(
                f"{program.name}: plain {statistics.median(own['plain']):.2f} CPU s, {len(own['plain'])} rounds"
            )
    print("", *remarks, sep="\n")


def kept(folder: Path, name: str, program: str = "", found: Any = None) -> dict[str, Any]:
    """Return what was measured of each program, with what was just found of one, which is kept."""
    file = folder / f"{name}.json"
    known: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
    if found is not None:
        known[program] = found
        file.write_text(json.dumps(known, indent=1) + "\n")
    return known


def main() -> None:
    """Do what was asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("run", "turns", "recall", "show"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--codes", type=Path, help="folder with descriptions of more programs")
    parser.add_argument("--only", nargs="+", help="names of programs")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--first", action="store_true", help="the first list of each campaign too")
    options = parser.parse_args()
    folder = options.folder.resolve()
    programs = [*PROGRAMS, *map(Program.read, sorted(options.codes.glob("*.yaml")) if options.codes else ())]
    if unknown := set(options.only or ()) - {program.name for program in programs}:
        parser.error(f"not known: {', '.join(sorted(unknown))}")
    programs = [program for program in programs if options.only is None or program.name in options.only]
    if options.command == "show":
        return show(folder, programs, options.ways)
    if shutil.which("scorep") is None:
        parser.error("there is no program scorep in PATH")
    folder.mkdir(parents=True, exist_ok=True)
    for program in programs:
        if options.command == "run":
            for way in options.ways:
                run(folder, program, way)
            continue
        ways = [way for way in options.ways if ended(folder, program, way)]
        if not ways or program.name in kept(folder, options.command):
            continue
        try:
            chosen = variants(folder, program, ways, options.first)
            if options.command == "turns":
                kept(folder, "turns", program.name, turns(program, chosen, options.rounds))
            else:
                found = {name: recorded(program, variant) for name, variant in chosen.items() if name != "plain"}
                kept(folder, "recall", program.name, {"samples": sampled(program, chosen["plain"]), **found})
        except BuranError as error:
            print(f"{program.name}: {error}", flush=True)
    return None


if __name__ == "__main__":
    main()
