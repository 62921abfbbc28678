"""Comparing the results of two finished campaigns, and what is written next to the later one's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from buran.campaign.results import REPORT, results_folder
from buran.errors import UsageError
from buran.files import write_json, write_text
from buran.modeling.numerics.tuning import MATTERS
from buran.plugins.versions.ci import comparison_junit, comparison_markdown
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.condition import Broken
from buran.plugins.versions.difference import Comparison
from buran.plugins.versions.page import render_comparison_page
from buran.plugins.versions.sides import KEEP, read_side, side_of_results
from buran.plugins.versions.text import comparison_csv, comparison_plain, comparison_text
from buran.plugins.versions.tuning import LEVEL
from buran.workflow.session import Session

NAME = "comparison"


def compare_with(session: Session, other: Path, level: float = LEVEL, share: float = MATTERS) -> Comparison:
    """Compare a finished campaign with an earlier one.

    Raises
    ------
    UsageError
        They cannot be compared, or are the same.
    """
    folder = session.layout.results(session.id)
    before = read_side(other)
    same = other.resolve() if other.suffix == ".json" else results_folder(other)
    if same in (folder.resolve(), (folder / REPORT).resolve(), (folder / "models.json").resolve()):
        siblings = sorted(
            results.name for results in folder.parent.iterdir() if results != folder and (results / REPORT).is_file()
        )
        lie = f"earlier results of this file lie in {folder.parent}: {', '.join(siblings)}" if siblings else KEEP
        raise UsageError("a campaign cannot be compared with itself", where=other, hint=lie)
    return compare_sides(before, side_of_results(folder, str(session.campaign.path)), level, share)


def write_comparison(folder: Path, comparison: Comparison, broken: Sequence[Broken] = ()) -> None:
    """Write a comparison next to a report: as text, JSON, CSV, a page, a comment in Markdown and JUnit's XML."""
    write_text(folder / f"{NAME}.txt", comparison_text(comparison, broken))
    write_json(folder / f"{NAME}.json", comparison_plain(comparison, broken))
    write_text(folder / f"{NAME}.csv", comparison_csv(comparison))
    write_text(folder / f"{NAME}.md", comparison_markdown(comparison, broken))
    write_text(folder / f"{NAME}.xml", comparison_junit(comparison, broken))
    write_text(folder / f"{NAME}.html", render_comparison_page(comparison, broken))
