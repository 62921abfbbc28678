"""What few values of a parameter leave open."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import Model
from buran.modeling.pmnf.alternative import Alternative, cancels_through, with_other_growth

SIZES = (10, 20, 30, 40, 50)
Truth = Callable[[np.ndarray, np.ndarray], np.ndarray]


def model_of(ranks: tuple[int, ...], truth: Truth, noise: float) -> Model:
    points = np.array(list(product(ranks, SIZES)), dtype=float)
    values = truth(*points.T) * np.random.default_rng(5).normal(1, noise, len(points))
    model = fit_models(points, values[None]).models[0]
    assert model is not None
    return model


@pytest.mark.parametrize("ranks", [(1, 2, 4), (2, 4, 8), (4, 8, 16), (16, 64, 256)])
@pytest.mark.parametrize("noise", [0.0, 0.01, 0.05])
@pytest.mark.parametrize(
    "truth",
    [lambda p, n: 9 + 4 * p**2 + 7 * p - 5 / p, lambda p, n: 3 * p**2 * n + 100 * n, lambda p, n: n**2 * p**1.5],
    ids=("squares and lines", "squares beside sizes", "a product"),
)
def test_growth_on_three_values_is_in_the_interval(ranks: tuple[int, ...], truth: Truth, noise: float) -> None:
    low, high = model_of(ranks, truth, noise).predict_interval(np.array([[1024.0, 50.0]]))
    assert low[0] <= truth(np.array(1024.0), np.array(50.0)) <= high[0]


def test_hypotheses_that_go_through_the_same_values_stand_beside_each_other() -> None:
    points = np.array(list(product((1.0, 2.0, 4.0), SIZES)))
    function = ModelFunction(
        5.0, (2.0,), (Term((Factor(0, PowerLog(Fraction(1), 1)), Factor(1, PowerLog(Fraction(2))))),)
    )
    (alternatives,) = with_other_growth([[Alternative(function, 1.0, np.eye(2).tolist(), 0.0, 13)]], points)
    assert len(alternatives) > 1
    assert sum(alternative.weight for alternative in alternatives) == pytest.approx(1)
    assert alternatives[0].weight == pytest.approx(0.5)
    for alternative in alternatives:
        assert alternative.function.evaluate(points) == pytest.approx(function.evaluate(points))
        assert np.shape(alternative.covariance) == (1 + len(alternative.function.terms),) * 2
    leads = {alternative.function.lead(0) for alternative in alternatives}
    assert (2, 0) in leads
    assert max(leads) <= (2.5, 0)


def test_four_values_leave_it_as_it_is() -> None:
    points = np.array(list(product((1.0, 2.0, 4.0, 8.0), SIZES)))
    function = ModelFunction(5.0, (2.0,), (Term((Factor(0, PowerLog(Fraction(1))),)),))
    alternative = Alternative(function, 1.0, (), 0.0, 13)
    assert with_other_growth([[alternative]], points) == [(alternative,)]
    assert with_other_growth([[]], points) == [()]


def faces(p: np.ndarray, n: np.ndarray) -> np.ndarray:
    """Faces that a rank of a process grid in two dimensions shares with others, on average, times their length."""
    columns = 2 ** np.ceil(np.log2(p) / 2)
    return n * (4 - 2 / columns - 2 * columns / p)


def test_growth_to_a_bound_is_in_the_interval_as_well() -> None:
    low, high = model_of((1, 2, 4), lambda p, n: 200 * n + 30 * faces(p, n), 0.0).predict_interval(np.array([[64, 50]]))
    assert low[0] <= 200 * 50 + 30 * faces(np.array(64.0), np.array(50.0)) <= high[0]
    assert high[0] >= 200 * 50 + 30 * 6 * 50  # log2(p), which has the same values


def test_terms_that_cancel_to_go_through_few_values_are_told() -> None:
    few, more = (np.array(list(product(ranks, SIZES)), dtype=float) for ranks in ((1, 2, 4), (1, 2, 4, 8)))
    size = Factor(1, PowerLog(Fraction(1)))
    logarithm, line, inverse = (Factor(0, PowerLog(Fraction(e), log)) for e, log in ((0, 1), (1, 0), (-1, 0)))
    cancelling = ModelFunction(3.0, (2.0, -1.0, 4.0), (Term((line, size)), Term((logarithm, size)), Term((size,))))
    assert cancels_through(cancelling, few)
    assert not cancels_through(cancelling, more)
    for function in (
        ModelFunction(3.0, (2.0, 1.0, 4.0), cancelling.terms),
        ModelFunction(3.0, (2.0, -1.0), (Term((size,)), Term((inverse, size)))),
        ModelFunction(3.0),
    ):
        assert not cancels_through(function, few)
