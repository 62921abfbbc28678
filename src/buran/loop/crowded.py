"""Runs with more ranks and threads than cores: these take turns, and wall times tell of that."""

from __future__ import annotations

from collections.abc import Iterable

from buran.campaign.point import Point
from buran.loop.collect import in_store
from buran.loop.history import FinishedRun, History


def crowded_points(history: History, runs: Iterable[FinishedRun]) -> list[Point]:
    """Return the points at which some runs had more ranks and threads than cores, as far as their records tell."""
    points: dict[Point, None] = {}
    for run in in_store(runs):
        record = history.run_record(run.folder)
        cores = len((record.before or {}).get("cpu_mask") or ())
        nodes = int((record.configuration or {}).get("nodes") or 1)
        if record.clock == "real" and 0 < cores * nodes < record.cores:
            points[run.point] = None
    return list(points)
