"""Which measurement systems there are."""

from __future__ import annotations

from buran.campaign.backends import BACKENDS
from buran.campaign.config import Campaign
from buran.campaign.document import read_campaign_file
from buran.campaign.mistakes import CampaignError
from buran.extensions import ExtensionPoint
from buran.measurement.backends.base import MeasurementSystem

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
