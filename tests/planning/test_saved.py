"""The report says what a campaign saved."""

from __future__ import annotations

import pytest

from buran.reporting.content import Report
from buran.reporting.text import render


@pytest.mark.parametrize(
    ("points", "full", "said"),
    [
        ((7, 25), 2.0, "All points would take about 2 core hours; 10 % of that went into models, 90 % was saved."),
        ((25, 25), 2.0, ""),
        ((7, 25), None, ""),
    ],
)
def test_what_was_saved_against_the_full_matrix(points: tuple[int, int], full: float | None, said: str) -> None:
    empty: dict[str, object] = dict.fromkeys(("notes", "overhead", "evaluation", "failures", "priors"), ())
    text = render(
        Report(
            **empty,  # type: ignore[arg-type]
            campaign="test",
            reason="",
            parameters=("p",),
            target={"p": 8.0},
            points=points,
            models={},
            runtime=None,
            unsteady={},
            spent_core_hours=0.5,  # evaluation points among it
            modelling_core_hours=0.2,
            full_matrix_core_hours=full,
            budget_core_hours=None,
            next_steps=("go on",),
            results={"models": "models.json"},
        )
    )
    assert said in text and ("would take" in text) == bool(said)
