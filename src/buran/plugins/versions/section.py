"""What a report says of an earlier version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from buran.campaign.results import REPORT
from buran.errors import UsageError
from buran.features import ReportSection
from buran.plugins.versions.campaign import checked_so_far
from buran.plugins.versions.check import CheckedRow
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.difference import Comparison
from buran.plugins.versions.earlier import EarlierVersion
from buran.plugins.versions.page import checked_section, comparison_section
from buran.plugins.versions.results import write_comparison
from buran.plugins.versions.side import RUNTIME
from buran.plugins.versions.sides import counts_in, side_of_report
from buran.plugins.versions.text import change_of, changed, checked_rows, earlier_text, sentences, title_of
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
    checked
        What a few runs showed compared with what it predicts and counted.
    comparison
        With it; None without models, or where these cannot be compared.
    refused
        Why they cannot be, in a sentence.
    """

    earlier: str
    checked: Sequence[CheckedRow]
    comparison: Comparison | None = None
    refused: str = ""


def versions_of(history: History, report: Report, folder: Path | None) -> Versions | None:
    """Compare a campaign with the earlier version; None without one."""
    session = history.session
    earlier = session.earlier
    if not isinstance(earlier, EarlierVersion):
        return None
    checked = checked_so_far(history)
    if folder is None or not report.models:
        return Versions(earlier.name, checked)
    plain = plain_of(report, history.models(history.plans[-1].iteration - 1))
    try:
        side = side_of_report(plain, folder / REPORT, str(session.campaign.path), counts_in(folder))
        return Versions(earlier.name, checked, compare_sides(earlier.side, side))
    except UsageError as error:
        return Versions(earlier.name, checked, refused=f"Not compared with {earlier.name}: {error.what}.")


def in_json(versions: Versions | None) -> dict[str, Any]:
    """Return what `report.json` has; the comparison is a file of its own."""
    return {
        "earlier": "" if versions is None else versions.earlier,
        "checked": [] if versions is None else [asdict(row) for row in versions.checked],
    }


def as_text(versions: Versions, report: Report) -> str:
    """Return the section as plain text."""
    return earlier_text(versions.earlier, report.parameters, versions.checked, versions.comparison)


def as_page(versions: Versions, report: Report) -> str:
    """Return the section as HTML; empty where nothing was compared."""
    if versions.comparison is not None:
        return comparison_section(versions.comparison)
    return checked_section(versions.earlier, report.parameters, versions.checked) if versions.checked else ""


def answer_of(versions: Versions, report: Report) -> Answer | None:
    """Name what changed most since the earlier version: what exact counts prove, then what is certain in times."""
    question, since = "What changed?", f"Compared with {versions.earlier}"
    if versions.comparison is None:
        if not versions.checked:
            return None
        rows = [row for row in checked_rows(report.parameters, versions.checked) if row[0] in ("grown", "shrunk")]
        few = [f"{metric}, {path}: {change} at {point}" for _, metric, path, point, *_, change in rows[:_WORST]]
        return Answer(question, few[0] if few else "Nothing that a few runs show", [*few[1:], since])
    rows = [change_of(row, versions.comparison) for row in changed(versions.comparison)[:_WORST]]
    facts = [change for _, change in rows[:1]]
    facts += [line for line in sentences(versions.comparison) if line.startswith(title_of(RUNTIME))]
    facts += [f"{what}; {change}" for what, change in rows[1:]]
    return Answer(question, rows[0][0] if rows else "Nothing significant", [*facts, since])


def _write(versions: Versions, folder: Path) -> None:
    if versions.comparison is not None:
        write_comparison(folder, versions.comparison)


SECTION = ReportSection(
    "comparison",
    "What changed",
    versions_of,
    as_text,
    as_page,
    plain=in_json,
    is_first=True,
    answer=answer_of,
    notes=lambda versions: [versions.refused] if versions.refused else [],
    write=_write,
    style=Path(__file__).with_name("comparison.css"),
)
