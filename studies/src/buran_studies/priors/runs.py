"""Building and running programs for an evaluation, outside of any campaign."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from buran.campaign.launcher import Placement, launch, usable_cores
from buran.campaign.plan import Mode
from buran.errors import BuildError, RunError
from buran.measurement.backends.base import Backend
from buran.measurement.backends.embedded import open_embedded
from buran.measurement.machine.machine import free_marker
from buran.measurement.machine.process import Outcome, run_limited
from buran.profiles.profile import Profile

_TIME_LIMIT_S = 900.0
# Ranks that wait give their core to those that work: there are more ranks than cores.
_YIELD = {"OMPI_MCA_mpi_yield_when_idle": "1"}


@dataclass(frozen=True)
class Workshop:
    """A backend and a folder to work in."""

    backend: Backend
    folder: Path

    @classmethod
    def open(cls, folder: Path, compiler: str = "auto", *, detailed: bool = False, faults: bool = False) -> Workshop:
        """Find compiler and MPI; see `open_embedded`."""
        folder.mkdir(parents=True, exist_ok=True)
        return cls(open_embedded(compiler, folder, detailed=detailed, faults=faults), folder)

    def build(self, command: str, source: Path, binary: str, mode: Mode) -> tuple[Path, Outcome]:
        """Build a variant in a folder of its own; `command` has placeholders for compilers.

        Raises
        ------
        BuildError
            If it fails.
        """
        folder = self.folder / str(mode) / source.name
        shutil.copytree(source, folder)
        log = folder / "build.log"
        outcome = run_limited(
            ["bash", "-c", f"exec 2>&1\n{command.format(**self.backend.tools(mode))}"],
            cwd=folder,
            environment={**os.environ, **self.backend.build_environment(mode, None)},
            marker=free_marker(),
            stdout=log,
            stderr=folder / "build.err",
            time_limit_s=_TIME_LIMIT_S,
        )
        if outcome.failure or not (folder / binary).is_file():
            raise BuildError("a program does not build", where=log, why=outcome.failure or f"there is no {binary}")
        return folder / binary, outcome

    def run(
        self,
        binary: Path,
        mode: Mode,
        ranks: int,
        arguments: Sequence[str],
        threads: int = 1,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[Profile | None, Outcome]:
        """Run a variant once; each rank has so many threads of OpenMP, and further variables of the environment.

        Raises
        ------
        RunError
            If it fails or its profile is not whole.
        """
        folder = self.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "profile").mkdir(parents=True)
        started = launch(
            self.backend.mpi_flavour,
            [str(binary), *arguments],
            Placement(ranks),
            program=self.backend.mpiexec,
            oversubscribe=ranks > usable_cores(),
            as_root=os.geteuid() == 0,
        )
        environment = {**os.environ, **started.variables, **_YIELD, "OMP_NUM_THREADS": str(threads), **variables}
        outcome = run_limited(
            started.argv,
            cwd=folder,
            environment={**environment, **self.backend.run_environment(mode, folder / "profile")},
            marker=free_marker(),
            stdout=folder / "out",
            stderr=folder / "err",
            time_limit_s=_TIME_LIMIT_S,
        )
        if outcome.failure:
            raise RunError(
                f"{binary.name} failed with {ranks} ranks: {outcome.failure}", why=(folder / "err").read_text()[-500:]
            )
        return (None if mode is Mode.VANILLA else self.backend.collect(mode, folder / "profile", ranks)), outcome
