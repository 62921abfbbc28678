"""Backends: how a target is instrumented and where its profiles come from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

from buran.campaign.plan import Mode
from buran.errors import ConfigError
from buran.files import write_text
from buran.measure.dump import read_dumps
from buran.measure.toolchain import Toolchain, find_toolchain
from buran.profile.profile import Profile


class Backend(Protocol):
    """What the rest of the package needs of a measurement system."""

    @property
    def identity(self) -> str:
        """Everything of the backend and the compiler that can change what is measured."""

    @property
    def mpi_flavour(self) -> str:
        """``openmpi`` or ``mpich``: decides how programs are launched."""

    @property
    def mpiexec(self) -> str:
        """Launcher program of this MPI."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing on this machine and what that costs, in words."""

    def tools(self) -> Mapping[str, str]:
        """Return the compilers for the placeholders of the build command."""

    def build_environment(self, mode: Mode, filter_file: Path | None) -> Mapping[str, str]:
        """Return environment variables for the build."""

    def run_environment(self, mode: Mode, folder: Path) -> Mapping[str, str]:
        """Return environment variables for a run that leaves its raw profile in `folder`."""

    def collect(self, folder: Path, ranks: int) -> Profile:
        """Read the raw profile of a run; raise `RunError` unless all ranks are there and whole."""


@dataclass(frozen=True)
class EmbeddedBackend:
    """Our own compiler plugin, runtime and MPI layer."""

    toolchain: Toolchain
    toolchain_file: Path

    @cached_property
    def identity(self) -> str:
        """Name and fingerprint: compiler, MPI and the runtime's sources."""
        return f"embedded-{self.toolchain.fingerprint}"

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

    def tools(self) -> Mapping[str, str]:
        """Return the plain compilers and our wrappers around the MPI's."""
        wrappers = Path(sys.executable).parent
        return {
            "cc": self.toolchain.cc,
            "cxx": self.toolchain.cxx,
            "mpicc": str(wrappers / "buran-mpicc"),
            "mpicxx": str(wrappers / "buran-mpicxx"),
        }

    def build_environment(self, mode: Mode, filter_file: Path | None) -> Mapping[str, str]:
        """Tell the wrappers what to do."""
        environment = {"BURAN_MODE": str(mode), "BURAN_TOOLCHAIN": str(self.toolchain_file)}
        if filter_file is not None:
            environment["BURAN_FILTER"] = str(filter_file)
        return environment

    def run_environment(self, mode: Mode, folder: Path) -> Mapping[str, str]:
        """Tell the runtime where to leave its dumps; a plain program leaves none."""
        return {} if mode is Mode.VANILLA else {"BURAN_PROFILE_DIR": str(folder)}

    def collect(self, folder: Path, ranks: int) -> Profile:
        """Merge the dumps of all ranks."""
        return read_dumps(folder, ranks)


def open_backend(name: str, compiler: str, scratch: Path) -> Backend:
    """Prepare a backend for use on this machine.

    Parameters
    ----------
    name
        As in the campaign file.
    compiler
        Wanted compiler family, or ``auto``.
    scratch
        Folder of the campaign for files that builds refer to.

    Raises
    ------
    ToolError
        A compiler or an MPI is missing.
    ConfigError
        There is no such backend.
    """
    if name != "embedded":
        raise ConfigError(f"unknown backend {name!r}", where="backend", why="allowed: embedded")
    toolchain = find_toolchain(compiler=compiler)
    path = scratch / f"toolchain-{toolchain.fingerprint}.json"
    if not path.is_file():
        write_text(path, toolchain.to_json())
    return EmbeddedBackend(toolchain, path)
