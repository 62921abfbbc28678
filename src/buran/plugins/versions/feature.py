"""What comparing versions adds to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from buran.campaign.values import OfPlan, Text
from buran.features import Feature, Key, ReportSection

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.campaign.mistakes import Mistake
    from buran.loop.history import History
    from buran.plugins.versions.earlier import EarlierVersion
    from buran.plugins.versions.section import Versions
    from buran.report.content import Answer, Report

KEY = "compare_with"
_Type: TypeAlias = OfPlan[Text | None]


def name_of_earlier(campaign: Campaign) -> str | None:
    """Return what a campaign file names as the earlier version."""
    named: str | None = getattr(campaign.config, KEY)
    return named


def _misfits(campaign: Campaign) -> Iterable[Mistake]:
    from buran.plugins.versions.earlier import comparison_mistakes

    return () if name_of_earlier(campaign) is None else comparison_mistakes(campaign)


def _identity(campaign: Campaign) -> list[str]:
    """Return digests of the files that a comparison reads."""
    from buran.campaign.results import READ
    from buran.files import file_sha256
    from buran.plugins.versions.earlier import earlier_results

    folder = earlier_results(campaign)
    return [] if folder is None else [file_sha256(folder / name) for name in READ if (folder / name).is_file()]


def _forerunner(campaign: Campaign) -> EarlierVersion | None:
    if name_of_earlier(campaign) is None:
        return None
    from buran.plugins.versions.earlier import read_earlier

    return read_earlier(campaign)


def _value(history: History, report: Report, folder: Path | None) -> Versions | None:
    if name_of_earlier(history.session.campaign) is None:
        return None
    from buran.plugins.versions.section import versions_of

    return versions_of(history, report, folder)


def _text(versions: Versions, report: Report) -> str:
    from buran.plugins.versions.section import as_text

    return as_text(versions, report)


def _page(versions: Versions, report: Report) -> str:
    from buran.plugins.versions.section import as_page

    return as_page(versions, report)


def _plain(versions: Versions | None) -> Mapping[str, Any]:
    from buran.plugins.versions.section import in_json

    return in_json(versions)


def _answer(versions: Versions, report: Report) -> Answer | None:
    from buran.plugins.versions.section import answer_of

    return answer_of(versions, report)


def _notes(versions: Versions) -> Sequence[str]:
    return [versions.refused] if versions.refused else []


def _write(versions: Versions, folder: Path) -> None:
    from buran.plugins.versions.results import write_comparison

    if versions.comparison is not None:
        write_comparison(folder, versions.comparison)


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
    section=ReportSection(
        "comparison",
        "What changed",
        _value,
        _text,
        _page,
        plain=_plain,
        is_first=True,
        answer=_answer,
        notes=_notes,
        write=_write,
        style=Path(__file__).with_name("comparison.css"),
    ),
)
