"""Measuring with our own compiler plugin, runtime and MPI layer, and what a visit of an instrumented function costs."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.plan import COUNTING, Mode
from buran.errors import BuildError, RunError, ToolError
from buran.files import digest, write_text
from buran.measurement.backends.base import Backend, MeasurementSystem
from buran.measurement.dump import FEWER_CALL_PATHS, NODE_LIMIT
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.elf import Elf, is_elf
from buran.measurement.toolchain.installed import run_tool
from buran.measurement.toolchain.runtime import check_compiler, find_toolchain
from buran.measurement.toolchain.static_features import StaticFeatures, notes_on, read_static_features
from buran.measurement.toolchain.toolchain import FOR_A_PLUGIN, GCC_FALLBACK, Toolchain
from buran.profiles.metrics import MINOR_FAULTS, metric_of, sampled
from buran.profiles.profile import Profile

_PROGRAM = """\
#include <stdio.h>
#include <time.h>
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
__attribute__((noinline)) int visited(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
__attribute__((noinline)) int plain(int n) { __asm__ volatile("" ::: "memory"); return n + 1; }
int main(void) {
    double hooked = 1e9, bare = 1e9;
    for (int round = 0, since = 0; round < MOST && since < STABLE; round++) {
        double start = now();
        int n = 0;
        for (int i = 0; i < VISITS; i++) n = visited(n);
        double middle = now();
        for (int i = 0; i < VISITS; i++) n = plain(n);
        double end = now();
        printf("%.9g %.9g\\n", (middle - start) / VISITS, (end - middle) / VISITS);
        since = middle - start < 0.99 * hooked || end - middle < 0.99 * bare ? 0 : since + 1;
        if (middle - start < hooked) hooked = middle - start;
        if (end - middle < bare) bare = end - middle;
    }
    return 0;
}
"""
# Visits whose mean is the cost of one, in a round; rounds without a new minimum, by a percent, after which the least is
# taken for what a visit costs without disturbance; rounds in all. Load comes and goes within some rounds of 20 ms.
_SIZES = {"VISITS": 200_000, "STABLE": 12, "MOST": 100}
_FILTER = """\
SCOREP_REGION_NAMES_BEGIN
EXCLUDE *
INCLUDE MANGLED main visited
SCOREP_REGION_NAMES_END
"""
_WHAT = "the cost of instrumentation cannot be measured"


@dataclass(frozen=True)
class VisitCost:
    """What a visit of a function with hooks costs, in CPU time without the call itself.

    Attributes
    ----------
    seconds
        The least of all rounds with hooks, without the least of all rounds without.
    spread_s
        By how much more expensive the median round was: what other work on the machine adds.
    """

    seconds: float
    spread_s: float = 0.0


_measured: dict[str, VisitCost] = {}  # by the measurement system's identity, of this process


def cost_of_hooks(toolchain: Toolchain) -> VisitCost:
    """Return what a visit costs with a toolchain's hooks; see `visit_cost`."""
    with tempfile.TemporaryDirectory(prefix="buran-hooks-") as name:
        backend = EmbeddedBackend(toolchain, toolchain_file(toolchain, Path(name)))
        return visit_cost(backend, backend.tools(Mode.TIME)["cc"])


def visit_cost(backend: Backend, compiler: str) -> VisitCost:
    """Measure what a visit costs, once in a process, in rounds until none is cheaper than those before.

    Parameters
    ----------
    compiler
        Wrapper that puts hooks into C programs.

    Raises
    ------
    ToolError, RunError
        The small program that measures it cannot be built, or says nothing sensible.
    """
    identity = backend.identity
    if identity in _measured:
        return _measured[identity]
    with tempfile.TemporaryDirectory(prefix="buran-hooks-") as name:
        folder = Path(name)
        (folder / "hooks.c").write_text(_PROGRAM, encoding="utf-8")
        (folder / "filter").write_text(_FILTER, encoding="utf-8")
        sizes = [f"-D{name}={size}" for name, size in _SIZES.items()]
        words: list[str | Path] = [compiler, "-O2", *sizes, folder / "hooks.c", "-o", folder / "hooks"]
        build = backend.build_environment(Mode.TIME, folder / "filter")
        run_tool(words, what=_WHAT, env={**os.environ, **build, "BURAN_WRAPPER": ""})
        run = backend.run_environment(Mode.TIME, folder)
        text = run_tool([folder / "hooks"], what=_WHAT, env={**os.environ, **run})
    hooked, bare = np.array([line.split() for line in text.splitlines()], dtype=np.float64).T
    cost = float(hooked.min() - bare.min())
    if not 0 < cost < 1e-4:
        raise RunError(_WHAT, why=f"{cost} s for a visit")
    _measured[identity] = VisitCost(cost, max(float(np.median(hooked - bare)) - cost, 0.0))
    return _measured[identity]


DETAILED = "detailed"
_LAST_WORDS = re.compile(r"^(buran: .+)$", re.MULTILINE)


@dataclass(frozen=True)
class EmbeddedBackend(Backend):
    """Our own compiler plugin, runtime and MPI layer.

    Attributes
    ----------
    toolchain, toolchain_file
        Compiler, MPI and runtime; and the file that says so to the wrappers.
    counters
        What timed runs count beside the time.
    detailed
        Whether effort builds count kinds of operations, too.
    faults
        Whether effort builds count page faults, too.
    """

    toolchain: Toolchain
    toolchain_file: Path
    counters: tuple[str, ...] = ()
    detailed: bool = False
    faults: bool = False

    @cached_property
    def identity(self) -> str:
        """Name and fingerprint, and the counters, which take time, and what else is counted."""
        further = (*[DETAILED] * self.detailed, *[MINOR_FAULTS] * self.faults)
        return "-".join(("embedded", self.toolchain.fingerprint, *self.counters, *further))

    @property
    def description(self) -> Mapping[str, str | None]:
        """As the toolchain found it."""
        toolchain = self.toolchain
        return {
            "kind": toolchain.kind,
            "compiler": toolchain.compiler_version,
            "cc": toolchain.cc,
            "cxx": toolchain.cxx,
            "fc": toolchain.fc,
            "fortran": toolchain.fortran_version,
            "mpi": f"{toolchain.mpi} {toolchain.mpi_version}",
            "mpicc": toolchain.mpicc,
        }

    @property
    def mpi_flavour(self) -> str:
        """As the toolchain found it."""
        return self.toolchain.mpi

    @property
    def mpiexec(self) -> str:
        """As the toolchain found it."""
        return str(self.toolchain.mpiexec)

    @property
    def notes(self) -> tuple[str, ...]:
        """As the toolchain found it."""
        return tuple(self.toolchain.notes)

    def tools(self, mode: Mode) -> Mapping[str, str]:
        """Return our wrappers."""
        wrappers = Path(sys.executable).parent
        return {name: str(wrappers / f"buran-{name}") for name in ("cc", "cxx", "mpicc", "mpicxx", "fc", "mpifort")}

    def build_environment(self, mode: Mode, filter_file: Path | None) -> Mapping[str, str]:
        """Tell the wrappers what to do; the file that they read is written with the first build, not by looking."""
        if not self.toolchain_file.is_file():
            write_text(self.toolchain_file, self.toolchain.to_json())
        environment = {
            "BURAN_MODE": str(mode),
            "BURAN_TOOLCHAIN": str(self.toolchain_file),
            "BURAN_REQUIREMENTS": DETAILED if self.detailed else "",
            "CCACHE_DISABLE": "1",  # it knows neither mode nor filter
        }
        return environment if filter_file is None else {**environment, "BURAN_FILTER": str(filter_file)}

    def visit_cost(self) -> VisitCost | None:
        """Measure it, without counters; the fallback without a plugin has other hooks."""
        if self.toolchain.kind == GCC_FALLBACK:
            return None
        alone = replace(self, counters=(), detailed=False, faults=False)
        return visit_cost(alone, alone.tools(Mode.TIME)["cc"])

    def inspect_build(
        self, binary: Path, folder: Path, filter_text: str, mode: Mode
    ) -> tuple[StaticFeatures | None, tuple[str, ...]]:
        """Read the features from the program; refuse one that the wrappers had nothing to do with."""
        if self.toolchain.kind == GCC_FALLBACK:
            return None, ()
        if not is_elf(binary):
            return None, (f"{binary.name} is a script: what it starts cannot be checked.",)
        objects = {path for paths in self.toolchain.objects.values() for path in paths}
        runtime = {f.name for path in objects for f in Elf.read(Path(path)).functions or ()}
        features = read_static_features(binary, folder, runtime)
        if features is None:
            raise BuildError(
                "no code of the program was compiled with Buran's wrappers",
                where=binary,
                hint="the build command must use the compilers it is given: {mpicc}, {mpicxx}, {cc}, {cxx}",
            )
        return features, notes_on(features, filter_text)

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Tell the runtime what to count and where to leave its dumps; a plain program leaves none.

        No counters is said too: the user's own would make the times wrong.
        """
        if mode is Mode.VANILLA:
            return {}
        counters: dict[Mode, tuple[str, ...]] = dict.fromkeys(COUNTING, (MINOR_FAULTS,) if self.faults else ())
        counters[Mode.TIME] = self.counters
        return {
            "BURAN_PROFILE_DIR": str(folder),
            "BURAN_COUNTERS": ",".join(counters.get(mode, ())),
            "BURAN_RUN_FILTER": "" if filter_file is None else str(filter_file),
        }

    def why_failed(self, log: Path) -> str | None:
        """Return what the runtime wrote, and what to do where the call paths of a process did not fit."""
        said = _LAST_WORDS.search(log.read_text(errors="replace", encoding="utf-8"))
        if said is None:
            return None
        return f"the log says: {said[1]}" + (f"; {FEWER_CALL_PATHS}" if NODE_LIMIT in said[1] else "")

    def collect(self, mode: Mode, folder: Path, ranks: int) -> Profile:
        """Merge the dumps of all ranks."""
        return read_dumps(folder, ranks)


def open_embedded(
    compiler: str, scratch: Path, counters: tuple[str, ...] = (), *, detailed: bool = False, faults: bool = False
) -> EmbeddedBackend:
    """Prepare the embedded backend for use on this machine.

    Parameters
    ----------
    compiler
        Wanted compiler family, or ``auto``.
    scratch
        Folder for files that builds refer to.
    counters
        As in the campaign file.
    detailed, faults
        Whether effort builds count kinds of operations, and page faults, too.

    Raises
    ------
    ToolError
        A compiler or an MPI is missing.
    """
    toolchain = find_toolchain(compiler=compiler)
    return EmbeddedBackend(toolchain, toolchain_file(toolchain, scratch), counters, detailed, faults)


def toolchain_file(toolchain: Toolchain, scratch: Path) -> Path:
    """Return the file that will describe a toolchain to the wrappers."""
    return scratch / f"toolchain-{digest(toolchain.to_json())}.json"


class Embedded(MeasurementSystem):
    """Buran's own measurement system."""

    name = "embedded"

    def open(self, campaign: Campaign, scratch: Path) -> Backend:
        """Find a compiler and an MPI, or what simulates the machine."""
        compiler = campaign.compiler
        detailed = any(metric_of(name).is_detail for name in campaign.config.metrics)
        if campaign.simulator is not None:
            return campaign.simulator.open(scratch, detailed=detailed)
        faults = MINOR_FAULTS in campaign.config.metrics
        try:
            backend = open_embedded(compiler, scratch, campaign.config.counters, detailed=detailed, faults=faults)
        except ToolError as error:
            raise _missing_compiler(campaign) or error from None
        if campaign.memory_points and backend.toolchain.kind == GCC_FALLBACK:
            metric, found = sampled(campaign.config.metrics)[0], backend.toolchain.compiler_version
            raise ToolError(
                f"{metric} cannot be measured with {found}",
                where=f"{campaign.path}, key metrics",
                why="only compiler plugins sample accesses to memory",
                hint=FOR_A_PLUGIN,
            )
        return backend

    def obstacle(self, campaign: Campaign) -> ToolError | None:
        """Look for the compilers that the file names."""
        if campaign.simulator is not None:
            return None
        return next(filter(None, map(_missing_compiler, campaign.in_environments.values())), None)


def _missing_compiler(campaign: Campaign) -> ToolError | None:
    """Return why the compiler of the environment in use is not here, with the key that names it; None if it is."""
    try:
        check_compiler(campaign.compiler)
    except ToolError as error:
        own = campaign.active_environment.compiler != "auto"
        key = f"environments.{campaign.environment}.compiler" if own else "compiler"
        error.where = f"{campaign.path}, key {key}: {campaign.compiler}"
        return error
    return None


EMBEDDED = Embedded()
