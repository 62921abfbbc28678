"""Measuring with Score-P: its wrappers, filters, environment and profiles.

Score-P measures times, visits and bytes. Basic blocks, which it does not know, come from a second build with the
embedded plugin; or a metric that the user names stands for them, counted in a second build with Score-P. What is said
of Score-P here was checked against version 8.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from buran.campaign.config import Campaign
from buran.campaign.mistakes import Mistake
from buran.campaign.plan import Mode
from buran.errors import BuildError, FormatError, MetricError, RunError, ToolError
from buran.measurement.backends.base import Backend, MeasurementSystem
from buran.measurement.backends.embedded import EMBEDDED, EmbeddedBackend, VisitCost, open_embedded, visit_cost
from buran.measurement.finding import Finding, Health
from buran.measurement.machine.provenance import refused_counters
from buran.measurement.merge_dumps import placement_of
from buran.measurement.toolchain.elf import Elf, is_elf
from buran.measurement.toolchain.static_features import StaticFeatures, included_symbols
from buran.plugins.scorep.checks import scorep_mistakes
from buran.plugins.scorep.feature import keys_of
from buran.plugins.scorep.hooks import HOOKS_SECTION, hooked_functions, notes_on_hooks
from buran.plugins.scorep.installation import Installation, find_scorep
from buran.profiles.cubex_read import BELOW_ZERO, read_cubex, read_hosts
from buran.profiles.metrics import metric_of, requested_by, table
from buran.profiles.profile import Profile

EXPERIMENT = "scorep"
_EXCLUDE_ALL = re.compile(r"^EXCLUDE \*$", re.MULTILINE)
_IN_KERNEL = "context-switches"
# What Score-P writes when it gives up, and what that means to a campaign.
_LAST_WORDS = (
    (
        re.compile(r"Please increase SCOREP_TOTAL_MEMORY="),
        "the memory that Score-P has in each process was full: raise scorep.process_memory_mb, or instrument fewer "
        "functions, with refinement.drop: each call path takes about 230 bytes in every thread",
    ),
    (
        re.compile(r"initializing Linux PERF infrastructure: "),
        "this machine does not count what `counters` or `scorep.effort_metric` asks for: leave it out, or name another",
    ),
    (
        re.compile(r"[Ii]nconsistent profile|parameter with more parameters"),
        "the program records a parameter where no caller is instrumented: keep that function, with refinement.keep",
    ),
    (re.compile(r"Error while parsing filter file"), "Score-P cannot read the filter"),
    (
        re.compile(r"called before MPI_INIT|before MPI_Init"),
        "the program never starts MPI, which Score-P links and asks for: write scorep.options: --mpp=none",
    ),
    (
        re.compile(r"Execution failed: .* -E .*--thread=omp:opari2"),
        "Score-P's wrappers cannot preprocess alone (-E) a program with OpenMP: let program.build hand sources on as "
        "they are where SCOREP_WRAPPER is on; docs/how-to/real-codes.md shows how",
    ),
    (
        re.compile(r"undefined reference to .POMP2_"),
        "Score-P does not know at linking that the program has OpenMP, as where CMake links its library and leaves out "
        "the option: write scorep.options: --thread=omp",
    ),
)
_NO_COUNTERS = re.compile(r"scorep_metric_(?:perf|papi)\.c:\d+: (?:Error|Fatal)")
# Filters at compile time: GCC's plugin has them, and from 9.0 on the one for LLVM.
_FILTERED = "--instrument-filter"


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
    options
        Of ``scorep``, for builds.
    """

    scorep: Installation
    embedded: EmbeddedBackend
    memory_mb: int
    effort_metric: str | None = None
    options: str = ""

    @cached_property
    def identity(self) -> str:
        """Both systems, the counters, and the options."""
        own = f"scorep-{self.scorep.version}-{self.embedded.identity}"
        return "-".join([own, *filter(None, (self.effort_metric, *self.options.split()))])

    def _leaves_it_to_ours(self, mode: Mode) -> bool:
        return mode is Mode.MEMORY or (mode is Mode.EFFORT and self.effort_metric is None)

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
        """As the embedded backend found it, and where basic blocks come from, if not from the same compiler."""
        if self.effort_metric is not None:
            return (*self.embedded.notes, f"What is called basic blocks is Score-P's metric {self.effort_metric}.")
        ours, theirs = self.embedded.toolchain.compiler_version, self.scorep.compiler
        if not theirs or self.embedded.toolchain.kind.startswith(self.scorep.family):
            return self.embedded.notes
        return (
            *self.embedded.notes,
            f"Times are of programs that Score-P's compiler made ({theirs}), basic blocks of those of another one "
            f"({ours}): what one of them inlines, and the names it gives to lambda functions, may differ.",
        )

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
        # Whatever an MPI's wrappers call otherwise: the plain program too is made by the compiler of the other one.
        compilers = {
            f"{mpi}_{role.upper()}": program
            for role, program in self.scorep.compilers.items()
            for mpi in ("OMPI", "MPICH")
        }
        ours = {**self.embedded.build_environment(Mode.VANILLA, None), **compilers}
        if mode is Mode.VANILLA:
            return {**ours, "SCOREP_WRAPPER": "off"}
        filtered = "" if filter_file is None else f"{_FILTERED}={filter_file.resolve()}"
        if len(filtered.split()) > 1:
            raise BuildError(
                "Score-P's wrappers cannot take a filter whose path has blanks",
                where=filter_file,
                hint="choose another folder for the results",
            )
        return {
            **ours,
            "SCOREP_WRAPPER": "on",
            "SCOREP_WRAPPER_INSTRUMENTER_FLAGS": " ".join(filter(None, (self.options, filtered))),
            "SCOREP_WRAPPER_COMPILER_FLAGS": "",
            "CCACHE_DISABLE": "1",
        }

    def visit_cost(self) -> VisitCost | None:
        """Measure it with a small program; without a wrapper for C nothing is known."""
        compiler = self.scorep.wrappers.get("cc") or self.scorep.wrappers.get("mpicc")
        return None if compiler is None else visit_cost(self, compiler)

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
        return None, notes_on_hooks(hooked_functions(file), included_symbols(filter_text), self.scorep.compiler)

    def run_filter(self, binary: Path, filter_text: str) -> str:
        """Return rules that exclude functions with hooks one by one, in the place of one that excludes everything.

        ``EXCLUDE *`` would also take regions that the program marks itself, and where a parameter is recorded inside
        of one, Score-P then ends the program.
        """
        functions = hooked_functions(Elf.read(binary)) if is_elf(binary) else None
        if functions is None:
            return filter_text
        symbols = sorted({each.symbol for each in functions})
        every = "\n".join(f"EXCLUDE MANGLED {symbol}" for symbol in symbols)
        return _EXCLUDE_ALL.sub(every.replace("\\", r"\\"), filter_text)

    def why_failed(self, log: Path) -> str | None:
        """Return what Score-P's last words mean, and these themselves."""
        lines = log.read_text(errors="replace").splitlines()
        found = ((why, line) for words, why in _LAST_WORDS for line in lines if words.search(line))
        return next((f"{why}; the log says: {line.rpartition('Error: ')[2].strip()}" for why, line in found), None)

    def missing_metric(self, mode: Mode, log: Path) -> str | None:
        """Return the effort metric if Score-P gave up where it opens counters."""
        if mode is not Mode.EFFORT or not _NO_COUNTERS.search(log.read_text(errors="replace")):
            return None
        return self.effort_metric

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Tell Score-P where to leave its profile. Everything that changes what is measured is said, for each run."""
        if mode is Mode.VANILLA or self._leaves_it_to_ours(mode):
            return self.embedded.run_environment(mode, folder, filter_file)
        counted = (metric_of(name).perf for name in self.embedded.counters if name not in self._refused)
        counters, papi = ",".join(counted), ""
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

    @cached_property
    def _refused(self) -> Mapping[str, str]:
        """Counters that are requested and cannot be had, and why: with one of them, Score-P would end every run."""
        perf = {name: metric_of(name).perf for name in self.embedded.counters}
        why = refused_counters(each for each in perf.values() if each != _IN_KERNEL)
        why[_IN_KERNEL] = "Score-P counts outside of the kernel, where there are none"
        return {name: why[each] for name, each in perf.items() if each in why}

    def collect(self, mode: Mode, folder: Path, ranks: int) -> Profile:
        """Read the profile, and say which counters are missing; raise `RunError` unless all ranks are in it."""
        if mode is Mode.VANILLA or self._leaves_it_to_ours(mode):
            return self.embedded.collect(mode, folder, ranks)
        metric = self.effort_metric if mode is Mode.EFFORT else None
        profile = read_scorep_profile(folder / EXPERIMENT / "profile.cubex", ranks, metric)
        fallen, unusable = _below_zero(profile), dict(self._refused)
        for name in self.embedded.counters:
            if fallen & {metric_of(name).perf, _spelled(metric_of(name).perf)}:
                unusable[name] = "it fell below zero"
        if mode is Mode.EFFORT or not unusable:
            return profile
        reasons = "; ".join(f"{name}: {why}" for name, why in unusable.items())
        return replace(profile, attributes={**profile.attributes, "counters_unavailable": reasons})


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
    # Score-P puts underscores into names of perf, for its derived metrics; before version 7 it did not.
    counted = {name: metric_of(name).perf for name in requested_by("counters")}
    ours = {spelled: name for name, perf in counted.items() for spelled in (perf, _spelled(perf))}
    if effort_metric and effort_metric not in profile.values:
        effort_metric = _spelled(effort_metric) if _spelled(effort_metric) in profile.values else effort_metric
    if effort_metric and effort_metric not in profile.values:
        hint = "scorep.effort_metric names one that `papi_avail` or `perf list` shows"
        if {effort_metric, _spelled(effort_metric)} & _below_zero(profile):
            why = "it fell below zero somewhere, and was left out"
            raise RunError(f"the profile has no {effort_metric}", where=path, why=why, hint=hint)
        why = "this Score-P or this processor does not know the metric"
        raise MetricError(effort_metric, where=path, why=why, hint=hint)
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


def _below_zero(profile: Profile) -> set[str]:
    """Return the counters that reading left out."""
    return set(profile.attributes.get(BELOW_ZERO, "").split(", "))


def _spelled(perf: str) -> str:
    return perf.replace("-", "_")


def _values(profile: Profile, theirs: str, name: str) -> NDArray[np.generic]:
    """Return a metric's values as our metric of that name stores them.

    Score-P writes counters inclusively, and clocks of perf as counts of nanoseconds.
    """
    values, stored = profile.values[theirs], profile.metrics[theirs]
    wanted = table().get(name, stored)
    if wanted.unit == "sec" and stored.dtype in ("UINT64", "INT64"):
        values = values.astype(np.float64) * 1e-9
    if {stored.kind, wanted.kind} == {"inclusive", "exclusive"}:
        change = profile.tree.exclusive if wanted.kind == "exclusive" else profile.tree.inclusive
        return change(values.astype(np.float64)).astype(values.dtype)
    return values


class ScoreP(MeasurementSystem):
    """Score-P, which must be in PATH."""

    name = "scorep"

    def open(self, campaign: Campaign, scratch: Path) -> ScorePBackend:
        """Find a compiler, an MPI and Score-P."""
        config, scorep = campaign.config, find_scorep()
        refinement = config.refinement
        if refinement.enabled and refinement.filtering != "run" and not scorep.filters_builds:
            raise ToolError(
                "this Score-P cannot compile with a filter",
                where=campaign.path,
                why=f"it instruments by {scorep.instrumentation}, which ignores filters",
                hint="write `refinement: {filtering: run}`, or install a Score-P with a compiler plugin",
            )
        # The same compiler for both builds: it inlines the same functions and names them alike.
        compiler = scorep.family if campaign.compiler == "auto" else campaign.compiler
        embedded = open_embedded(compiler, scratch, config.counters)
        own = keys_of(config)
        return ScorePBackend(scorep, embedded, own.process_memory_mb, own.effort_metric, own.options)

    def mistakes(self, campaign: Campaign) -> Iterable[Mistake]:
        """Look at variables, options and the effort metric."""
        return scorep_mistakes(campaign)

    def obstacle(self, campaign: Campaign) -> ToolError | None:
        """Look for it, and for the compilers that the file names."""
        try:
            find_scorep()
        except ToolError as error:
            return error
        return EMBEDDED.obstacle(campaign)

    def finding(self) -> Finding:
        """Look for it."""
        try:
            return Finding("Score-P", Health.WORKS, find_scorep().version)
        except ToolError as error:
            costs = "none for the embedded backend; filter lists for Score-P are written anyway"
            return Finding("Score-P", Health.MISSING, error.line, costs, "module load scorep, or spack install scorep")


SCOREP = ScoreP()
