"""The report says what a campaign saved."""

from __future__ import annotations

import pytest

from buran.reporting.summary import CampaignSummary
from buran.reporting.text import _cost
from made_up import report


@pytest.mark.parametrize(
    ("points", "full", "said"),
    [
        ((7, 25), 2.0, "10 % of what all points would take (2 core hours) went into models"),
        ((25, 25), 2.0, ""),
        ((7, 25), None, ""),
    ],
)
def test_what_was_saved_against_the_full_matrix(points: tuple[int, int], full: float | None, said: str) -> None:
    summary = CampaignSummary("test", True, "", spent_core_hours=0.5)  # evaluation points among it
    answer = _cost(report(None, summary=summary, points=points, modelling_core_hours=0.2, full_matrix_core_hours=full))
    text = "; ".join(answer.facts)
    assert said in text and ("would take" in text) == bool(said)
