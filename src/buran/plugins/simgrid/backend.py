"""Buran's own measurement system on a simulated machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.config import Campaign
from buran.campaign.launcher import Launch, Placement
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.errors import BuildError
from buran.files import write_text
from buran.measurement.backends.embedded import EmbeddedBackend, VisitCost, toolchain_file
from buran.measurement.toolchain.elf import Elf, is_elf
from buran.measurement.toolchain.runtime import find_toolchain
from buran.measurement.toolchain.static_features import StaticFeatures
from buran.plugins.simgrid.machine import SimulatedMachine
from buran.plugins.simgrid.mpi import find_simgrid, missing_functions

if TYPE_CHECKING:
    from buran.plugins.simgrid.simulator import SimGrid

NODE_GROUPS = "node_groups.so"
_NO_HOOKS = "SCOREP_REGION_NAMES_BEGIN\n  EXCLUDE *\nSCOREP_REGION_NAMES_END\n"
_TLS_OF_A_RANK = 4096  # bytes; the runtime's own are 856


@dataclass(frozen=True)
class SimulatedMachineBackend(EmbeddedBackend):
    """Our own measurement system on a machine that SimGrid simulates.

    Time passes there with counted basic blocks, so each build counts them, also that for runs without hooks.
    """

    simulated: SimulatedMachine = field(kw_only=True)

    @property
    def machine(self) -> SimulatedMachine:
        """The simulated one."""
        return self.simulated

    def command(
        self, campaign: Campaign, point: Point, tree: Path, cores: int, mode: Mode
    ) -> tuple[list[str], dict[str, str]]:
        """Start it with SimGrid's launcher, and tell that which machine it is."""
        start = partial(self.launch, point)
        return campaign.launch(point, tree / campaign.binary, tree, self.mpi_flavour, self.mpiexec, cores, start=start)

    def launch(self, point: Point, command: Sequence[str], placement: Placement) -> Launch:
        """Put SimGrid's launcher in front of a command."""
        options = self.simulated.launch_options(point)
        # Each rank is a copy of the program, whose thread-local variables are made room for beforehand.
        room = f"glibc.rtld.optional_static_tls={_TLS_OF_A_RANK * (placement.ranks + 1)}"
        return Launch(
            (self.mpiexec, "-np", str(placement.ranks), *options, *command),
            {"GLIBC_TUNABLES": room, "BURAN_EXECUTABLE": Path(command[0]).name},
        )

    def build_environment(self, mode: Mode, filter_file: Path | None) -> Mapping[str, str]:
        """Let every build count blocks; without hooks means with a filter that leaves out all functions."""
        if mode is Mode.VANILLA:
            filter_file = self.toolchain_file.with_name("no-hooks.filter")
            if not filter_file.is_file():
                write_text(filter_file, _NO_HOOKS)
        return super().build_environment(Mode.EFFORT, filter_file)

    def visit_cost(self) -> VisitCost:
        """Hooks cost nothing: they are no part of what is simulated."""
        return VisitCost(0.0)

    def inspect_build(
        self, binary: Path, folder: Path, filter_text: str, mode: Mode
    ) -> tuple[StaticFeatures | None, tuple[str, ...]]:
        """Name what SimGrid does not have, too; refuse shared libraries of the program, which all ranks would share."""
        if not is_elf(binary):
            raise BuildError("a script cannot run on a simulated machine", where=binary, hint="name the program itself")
        needed = {Path(name).name for name in Elf.read(binary).needed}
        own = sorted(needed & {path.name for path in folder.rglob("*.so*")})
        if own:
            raise BuildError(
                f"the program has a shared library of its own, {own[0]}",
                where=binary,
                why="ranks of a simulated machine run in one process, and would share it",
                hint="link it statically",
            )
        features, notes = super().inspect_build(binary, folder, filter_text, mode)
        if missing := missing_functions(binary):
            called = f"{', '.join(missing[:8])}{' and others' if missing[8:] else ''}"
            notes = (
                *notes,
                f"The program calls functions that SimGrid does not have; a run that reaches one fails: {called}.",
            )
        return features, notes

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Let runs without hooks leave profiles too, by which they are judged."""
        return super().run_environment(Mode.EFFORT, folder, filter_file)


def open_simulated(simgrid: SimGrid, scratch: Path, *, detailed: bool) -> SimulatedMachineBackend:
    """Find a compiler and SimGrid's MPI; raise `ToolError` if one is missing.

    Parameters
    ----------
    scratch
        Folder for files that builds refer to.
    detailed
        Whether kinds of operations are counted, too.
    """
    toolchain = find_toolchain(compiler=simgrid.campaign.compiler, mpi=find_simgrid())
    simulated = SimulatedMachine(simgrid, scratch, Path(toolchain.objects["time"][0]).with_name(NODE_GROUPS))
    described = toolchain_file(toolchain, scratch)
    return SimulatedMachineBackend(toolchain, described, detailed=detailed, simulated=simulated)
