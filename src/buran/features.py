"""What a plug-in adds to campaigns: a key of their files, and what is planned, noted, modelled and reported of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from buran.extensions import ExtensionPoint

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.document import YamlDocument
    from buran.campaign.mistakes import Mistake
    from buran.campaign.point import Point, Value
    from buran.campaign.records import RunRecord
    from buran.campaign.sections import EnvironmentKeys
    from buran.campaign.shape import CampaignFile
    from buran.measurement.backends.base import Backend
    from buran.measurement.finding import Finding
    from buran.measurement.machine.machine import RunJob
    from buran.measurement.schedulers.base import Allocation, Scheduler
    from buran.modeling.priors.prior import Account, KnownMpi
    from buran.planning.question import RunTimes
    from buran.profiles.experiment.table import Experiment
    from buran.profiles.metrics import Metric
    from buran.profiles.profile import CallTree
    from buran.reporting.content import Answer, Report
    from buran.workflow.history import FinishedRun, History


@dataclass(frozen=True)
class Key:
    """A key at the top of campaign files, or of each environment.

    Attributes
    ----------
    type
        Its type with what the key decides, as ``OfPlan[bool]``, or a class of keys (`buran.campaign.identity.Keys`).
    default
        Its value where the file does not have it: what campaigns without the plug-in do.
    examples
        Values, for the reference.
    """

    type: Any
    default: Any
    description: str
    examples: list[Any] | None = None


@dataclass(frozen=True)
class Start:
    """A run that is about to start.

    Attributes
    ----------
    scheduler, allocation
        In whose job it is, and what that was given; None outside of jobs.
    """

    campaign: Campaign
    job: RunJob
    scheduler: Scheduler
    allocation: Allocation | None


class Watch(Protocol):
    """Watches one run, from its making on."""

    def sample(self) -> None:
        """Look; called every few seconds while the program runs."""

    def complete(self, record: RunRecord) -> RunRecord:
        """Return the run's record with what was seen, after its end."""

    def failure(self) -> str | None:
        """Return why a run that ended well is worth nothing all the same; None where it is not."""


class Forerunner(Protocol):
    """A finished campaign that another one begins with: pilot runs show whether its results still hold."""

    @property
    def filter_text(self) -> str:
        """Filter of its times, which is the campaign's first."""

    @property
    def pilot_points(self) -> tuple[Point, ...]:
        """Points of the pilot runs."""

    def run_times(self, points: Sequence[Point]) -> RunTimes:
        """Return what runs are predicted to take, until there are models of the campaign's own."""

    def judge(self, history: History) -> tuple[bool, str]:
        """Return whether the campaign ends after its pilot runs, and what they have shown."""


@dataclass(frozen=True)
class ReportSection:
    """A section of the report.

    Attributes
    ----------
    name
        That of its value, and the ``id`` of its element on the page.
    title
        In the page's list of sections.
    value
        Returns what the section says, from a report that is complete otherwise; None for nothing. The folder has the
        measurements and models; there is none while a campaign runs.
    text
        Returns a value as plain text; empty to leave the section out.
    page
        Returns a value as HTML, an element ``section``; empty to leave it out.
    plain
        Returns what `report.json` has of a value, which may be None, by key; the value as it is by default.
    plot
        Returns what the page's script draws of a value, as ``data.NAME``; null there without a value.
    script
        File with what draws it.
    knows_costs
        Whether a value means that models of times know what computing costs beyond the measured sizes.
    is_first
        Whether it stands before the call paths; else after what bounds them.
    answer
        Returns what the report says at its beginning: before all else if `is_first`, else after what stops the program
        from scaling.
    cost
        Returns what of a value belongs to what the campaign cost, in a few words.
    notes
        Returns what a reader must know not to read too much into a value.
    write
        Writes files of a value into the report's folder.
    style
        File with the style of the page's element.
    order
        Sections with a smaller number stand before others.
    """

    name: str
    title: str
    value: Callable[[History, Report, Path | None], Any]
    text: Callable[[Any, Report], str]
    page: Callable[[Any, Report], str]
    plain: Callable[[Any], dict[str, Any]] | None = None
    is_first: bool = False
    answer: Callable[[Any, Report], Answer | None] | None = None
    cost: Callable[[Any], str] | None = None
    notes: Callable[[Any], Sequence[str]] | None = None
    write: Callable[[Any, Path], None] | None = None
    style: Path | None = None
    plot: Callable[[Any], Any] | None = None
    script: Path | None = None
    knows_costs: bool = False
    order: int = 0

    def in_json(self, value: Any) -> dict[str, Any]:
        """Return what `report.json` has of a value."""
        if self.plain is not None:
            return self.plain(value)
        return {self.name: None if value is None else asdict(value)}


class SimulatedKeys(Protocol):
    """What a campaign file says of a simulated machine."""

    @property
    def changing(self) -> frozenset[str]:
        """Parameters by which the machine is another."""

    @property
    def run_limit(self) -> float:
        """What simulating a run may take, in seconds of the machine that Buran runs on."""


class SimulatedNodes(Protocol):
    """A simulated machine, as it stands at a point."""

    @property
    def title(self) -> str:
        """The machine, as text, for the records of runs."""

    @property
    def cores(self) -> int:
        """Cores of its smallest node."""

    def configuration(self, point: Point) -> dict[str, Any]:
        """Return what decides how programs run on it."""


class Simulator(Protocol):
    """Simulates the machine of an environment: programs run, and their times are those of that machine."""

    @property
    def title(self) -> str:
        """The machine, as text, and what of it is another where."""

    @property
    def known_mpi(self) -> KnownMpi | None:
        """What is known of its MPI; None where that is not the same at all points."""

    def at(self, point: Mapping[str, Value]) -> SimulatedNodes:
        """Return the machine at a point; raise `ConfigError` where a file that describes it cannot be read."""

    def open(self, scratch: Path, *, detailed: bool) -> Backend:
        """Prepare Buran's own measurement system for it; raise `ToolError` if something is missing.

        Parameters
        ----------
        scratch
            Folder of the campaign for files that builds refer to.
        detailed
            Whether kinds of operations are counted, too.
        """


@dataclass(frozen=True)
class Native:
    """What a plug-in adds to Buran's own measurement system.

    Attributes
    ----------
    folder
        Headers that the runtime and the compiler plugins include where they are there, and the sources that programs
        built for memory have in addition.
    metrics
        Returns what such programs tell of call paths beside all other metrics, by name; a process names those it has.
    attributes
        Returns those of a profile, from what its processes say of themselves.
    """

    folder: Path
    metrics: Callable[[], Mapping[str, Metric]]
    attributes: Callable[[Sequence[Mapping[str, str]]], Mapping[str, str]]


@dataclass(frozen=True)
class Feature:
    """What a plug-in adds to campaigns; each part may be left out.

    Attributes
    ----------
    name
        That of its entry point and of its key.
    key
        By which campaigns ask for it. The other functions look at it themselves.
    base
        Returns a campaign file over another document, if its key asks for that, which is then out of it. Raises
        `CampaignError`.
    mistakes
        Returns what is wrong with a file, where the environment of that name is used, which the file may lack.
    misfits
        Returns what is wrong with a campaign whose file is right otherwise.
    identity
        Returns, by name, what counts in place of the key, which names files; None where it names none.
    forerunner
        Returns the campaign that another one begins with; None without one. Raises `ConfigError`.
    ahead
        Returns what `buran check` says of a campaign that a scheduler is going to measure.
    simulator
        Returns what simulates the machine of a campaign's environment, if its key asks for that. The key is one of
        each environment then.
    native
        What it adds to Buran's own measurement system.
    findings
        Returns what `buran doctor` says of this machine.
    watch
        Returns what watches a run; None where nothing needs to.
    sampled_at
        Returns at which modelling points accesses to memory are sampled, if a metric asks for that; None where the
        strategy chooses.
    foreign
        Returns times of call paths that were measured elsewhere, at points of the campaign, which are not timed here;
        None without any. Raises `ConfigError`.
    table
        Returns values at the points of runs, which are modelled, with the call tree of the other tables, if there is
        one; None without any.
    accounts
        Returns what is known of the times of a table beside its counts, from the runs that models are made from.
    notes
        Returns what a report says of the numbers beside the sections.
    sections
        Returns those of the report.
    record
        Records a campaign that has come to its end, outside of its results: from its report, and the folder with its
        table. Returns what the report says of that; it never fails.
    write
        Writes further files of a report into its folder.
    """

    name: str
    key: Key
    base: Callable[[YamlDocument], YamlDocument] | None = None
    mistakes: Callable[[CampaignFile, str], Iterable[Mistake]] | None = None
    misfits: Callable[[Campaign], Iterable[Mistake]] | None = None
    identity: Callable[[Campaign], Mapping[str, object]] | None = None
    forerunner: Callable[[Campaign], Forerunner | None] | None = None
    ahead: Callable[[Campaign, Scheduler], Iterable[str]] | None = None
    simulator: Callable[[Campaign], Simulator | None] | None = None
    native: Native | None = None
    findings: Callable[[], Iterable[Finding]] | None = None
    watch: Callable[[Start], Watch | None] | None = None
    sampled_at: Callable[[Campaign], tuple[Point, ...] | None] | None = None
    foreign: Callable[[Campaign], Experiment | None] | None = None
    table: Callable[[History, Sequence[FinishedRun], CallTree | None], Experiment | None] | None = None
    accounts: Callable[[Campaign, Sequence[FinishedRun], Experiment, Experiment | None], Iterable[Account]] | None = (
        None
    )
    notes: Callable[[History], Iterable[str]] | None = None
    sections: Callable[[], tuple[ReportSection, ...]] | None = None
    record: Callable[[History, Report, Path], Iterable[str]] | None = None
    write: Callable[[History, Report, Path], None] | None = None


def late(target: str) -> Callable[..., Any]:
    """Return a stand-in for a function, as `module:name`: the module is imported when it is first called."""

    def call(*arguments: Any) -> Any:
        module, _, name = target.partition(":")
        return getattr(import_module(module), name)(*arguments)

    return call


FEATURES: ExtensionPoint[Feature] = ExtensionPoint("feature", "buran.features", Feature, {})


def natives() -> list[Native]:
    """Return what all features add to Buran's own measurement system."""
    return [feature.native for feature in FEATURES if feature.native is not None]


def sampled_metrics() -> dict[str, Metric]:
    """Return what programs built for memory tell of call paths beside all other metrics, by name."""
    return {name: metric for native in natives() for name, metric in native.metrics().items()}


def sections() -> list[ReportSection]:
    """Return the sections of all features."""
    found = (section for feature in FEATURES if feature.sections is not None for section in feature.sections())
    return sorted(found, key=lambda section: section.order)


def sections_of(report: Report) -> list[tuple[ReportSection, Any]]:
    """Return the sections of which a report has a value, with it."""
    return [(each, value) for each in sections() if (value := report.further.get(each.name)) is not None]


def begins_with_another(config: CampaignFile) -> bool:
    """Return whether a campaign begins with the results of another one."""
    beginning = (each for each in FEATURES if each.forerunner is not None)
    return any(getattr(config, each.name, each.key.default) != each.key.default for each in beginning)


def simulated(environment: EnvironmentKeys) -> SimulatedKeys | None:
    """Return the keys of an environment's machine, if that is simulated."""
    keys = (getattr(environment, each.name, None) for each in FEATURES if each.simulator is not None)
    return next((each for each in keys if each is not None), None)


def known_mpi(campaign: Campaign) -> KnownMpi | None:
    """Return what a simulated machine tells of its MPI; None where programs are measured."""
    return None if campaign.simulator is None else campaign.simulator.known_mpi
