"""Programs built and run with one filter after the other, for the study of refinement."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from buran import assets
from buran.campaign.launcher import Placement, launch, usable_cores
from buran.campaign.plan import Mode
from buran.campaign.space import extrapolated
from buran.errors import BuildError, RunError
from buran.files import digest
from buran.measurement.machine.machine import free_marker
from buran.measurement.machine.process import run_limited
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.elf import Elf
from buran.measurement.toolchain.static_features import StaticFeatures, read_static_features
from buran.measurement.toolchain.toolchain import Toolchain
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import Profile

_TIME_LIMIT_S = 900.0


@dataclass(frozen=True)
class Program:
    """What is built and run.

    Attributes
    ----------
    source
        Folder; of the bundled examples if it is one of their names.
    build
        Shell command, run in a copy of the sources; ``$CXX`` and ``$CC`` are the compilers.
    binary, arguments
        The program and its arguments, with ``{n}``; ``{p}`` is the number of ranks.
    points
        Values of `parameters`, the largest last.
    """

    name: str
    source: str
    build: str
    binary: str
    arguments: tuple[str, ...]
    parameters: tuple[str, ...]
    points: tuple[tuple[int, ...], ...]


def _line(*sizes: int) -> tuple[tuple[int, ...], ...]:
    return tuple((n,) for n in sizes)


_GRID = tuple((p, n) for p in (1, 2, 4) for n in (8, 12, 16, 20))
PROGRAMS: Mapping[str, Program] = {
    each.name: each
    for each in (
        Program(
            "stencil", "stencil", 'make MPICXX="$CXX"', "stencil", ("{n}", "300"), ("n",), _line(16, 28, 40, 52, 64)
        ),
        Program("sweep", "sweep", 'make MPICC="$CC"', "sweep", ("{n}", "8", "40"), ("n",), _line(8, 16, 24, 32, 40)),
        Program(
            "treesort",
            "treesort",
            'make MPICXX="$CXX"',
            "treesort",
            ("{n}",),
            ("n",),
            _line(262144, 524288, 1048576, 2097152, 4194304),
        ),
        Program("stencil-pn", "stencil", 'make MPICXX="$CXX"', "stencil", ("{n}", "300"), ("p", "n"), _GRID),
        Program(
            "LULESH",
            "LULESH",
            'make CXX="$CXX -DUSE_MPI=1" CXXFLAGS="-O3 -I." LDFLAGS="-O3"',
            "lulesh2.0",
            ("-s", "{n}", "-i", "20"),
            ("n",),
            _line(8, 12, 16, 20, 24),
        ),
        Program(
            "HPCG",
            "hpcg",
            "$CXX -O3 -DHPCG_NO_OPENMP -Isrc src/*.cpp -o xhpcg",
            "xhpcg",
            ("--nx={n}", "--ny={n}", "--nz={n}", "--rt=0"),
            ("n",),
            _line(16, 24, 32, 40),
        ),
    )
}
BUNDLED = ("stencil", "sweep", "treesort")


@dataclass
class Lab:
    """One program with its builds and what was measured with them: what two methods both need is done once.

    Attributes
    ----------
    cpu_s
        CPU time of the last run by filter and point.
    """

    program: Program
    source: Path
    toolchain: Toolchain
    folder: Path
    cpu_s: dict[tuple[str, tuple[int, ...]], float] = field(default_factory=dict)
    _built: dict[str, tuple[Path, StaticFeatures | None]] = field(default_factory=dict)
    _measured: dict[str, tuple[Experiment, float]] = field(default_factory=dict)

    def build(self, filter_text: str | None, mode: Mode = Mode.TIME) -> tuple[Path, StaticFeatures | None]:
        """Return the program and what is known of it; no filter builds it without hooks."""
        mode = Mode.VANILLA if filter_text is None else mode
        key = f"{mode}-{digest(filter_text)}"
        if key in self._built:
            return self._built[key]
        tree = self.folder / key
        skipped = shutil.ignore_patterns(".git", "*.o", self.program.binary)
        shutil.copytree(self.source, tree, ignore=skipped, symlinks=True)
        toolchain_file = self.folder / "toolchain.json"
        if not toolchain_file.is_file():
            toolchain_file.write_text(self.toolchain.to_json())
        environment = {
            **os.environ,
            "BURAN_MODE": str(mode),
            "BURAN_TOOLCHAIN": str(toolchain_file),
            "BURAN_FILTER": "",
            "CC": str(Path(sys.executable).parent / "buran-mpicc"),
            "CXX": str(Path(sys.executable).parent / "buran-mpicxx"),
        }
        if filter_text:
            (self.folder / f"{key}.filter").write_text(filter_text)
            environment["BURAN_FILTER"] = str(self.folder / f"{key}.filter")
        done = subprocess.run(
            ["bash", "-c", self.program.build], cwd=tree, env=environment, capture_output=True, text=True, check=False
        )
        binary = tree / self.program.binary
        if done.returncode or not binary.is_file():
            raise BuildError(f"{self.program.name} does not build", where=tree, why=(done.stdout + done.stderr)[-2000:])
        features = None
        if filter_text is not None:
            own = {f.name for path in self.toolchain.objects[str(mode)] for f in Elf.read(Path(path)).functions or ()}
            features = read_static_features(binary, tree, own)
        self._built[key] = binary, features
        return binary, features

    def run(self, binary: Path, point: Sequence[int], mode: Mode) -> tuple[float, Profile | None]:
        """Run a build once; return its CPU time and the profile of an instrumented one."""
        values = dict(zip(self.program.parameters, point, strict=True))
        ranks = values.get("p", 1)
        words = [word.format(**values) for word in self.program.arguments]
        start = launch(
            self.toolchain.mpi,
            [str(binary), *words],
            Placement(ranks),
            program=str(self.toolchain.mpiexec),
            oversubscribe=ranks > usable_cores(),
            as_root=os.geteuid() == 0,
        )
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            raw, output = Path(name, "raw"), Path(name, "output.log")
            raw.mkdir()
            environment = {
                **os.environ,
                **start.variables,
                "OMP_NUM_THREADS": "1",
                "BURAN_PROFILE_DIR": str(raw),
                "BURAN_COUNTERS": "",
            }
            outcome = run_limited(
                start.argv,
                cwd=Path(name),
                environment=environment,
                marker=free_marker(),
                stdout=Path(name, "stdout.log"),
                stderr=output,
                time_limit_s=_TIME_LIMIT_S,
            )
            if outcome.failure:
                text = output.read_text(errors="replace")[-2000:]
                raise RunError(f"{self.program.name}: {outcome.failure}", where=str(values), why=text)
            profile = None if mode is Mode.VANILLA else read_dumps(raw, ranks)
        return outcome.user_s + outcome.system_s, profile

    def experiment(
        self,
        filter_text: str,
        points: Sequence[Sequence[int]],
        repetitions: int,
        mode: Mode = Mode.TIME,
        *,
        fresh: bool = False,
    ) -> tuple[Experiment, StaticFeatures, float]:
        """Measure with a filter; return the table, what is known of the build, and the CPU time of all runs.

        The same is measured once, unless it is to be `fresh`.
        """
        binary, features = self.build(filter_text, mode)
        assert features is not None
        key = digest([filter_text, [list(point) for point in points], repetitions, str(mode)])
        if fresh or key not in self._measured:
            runs = []
            spent_s = 0.0
            for point in points:
                values = {name: float(value) for name, value in zip(self.program.parameters, point, strict=True)}
                for repetition in range(repetitions):
                    cpu_s, profile = self.run(binary, point, mode)
                    assert profile is not None
                    spent_s += cpu_s
                    self.cpu_s[filter_text, tuple(point)] = cpu_s
                    runs.append((values, repetition, profile))
            self._measured[key] = experiment_from_profiles(runs), spent_s
        experiment, spent_s = self._measured[key]
        return experiment, features, spent_s

    def rounds(self, filters: Sequence[str], count: int) -> dict[str | None, list[float]]:
        """Return CPU times of all points together, by filter and for None without hooks, in rounds side by side."""
        variants = [None, *dict.fromkeys(filters)]
        binaries = {text: self.build(text)[0] for text in variants}
        found: dict[str | None, list[float]] = {text: [] for text in variants}
        for number in range(count + 1):
            order = variants if number % 2 else variants[::-1]
            cpu_s = dict.fromkeys(variants, 0.0)
            for point in self.program.points if number else self.program.points[:1]:
                for text in order:
                    cpu_s[text] += self.run(binaries[text], point, Mode.VANILLA if text is None else Mode.TIME)[0]
            if number:  # the first round warms up
                for text, value in cpu_s.items():
                    found[text].append(value)
        return found


def source_of(program: Program, data: Path | None) -> Path | None:
    """Return the folder of a program's sources; None if the user did not bring them."""
    if program.source in BUNDLED:
        return assets.folder("examples") / program.source
    path = None if data is None else data / program.source
    return path if path is not None and path.is_dir() else None


def target_of(program: Program) -> np.ndarray:
    """Return the point models are extrapolated to: four times the largest value of each parameter."""
    largest: np.ndarray = np.array(program.points, dtype=np.float64).max(axis=0)
    return 4.0 * largest


def published_target(program: Program) -> np.ndarray:
    """Return p_ext = p_n + d of PIRA II, section V-B2, in each parameter."""
    values = {name: sorted({point[k] for point in program.points}) for k, name in enumerate(program.parameters)}
    return np.array([float(extrapolated("linear", name, values)) for name in program.parameters])
