"""What instrumentation costs: CPU time of instrumented builds of the examples, relative to plain ones.

    python studies/benchmarks/overhead.py [--pairs 7] [--ranks 1] [--filter FILE] [--json FILE] [NAME ...]

Every build comes from the same compiler. A round runs each build once, every other round in reverse order, so
that each instrumented run has a plain one close to it in time (A B B A); a run outside the count warms up.
CPU time (user and system, of the launcher and all ranks) is less disturbed by other load than wall time is.
The figure is the median of the rounds' ratios, with the smallest and the greatest. The line `effort / time`
is what counting basic blocks adds to the hooks.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from buran.campaign.launcher import Placement, launch, usable_cores
from buran.campaign.plan import Mode
from buran.errors import BuildError, BuranError, RunError
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.toolchain import Toolchain
from buran.profiles.profile import Profile

EXAMPLES = Path(__file__).parents[2] / "examples"
MINIMUM_PAIRS = 5


@dataclass(frozen=True)
class Workload:
    """A program and its arguments: about one CPU second with one rank."""

    name: str
    program: str
    arguments: tuple[str, ...]


WORKLOADS = (
    Workload("stencil", "stencil", ("96", "150")),
    Workload("sweep", "sweep", ("32", "8", "100")),
    Workload("treesort", "treesort", ("8388608",)),
    # The smallest sizes of the demo: functions of a microsecond or less, so that the price of a hook shows.
    Workload("stencil-small", "stencil", ("8", "80000")),
    Workload("sweep-small", "sweep", ("8", "8", "6000")),
)
MODES = (Mode.VANILLA, Mode.TIME, Mode.EFFORT)
COMPARISONS = ((Mode.TIME, Mode.VANILLA), (Mode.EFFORT, Mode.VANILLA), (Mode.EFFORT, Mode.TIME))


@dataclass(frozen=True)
class Overhead:
    """CPU time of one build relative to another.

    Attributes
    ----------
    cpu_s, base_cpu_s
        CPU time of each round, in seconds; the same position is the same round.
    """

    workload: str
    build: str
    base: str
    cpu_s: tuple[float, ...]
    base_cpu_s: tuple[float, ...]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Ratio of each round."""
        return tuple(a / b for a, b in zip(self.cpu_s, self.base_cpu_s, strict=True))

    @property
    def ratio(self) -> float:
        """Median of the rounds' ratios."""
        return statistics.median(self.ratios)


@dataclass(frozen=True)
class Workshop:
    """The toolchain, and compiler wrappers that work without buran being installed.

    Attributes
    ----------
    folder
        Holds the wrappers and the builds.
    """

    toolchain: Toolchain
    folder: Path

    @classmethod
    def open(cls, compiler: str, folder: Path) -> Workshop:
        """Find the compiler and the MPI of this machine."""
        toolchain = find_toolchain(compiler=compiler)
        (folder / "toolchain.json").write_text(toolchain.to_json())
        for name in ("mpicc", "mpicxx"):
            code = f"from buran.measurement.toolchain.wrappers import {name}; {name}()"
            script = folder / name
            script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(code)} "$@"\n')
            script.chmod(0o755)
        return cls(toolchain, folder)

    def build(self, workload: Workload, mode: Mode, filter_file: Path | None) -> Path:
        """Build one variant of an example in a folder of its own; return the binary."""
        folder = self.folder / workload.name / mode
        folder.mkdir(parents=True)
        variables = {"BURAN_MODE": str(mode), "BURAN_TOOLCHAIN": str(self.folder / "toolchain.json")}
        if filter_file is not None and mode is not Mode.VANILLA:
            variables["BURAN_FILTER"] = str(filter_file)
        tools = [f"{name.upper()}={self.folder / name}" for name in ("mpicc", "mpicxx")]
        done = subprocess.run(
            ["make", "-f", str(EXAMPLES / workload.program / "Makefile"), *tools],
            cwd=folder,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            messages = done.stdout + done.stderr
            raise BuildError(f"{workload.program} does not build for {mode}", where=folder, why=messages)
        return folder / workload.program

    def run(self, binary: Path, workload: Workload, mode: Mode, ranks: int) -> tuple[float, Profile | None]:
        """Run a build once and return its CPU time in seconds, and the profile of an instrumented one.

        Raises
        ------
        RunError
            The run failed or left no whole profile: a build that records nothing would be a cheap one.
        """
        started = launch(
            self.toolchain.mpi,
            [str(binary), *workload.arguments],
            Placement(ranks),
            program=self.toolchain.mpiexec,
            oversubscribe=ranks > usable_cores(),
            as_root=os.geteuid() == 0,
        )
        with tempfile.TemporaryDirectory(dir=binary.parent) as folder:
            environment = {**os.environ, **started.variables, "BURAN_PROFILE_DIR": folder}
            spent_s = cpu_time_s(started.argv, environment, Path(folder))
            profile = None if mode is Mode.VANILLA else read_dumps(Path(folder), ranks)
        return spent_s, profile


def cpu_time_s(
    argv: Sequence[str], environment: Mapping[str, str], folder: Path, exit_codes: Sequence[int] = (0,)
) -> float:
    """Run a command and return user plus system time of it and of all processes it waited for."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(argv, env=environment, cwd=folder, stdout=output, stderr=output)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in exit_codes:
            output.seek(0)
            text = output.read().decode(errors="replace")
            raise RunError(f"{shlex.join(argv)} ended with {process.returncode}", why=text)
    return usage.ru_utime + usage.ru_stime


def measure(workshop: Workshop, workload: Workload, filter_file: Path | None, pairs: int, ranks: int) -> list[Overhead]:
    """Measure all builds of one workload in interleaved rounds."""
    binaries = {mode: workshop.build(workload, mode, filter_file) for mode in MODES}
    times: dict[Mode, list[float]] = {mode: [] for mode in MODES}
    for mode, binary in binaries.items():
        workshop.run(binary, workload, mode, ranks)
    for number in range(pairs):
        for mode in MODES if number % 2 == 0 else reversed(MODES):
            spent_s, _ = workshop.run(binaries[mode], workload, mode, ranks)
            times[mode].append(spent_s)
    return [
        Overhead(workload.name, str(mode), str(base), tuple(times[mode]), tuple(times[base]))
        for mode, base in COMPARISONS
    ]


def show(results: Sequence[Overhead], workshop: Workshop, file: Path | None, settings: Mapping[str, object]) -> None:
    """Print the ratios; with a file, write them there too, with the machine and the settings."""
    print(as_table(results))
    if file is not None:
        record = {
            "compiler": workshop.toolchain.compiler_version,
            "toolchain": workshop.toolchain.fingerprint,
            "machine": platform.platform(),
            "cores": usable_cores(),
            **settings,
            "results": [{**asdict(result), "ratio": result.ratio} for result in results],
        }
        file.write_text(json.dumps(record, indent=1) + "\n")


def as_table(results: Sequence[Overhead]) -> str:
    """Return one line for each comparison."""
    rows = [("workload", "build / base", "pairs", "base", "ratio", "smallest", "greatest")]
    for result in results:
        base_s = statistics.median(result.base_cpu_s)
        ratios = (result.ratio, min(result.ratios), max(result.ratios))
        figures = (f"{len(result.ratios)}", f"{base_s:.2f} s", *(f"{ratio:.3f}" for ratio in ratios))
        rows.append((result.workload, f"{result.build} / {result.base}", *figures))
    lines = [f"{a:<15}{b:<18}" + "".join(f"{figure:>9}" for figure in rest) for a, b, *rest in rows]
    return "\n".join(lines)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    names = [workload.name for workload in WORKLOADS]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("workloads", nargs="*", metavar="NAME", help=f"of: {', '.join(names)} (default: all)")
    parser.add_argument("--pairs", type=int, default=7, help="rounds, at least 5 (default 7)")
    parser.add_argument("--ranks", type=int, default=1, help="MPI ranks (default 1)")
    parser.add_argument("--filter", type=Path, help="Score-P filter file for the instrumented builds")
    parser.add_argument("--compiler", default="auto", help="compiler family (default auto)")
    parser.add_argument("--limit", type=float, help="end with 1 if effort / vanilla is above this ratio")
    parser.add_argument("--json", type=Path, help="also write the times of all runs to this file")
    options = parser.parse_args(arguments)
    if options.pairs < MINIMUM_PAIRS:
        parser.error(f"--pairs: {options.pairs} is too few for a median, at least {MINIMUM_PAIRS}")
    if options.ranks < 1:
        parser.error("--ranks: at least 1")
    if unknown := set(options.workloads) - set(names):
        parser.error(f"unknown workload {min(unknown)!r}, choose from {', '.join(names)}")
    if options.filter is not None and not options.filter.is_file():
        parser.error(f"--filter: {options.filter} is no file")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write the results; return the exit code."""
    options = parse(arguments)
    filter_file = None if options.filter is None else options.filter.resolve()
    chosen = [w for w in WORKLOADS if not options.workloads or w.name in options.workloads]
    results: list[Overhead] = []
    with tempfile.TemporaryDirectory(prefix="buran-overhead-") as folder:
        try:
            workshop = Workshop.open(options.compiler, Path(folder))
            for workload in chosen:
                print(f"measuring {workload.name} ...", file=sys.stderr)
                results += measure(workshop, workload, filter_file, options.pairs, options.ranks)
        except BuranError as error:
            print(error, file=sys.stderr)
            return int(error.exit_code)
    settings = {
        "ranks": options.ranks,
        "filter": None if filter_file is None else filter_file.read_text(),
        "workloads": {w.name: shlex.join([w.program, *w.arguments]) for w in chosen},
    }
    show(results, workshop, options.json, settings)
    counting = [r.ratio for r in results if (r.build, r.base) == (Mode.EFFORT, Mode.VANILLA)]
    return 1 if options.limit is not None and max(counting) > options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
