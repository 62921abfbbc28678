"""What the rest of the package needs of a measurement system, whichever it is, and which ones there are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from buran.campaign.config import Campaign
from buran.campaign.document import read_campaign_file
from buran.campaign.mistakes import CampaignError, Mistake
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.strategies import BACKENDS
from buran.errors import RunError, ToolError
from buran.extensions import ExtensionPoint
from buran.measurement.finding import Finding
from buran.measurement.machine.machine import Machine, RunJob
from buran.measurement.source import SourceTree
from buran.measurement.toolchain.static_features import StaticFeatures
from buran.profiles.profile import Profile

if TYPE_CHECKING:
    from buran.measurement.backends.embedded import VisitCost


class Backend(Protocol):
    """A measurement system, ready for a campaign on this machine: how programs are instrumented, and their profiles.

    Whoever subclasses this says only what differs from a program that the compilers on PATH compile as it is.
    """

    @property
    def identity(self) -> str:
        """Everything of the backend and the compiler that can change what is measured."""

    @property
    def description(self) -> Mapping[str, str | None]:
        """Compiler, MPI and their versions, as text, for the record of a build."""
        return {}

    @property
    def mpi_flavour(self) -> str:
        """``openmpi`` or ``mpich``, for instance: decides how programs are launched."""

    @property
    def mpiexec(self) -> str:
        """Launcher program of this MPI."""

    def command(
        self, campaign: Campaign, point: Point, tree: Path, cores: int, mode: Mode
    ) -> tuple[list[str], dict[str, str]]:
        """Return the complete command of a run of what was built in `tree`, and the variables it needs.

        Parameters
        ----------
        cores
            Cores of a node; with more ranks and threads than that, nothing is bound to cores.
        """
        return campaign.launch(point, tree / campaign.binary, tree, self.mpi_flavour, self.mpiexec, cores)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing on this machine and what that costs, as text."""
        return ()

    @property
    def machine(self) -> Machine:
        """What builds and runs the programs."""
        return Machine()

    def tools(self, mode: Mode) -> Mapping[str, str]:
        """Return the compilers for the placeholders of the build command."""
        return {"cc": "cc", "cxx": "c++", "fc": "gfortran", "mpicc": "mpicc", "mpicxx": "mpicxx", "mpifort": "mpifort"}

    def build_environment(self, mode: Mode, filter_file: Path | None) -> Mapping[str, str]:
        """Return environment variables for the build."""
        return {}

    def visit_cost(self) -> VisitCost | None:
        """Return what entering and leaving a function costs on this machine; None if unknown."""
        return None

    def inspect_build(
        self, binary: Path, folder: Path, filter_text: str, mode: Mode
    ) -> tuple[StaticFeatures | None, tuple[str, ...]]:
        """Return static features of an instrumented program and what a user should know of it, in sentences.

        Without features this backend knows none. Raises `BuildError` if runs of the program would be worthless.
        """
        return None, ()

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Return environment variables for a run that leaves its raw profile in `folder`.

        With a filter file, hooks of functions that it excludes are passed over.
        """

    def run_filter(self, binary: Path, filter_text: str) -> str:
        """Return the rules that a compiled program is run with, for a filter that is applied at run time."""
        return filter_text

    def why_failed(self, log: Path) -> str | None:
        """Return what this system's messages of a failed build or run mean, as text; None if it wrote none."""
        return None

    def missing_metric(self, mode: Mode, log: Path) -> str | None:
        """Return the metric for want of which a run has failed, as all of its build would; None for other reasons."""
        return None

    def collect(self, mode: Mode, folder: Path, ranks: int) -> Profile:
        """Read the raw profile of a run; raise `RunError` unless all ranks are there and whole.

        Needed unless the backend has a `profile_of` of its own.
        """
        raise RunError("this measurement system reads no profiles", hint="it needs `collect`, or a `profile_of`")

    def profile_of(self, job: RunJob, wall_s: float) -> Profile:
        """Return the profile of a run that has ended well, and took `wall_s` seconds; raise `RunError` as `collect`."""
        return self.collect(job.mode, job.raw, job.ranks)


class MeasurementSystem(Protocol):
    """A measurement system by name, before it is prepared for a campaign.

    Attributes
    ----------
    name
        As campaign files name it, key `backend`.
    """

    name: str

    def open(self, campaign: Campaign, scratch: Path) -> Backend:
        """Prepare it for use on this machine; raises `ToolError` if something is missing.

        Parameters
        ----------
        scratch
            Folder of the campaign for files that builds refer to.
        """

    def source(self, campaign: Campaign, scratch: Path) -> SourceTree | None:
        """Return the source of the program, where it is not the campaign's target; else None."""
        return None

    def finding(self) -> Finding | None:
        """Return how it stands on this machine, for ``buran doctor``; None for nothing to say."""
        return None

    def mistakes(self, campaign: Campaign) -> Iterable[Mistake]:
        """Return what of the campaign file it does not take, as far as it is known without building anything."""
        return ()

    def obstacle(self, campaign: Campaign) -> ToolError | None:
        """Return why no run can begin on this machine, as far as it is known without building anything."""
        return None


SYSTEMS: ExtensionPoint[MeasurementSystem] = ExtensionPoint(
    BACKENDS.noun, BACKENDS.group, MeasurementSystem, BACKENDS.builtin, BACKENDS.elsewhere
)


def check_system(campaign: Campaign) -> None:
    """Ask the measurement system whether it takes what the campaign file says.

    Raises
    ------
    CampaignError
        With all that it does not.
    """
    mistakes = tuple(SYSTEMS.load(campaign.config.backend).mistakes(campaign))
    if mistakes:
        document = read_campaign_file(campaign.path)
        raise CampaignError([document.located(mistake) for mistake in mistakes])
