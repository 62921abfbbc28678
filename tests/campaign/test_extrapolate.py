"""Where models are extrapolated to."""

from __future__ import annotations

import pytest

from buran.campaign.mistakes import TextError
from buran.campaign.space import check_target_value, extrapolated

VALUES = {"p": (1, 2, 4, 8), "n": (10, 20, 25, 40), "one": (7,)}


@pytest.mark.parametrize(
    ("wish", "name", "value"),
    [
        (64, "p", 64),
        (0.5, "p", 0.5),
        ("linear", "n", 50),  # the mean distance of neighbours is 10
        ("linear", "p", 8 + 7 / 3),
        ("linear", "one", 7),
        ("4 * p", "p", 32),
        ("n * p", "n", 320),
    ],
)
def test_the_ways_to_a_target(wish: float | str, name: str, value: float) -> None:
    assert extrapolated(wish, name, VALUES) == pytest.approx(value)


@pytest.mark.parametrize("wish", ["p - 8", "n / (p - 8)", "0"])
def test_values_that_cannot_be(wish: str) -> None:
    with pytest.raises(TextError):
        extrapolated(wish, "p", VALUES)


@pytest.mark.parametrize("wish", [0, -1, "cubic", "4 * q", "p >", ""])
def test_mistakes_are_found_when_the_file_is_read(wish: float | str) -> None:
    with pytest.raises(TextError):
        check_target_value(wish, ("p", "n"))


@pytest.mark.parametrize("wish", [3, "linear", "2 * n"])
def test_what_is_allowed(wish: float | str) -> None:
    check_target_value(wish, ("p", "n"))
