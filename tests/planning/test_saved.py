"""The report says what a campaign saved."""

from __future__ import annotations

import pytest

from buran.reporting.content import Report
from buran.reporting.words import _cost


@pytest.mark.parametrize(
    ("points", "full", "said"),
    [
        ((7, 25), 2.0, "10 % of what all points would take (2 core hours) went into models"),
        ((25, 25), 2.0, ""),
        ((7, 25), None, ""),
    ],
)
def test_what_was_saved_against_the_full_matrix(points: tuple[int, int], full: float | None, said: str) -> None:
    empty: dict[str, object] = dict.fromkeys(("notes", "overhead", "evaluation", "failures", "priors"), ())
    answer = _cost(
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
    text = "; ".join(answer.facts)
    assert said in text and ("would take" in text) == bool(said)
