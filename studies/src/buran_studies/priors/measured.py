"""Generated programs that really run: counts and times of their functions."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from buran.campaign.plan import Mode
from buran.errors import RunError
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.experiment.jsonl import read_jsonl, write_jsonl
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree, Profile
from buran.workflow.collect import only
from buran_studies.generator.program import Truth, write_program
from buran_studies.generator.spec import Spec, random_spec
from buran_studies.priors.runs import Workshop

BUILD = "{mpicxx} -std=c++17 -O2 -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX -o synthetic *.cpp"
TEST_POINT = {"p": 16, "n": 96}
PARTS = ("computation", "communication")
_OVERHEAD_ROUNDS = 3
_ATTEMPTS = 3
_COUNTS = (
    "visits",
    "basic_blocks",
    "bytes_sent",
    "bytes_received",
    "communicator_size_sum",
    "communicator_size_max",
)

_MODES = (Mode.VANILLA, Mode.TIME, Mode.EFFORT)


def count(functions: int, seed: int) -> dict[str, Any]:
    """Generate a program, build it and count at all its points; compare what builds cost.

    Returns
    -------
    dict
        JSON values: the measurement table of counts as JSON Lines, and what building and running took.
    """
    spec = random_spec("synthetic", functions, seed)
    with _runs(spec, _MODES) as runs:
        counted = experiment_from_profiles(runs.all(spec, Mode.EFFORT, test=False))
        again, _ = runs.one(Mode.EFFORT, 2, 4)
        overhead = runs.overhead()
        path = runs.workshop.folder / "counted.jsonl"
        write_jsonl(only(counted, _COUNTS), path)
        return {
            "counted": path.read_text(),
            "overhead": overhead,
            "counts_are_the_same": _same(again, counted),
            **runs.told(),
        }


def time_once(functions: int, seed: int, repetition: int) -> dict[str, Any]:
    """Measure the times of the program's functions once at all points and at the test point.

    Returns
    -------
    dict
        JSON values: points, shape (point, parameter), and for each part of the functions times in seconds, mean over
        ranks, exclusive, shape (function, point).
    """
    spec = random_spec("synthetic", functions, seed)
    with _runs(spec, (Mode.TIME,)) as runs:
        timed = experiment_from_profiles(runs.all(spec, Mode.TIME, test=True))
        times = timed.over_locations("time")[..., 0]
        rows = rows_of(spec, timed.tree)
        return {
            "points": timed.points.tolist(),
            "time": {part: times[[row[part] for _, row in rows]].tolist() for part in PARTS},
            "repetition": repetition,
            **runs.told(),
        }


def counted_table(result: Mapping[str, Any]) -> Experiment:
    """Read the table that `count` returned."""
    with tempfile.TemporaryDirectory(prefix="buran-priors-") as name:
        path = Path(name) / "counted.jsonl"
        path.write_text(result["counted"])
        return read_jsonl(path)


@contextmanager
def _runs(spec: Spec, modes: Sequence[Mode]) -> Iterator[_Runs]:
    """Build some variants of a program in a folder that vanishes afterwards."""
    with tempfile.TemporaryDirectory(prefix="buran-priors-") as name:
        workshop = Workshop.open(Path(name))
        source = workshop.folder / "source" / "synthetic"
        write_program(spec, source)
        binaries, builds = {}, {}
        for mode in modes:
            binaries[mode], outcome = workshop.build(BUILD, source, "synthetic", mode)
            builds[str(mode)] = {
                "wall_s": outcome.wall_s,
                "cpu_s": outcome.user_s + outcome.system_s,
                "max_rss_mib": outcome.max_rss_kib / 1024,
            }
        yield _Runs(workshop, binaries, builds)


class _Runs:
    """Runs programs and adds up what that takes."""

    def __init__(self, workshop: Workshop, binaries: Mapping[Mode, Path], builds: Mapping[str, Any]) -> None:
        self.workshop, self.binaries, self.builds = workshop, binaries, builds
        self.number, self.wall_s, self.cpu_s, self.max_rss_mib = 0, 0.0, 0.0, 0.0
        self.failed = 0
        self.prices: list[list[float]] = []

    def one(self, mode: Mode, ranks: int, n: int) -> tuple[Profile | None, float]:
        for attempt in range(_ATTEMPTS):
            try:
                profile, outcome = self.workshop.run(self.binaries[mode], mode, ranks, [str(n)])
                break
            except RunError:  # of the launcher: a machine with more ranks than cores now and then refuses one
                self.failed += 1
                if attempt == _ATTEMPTS - 1:
                    raise
        cpu_s = outcome.user_s + outcome.system_s
        self.number += 1
        self.wall_s += outcome.wall_s
        self.cpu_s += cpu_s
        self.max_rss_mib = max(self.max_rss_mib, outcome.max_rss_kib / 1024)
        return profile, cpu_s

    def all(self, spec: Spec, mode: Mode, *, test: bool) -> Iterator[tuple[Mapping[str, float], int, Profile]]:
        for point in [{"p": int(p), "n": int(n)} for p, n in spec.points] + ([TEST_POINT] if test else []):
            profile, cpu_s = self.one(mode, point["p"], point["n"])
            assert profile is not None
            self.prices.append([point["p"], point["n"], cpu_s])
            yield point, 0, profile

    def overhead(self) -> dict[str, float]:
        """Return CPU time relative to the build without instrumentation: median of rounds."""
        ratios: dict[Mode, list[float]] = {Mode.TIME: [], Mode.EFFORT: []}
        for _ in range(_OVERHEAD_ROUNDS):
            cpu_s = {mode: self.one(mode, 2, 64)[1] for mode in _MODES}
            for mode, ratio in ratios.items():
                ratio.append(cpu_s[mode] / cpu_s[Mode.VANILLA])
        return {str(mode): float(np.median(ratio)) for mode, ratio in ratios.items()}

    def told(self) -> dict[str, Any]:
        """Return what building and running took, as JSON values; prices are (p, n, CPU seconds) of each run."""
        return {
            "builds": self.builds,
            "prices": self.prices,
            "runs": {
                "number": self.number,
                "wall_s": self.wall_s,
                "cpu_s": self.cpu_s,
                "max_rss_mib": self.max_rss_mib,
                "failed": self.failed,
            },
        }


def _same(profile: Profile | None, counted: Experiment) -> bool:
    """Whether a second run has the counts of the first."""
    assert profile is not None
    again = experiment_from_profiles([({"p": 2, "n": 4}, 0, profile)])
    place = int(np.flatnonzero((counted.points == [2, 4]).all(axis=1))[0])
    row = {path: number for number, path in enumerate(counted.tree.names)}
    return all(
        np.array_equal(
            again.values[metric][:, 0, 0],
            counted.values[metric][[row[path] for path in again.tree.names], place, 0],
        )
        for metric in ("basic_blocks", "visits", "bytes_sent", "bytes_received")
    )


def rows_of(spec: Spec, tree: CallTree) -> list[tuple[Truth, dict[str, int]]]:
    """Find the call paths of each kernel and of its operation.

    Raises
    ------
    RunError
        If one was not called.
    """
    place = {}
    for row, name in enumerate(tree.names):
        parts = [part.split("(")[0] for part in name.split("->")]
        place[tuple(parts[-2:])] = row
        place[(parts[-1],)] = row
    out = []
    for kernel in spec.kernels:
        truth = Truth.of(kernel)
        wanted = {"computation": (kernel.name,), "communication": (truth.communicator, truth.operation or "")}
        if missing := [" -> ".join(path) for path in wanted.values() if path not in place]:
            raise RunError(f"{missing[0]} is not in the profile")
        out.append((truth, {part: place[path] for part, path in wanted.items()}))
    return out
