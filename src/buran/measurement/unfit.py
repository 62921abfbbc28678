"""Builds of which no run is worth its time: one could not count a metric, nor would the others."""

from __future__ import annotations

from pathlib import Path

from buran.campaign.records import read_run
from buran.files import write_text
from buran.measurement.store import store

_MARK = "unfit"


def mark(folder: Path, build: str, attempt: Path) -> None:
    """Let a failed attempt stand for all runs of its build, in a store's folder."""
    write_text(folder / build / _MARK, f"{attempt.relative_to(folder)}\n")


def why_unfit(folder: Path, build: str) -> str | None:
    """Return what a failed attempt of a build lacked, as long as it counts; None if there is none."""
    path = folder / build / _MARK
    attempt = folder / path.read_text(encoding="utf-8").strip() if path.is_file() else None
    if attempt is None or not store.counts(attempt):
        return None
    record = read_run(attempt)
    return f"another run of its build could not count {record.lacks_metric} ({record.point.key}, {attempt.name})"
