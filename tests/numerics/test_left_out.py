"""What left-out largest values tell of predictions beyond all points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from buran.numerics.discrepancy import DiscrepancyPrior, LeftOut, discrepancy_prior

PRIOR = DiscrepancyPrior(4.0, 1.5, 0.0, 0.0)


def left_out(square: float, noise: float = 0.01, points_a_value: float = 10.0) -> LeftOut:
    return LeftOut(np.array([[square]]), np.array([noise]), points_a_value)


def test_the_file_of_the_package_is_a_prior() -> None:
    assert all(number >= 0 for number in vars(discrepancy_prior()).values())


def test_what_noise_explains_says_nothing() -> None:
    assert left_out(3.9e-4).misses(PRIOR).tolist() == [[0.0]]
    assert np.allclose(left_out(0.09 + 4e-4).misses(PRIOR), 1.5 * 0.3)


def test_noise_hides_something_where_points_are_scarce() -> None:
    prior = replace(PRIOR, hidden=1.0)
    assert np.isclose(left_out(0.0, points_a_value=1.0).misses(prior)[0, 0], 0.01)
    assert np.isclose(left_out(0.0, points_a_value=4.0).misses(prior)[0, 0], 0.0025)


def test_points_that_vary_one_parameter_alone_leave_more_open() -> None:
    prior = replace(PRIOR, alone=1.0)
    lines = replace(left_out(0.09, noise=0.0), alone=0.8)
    assert np.isclose(lines.misses(prior)[0, 0], 1.8 * 1.5 * 0.3)


def test_nothing_is_said_where_nothing_was_left_out() -> None:
    assert left_out(np.nan, noise=np.nan).misses(PRIOR).tolist() == [[0.0]]
