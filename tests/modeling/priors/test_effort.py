"""Effort models pass through counts, and say where none does."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.modeling.functions.powers import PowerLog, full_space
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.priors.effort import Steadiness, effort_of, power_law

POINTS = np.array(list(product((2, 4, 6, 8, 12), (4, 8, 16, 32, 64))), dtype=float)
PAIRS = full_space().pairs
PAIR = st.sampled_from(PAIRS)


def factors(function: object) -> set[Term]:
    return set(function.terms)  # type: ignore[attr-defined]


def rounded(one: tuple[Fraction, int], other: tuple[Fraction, int], nested: bool, rounds: int, offset: int) -> None:
    left, right = Factor(0, PowerLog(*one)), Factor(1, PowerLog(*other))
    terms = [Term((left, right))] if nested else [Term((left,)), Term((right,))]
    counts = np.full(len(POINTS), 7.0 + offset)
    for term in terms:
        own = term.evaluate(POINTS)
        counts += 2 * np.rint(rounds * own / own.min())
    found = effort_of(POINTS, counts[None]).functions[0]
    assert factors(found) == set(terms)


@settings(max_examples=60, derandomize=True)
@given(PAIR, PAIR, st.booleans(), st.integers(300, 3000), st.integers(0, 1000))
def test_rounded_loops_have_their_exponents(
    one: tuple[Fraction, int], other: tuple[Fraction, int], nested: bool, rounds: int, offset: int
) -> None:
    rounded(one, other, nested, rounds, offset)


def test_rounding_is_no_term_of_its_own() -> None:
    rounded((Fraction(4, 5), 0), (Fraction(0), 1), False, 300, 0)


def test_polynomials_of_one_parameter_are_exact() -> None:
    n = np.array([4.0, 6, 8, 10, 12, 16])
    effort = effort_of(n[:, None], (5 * n**3 + 3 * n**2 + 2 * n + 9)[None])
    assert effort.residual[0] < 1e-9 and effort.functions[0] is not None
    assert effort.functions[0].lead(0) == (3, 0)
    assert effort.functions[0].evaluate(np.array([[64.0]])) == pytest.approx(5 * 64**3 + 3 * 64**2 + 128 + 9, rel=1e-6)


def test_constants_stay_constant_and_zeros_zero() -> None:
    functions = effort_of(POINTS, np.array([np.full(25, 17.0), np.zeros(25)])).functions
    assert [function is not None and function.is_constant and function.constant for function in functions] == [17, 0]


def test_points_on_no_lines_are_searched() -> None:
    points = np.array(
        [(p, n) for p, n in zip((2, 3, 5, 7, 11, 13, 17), (40, 9, 31, 12, 25, 4, 18), strict=True)], float
    )
    effort = effort_of(points, (3 * points[:, 1] ** 2)[None])
    assert effort.functions[0] is not None and effort.functions[0].lead(1) == (2, 0) and effort.residual[0] < 1e-6


def test_missing_counts_are_said() -> None:
    counts = np.stack([POINTS[:, 1], POINTS[:, 1]])
    counts[1, 3] = np.nan
    effort = effort_of(POINTS, counts)
    assert effort.steadiness == (Steadiness.EXACT, Steadiness.MISSING)
    assert effort.functions[1] is None


def test_counts_that_differ_between_runs_are_no_effort() -> None:
    counts = np.stack([POINTS[:, 1], POINTS[:, 1]], axis=1)[None].repeat(2, axis=0)
    counts[1, 5, 1] += 3
    effort = effort_of(POINTS, counts)
    assert effort.steadiness == (Steadiness.EXACT, Steadiness.UNSTEADY)
    assert effort.functions[1] is None


def test_work_that_depends_on_data_is_said_with_its_size() -> None:
    random = np.random.default_rng(3)
    counts = 1000 * POINTS[:, 1] * (1 + 0.004 * random.uniform(-1, 1, len(POINTS)))
    effort = effort_of(POINTS, counts[None])
    assert effort.steadiness == (Steadiness.DATA_DEPENDENT,)
    assert 1e-6 < effort.residual[0] < 0.01
    assert effort.functions[0] is not None and effort.functions[0].lead(1) == (1, 0)


def test_counts_that_too_few_points_explain_are_no_effort() -> None:
    points = np.array([[1.0, 1e6], [1.0, 2e6], [1.0, 4e6], [2.0, 1e6]])
    p, n = points.T
    effort = effort_of(points, np.stack([5 + 3 * n, 1000 + np.array([0.0, 0, 30, 0])]))
    assert effort.steadiness == (Steadiness.EXACT, Steadiness.UNEXPLAINED)
    more = np.vstack([points, [2.0, 2e6]])
    p, n = more.T
    assert effort_of(more, (n * (2 + np.log2(p)))[None]).steadiness == (Steadiness.EXACT,)


@pytest.mark.parametrize(
    ("parameter", "counts", "exponents"),
    [(0, (753, 8493, 26057, 54031, 141741), ("3/2", 2)), (1, (487, 1901, 5877, 15983, 40067), ("4/5", 2))],
)
def test_formulas_of_rounded_loops_are_not_preferred(
    parameter: int, counts: tuple[int, ...], exponents: tuple[str, int]
) -> None:
    """Counts of two generated kernels, of two basic blocks a round: three terms follow the rounding nearly exactly."""
    place = np.unique(POINTS[:, parameter], return_inverse=True)[1]
    effort = effort_of(POINTS, np.array(counts, dtype=float)[place][None])
    expected = Term((Factor(parameter, PowerLog(Fraction(exponents[0]), exponents[1])),))
    assert factors(effort.functions[0]) == {expected}


def test_small_terms_beside_exact_ones_stay() -> None:
    points = np.array(list(product((1.0, 2.0, 4.0, 8.0, 16.0), (20.0, 40.0, 60.0, 80.0, 120.0))))
    counts = 6 + 6 * points[:, 0] + 12 * points[:, 0] * points[:, 1] ** 2
    (function,) = effort_of(points, counts[None]).functions
    assert function is not None and len(function.terms) == 2
    assert function.coefficients == pytest.approx((12, 6))


def test_counts_through_which_only_cancelling_terms_go_are_no_effort() -> None:
    points = np.array(list(product((1.0, 2.0, 4.0), (20.0, 40.0, 60.0, 80.0, 120.0))))
    shares = np.select([points[:, 0] == 1, points[:, 0] == 2], [0.0, 0.3], 0.1)
    effort = effort_of(points, (60 + 800 * shares * points[:, 1])[None])
    assert effort.steadiness == (Steadiness.UNEXPLAINED,)


def test_rounds_of_a_solver_that_most_points_reach_are_a_limit() -> None:
    rounds = np.where(POINTS.sum(axis=1) < 9, 121.0, 150.0)  # at the two smallest points
    assert (rounds < 150).sum() == 2
    calls = effort_of(POINTS, np.stack([rounds, rounds[::-1], 3 + (rounds == 150)]))
    assert calls.functions[0] == ModelFunction(150.0) and calls.steadiness[0] is Steadiness.DATA_DEPENDENT
    assert calls.functions[1] != ModelFunction(150.0)  # it falls: points with less lie beyond the others
    assert calls.functions[2] != ModelFunction(4.0)  # rounding could do that


def test_instructions_stand_in_without_being_exact() -> None:
    random = np.random.default_rng(4)
    counts = 1000 * POINTS[:, 1, None] * (1 + 0.001 * random.uniform(-1, 1, (25, 3)))
    effort = effort_of(POINTS, counts[None], metric="instructions", exact=False)
    assert effort.steadiness == (Steadiness.NOISY,) and effort.metric == "instructions"
    assert effort.functions[0] is not None and effort.functions[0].lead(1) == (1, 0)


def test_bad_counts_are_refused() -> None:
    with pytest.raises(UsageError, match="do not match"):
        effort_of(POINTS, np.ones((1, 3)))
    with pytest.raises(UsageError, match="negative"):
        effort_of(POINTS, -np.ones((1, 25)))


def test_a_power_law_needs_growth_that_counts_follow() -> None:
    points = np.column_stack([np.array([1.0, 1, 1, 2]), np.array([8.0, 10, 12, 8])])
    cube = points[:, 1] ** 3 / points[:, 0]
    law = power_law(points, cube * np.array([1.0, 0.95, 1.05, 1.0]))
    assert law is not None and law.lead(0)[0] == -1 and abs(law.lead(1)[0] - 3) <= Fraction(1, 4)
    assert power_law(points, np.array([5.0, 5, 5, 5])) is None
    assert power_law(points, np.array([10.0, 1, 100, 3])) is None
    assert power_law(points, np.array([0.0, 1, 2, 3])) is None
    assert power_law(-points, cube) is None
