"""Backends: how a target is instrumented and where its profiles come from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from buran.campaign.plan import Mode
from buran.errors import BuildError
from buran.measure.dump import read_dumps
from buran.measure.machine.machine import Machine, ThisMachine
from buran.measure.toolchain.elf import Elf, is_elf
from buran.measure.toolchain.hook_cost import hook_cost_s
from buran.measure.toolchain.static_features import StaticFeatures, notes_on, read_static_features
from buran.measure.toolchain.toolchain import GCC_FALLBACK, Toolchain
from buran.measure.toolchain.wrappers import ccache
from buran.profile.profile import Profile


class Backend(Protocol):
    """What the rest of the package needs of a measurement system."""

    @property
    def identity(self) -> str:
        """Everything of the backend and the compiler that can change what is measured."""

    @property
    def description(self) -> Mapping[str, str | None]:
        """Compiler, MPI and their versions, in words, for the record of a build."""

    @property
    def mpi_flavour(self) -> str:
        """``openmpi`` or ``mpich``: decides how programs are launched."""

    @property
    def mpiexec(self) -> str:
        """Launcher program of this MPI."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing on this machine and what that costs, in words."""

    @property
    def machine(self) -> Machine:
        """What builds and runs the programs."""

    def tools(self, mode: Mode) -> Mapping[str, str]:
        """Return the compilers for the placeholders of the build command."""

    def build_environment(self, mode: Mode, filter_file: Path | None) -> Mapping[str, str]:
        """Return environment variables for the build."""

    def visit_cost_s(self) -> float | None:
        """Return what entering and leaving a function costs on this machine, in seconds; None if unknown."""

    def inspect_build(
        self, binary: Path, folder: Path, filter_text: str, mode: Mode
    ) -> tuple[StaticFeatures | None, tuple[str, ...]]:
        """Return static features of an instrumented program and what a user should know of it, in sentences.

        Without features this backend knows none. Raises `BuildError` if runs of the program would be worthless.
        """

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Return environment variables for a run that leaves its raw profile in `folder`.

        With a filter file, hooks of functions that it excludes are passed over.
        """

    def collect(self, mode: Mode, folder: Path, ranks: int) -> Profile:
        """Read the raw profile of a run; raise `RunError` unless all ranks are there and whole."""


@dataclass(frozen=True)
class EmbeddedBackend:
    """Our own compiler plugin, runtime and MPI layer.

    Attributes
    ----------
    toolchain, toolchain_file
        Compiler, MPI and runtime; and the file that says so to the wrappers.
    counters
        What timed runs count beside the time.
    """

    toolchain: Toolchain
    toolchain_file: Path
    counters: tuple[str, ...] = ()

    @cached_property
    def identity(self) -> str:
        """Name and fingerprint, and the counters, which take time."""
        return "-".join(("embedded", self.toolchain.fingerprint, *self.counters))

    @property
    def description(self) -> Mapping[str, str | None]:
        """As the toolchain found it."""
        found = self.toolchain
        return {
            "kind": found.kind,
            "compiler": found.compiler_version,
            "cc": found.cc,
            "cxx": found.cxx,
            "fc": found.fc,
            "fortran": found.fortran_version,
            "mpi": f"{found.mpi} {found.mpi_version}",
            "mpicc": found.mpicc,
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

    @property
    def machine(self) -> Machine:
        """The one that Buran runs on."""
        return ThisMachine()

    def tools(self, mode: Mode) -> Mapping[str, str]:
        """Return our wrappers."""
        wrappers = Path(sys.executable).parent
        return {
            "cc": str(wrappers / "buran-cc"),
            "cxx": str(wrappers / "buran-cxx"),
            "mpicc": str(wrappers / "buran-mpicc"),
            "mpicxx": str(wrappers / "buran-mpicxx"),
            "fc": str(wrappers / "buran-fc"),
            "mpifort": str(wrappers / "buran-mpifort"),
        }

    def build_environment(self, mode: Mode, filter_file: Path | None) -> Mapping[str, str]:
        """Tell the wrappers what to do."""
        environment = {"BURAN_MODE": str(mode), "BURAN_TOOLCHAIN": str(self.toolchain_file)}
        path = None if filter_file is None else str(filter_file)
        if path is not None:
            environment["BURAN_FILTER"] = path
        return environment | ccache.variables(self.toolchain, str(mode), path)

    def visit_cost_s(self) -> float | None:
        """Measure it; the fallback without a plugin has other hooks."""
        return None if self.toolchain.kind == GCC_FALLBACK else hook_cost_s(self.toolchain)

    def inspect_build(
        self, binary: Path, folder: Path, filter_text: str, mode: Mode
    ) -> tuple[StaticFeatures | None, tuple[str, ...]]:
        """Read the features from the program; refuse one that the wrappers had nothing to do with."""
        if self.toolchain.kind == GCC_FALLBACK:
            return None, ()
        if not is_elf(binary):
            return None, (f"{binary.name} is a script: what it starts cannot be checked.",)
        own = {f.name for path in self.toolchain.objects["time"] for f in Elf.read(Path(path)).functions or ()}
        features = read_static_features(binary, folder, own)
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
        return {
            "BURAN_PROFILE_DIR": str(folder),
            "BURAN_COUNTERS": ",".join(self.counters) if mode is Mode.TIME else "",
            "BURAN_RUN_FILTER": "" if filter_file is None else str(filter_file),
        }

    def collect(self, mode: Mode, folder: Path, ranks: int) -> Profile:
        """Merge the dumps of all ranks."""
        return read_dumps(folder, ranks)
