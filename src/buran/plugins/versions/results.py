"""Comparing the results of two finished campaigns."""

from __future__ import annotations

from pathlib import Path

from buran.campaign.layout import REPORT, results_folder
from buran.errors import UsageError
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.difference import Comparison
from buran.plugins.versions.sides import KEEP, read_side, side_of_results
from buran.workflow.session import Session


def compare_with(session: Session, other: Path, level: float, share: float) -> Comparison:
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
