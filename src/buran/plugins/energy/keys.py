"""The metric of energy, and whether a campaign asks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from buran.profiles.metrics import Metric

if TYPE_CHECKING:
    from buran.campaign.shape import CampaignFile

ENERGY = Metric("energy", "J", "exclusive", "DOUBLE", "Energy", "Of the whole program: of its processors, or nodes")


def is_requested(config: CampaignFile) -> bool:
    """Return whether a campaign asks for the energy of its runs."""
    return bool(getattr(config, ENERGY.name))
