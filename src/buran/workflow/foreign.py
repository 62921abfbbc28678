"""Times of call paths that were measured elsewhere, beside those of the campaign's own runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.point import Point
from buran.features import FEATURES
from buran.instrumentation.pooling import HookCost, Pooled
from buran.instrumentation.prediction import FILTERABLE, symbol_of
from buran.profiles.experiment.merge import add_points, project
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import Region


def foreign_tables(campaign: Campaign) -> Iterator[Experiment]:
    """Yield the tables that features bring; raises `ConfigError`."""
    for feature in FEATURES:
        if feature.foreign is not None and (table := feature.foreign(campaign)) is not None:
            yield table


def foreign_points(campaign: Campaign) -> frozenset[Point]:
    """Return the points of the campaign that were timed elsewhere; raises `ConfigError`."""
    return frozenset(
        Point.of(dict(zip(table.parameters, row, strict=True)))
        for table in foreign_tables(campaign)
        for row in table.points.tolist()
    )


def with_foreign(campaign: Campaign, own: Pooled | None) -> Pooled | None:
    """Return the campaign's times with those of other points that were measured elsewhere.

    Functions that have no hooks here give their times to their callers. Where a point has times of both, those of the
    campaign count.
    """
    for table in foreign_tables(campaign):
        if own is None:
            repetitions = table.over_locations("time").shape[2]
            own = Pooled.of(table, np.ones(repetitions, dtype=bool), HookCost(0.0, 0.0))
            continue
        symbols = set(map(symbol_of, own.uncorrected.tree.regions))

        def stays(region: Region, known: set[str] = symbols) -> bool:
            return region.paradigm not in FILTERABLE or symbol_of(region) in known

        own = replace(own, table=add_points(own.table, project(table, stays)))
    return own
