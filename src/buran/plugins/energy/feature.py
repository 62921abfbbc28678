"""What energy adds to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from buran.campaign.mistakes import Mistake
from buran.campaign.values import OfPlan
from buran.features import Feature, Key, ReportSection, late, simulated
from buran.plugins.energy.consumption import ENERGY, is_requested

if TYPE_CHECKING:
    from buran.campaign.shape import CampaignFile

_KEY = Key(
    OfPlan[bool],
    False,
    "Whether the energy of runs is measured and modelled, in joules of the whole program: by RAPL, where Linux shows "
    "it (powercap), or as the scheduler accounts for steps. Where neither does, the report says why. Runs made before "
    "have none.",
)


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


def _sections() -> tuple[ReportSection, ...]:
    from buran.plugins.energy.campaign import SECTION

    return (SECTION,)


FEATURE = Feature(
    ENERGY.name,
    _KEY,
    mistakes=_mistakes,
    ahead=late("buran.plugins.energy.meter:ahead"),
    findings=late("buran.plugins.energy.meter:findings"),
    watch=late("buran.plugins.energy.meter:watch"),
    table=late("buran.plugins.energy.campaign:energy_table"),
    notes=late("buran.plugins.energy.campaign:energy_notes"),
    sections=_sections,
)
