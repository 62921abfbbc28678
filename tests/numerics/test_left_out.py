"""What left-out largest values tell of predictions beyond all points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from buran.numerics.discrepancy import DiscrepancyPrior, LeftOut, discrepancy_prior

PRIOR = DiscrepancyPrior(4.0, 4.0, 1.5, 0.0, 0.0, (0.2, 0.6))


def left_out(square: float, noise: float = 0.01, points_a_value: float = 10.0) -> LeftOut:
    return LeftOut(np.array([[square]]), np.array([noise]), (5,), points_a_value)


def test_the_file_of_the_package_is_a_prior() -> None:
    prior = discrepancy_prior()
    assert prior.farther > 0 and prior.explained > 0 and prior.scarce >= 0 and prior.hidden >= 0
    assert len(prior.unseen) == 2 and min(prior.unseen) >= 0


def test_what_noise_explains_says_nothing() -> None:
    assert left_out(3.9e-4).misses(PRIOR).tolist() == [[0.0]]
    assert np.allclose(left_out(0.09 + 4e-4).misses(PRIOR), 1.5 * 0.3)


def test_scarce_points_follow_noise() -> None:
    miss = 12e-4
    assert left_out(miss).misses(PRIOR)[0, 0] > 0
    assert left_out(miss, points_a_value=1.0).misses(PRIOR)[0, 0] == 0


def test_noise_hides_something_where_points_are_scarce() -> None:
    prior = replace(PRIOR, hidden=1.0)
    assert np.isclose(left_out(0.0, points_a_value=1.0).misses(prior)[0, 0], 0.01)
    assert np.isclose(left_out(0.0, points_a_value=4.0).misses(prior)[0, 0], 0.005)


def test_points_that_vary_one_parameter_alone_leave_more_open() -> None:
    prior = replace(PRIOR, alone=1.0)
    lines = replace(left_out(0.09, noise=0.0), alone=0.8)
    assert np.isclose(lines.misses(prior)[0, 0], 1.8 * 1.5 * 0.3)


def test_few_values_are_doubted_without_evidence() -> None:
    three, two, one = (
        LeftOut(np.array([[np.nan]]), np.array([np.nan]), (number,)).misses(PRIOR) for number in (3, 2, 1)
    )
    assert (three[0, 0], two[0, 0], one[0, 0]) == (0.2, 0.6, 0.0)
