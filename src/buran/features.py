"""What a plug-in adds to campaigns: a key of their files, what runs note, what is modelled, a section of the report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from buran.extensions import ExtensionPoint

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.mistakes import Mistake
    from buran.campaign.records import RunRecord
    from buran.campaign.shape import CampaignFile
    from buran.experiment.table import Experiment
    from buran.loop.history import FinishedRun, History
    from buran.measure.finding import Finding
    from buran.measure.machine.machine import RunJob
    from buran.measure.schedulers.base import Allocation, Scheduler
    from buran.profile.profile import CallTree
    from buran.report.content import Report


@dataclass(frozen=True)
class Key:
    """A key at the top of campaign files.

    Attributes
    ----------
    type
        Its type with what the key decides, as ``OfPlan[bool]``, or a class of keys (`buran.campaign.identity.Keys`).
    default
        Its value where the file does not have it: what campaigns without the plug-in do.
    """

    type: Any
    default: Any
    description: str


@dataclass(frozen=True)
class Start:
    """A run that is about to start.

    Attributes
    ----------
    scheduler, allocation
        In whose job it is, and what that was given; None outside of jobs.
    is_alone
        Whether no other run of the campaign is on its nodes meanwhile.
    """

    campaign: Campaign
    job: RunJob
    scheduler: Scheduler
    allocation: Allocation | None
    is_alone: bool


class Watch(Protocol):
    """Watches one run, from its making on."""

    def sample(self) -> None:
        """Look; called every few seconds while the program runs."""

    def complete(self, record: RunRecord) -> RunRecord:
        """Return the run's record with what was seen, after its end."""


@dataclass(frozen=True)
class ReportSection:
    """A section of the report; the page shows it before the tests of predictions.

    Attributes
    ----------
    value
        Returns what the section says, a dataclass of plain values, which `report.json` has under the feature's name;
        None to leave the section out.
    text
        Returns a value as plain text.
    page
        Returns a value as HTML, below the title.
    cost
        Returns what of a value belongs to what the campaign cost, in a few words.
    """

    title: str
    value: Callable[[History, Report], Any]
    text: Callable[[Any, Report], str]
    page: Callable[[Any, Report], str]
    cost: Callable[[Any], str] | None = None


@dataclass(frozen=True)
class Feature:
    """What a plug-in adds to campaigns; each part may be left out.

    Attributes
    ----------
    name
        That of its entry point and of its key.
    key
        By which campaigns ask for it. The other functions look at it themselves.
    mistakes
        Returns what is wrong with a file, where the environment of that name is used, which the file may lack.
    ahead
        Returns what `buran check` says of a campaign that a scheduler is going to measure.
    findings
        Returns what `buran doctor` says of this machine.
    watch
        Returns what watches a run; None where nothing needs to.
    table
        Returns values of the whole program at the points of runs, which are modelled, with the call tree of the other
        tables, if there is one; None without any.
    notes
        Returns what a report says of the numbers beside the section.
    section
        Of the report.
    """

    name: str
    key: Key
    mistakes: Callable[[CampaignFile, str], Iterable[Mistake]] | None = None
    ahead: Callable[[Campaign, Scheduler], Iterable[str]] | None = None
    findings: Callable[[], Iterable[Finding]] | None = None
    watch: Callable[[Start], Watch | None] | None = None
    table: Callable[[History, Sequence[FinishedRun], CallTree | None], Experiment | None] | None = None
    notes: Callable[[History], Iterable[str]] | None = None
    section: ReportSection | None = None


FEATURES: ExtensionPoint[Feature] = ExtensionPoint("feature", "buran.features", Feature, {})


def sections_of(report: Report) -> Iterator[tuple[str, ReportSection, Any]]:
    """Yield name, section and value of the features that a report has something of."""
    for feature in FEATURES:
        if feature.section is not None and (value := report.further.get(feature.name)) is not None:
            yield feature.name, feature.section, value
