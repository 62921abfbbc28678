"""Metrics of caches, from runs that sample accesses to memory."""

from __future__ import annotations

from buran.profiles.metrics import Metric


def _sampled(name: str, title: str, description: str) -> Metric:
    return Metric(
        name, "occ", "exclusive", "DOUBLE", title, description, builds=("memory",), key="metrics", reported=True
    )


def _misses(level: int) -> Metric:
    name, size = f"misses_level_{level}", f"as large as that of level {level}"
    return _sampled(name, f"Misses of level {level}", f"Accesses that miss a cache {size}")


FIRST_TOUCHES = _sampled("first_touches", "Lines touched first", "Cache lines that a thread touches for the first time")
LEVEL_1, LEVEL_2, LEVEL_3, LEVEL_4 = map(_misses, (1, 2, 3, 4))
MISSES = tuple(metric.name for metric in (LEVEL_1, LEVEL_2, LEVEL_3, LEVEL_4))
"""Nearest first."""
