"""Versions: comparing a program with an earlier version, while it is measured and afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buran.campaign.config import Campaign

KEY = "compare_with"


def name_of_earlier(campaign: Campaign) -> str | None:
    """Return what a campaign file names as the earlier version."""
    named: str | None = getattr(campaign.config, KEY)
    return named
