"""What energy adds to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from buran.campaign.mistakes import Mistake
from buran.campaign.values import OfPlan
from buran.features import Feature, Key, ReportSection, Start, Watch, simulated
from buran.profile.metrics import Metric

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.shape import CampaignFile
    from buran.experiment.table import Experiment
    from buran.loop.history import FinishedRun, History
    from buran.measure.finding import Finding
    from buran.measure.schedulers.base import Scheduler
    from buran.profile.profile import CallTree

ENERGY = Metric(
    "energy", "J", "exclusive", "DOUBLE", "Energy", "Of the whole program: of its processors, or nodes", is_whole=True
)
_KEY = Key(
    OfPlan[bool],
    False,
    "Whether the energy of runs is measured and modelled, in joules of the whole program: by RAPL, where Linux shows "
    "it (powercap), or as the scheduler accounts for steps. Where neither does, the report says why. Runs made before "
    "have none.",
)


def is_requested(config: CampaignFile) -> bool:
    """Return whether a campaign asks for the energy of its runs."""
    return bool(getattr(config, ENERGY.name))


def _mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Refuse energy where none can be measured."""
    if not is_requested(config):
        return
    if config.backend == "simulated":
        why = "a simulated program has times and counts alone"
        yield Mistake(("energy",), "energy cannot be measured with backend: simulated", why, "leave it out")
    used = config.environments.get(environment)
    if used is not None and simulated(used) is not None:
        why = "what this machine consumes says nothing about a simulated one"
        yield Mistake(("energy",), "energy cannot be measured on a simulated machine", why, "leave it out")
    elif config.resources.share_nodes == "all":
        why, path = "energy is counted for whole nodes, and no run would have one", ("resources", "share_nodes")
        yield Mistake(path, "energy needs nodes that are not shared", why, "write share_nodes: counts")


def _ahead(campaign: Campaign, scheduler: Scheduler) -> Iterable[str]:
    from buran.plugins.energy.meter import ahead

    return ahead(campaign, scheduler)


def _findings() -> Iterable[Finding]:
    from buran.plugins.energy.meter import findings

    return findings()


def _watch(start: Start) -> Watch | None:
    from buran.plugins.energy.meter import watch

    return watch(start)


def _table(history: History, runs: Sequence[FinishedRun], tree: CallTree | None) -> Experiment | None:
    from buran.plugins.energy.campaign import energy_table

    return energy_table(history, runs, tree)


def _notes(history: History) -> Iterable[str]:
    from buran.plugins.energy.campaign import energy_notes

    return energy_notes(history)


def _sections() -> tuple[ReportSection, ...]:
    from buran.plugins.energy.campaign import SECTION

    return (SECTION,)


FEATURE = Feature(
    ENERGY.name,
    _KEY,
    mistakes=_mistakes,
    ahead=_ahead,
    findings=_findings,
    watch=_watch,
    table=_table,
    notes=_notes,
    sections=_sections,
)
