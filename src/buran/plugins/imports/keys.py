"""Keys of campaign files that name measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from buran.campaign.identity import Keys
from buran.campaign.values import OfPlan, Pattern, PointMapping, Text

if TYPE_CHECKING:
    from buran.campaign.shape import CampaignFile

KEY = "measurements"


class MeasurementsKeys(Keys, title="Measurements"):
    """Measurements of the same program, machine and measurement system that exist already."""

    path: OfPlan[Text] = Field(
        description="Folder of runs named like `prefix.p4n100.r1` with a cubex file in each, as Extra-P reads them; or "
        "anything else that `buran convert` reads. Relative to this file.",
        examples=["../old/sweep"],
    )
    names: OfPlan[dict[Text, Text]] = Field(
        default_factory=dict,
        description="What the runs' folders, or the file, call this campaign's parameters.",
        examples=[{"size": "n"}],
    )
    pattern: OfPlan[Pattern | None] = Field(
        None,
        description="Regular expression for the paths of runs' folders below `path`, where they are not named for "
        "Extra-P: a named group for each parameter; a group `repetition`, or else runs of a point count in the order "
        "of their names.",
        examples=[r"p(?P<p>\d+)/n(?P<n>\d+)/scorep-"],
    )
    fixed: OfPlan[PointMapping] = Field(
        default_factory=dict,
        description="Values of parameters that were not varied, and so are missing from the runs' names.",
        examples=[{"n": 100}],
    )


def measurements_of(config: CampaignFile) -> tuple[MeasurementsKeys, ...]:
    """Return the entries of a campaign file."""
    entries: tuple[MeasurementsKeys, ...] = getattr(config, KEY)
    return entries
