"""Everything that can be compared on one machine, in one table with peers side by side.

    python studies/benchmarks/everything.py [--short] [-o FILE] [--only AREA ...] [--resume]
                                    [--extrap-python PYTHON] [--cpr-data FOLDER]

Runs the scripts of this folder and the studies of `buran evaluate`, one after the other, and writes a page with the
date, the machine and a row for each figure, below its command. The short form takes smaller sizes and fewer
draws: it shows that everything works, and its figures scatter. Where Extra-P's Python is not named, an environment with
it is made in build/peers, if pip can. What fails is a row that says so, and ends the whole with exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "bench"
PAGE = {False: ROOT / "build" / "benchmarks.md", True: ROOT / "build" / "benchmarks-short.md"}
EXTRAP = ("extrap==4.2.5", "numpy<2")

Found = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """A figure, and what others reach at the same.

    Attributes
    ----------
    peers
        By name, written out.
    """

    what: str
    ours: str
    peers: Mapping[str, str] = field(default_factory=dict)
    goal: str = ""


@dataclass(frozen=True)
class Part:
    """A command and how its figures become rows.

    Attributes
    ----------
    command
        As typed in the repository; ``{out}`` is its JSON file or, for a study, its folder.
    """

    area: str
    name: str
    command: Sequence[str]
    rows: Callable[[Found], Iterator[Row]]


# -- scripts ---------------------------------------------------------------------------------------------


def modeller_rows(found: Found) -> Iterator[Row]:
    """Time and accuracy of the modeller beside Extra-P."""
    for each in found["time"]:
        ours, theirs = (_median(each["ms_per_call_path"].get(name)) for name in ("buran", "extrap"))
        what = f"models, CPU time a call path, {each['parameters']} parameters"
        yield Row(what, f"{ours:.3g} ms", _extrap(theirs, " ms"))
    for each in found["accuracy"]:
        cell = f"{each['parameters']} parameters, {each['layout']}, {each['noise_percent']:g} % noise"
        if each["truth"] != "inside":
            cell += ", truth outside of the search space"
        figures = each["figures"]
        for key, what in (("within_5", "predictions within 5 %"), ("median_error", "median error")):
            theirs = figures.get("extrap", {}).get(key)
            yield Row(f"{what}, {cell}", f"{figures['buran'][key]:.3g} %", _extrap(theirs, " %"))


def _median(values: Sequence[float] | None) -> float | None:
    return None if not values else sorted(values)[len(values) // 2]


def _extrap(value: float | None, unit: str) -> dict[str, str]:
    return {} if value is None else {"Extra-P": f"{value:.3g}{unit}"}


def overhead_rows(found: Found) -> Iterator[Row]:
    """CPU time of instrumented builds of the examples."""
    for result in found["results"]:
        if result["base"] == "vanilla":
            what = (
                f"{result['workload']}, {'hooks' if result['build'] == 'time' else 'hooks and basic blocks'}, CPU time"
            )
            yield Row(what, f"{result['ratio']:.3f}", {"plain build": "1"})


def hook_rows(found: Found) -> Iterator[Row]:
    """Nanoseconds a visit, beside two readings of the clock."""
    for clock, figures in found.items():
        same, random = (f"{figures[name]:.3g} ns" for name in ("same", "random_1000"))
        yield Row(f"a visit, clock {clock}", same, {"two readings of the clock": f"{figures['clock']:.3g} ns"})
        yield Row(f"a visit, clock {clock}, 1000 functions at random", random)


def profile_rows(found: Found) -> Iterator[Row]:
    """Merging, writing and reading large profiles."""
    total_s = sum(found[key] for key in ("merge_s", "write_s", "read_s"))
    what = f"{found['call_paths']} call paths x {found['ranks']} ranks: merged, written as cubex, read back"
    yield Row(what, f"{total_s:.2f} s", goal="below 5 s")
    yield Row(f"{what}, greatest memory", f"{found['peak_mb']:.0f} MB", goal="below 500 MB")


def orchestration_rows(found: Found) -> Iterator[Row]:
    """CPU time of driving a campaign."""
    for step, times in found["steps"].items():
        yield Row(
            f"{step}, {found['runs']} runs",
            f"{times['cpu_s']:.2f} s CPU, {1000 * times['cpu_s'] / found['runs']:.3g} ms a run",
        )
    yield Row("greatest memory of one process", f"{found['peak_rss_mib']:.0f} MiB", goal="below 500 MB")


# -- studies ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Contest:
    """Names of a study's figures that are one figure by different methods.

    Attributes
    ----------
    pattern
        With the group ``method``; what is left of a name without it is the figure.
    ours, peers
        Methods, and how they are called in the table; ours have a row each. Without peers, all others are.
    """

    pattern: str
    ours: Mapping[str, str]
    peers: Mapping[str, str] = field(default_factory=dict)


CONTESTS = {
    "selection": Contest(
        r"within 5 %: (?P<method>design|cpf|gpr), m = .*", {"design": "design"}, {"cpf": "CPF", "gpr": "GPR"}
    ),
    "priors": Contest(
        r".*: .* noise, (?P<method>resilient|single|sparse|sensitive)",
        {"resilient": "five repetitions", "single": "one repetition", "sparse": "sparse"},
        {"sensitive": "times alone"},
    ),
    "refinement": Contest(r"\S+ (?P<method>.*) overhead", {"ours": "relevance"}),
    "tensor": Contest(
        r"\S+ \d+ (?P<method>.*)",
        {"default, 100 kB": "100 kB", "default, 20 kB": "20 kB", "default, one CP part": "one CP part"},
    ),
}
# What a figure that is a ratio is relative to.
RELATIVE = {
    "correction": (r"(?!.*known form).*(median|worst)", "the uncorrected model", "1"),
    "campaign": (r".*core hours for the manual way's .*", "full matrix, five repetitions, Extra-P", "100 %"),
}


def study_rows(study: str) -> Callable[[Found], Iterator[Row]]:
    """Rows of a study: contests first, then what has a goal."""

    def rows(found: Found) -> Iterator[Row]:
        contest = CONTESTS.get(study, Contest("(?!)", {}))
        cells: dict[str, dict[str, Found]] = {}
        rest = []
        for figure in found["figures"]:
            match = re.fullmatch(contest.pattern, figure["name"])
            if match and (not contest.peers or match["method"] in {**contest.ours, **contest.peers}):
                cells.setdefault(_without_method(match), {})[match["method"]] = figure
            else:
                rest.append(figure)
        for what, figures in cells.items():
            called = contest.peers or {name: name for name in figures if name not in contest.ours}
            peers = {shown: _shown(figures[name]) for name, shown in called.items() if name in figures}
            for name, shown in contest.ours.items():
                if name in figures:
                    yield Row(f"{what} ({shown})", _shown(figures[name]), peers, figures[name]["goal"])
        pattern, peer, value = RELATIVE.get(study, ("(?!)", "", ""))
        for figure in rest:
            relative = re.fullmatch(pattern, figure["name"])
            if (figure["goal"] or relative) and not figure["note"].startswith("needs --"):
                yield Row(figure["name"], _shown(figure), {peer: value} if relative else {}, figure["goal"])

    return rows


def _without_method(match: re.Match[str]) -> str:
    before, after = match.string[: match.start("method")], match.string[match.end("method") :]
    return f"{before.rstrip(', ')} {after.lstrip(', ')}".strip()


def _shown(figure: Found) -> str:
    if figure["value"] is None:
        return f"none: {figure['note']}" if figure["note"] else "none"
    error = figure["standard_error"]
    return (
        f"{figure['value']:.3g}"
        + (f" ± {error:.1g}" if error else "")
        + (f" {figure['unit']}" if figure["unit"] else "")
    )


# -- what is run -----------------------------------------------------------------------------------------


def parts(short: bool, extrap: str | None, data: Path | None) -> list[Part]:
    """Return everything, in the order of the table."""

    def script(area: str, name: str, rows: Callable[[Found], Iterator[Row]], full: str, brief: str, *more: str) -> Part:
        words = (brief if short else full).split()
        return Part(area, name, ["python", f"studies/benchmarks/{name}.py", *words, *more, "--json", "{out}"], rows)

    def study(name: str, draws: int | None, *more: str) -> Part:
        words = [] if short or draws is None else ["--draws", str(draws)]
        command = ["buran", "evaluate", name, "--quick", *words, *more, "--json", "-o", "{out}"]
        return Part(name, f"evaluate {name}", command, study_rows(name))

    peer = ("--extrap-python", extrap) if extrap else ()
    return [
        script(
            "modeller", "modeller", modeller_rows,
            "--call-paths 1000 --parameters 1 2 3 --layouts full lines+m --noise 1 5 10 --functions 100",
            "--call-paths 100 --runs 1 --parameters 1 2 --layouts full --noise 5 --functions 20", *peer,
        ),
        study("selection", 100),
        *([study("tensor", None, "--data", str(data))] if data else []),
        study("correction", 20),
        study("priors", None),
        study("refinement", None),
        study("campaign", None),
        script("overhead", "overhead", overhead_rows, "--pairs 7", "--pairs 5 stencil-small"),
        script("overhead", "hook_cost", hook_rows, "", "--visits 300000"),
        script("profiles", "profile_io", profile_rows, "", "--paths 500 --ranks 16"),
        script("orchestration", "orchestration", orchestration_rows, "--runs 10000", "--runs 200"),
    ]  # fmt: skip


def with_extrap() -> str | None:
    """Return a Python that has Extra-P, in an environment of its own: it needs an older numpy."""
    folder = ROOT / "build" / "peers"
    python = folder / "bin" / "python"
    if subprocess.run([python, "-c", "import extrap"], capture_output=True).returncode if python.exists() else True:
        print("making an environment for Extra-P ...", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        for command in ([sys.executable, "-m", "venv", folder], [python, "-m", "pip", "install", "--quiet", *EXTRAP]):
            if subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
                return None
    return str(python)


def run(part: Part, resume: bool) -> tuple[list[Row], float]:
    """Run a part; return its rows and how long it took."""
    kept, log = WORK / f"{part.name.replace(' ', '-')}.json", WORK / f"{part.name.replace(' ', '-')}.log"
    is_study = part.command[0] == "buran"
    start = time.monotonic()
    if not (resume and kept.is_file()):
        out = WORK / "studies" if is_study else kept.with_suffix(".tmp")
        words = [word.format(out=out) for word in part.command]
        program = [sys.executable, "-m", "buran.cli", *words[1:]] if is_study else [sys.executable, *words[1:]]
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
        with log.open("w") as errors:
            done = subprocess.run(program, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=errors, text=True)
        if is_study and done.returncode == 0:
            out = kept.with_suffix(".tmp")
            out.write_text(done.stdout)
        if not out.is_file():  # a bound that is missed is a figure, no failure
            last = (log.read_text().strip().splitlines() or [f"exit code {done.returncode}"])[0]
            return [Row(f"failed: {last}", "")], time.monotonic() - start
        out.rename(kept)
    return list(part.rows(json.loads(kept.read_text()))), time.monotonic() - start


# -- the page --------------------------------------------------------------------------------------------


def machine() -> str:
    """Name the machine: processor, cores, memory, system, Python, compilers."""
    cpu = _after("/proc/cpuinfo", "model name")
    memory = int(_after("/proc/meminfo", "MemTotal").split()[0]) / 2**20
    cores, system = len(os.sched_getaffinity(0)), platform.release().split("-")[0]
    parts = [f"{cpu}, {cores} cores, {memory:.0f} GiB", f"Linux {system}"]
    compilers = map(_version, ("clang", "clang-16", "gcc", "mpiexec"))
    parts += [f"Python {platform.python_version()}", *filter(None, compilers)]
    return "; ".join(dict.fromkeys(parts))


def _after(path: str, key: str) -> str:
    lines = Path(path).read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(key)), "0 unknown")


def _version(program: str) -> str | None:
    if shutil.which(program) is None:
        return None
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    return done.stdout.splitlines()[0].strip() if done.stdout else None


def page(found: Sequence[tuple[Part, list[Row], float]], short: bool, load: float) -> str:
    """Write the table as Markdown."""
    command = f"python studies/benchmarks/everything.py{' --short' if short else ''}"
    form = "short form: small sizes and few draws, its figures scatter" if short else "full form"
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{command}` (`make bench`) on {datetime.now(UTC):%Y-%m-%d}; {form}.",
        f"{machine()}.",
        f"Load average {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end. Each row comes from the same data",
        "and the same run.",
    ]
    for part, rows, seconds in found:
        words = [word for word in part.command if word not in ("--json", "{out}", "-o")]
        shown = re.sub(r"/\S*/(?=bin/python|cpr)", ".../", shlex.join(words))
        title = part.name.removeprefix("evaluate ").replace("_", " ").capitalize()
        lines += ["", f"## {title}", "", f"`{shown}`" + (f", {seconds:.0f} s" if seconds >= 0.5 else "")]
        lines += ["", "| what | Buran | peers | goal |", "| --- | --- | --- | --- |"]
        for row in rows:
            peers = ", ".join(f"{name} {value}" for name, value in row.peers.items())
            cells = (row.what, row.ours, peers, row.goal)
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="small sizes, few draws: does everything work?")
    parser.add_argument("-o", "--output", type=Path, help="page to write (default: in build/)")
    parser.add_argument("--only", nargs="+", metavar="AREA", help="these areas alone")
    parser.add_argument("--resume", action="store_true", help="keep what an earlier call finished")
    parser.add_argument("--extrap-python", metavar="PYTHON", help="one that has extrap 4.2.5; none: without this peer")
    parser.add_argument(
        "--cpr-data", type=Path, metavar="FOLDER", help="measured data of the CPR paper, for the area tensor"
    )
    options = parser.parse_args()
    if not options.resume:
        shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    extrap = options.extrap_python or with_extrap()
    chosen = [
        part
        for part in parts(options.short, None if extrap == "none" else extrap, options.cpr_data)
        if options.only is None or part.area in options.only
    ]
    load, found = os.getloadavg()[0], []
    for part in chosen:
        print(f"{part.name} ...", file=sys.stderr, flush=True)
        rows, seconds = run(part, options.resume)
        found.append((part, rows, seconds))
        print(f"{part.name}: {len(rows)} figures, {seconds:.0f} s", file=sys.stderr, flush=True)
    output = options.output or PAGE[options.short]
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(page(found, options.short, load), encoding="utf-8")
    print(f"written: {output}")
    return int(any(row.what.startswith("failed:") for _, rows, _ in found for row in rows))


if __name__ == "__main__":
    sys.exit(main())
