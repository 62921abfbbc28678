"""Measuring with Score-P: its wrappers, filters, environment and profiles.

Score-P measures times, visits and bytes. Basic blocks, which it does not know, come from a second build with the
embedded plugin; or a metric that the user names stands for them, counted in a second build with Score-P. What is said
of Score-P here was checked against version 8.4.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.campaign.config import Campaign
from buran.campaign.plan import Mode
from buran.errors import BuildError, FormatError, RunError, ToolError
from buran.measure.backends.base import Backend, MeasurementSystem
from buran.measure.backends.embedded import EmbeddedBackend, open_embedded
from buran.measure.finding import Finding, Health
from buran.measure.merge_dumps import placement_of
from buran.measure.toolchain.elf import Elf, is_elf
from buran.measure.toolchain.hook_cost import visit_cost_s
from buran.measure.toolchain.static_features import StaticFeatures, included_symbols
from buran.measure.toolchain.tool import find_tool, run_tool
from buran.profile.cubex_read import read_cubex, read_hosts
from buran.profile.metrics import asked_for_by, metric_of, table
from buran.profile.profile import Profile
from buran.profile.symbols import symbols_alike

EXPERIMENT = "scorep"
HOOKS_SECTION = ".scorep.region.descrs"
HOOK_BYTES = 64  # one description a function
_SYMBOL_AT = 16  # in a description
_MARKERS = 2  # descriptions without a function, at the section's ends
_WRAPPERS = {
    "cc": ("scorep-gcc",),
    "cxx": ("scorep-g++",),
    "fc": ("scorep-gfortran",),
    "mpicc": ("scorep-mpicc",),
    "mpicxx": ("scorep-mpicxx",),
    "mpifort": ("scorep-mpifort", "scorep-mpif90"),
}
# Filters at compile time: GCC's plugin has them, and from 9.0 on the one for LLVM.
_FILTERED = "--instrument-filter"


@dataclass(frozen=True)
class Installation:
    """A Score-P that was found.

    Attributes
    ----------
    version
        As ``8.4``.
    wrappers
        Compiler wrappers by our placeholders.
    """

    version: str
    wrappers: Mapping[str, str]


def find_scorep() -> Installation:
    """Find Score-P in PATH.

    Raises
    ------
    ToolError
        It is not there, or lacks its wrappers for an MPI.
    """
    program = find_tool("scorep")
    if program is None:
        raise ToolError(
            "Score-P was not found",
            where="PATH",
            why="there is no program scorep",
            hint="load its module, or choose backend: embedded",
        )
    text = run_tool([program, "--version"], what="Score-P does not say its version")
    version = re.search(r"\b(\d+\.\d+[\w.]*)", text)
    if version is None:
        raise ToolError("Score-P does not say its version", where=program, why=text.strip()[:200])
    found = {}
    for role, names in _WRAPPERS.items():
        paths = [path for path in map(find_tool, names) if path is not None]
        if paths:
            found[role] = paths[0]
    if not {"mpicc", "mpicxx"} & set(found):
        raise ToolError(
            "Score-P has no wrappers for an MPI",
            where=program,
            why="neither scorep-mpicc nor scorep-mpicxx is in PATH",
            hint="install a Score-P that was configured with an MPI",
        )
    return Installation(version.group(1), found)


@dataclass(frozen=True)
class ScorePBackend(Backend):
    """Score-P for times; the embedded backend counts basic blocks.

    Attributes
    ----------
    scorep
        The installation.
    embedded
        For builds that count, and for what is known of compiler and MPI.
    memory_mb
        That Score-P may use in each process.
    effort_metric
        Metric of Score-P that stands for basic blocks; None to count these with the embedded backend.
    """

    scorep: Installation
    embedded: EmbeddedBackend
    memory_mb: int
    effort_metric: str | None = None

    @cached_property
    def identity(self) -> str:
        """Both systems, and the counters."""
        own = f"scorep-{self.scorep.version}-{self.embedded.identity}"
        return own if self.effort_metric is None else f"{own}-{self.effort_metric}"

    def _leaves_it_to_ours(self, mode: Mode) -> bool:
        return mode is Mode.EFFORT and self.effort_metric is None

    @property
    def description(self) -> Mapping[str, str | None]:
        """As the embedded backend found it, and Score-P's version."""
        return {**self.embedded.description, "scorep": self.scorep.version}

    @property
    def mpi_flavour(self) -> str:
        """As the embedded backend found it: both use the MPI in PATH."""
        return self.embedded.mpi_flavour

    @property
    def mpiexec(self) -> str:
        """As the embedded backend found it."""
        return self.embedded.mpiexec

    @property
    def notes(self) -> tuple[str, ...]:
        """As the embedded backend found it, and what stands for basic blocks."""
        if self.effort_metric is None:
            return self.embedded.notes
        return (*self.embedded.notes, f"What is called basic blocks is Score-P's metric {self.effort_metric}.")

    def tools(self, mode: Mode) -> Mapping[str, str]:
        """Return Score-P's wrappers; ours for builds that count basic blocks."""
        if self._leaves_it_to_ours(mode):
            return self.embedded.tools(mode)
        # A language without a wrapper is compiled by ours, without hooks.
        return {**self.embedded.tools(mode), **self.scorep.wrappers}

    def build_environment(self, mode: Mode, filter_file: Path | None) -> Mapping[str, str]:
        """Tell the wrappers what to do; a compiler cache would not know of the filter.

        Raises
        ------
        BuildError
            The path of the filter has blanks, which the wrappers cannot hand on.
        """
        if self._leaves_it_to_ours(mode):
            return self.embedded.build_environment(mode, filter_file)
        ours = self.embedded.build_environment(Mode.VANILLA, None)
        if mode is Mode.VANILLA:
            return {**ours, "SCOREP_WRAPPER": "off"}
        options = "" if filter_file is None else f"{_FILTERED}={filter_file.resolve()}"
        if len(options.split()) > 1:
            raise BuildError(
                "Score-P's wrappers cannot take a filter whose path has blanks",
                where=filter_file,
                hint="choose another folder for the results",
            )
        return {
            **ours,
            "SCOREP_WRAPPER": "on",
            "SCOREP_WRAPPER_INSTRUMENTER_FLAGS": options,
            "SCOREP_WRAPPER_COMPILER_FLAGS": "",
            "CCACHE_DISABLE": "1",
        }

    def visit_cost_s(self) -> float | None:
        """Measure it with a small program; without a wrapper for C nothing is known."""
        compiler = self.scorep.wrappers.get("cc") or self.scorep.wrappers.get("mpicc")
        if compiler is None:
            return None
        build = partial(self.build_environment, Mode.TIME)
        return visit_cost_s(self.identity, Path(compiler), build, partial(self.run_environment, Mode.TIME))

    def inspect_build(
        self, binary: Path, folder: Path, filter_text: str, mode: Mode
    ) -> tuple[StaticFeatures | None, tuple[str, ...]]:
        """Look which functions have hooks, and compare them with the filter."""
        if self._leaves_it_to_ours(mode):
            return self.embedded.inspect_build(binary, folder, filter_text, mode)
        if not is_elf(binary):
            return None, (f"{binary.name} is a script: what it starts cannot be checked.",)
        file = Elf.read(binary)
        if file.section(HOOKS_SECTION) is None and not any(name.startswith("libscorep_") for name in file.needed):
            raise BuildError(
                "the program was not built with Score-P's wrappers",
                where=binary,
                hint="the build command must use the compilers it is given: {mpicc}, {mpicxx}, {cc}, {cxx}",
            )
        return None, notes_on_hooks(hooked_functions(file), included_symbols(filter_text))

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Tell Score-P where to leave its profile. Everything that changes what is measured is said, for each run."""
        if mode is Mode.VANILLA or self._leaves_it_to_ours(mode):
            return self.embedded.run_environment(mode, folder, filter_file)
        counters, papi = ",".join(metric_of(name).perf for name in self.embedded.counters), ""
        if mode is Mode.EFFORT and self.effort_metric is not None:
            is_papi = self.effort_metric.startswith("PAPI_")
            counters, papi = ("", self.effort_metric) if is_papi else (self.effort_metric, "")
        return {
            "SCOREP_EXPERIMENT_DIRECTORY": str(folder / EXPERIMENT),
            "SCOREP_OVERWRITE_EXPERIMENT_DIRECTORY": "false",
            "SCOREP_ENABLE_PROFILING": "true",
            "SCOREP_ENABLE_TRACING": "false",
            "SCOREP_ENABLE_UNWINDING": "false",
            "SCOREP_TOTAL_MEMORY": f"{self.memory_mb}M",
            "SCOREP_PROFILING_BASE_NAME": "profile",
            "SCOREP_PROFILING_FORMAT": "cube4",
            "SCOREP_PROFILING_MAX_CALLPATH_DEPTH": "1000",
            "SCOREP_FILTERING_FILE": "" if filter_file is None else str(filter_file),
            "SCOREP_SELECTIVE_CONFIG_FILE": "",
            "SCOREP_METRIC_PAPI": papi,
            "SCOREP_METRIC_RUSAGE": "",
            "SCOREP_METRIC_PLUGINS": "",
            "SCOREP_METRIC_PERF": counters,
            "SCOREP_VERBOSE": "false",
        }

    def collect(self, mode: Mode, folder: Path, ranks: int) -> Profile:
        """Read the profile; raise `RunError` unless all ranks are in it."""
        if mode is Mode.VANILLA or self._leaves_it_to_ours(mode):
            return self.embedded.collect(mode, folder, ranks)
        metric = self.effort_metric if mode is Mode.EFFORT else None
        return read_scorep_profile(folder / EXPERIMENT / "profile.cubex", ranks, metric)


def read_scorep_profile(path: Path, ranks: int, effort_metric: str | None = None) -> Profile:
    """Read a profile of Score-P, its counters under our names.

    Parameters
    ----------
    effort_metric
        The one that stands for basic blocks.

    Raises
    ------
    RunError
        There is none, it cannot be read, or ranks or the metric are missing.
    """
    if not path.is_file():
        raise RunError(
            "Score-P left no profile",
            where=path,
            why="the program did not end regularly, or was not built with Score-P",
        )
    try:
        profile = read_cubex(path)
    except FormatError as error:
        raise RunError("the profile cannot be read", where=path, why=error.why or error.what) from error
    found = {location.rank for location in profile.locations}
    if found != set(range(ranks)):
        missing = sorted(set(range(ranks)) - found)
        why = f"ranks {', '.join(map(str, missing[:8]))} are missing" if missing else f"it has {len(found)} ranks"
        raise RunError("the profile is not that of all ranks", where=path, why=why)
    for name in ("time", "visits"):
        if name not in profile.values:
            raise RunError(f"the profile has no {name}", where=path)
    ours = {metric_of(name).perf: name for name in asked_for_by("counters")}
    if effort_metric and effort_metric not in profile.values:
        raise RunError(
            f"the profile has no {effort_metric}",
            where=path,
            why="this Score-P or this processor does not know the metric",
            hint="scorep.effort_metric names one that `papi_avail` or `perf list` shows",
        )
    if effort_metric:
        ours |= {effort_metric: "basic_blocks"}
    names = {name: ours.get(name, name) for name in profile.values}
    hosts = {rank: (host, "") for rank, host in sorted(read_hosts(path).items())}
    return replace(
        profile,
        attributes={**profile.attributes, "placement": placement_of(hosts)},
        metrics={new: table().get(new, profile.metrics[old]) for old, new in names.items()},
        values={new: _values(profile, old, new) for old, new in names.items()},
    )


def _values(profile: Profile, theirs: str, name: str) -> NDArray[np.generic]:
    """Return a metric's values as our metric of that name stores them: Score-P writes counters inclusively."""
    values, kind = profile.values[theirs], profile.metrics[theirs].kind
    wanted = table().get(name, profile.metrics[theirs]).kind
    if {kind, wanted} == {"inclusive", "exclusive"}:
        change = profile.tree.exclusive if wanted == "exclusive" else profile.tree.inclusive
        return change(values.astype(np.float64)).astype(values.dtype)
    return values


def hooked_functions(file: Elf) -> frozenset[str] | None:
    """Return the symbols of functions that Score-P's compiler plugin hooked; None if the program does not tell.

    The plugin describes each function in a section of its own: pointers to a handle, to the name, to the symbol and to
    the file, and two lines. Two empty descriptions mark its ends. Linkers that leave pointers to the loader leave
    nothing to read.
    """
    described = file.section(HOOKS_SECTION) or b""
    hooked, empty = set(), 0
    for start in range(0, len(described) - HOOK_BYTES + 1, HOOK_BYTES):
        (symbol,) = struct.unpack_from("<Q", described, start + _SYMBOL_AT)
        if symbol:
            hooked.add(file.text_at(symbol))
        else:
            empty += 1
    return None if empty > _MARKERS else frozenset(hooked)


def notes_on_hooks(hooked: frozenset[str] | None, wanted: frozenset[str]) -> tuple[str, ...]:
    """Return what a user should know of the hooks of a build, in sentences."""
    if hooked is None:
        return ("The program does not tell which functions have hooks.",)
    recorded = set(symbols_alike(hooked))
    lacking = sorted(
        name for name, alike in zip(sorted(wanted), symbols_alike(sorted(wanted)), strict=True) if alike not in recorded
    )
    if not lacking:
        return ()
    some = ", ".join(lacking[:5]) + (", ..." if len(lacking) > 5 else "")
    return (
        f"{len(lacking)} functions of the filter cannot be recorded by Score-P: they are absent, were inlined away or "
        f"stand in system headers: {some}",
    )


class ScoreP(MeasurementSystem):
    """Score-P, which must be in PATH."""

    name = "scorep"

    def open(self, campaign: Campaign, scratch: Path) -> ScorePBackend:
        """Find a compiler, an MPI and Score-P."""
        config = campaign.config
        embedded = open_embedded(config.compiler, scratch, config.counters)
        return ScorePBackend(find_scorep(), embedded, config.scorep.process_memory_mb, config.scorep.effort_metric)

    def finding(self) -> Finding:
        """Look for it."""
        try:
            return Finding("Score-P", Health.WORKS, find_scorep().version)
        except ToolError as error:
            costs = "none for the embedded backend; filter lists for Score-P are written anyway"
            return Finding("Score-P", Health.MISSING, error.line, costs, "module load scorep, or spack install scorep")


SCOREP = ScoreP()
