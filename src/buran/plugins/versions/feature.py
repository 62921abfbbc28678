"""What comparing versions adds to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from buran.campaign.values import OfPlan, Text
from buran.features import Feature, Key, ReportSection
from buran.plugins.versions import KEY, name_of_earlier

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.mistakes import Mistake
    from buran.plugins.versions.earlier import EarlierVersion

_Type: TypeAlias = OfPlan[Text | None]


def _misfits(campaign: Campaign) -> Iterable[Mistake]:
    from buran.plugins.versions.earlier import comparison_mistakes

    return () if name_of_earlier(campaign) is None else comparison_mistakes(campaign)


def _identity(campaign: Campaign) -> Mapping[str, list[str]]:
    """Return digests of the files that a comparison reads."""
    from buran.campaign.layout import FINDINGS, REPORT
    from buran.files import file_sha256
    from buran.plugins.versions.earlier import earlier_results
    from buran.profiles.experiment import TABLE

    folder = earlier_results(campaign)
    read = [] if folder is None else [folder / name for name in (REPORT, FINDINGS, TABLE)]
    return {KEY: [file_sha256(path) for path in read if path.is_file()]}


def _forerunner(campaign: Campaign) -> EarlierVersion | None:
    if name_of_earlier(campaign) is None:
        return None
    from buran.plugins.versions.earlier import read_earlier

    return read_earlier(campaign)


def _sections() -> tuple[ReportSection, ...]:
    from buran.plugins.versions.section import SECTION

    return (SECTION,)


FEATURE = Feature(
    KEY,
    Key(
        _Type,
        None,
        "An earlier version of the program: the campaign file that measured it, or a folder with its "
        "results (`results/NAME/latest`, or a copy), relative to this file. A few cheap runs under its last filter "
        "then show first whether anything has changed; if nothing has, the campaign ends with that.",
        ["../before/campaign.yaml"],
    ),
    misfits=_misfits,
    identity=_identity,
    forerunner=_forerunner,
    sections=_sections,
)
