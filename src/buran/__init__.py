"""Buran: build, run and analyse parallel programs to learn how they scale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buran.views.results import Results

__version__ = "0.2.0"


def open(path: str | Path) -> Results:
    """Return what a finished campaign has found; see `buran.views.results.open_results`."""
    from buran.views.results import open_results

    return open_results(Path(path))
