"""What was never varied together is not known: intervals hold the sum and the product, and a note says what decides."""

from fractions import Fraction

import numpy as np
import pytest

from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import ModelSet
from buran.modeling.pmnf.alternative import Alternative
from buran.modeling.pmnf.repetitions import scatter_of
from buran.modeling.pmnf.structures import (
    OpenStructure,
    pairs_apart,
    pairs_tied,
    structures,
    undecided,
    with_structures,
)
from buran_studies.functions import grid
from buran_studies.noise import inject

FULL = grid(3)
LINES = FULL[(FULL[0] != FULL).sum(axis=1) <= 1]


def test_pairs_are_apart_that_differ_at_no_point_together():
    assert pairs_apart(FULL) == ()
    assert pairs_apart(LINES) == ((0, 1), (0, 2), (1, 2))
    first, second = LINES[0].copy(), LINES[0].copy()
    first[:2], second[1:] = FULL[-1, :2], FULL[-1, 1:]
    assert pairs_apart(np.vstack([LINES, first])) == ((0, 2), (1, 2))
    assert pairs_apart(np.vstack([LINES, first, second])) == ((0, 2),)
    assert pairs_apart(np.array([[1.0, 5], [2, 5], [4, 5]])) == ()  # a single value of the second


def function_of(constant, *terms):
    """Return a function of powers: coefficient, then the power of each parameter, 0 for none."""
    parts = [
        (c, Term(tuple(Factor(p, PowerLog(Fraction(power), 0)) for p, power in enumerate(powers) if power)))
        for c, *powers in terms
    ]
    return ModelFunction(constant, tuple(c for c, _ in parts), tuple(term for _, term in parts))


CASES = [
    function_of(0.0, (3.0, 1, 2, 0), (5.0, 0, 0, 1)),
    function_of(7.0, (3.0, 1, 0, 0), (2.0, 0, 1, 0), (1.5, 0, 0, Fraction(1, 2))),
    function_of(4.0, (0.1, 1, 1, 1)),
]


@pytest.mark.parametrize("function", CASES)
@pytest.mark.parametrize("corners", [(), ((0, 1),), ((0, 1), (1, 2))])
def test_sums_and_products_give_the_same_at_the_points(function, corners):
    points = [*LINES]
    for pair in corners:
        points.append(np.where(np.isin(np.arange(3), pair), FULL[-1], FULL[0]))
    points = np.array(points)
    size = 1 + len(function.terms)
    alternative = Alternative(function, 1.0, tuple(map(tuple, np.eye(size).tolist())), 0.1, 3)
    others = structures(alternative, LINES[0], pairs_apart(points))
    assert others
    for other in others:
        assert np.allclose(other.function.evaluate(points), function.evaluate(points))
        assert len(other.covariance) == 1 + len(other.function.terms)


def test_covariances_are_those_of_the_values():
    """By differences: what each structure says elsewhere when a coefficient of the hypothesis changes a little."""
    function, at = CASES[0], FULL[-1]
    covariance = ((0.2, 0.01, 0.0), (0.01, 0.3, 0.02), (0.0, 0.02, 0.1))
    pairs = pairs_apart(LINES)
    numbers = np.array([function.constant, *function.coefficients])

    def said(coefficients):
        changed = ModelFunction(coefficients[0], tuple(coefficients[1:]), function.terms)
        return [o.function.evaluate(at) for o in structures(Alternative(changed, 1, (), 0, 1), LINES[0], pairs)]

    steps = 1e-6 * np.eye(3)
    slopes = np.array([(np.array(said(numbers + s)) - np.array(said(numbers - s))) / 2e-6 for s in steps])
    for number, other in enumerate(structures(Alternative(function, 1, covariance, 0, 1), LINES[0], pairs)):
        row = np.array([1.0, *(term.evaluate(at) for term in other.function.terms)])
        expected = slopes[:, number] @ np.array(covariance) @ slopes[:, number]
        assert row @ np.array(other.covariance) @ row == pytest.approx(expected, rel=1e-4)


def test_a_sum_becomes_a_product_and_a_product_a_sum():
    base, at = np.array([2.0, 3.0, 5.0]), np.array([8.0, 12.0, 10.0])
    product_of_all = function_of(0.0, (2.0, 1, 1, 1))
    (summed,) = structures(Alternative(product_of_all, 1, (), 0, 1), base, pairs_apart(LINES))
    assert summed.function.evaluate(at) == pytest.approx(60 + 180 + 180 + 60)  # 60 at the base; 4, 4 and 2 times it
    for case in CASES[1:2]:
        (multiplied,) = structures(Alternative(case, 1, (), 0, 1), base, pairs_apart(LINES))
        lines = [case.evaluate(np.where(np.arange(3) == p, at, base)) for p in range(3)]
        assert multiplied.function.evaluate(at) == pytest.approx(np.prod(lines) / case.evaluate(base) ** 2)


def test_the_note_names_the_run_that_decides():
    note = undecided(LINES[:, :2], ("p", "n"))
    assert note is not None and "p = 64, n = 50" in note
    assert undecided(FULL, ("p", "n", "m")) is None


def weights_with(extra, noise):
    """Return the weights of a product, and of what stands beside it, on lines and one more point."""
    function, points = function_of(0.0, (2.0, 1, 1, 1)), np.vstack([LINES, extra])
    only = Alternative(function, 1.0, (), noise, 5)
    alternatives = with_structures([only], points, function.evaluate(points), OpenStructure.of(points))
    return [alternative.weight for alternative in alternatives]


def test_structures_without_evidence_weigh_alike():
    function = function_of(0.0, (2.0, 1, 1, 0))
    points = LINES[LINES[:, 2] == LINES[0, 2]]
    alternatives = with_structures(
        [Alternative(function, 1.0, (), 0.05, 5)], points, function.evaluate(points), OpenStructure.of(points)
    )
    assert [alternative.weight for alternative in alternatives] == pytest.approx([2 / 3, 1 / 3])
    assert OpenStructure.of(FULL) is None


def test_one_point_counts_by_how_much_it_tells():
    near, far = FULL[0] * [2, 1, 2], FULL[-1]
    assert sum(weights_with(near, 0.5)[1:]) > 0.3  # a sum gives 0.75 of this product there
    assert weights_with(far, 0.2) == pytest.approx([1.0])
    assert sum(weights_with(near, 0.001)[1:]) == pytest.approx(1 / 6, abs=0.01)  # other pairs are still apart


def product(at):
    return 5 + 3 * at[:, 0] * at[:, 1]


def total(at):
    return 500 + 3 * at[:, 0] + 7 * at[:, 1]


@pytest.mark.parametrize("truth", [product, total])
@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_intervals_of_lines_hold_the_sum_and_the_product(truth, noise):
    points = grid(2)
    points = points[(points != points[0]).sum(axis=1) <= 1]
    repetitions = inject(truth(points)[None], noise, repetitions=5, seed=4)
    fit = fit_models(points, repetitions.mean(axis=2), scatter=scatter_of(repetitions))
    target = np.array([[128.0, 60.0]])
    lower, upper = fit.predict_interval(target)
    (middle,) = truth(points[:1])
    along = [truth(np.where(np.arange(2) == p, target, points[:1]))[0] for p in range(2)]
    structures_of_truth = np.array([sum(along) - middle, np.prod(along) / middle])
    assert lower[0, 0] <= structures_of_truth.min() * 1.02 and structures_of_truth.max() * 0.98 <= upper[0, 0]
    assert sum(alternative.weight for alternative in fit.models[0].alternatives) == pytest.approx(1)
    assert lower[0, 0] <= truth(target)[0] * 1.02 and truth(target)[0] * 0.98 <= upper[0, 0]
    models = ModelSet(("p", "n"), "time", "s", ("f",), fit.models, "sum", "mean", tuple(map(tuple, points.tolist())))
    assert np.allclose(ModelSet.from_json(models.to_json()).predict_interval(target), (lower, upper))


def test_parameters_that_always_change_together_are_named() -> None:
    weak = np.array([[1.0, 100.0, 5.0], [2.0, 200.0, 5.0], [4.0, 400.0, 5.0], [1.0, 100.0, 7.0]])
    assert pairs_tied(weak) == ((0, 1),)
    note = undecided(weak, ("p", "n", "m"))
    assert note is not None and "p and n always" in note and "p = 4, n = 100" in note
    apart = np.vstack([weak, [4.0, 100.0, 5.0]])
    assert not pairs_tied(apart) and not pairs_tied(FULL) and not pairs_tied(LINES)
