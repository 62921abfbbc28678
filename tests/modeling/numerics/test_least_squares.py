"""Weighted least squares: many problems at once give what each gives alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.modeling.numerics.least_squares import (
    again,
    condensed,
    least_norm,
    nonnegative,
    orthogonal_part,
    solve,
    span,
    unit_columns,
    without_negative,
)


def problems(seed: int, count: int = 5, points: int = 9, columns: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return designs whose columns differ by twelve orders of magnitude, values and weights."""
    random = np.random.default_rng(seed)
    size = 10.0 ** random.uniform(-6, 6, (count, 1, columns))
    return random.normal(size=(count, points, columns)) * size, *random.uniform(0.5, 2, (2, count, points))


@given(st.integers(0, 10**6))
def test_each_problem_is_solved_as_if_alone(seed: int) -> None:
    design, values, weights = problems(seed)
    found = solve(design, values, weights)
    for row in range(len(design)):
        columns, length = unit_columns(design[row] * weights[row][:, None])
        alone = np.linalg.lstsq(columns, values[row] * weights[row], rcond=None)[0]
        np.testing.assert_allclose(found.coefficients[row] * length, alone, rtol=1e-7, atol=1e-9)
        leverage = np.diag(columns @ np.linalg.pinv(columns))
        np.testing.assert_allclose(found.hat[row], leverage, atol=1e-9)
        inverse = np.linalg.inv(columns.T @ columns)
        np.testing.assert_allclose(found.inverse[row] * length[:, None] * length, inverse, rtol=1e-6, atol=1e-9)


def test_held_coefficients_are_0_and_do_not_disturb_the_others() -> None:
    design, values, weights = problems(1)
    free = np.array([[True, False, True]] * 5)
    found = again(solve(design, values, weights), design, values, weights, free)
    fewer = solve(design[:, :, [0, 2]], values, weights)
    np.testing.assert_allclose(found.coefficients[:, [0, 2]], fewer.coefficients, rtol=1e-10)
    assert not found.coefficients[:, 1].any() and not found.inverse[:, 1].any()


@given(st.integers(0, 10**6))
def test_no_coefficient_is_negative_and_no_choice_of_columns_fits_better(seed: int) -> None:
    design, values, weights = problems(seed)
    found = without_negative(solve(design, values, weights), design, values, weights)
    assert (found.coefficients >= 0).all()
    gap = (((values - np.einsum("cpk,ck->cp", design, found.coefficients)) * weights) ** 2).sum(axis=1)
    for chosen in np.ndindex(2, 2, 2):
        some = np.broadcast_to(np.array(chosen, dtype=bool), (5, 3))
        other = solve(design, values, weights, some).coefficients
        squares = (((values - np.einsum("cpk,ck->cp", design, other)) * weights) ** 2).sum(axis=1)
        allowed = (other >= 0).all(axis=1)
        assert (gap[allowed] <= squares[allowed] * (1 + 1e-9) + 1e-12).all()


@given(st.integers(0, 10**6), st.floats(0, 10))
def test_condensed_problems_have_the_same_solutions(seed: int, sureness: float) -> None:
    (design, *_), values, weights = problems(seed)
    design, expected, sure = design / np.abs(design).max(axis=0), np.ones((5, 3)), np.full((5, 3), sureness)
    short = condensed(design, values, weights, expected, sure)
    assert short[0].shape == (5, 3, 3) and short[1].shape == (5, 3)
    found = solve(*short, np.ones((5, 3)))
    for row in range(5):
        rows = np.concatenate([design * weights[row][:, None], sureness * np.eye(3)])
        right = np.concatenate([values[row] * weights[row], sureness * expected[row]])
        np.testing.assert_allclose(found.coefficients[row], np.linalg.lstsq(rows, right)[0], rtol=1e-6, atol=1e-8)


def test_where_points_do_not_decide_the_shortest_coefficients_are_taken() -> None:
    x = np.arange(1.0, 6.0)
    assert least_norm(np.stack([x, x], axis=1), 2 * x) == pytest.approx([1.0, 1.0])
    assert nonnegative(np.stack([x, -x], axis=1), -3 * x) == pytest.approx([0.0, 3.0])


def test_spans_count_what_columns_reach_whatever_their_size() -> None:
    x = np.arange(1.0, 6.0)
    basis = span(np.stack([x, 1e-12 * x**2, 2 * x, np.zeros(5)], axis=1))
    assert basis.shape == (5, 2)
    rest = orthogonal_part(np.stack([x**2, x**3], axis=1), basis)
    assert np.abs(rest[:, 0]).max() < 1e-9 < np.abs(rest[:, 1]).max()
    assert np.abs(basis.T @ rest).max() < 1e-9
