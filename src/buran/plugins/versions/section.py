"""What a report says of an earlier version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from buran.campaign.layout import REPORT
from buran.errors import UsageError
from buran.features import ReportSection
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.difference import Comparison
from buran.plugins.versions.earlier import EarlierVersion
from buran.plugins.versions.page import STYLE, comparison_section, write_comparison
from buran.plugins.versions.side import RUNTIME, counts_in, side_of_report
from buran.plugins.versions.text import change_of, changed, sentences, title_of
from buran.reporting.content import Answer, Report
from buran.workflow.history import History
from buran.workflow.report import plain_of

_WORST = 3


@dataclass(frozen=True)
class Versions:
    """What became of an earlier version.

    Attributes
    ----------
    earlier
        Its name.
    comparison
        With it; None without models, or where these cannot be compared.
    refused
        Why they cannot be, in a sentence.
    """

    earlier: str
    comparison: Comparison | None = None
    refused: str = ""


def versions_of(history: History, report: Report, folder: Path | None) -> Versions | None:
    """Compare a campaign with the earlier version; None without one."""
    session = history.session
    earlier = session.earlier
    if not isinstance(earlier, EarlierVersion):
        return None
    name = earlier.side.name
    if folder is None or not report.models:
        return Versions(name)
    plain = plain_of(report, history.models(history.plans[-1].iteration - 1))
    try:
        side = side_of_report(plain, folder / REPORT, str(session.campaign.path), counts_in(folder))
        return Versions(name, compare_sides(earlier.side, side))
    except UsageError as error:
        return Versions(name, refused=f"Not compared with {name}: {error.what}.")


def as_text(versions: Versions, report: Report) -> str:
    """Return the section as plain text; empty where nothing was compared."""
    if versions.comparison is None:
        return ""
    title = f"Compared with {versions.earlier}"
    lines = [*sentences(versions.comparison), "All of it is in comparison.txt, .html and .json."]
    return "\n".join([title, "-" * len(title), *lines])


def answer_of(versions: Versions, report: Report) -> Answer | None:
    """Name what changed most since the earlier version: what exact counts prove, then what is certain in times."""
    if versions.comparison is None:
        return None
    rows = [change_of(row, versions.comparison) for row in changed(versions.comparison)[:_WORST]]
    facts = [change for _, change in rows[:1]]
    facts += [line for line in sentences(versions.comparison) if line.startswith(title_of(RUNTIME))]
    facts += [f"{what}; {change}" for what, change in rows[1:]]
    holds = not (rows or report.points[0])  # pilot runs alone
    name = versions.earlier
    facts.append(f"Models of {name} hold for this version too" if holds else f"Compared with {name}")
    return Answer("What changed?", rows[0][0] if rows else "Nothing significant", facts)


SECTION = ReportSection(
    "comparison",
    "What changed",
    versions_of,
    as_text,
    lambda versions, _: comparison_section(versions.comparison) if versions.comparison else "",
    plain=lambda versions: {"earlier": "" if versions is None else versions.earlier},
    is_first=True,
    answer=answer_of,
    notes=lambda versions: [versions.refused] if versions.refused else [],
    write=lambda versions, folder: write_comparison(folder, versions.comparison) if versions.comparison else None,
    style=STYLE,
)
