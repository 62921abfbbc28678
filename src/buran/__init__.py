"""Buran: build, run and analyse parallel programs to learn how they scale."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buran.reporting.results import Results

try:
    __version__ = version("buran")
except PackageNotFoundError:  # sources that are not installed
    __version__ = "0+uninstalled"


def open(path: str | Path) -> Results:
    """Return what a finished campaign has found; see `buran.reporting.results.open_results`."""
    from buran.reporting.results import open_results

    return open_results(Path(path))
