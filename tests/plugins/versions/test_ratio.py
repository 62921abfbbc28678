"""Intervals of ratios: against drawn numbers, and at their limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.plugins.versions.compare import of_ratio

positive = st.floats(1e-3, 1e3)
width = st.floats(0.001, 0.9)


def interval(first: float, one: float, second: float, other: float) -> tuple[float, float]:
    """Return the ends for two numbers with relative half-widths."""
    ends = [
        (np.array([value * (1 - half)]), np.array([value * (1 + half)]))
        for value, half in ((first, one), (second, other))
    ]
    lower, upper = of_ratio(np.array([first]), ends[0], np.array([second]), ends[1])
    return float(lower[0]), float(upper[0])


@given(positive, width, positive, width)
def test_the_ratio_lies_within_and_swapping_turns_the_interval_over(a: float, x: float, b: float, y: float) -> None:
    lower, upper = interval(a, x, b, y)
    assert lower <= b / a <= upper
    back = interval(b, y, a, x)
    assert back == pytest.approx((1 / upper, 1 / lower), rel=1e-6)


@given(positive, width, positive, width)
def test_it_says_grown_where_the_difference_is_larger_than_both_intervals(
    a: float, x: float, b: float, y: float
) -> None:
    gap, reach = b - a, np.hypot(a * x, b * y)
    if abs(abs(gap) - reach) > 1e-6 * reach:
        lower, upper = interval(a, x, b, y)
        assert (lower > 1) == (gap > reach)
        assert (upper < 1) == (-gap > reach)


def test_it_holds_the_ratio_as_often_as_it_says() -> None:
    draw = np.random.default_rng(1)
    first, second = draw.normal(10, 0.5, 20_000), draw.normal(13, 0.9, 20_000)
    reach = 1.959964
    lower, upper = of_ratio(
        first, (first - reach * 0.5, first + reach * 0.5), second, (second - reach * 0.9, second + reach * 0.9)
    )
    assert np.mean((lower <= 1.3) & (upper >= 1.3)) == pytest.approx(0.95, abs=0.01)


def test_ends_that_are_not_there_leave_the_ratio_open() -> None:
    one, three, none = np.array([1.0]), np.array([3.0]), np.zeros(1)
    lower, upper = of_ratio(one, (np.array([-np.inf]), np.array([np.inf])), three, (three, three))
    assert (lower[0], upper[0]) == (0.0, np.inf)
    lower, upper = of_ratio(one, (one, one), three, (three, three))
    assert (lower[0], upper[0]) == (3.0, 3.0)
    assert np.isinf(of_ratio(none, (none, none), three, (three, three))[0][0])
    assert np.isnan(of_ratio(none, (none, none), none, (none, none))[0][0])
