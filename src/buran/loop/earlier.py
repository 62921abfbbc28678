"""The earlier version of a program that a campaign is compared with: its models, its counts, its points, its filter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.mistakes import CampaignError, Mistake
from buran.campaign.point import Point
from buran.campaign.results import FINDINGS
from buran.compare.side import RUNTIME, Side
from buran.compare.sides import side_of_results
from buran.errors import FormatError
from buran.loop.findings import Findings
from buran.profile.metrics import metric_of, noise_resilient


@dataclass(frozen=True)
class EarlierVersion:
    """An earlier version of the program.

    Attributes
    ----------
    name
        What readers know it by.
    points
        Points that its models were made from and that the campaign has too, cheapest first.
    filter_text
        Filter of its times.
    shortest_run_s
        Shortest run without instrumentation.
    """

    name: str
    side: Side
    points: tuple[Point, ...]
    filter_text: str
    shortest_run_s: float

    @property
    def has_counts(self) -> bool:
        """Whether counts can be compared exactly."""
        counts = self.side.counts
        return counts is not None and bool(noise_resilient(counts.values))

    @property
    def runtime(self) -> Callable[[Point], float | None]:
        """Return the prediction of a run's wall time in seconds."""
        models = self.side.models.get(RUNTIME)

        def predict(point: Point) -> float | None:
            if models is None:
                return None
            at = np.array([[point[name] for name in models.parameters]], dtype=np.float64)
            value = float(models.predict(at)[0, 0])
            return max(value, self.shortest_run_s) if np.isfinite(value) else None

        return predict


def read_earlier(campaign: Campaign) -> EarlierVersion | None:
    """Read the results that a campaign is compared with; None if there are none.

    Raises
    ------
    CampaignError
        They cannot be compared with what this campaign measures.
    """
    folder = campaign.earlier_results
    if folder is None:
        return None
    name = str(campaign.config.compare_with)
    try:
        side = side_of_results(folder, name)
        findings = Findings.read(folder / FINDINGS)
    except FormatError as error:
        raise _mistake(campaign, error.what, error.why, error.hint) from error
    if side.parameters != campaign.parameters:
        why = f"{', '.join(side.parameters)} there, {', '.join(campaign.parameters)} here"
        raise _mistake(campaign, "the earlier version was measured over other parameters", why)
    shared = {name for name in campaign.config.metrics if name == "time" or metric_of(name).noise_resilient}
    shared &= set(side.models)
    if not shared:
        why = "it ended without models, or none of its metrics is measured here"
        hint = "compare with a campaign that has models; a version in which nothing changed has none of its own"
        raise _mistake(campaign, "the earlier version has no models to compare with", why, hint)
    measured = {point for metric in sorted(shared) for point in side.models[metric].points}
    points = tuple(
        point for point in campaign.points if tuple(float(point[name]) for name in side.parameters) in measured
    )
    if not points:
        why = "no point of this campaign was measured there"
        raise _mistake(campaign, "the two versions have no point in common", why, "give this campaign points of it")
    return EarlierVersion(side.name, side, points, findings.filter_text, findings.shortest_run_s)


def _mistake(campaign: Campaign, what: str, why: str | None = None, hint: str | None = None) -> CampaignError:
    path: Path = campaign.path
    return CampaignError([Mistake(("compare_with",), what, why, hint, path)])
