"""What this machine can do for a campaign, what is missing, and the consequences."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterator
from pathlib import Path

from buran.errors import PluginError, ToolError
from buran.extensions import ExtensionPoint, version_of
from buran.features import FEATURES
from buran.measurement.backends.base import SYSTEMS, MeasurementSystem
from buran.measurement.finding import Finding, Health
from buran.measurement.machine.machine import disturbances
from buran.measurement.machine.provenance import refused_counters
from buran.measurement.schedulers.base import SCHEDULERS, Scheduler
from buran.measurement.toolchain.installed import NO_MPI_HINT, find_tool
from buran.measurement.toolchain.runtime import FALLBACK_NOTES, find_toolchain
from buran.measurement.toolchain.toolchain import GCC_FALLBACK, Toolchain


def examine(folder: Path) -> list[Finding]:
    """Look at everything a campaign may use; compiles the measurement runtime, once, to see that it works.

    Parameters
    ----------
    folder
        Where results would be kept.
    """
    return [
        Finding("Python", Health.WORKS, f"{platform.python_version()}, snakemake {version_of('snakemake')}"),
        *_measuring(),
        *stand_of(SCHEDULERS),
        *stand_of(SYSTEMS),
        _counters(),
        *_of_features(),
        _quiet(),
        _storage(folder),
        *_helpers(),
    ]


def _measuring() -> Iterator[Finding]:
    """Compilers, plugins and MPI, each tried by building the runtime with it."""
    plugin_costs = "without any plugin run times are 2 to 30 times the original in C++ with many small functions"
    toolchains, errors = dict[str, Toolchain](), dict[str, ToolError]()
    for name in ("clang", "gcc"):
        try:
            toolchains[name] = find_toolchain(compiler=name)
        except ToolError as error:
            errors[name] = error
    if not toolchains:
        reason = errors["gcc"]
        no_mpi = "MPI" in reason.what
        remedy = reason.hint or (NO_MPI_HINT if no_mpi else "")
        yield Finding("MPI" if no_mpi else "compiler", Health.NEEDED, reason.line, "nothing can be measured", remedy)
        return
    first = next(iter(toolchains.values()))
    yield Finding("MPI", Health.WORKS, f"{first.mpi} {first.mpi_version} ({first.mpicc})")
    for name, other in (("clang", "gcc"), ("gcc", "clang")):
        costs = f"{other} is used instead" if other in toolchains else plugin_costs
        if name in errors:
            yield Finding(f"{name} plugin", Health.MISSING, errors[name].line, costs, errors[name].hint or "")
        elif toolchains[name].kind == GCC_FALLBACK:
            why = "; ".join(toolchains[name].notes[len(FALLBACK_NOTES) :])
            yield Finding(f"{name} plugin", Health.LIMITED, why, costs, FALLBACK_NOTES[-1])
        else:
            yield Finding(f"{name} plugin", Health.WORKS, toolchains[name].compiler_version)
    fortran = next((toolchain.fc for toolchain in toolchains.values() if toolchain.fc), None)
    if fortran is not None:
        yield Finding("Fortran", Health.WORKS, fortran)
    else:
        costs = "Fortran programs cannot be measured"
        yield Finding("Fortran", Health.MISSING, first.fortran_missing, costs, "apt install gfortran")


def stand_of(extension_point: ExtensionPoint[Scheduler] | ExtensionPoint[MeasurementSystem]) -> Iterator[Finding]:
    """Let all of a kind say how they stand; one that another package brings and that does not work is named."""
    for name in extension_point.names:
        try:
            finding = extension_point.load(name).finding()
        except PluginError as error:
            reason, costs = f"{error.line} ({error.where})", "no campaign can be run while it is installed"
            yield Finding(f"{extension_point.noun} {name}", Health.NEEDED, reason, costs, error.hint or "")
        else:
            if finding is not None:
                yield finding


def _counters() -> Finding:
    """Try to open the counter of instructions, as the runtime does."""
    reason = refused_counters(["instructions"]).get("instructions")
    if reason is None:
        return Finding("counters", Health.WORKS, "instructions can be counted")
    return Finding(
        "counters",
        Health.MISSING,
        reason,
        "key counters: instructions, cycles, cache_misses and branch_misses are said to be missing",
        "sysctl kernel.perf_event_paranoid=2; a virtual machine may have none",
    )


def _of_features() -> Iterator[Finding]:
    for feature in FEATURES:
        if feature.findings is not None:
            yield from feature.findings()


def _quiet() -> Finding:
    cores, noisy = len(os.sched_getaffinity(0)), disturbances()
    if noisy:
        costs = "times are noisy; more repetitions, or models from counts, help"
        remedy = "stop what else runs here; cpupower frequency-set --governor performance"
        return Finding("quiet machine", Health.LIMITED, "; ".join(noisy), costs, remedy)
    return Finding("quiet machine", Health.WORKS, f"{cores} cores, nothing else runs")


def _storage(folder: Path) -> Finding:
    """See that the store can claim runs: by hard links, which must be refused where a file exists."""
    costs = "two controllers could not keep each other from measuring a run twice"
    try:
        with tempfile.TemporaryDirectory(prefix=".buran-doctor-", dir=folder) as name:
            first, second = Path(name, "first"), Path(name, "second")
            first.touch()
            os.link(first, second)
            try:
                os.link(first, second)
            except FileExistsError:
                free = os.statvfs(folder)
                room = free.f_bavail * free.f_frsize / 2**30
                return Finding("storage", Health.WORKS, f"hard links work, {room:.0f} GiB free in {folder.resolve()}")
    except OSError as error:
        why = f"{error.strerror or error} in {folder.resolve()}"
        return Finding(
            "storage", Health.NEEDED, why, costs, "keep results on a file system with hard links: key results"
        )
    return Finding(
        "storage", Health.NEEDED, f"links overwrite in {folder.resolve()}", costs, "key results: another folder"
    )


def _helpers() -> Iterator[Finding]:
    for program, what, costs in (
        ("git", "git", "sources from git repositories cannot be measured; revisions are not recorded"),
        ("make", "make", "the bundled examples cannot be built"),
    ):
        path = find_tool(program)
        if path is None:
            yield Finding(what, Health.MISSING, "not in PATH", costs, f"apt install {program}")
        else:
            yield Finding(what, Health.WORKS, path)
