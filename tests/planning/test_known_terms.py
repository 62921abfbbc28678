"""What counters of effort told reaches the strategies."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest

from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import Model, ModelSet, Quality
from buran.modeling.priors.campaign import LevelMisses, PathPrior
from buran.modeling.priors.prior import Prior, computation_prior
from buran.planning.belief import belief_of, fewer
from buran.planning.observations import Observations, predicted_s
from buran.planning.space import Space
from buran.workflow import plan
from buran_studies.functions import terms_prior

N, S = 0, 1
SQUARE = Term((Factor(0, PowerLog(Fraction(2), 0)),))


def known(*terms: Term) -> Prior:
    """A call path of which counts tell the terms."""
    return terms_prior(ModelFunction(0.0, (1.0,) * len(terms), terms), "basic_blocks")


def test_terms_come_from_models_with_priors_in_the_order_of_the_points() -> None:
    work = Term((Factor(N, PowerLog(Fraction(3), 0)), Factor(S, PowerLog(Fraction(1), 0))))
    quality = Quality(5, 0.0, 0.0, 0.0, 1.0, 0.0)
    models = tuple(Model(ModelFunction(1.0, (2.0,), (work,)), quality) for _ in range(2))
    times = ModelSet(("n", "s"), "time", "s", ("a", "b"), models, "mean", "median", ())
    said = (PathPrior("a", "counts", resilient="2 n^3 s"), PathPrior("b", "counts"))
    (path,), (prior,) = zip(*plan._priors(said, times, ("s", "n"), None).items(), strict=True)
    terms = prior.columns[1].function.terms
    assert path == "a" and len(prior.columns) == 2
    assert terms == (Term((Factor(0, PowerLog(Fraction(1), 0)), Factor(1, PowerLog(Fraction(3), 0)))),)
    at = np.array([[7.0, 2.0]])
    assert terms[0].evaluate(at) == pytest.approx(work.evaluate(at[:, ::-1]))


def test_a_model_of_misses_alone_has_no_counted_work() -> None:
    misses = ModelFunction(0.0, (2.0,), (SQUARE,))
    model = Model(ModelFunction(1.0, (3.0,), (SQUARE,)), Quality(5, 0.0, 0.0, 0.0, 1.0, 0.0))
    times = ModelSet(("n",), "time", "s", ("a",), (model,), "mean", "median", ())
    said = PathPrior("a", "counts", resilient="n^2", misses=(LevelMisses(1, misses, (1e-9, 1e-10)),))
    (prior,) = plan._priors((said,), times, ("n",), None).values()
    assert [column.cost for column in prior.columns[1:]] == [(1e-9, 1e-10)]


def test_told_terms_leave_only_coefficients_open_but_prices_may_change() -> None:
    x = np.array([2.0, 3, 4, 6, 8, 10])
    space = Space(("n",), x[:, None], np.ones(6), np.array([12.0]))
    values = (5 + 3 * x**2)[None, :4, None] * np.array([0.99, 1.01])
    told = belief_of(Observations(space.points[:4], values, priors=(known(SQUARE),)), space)
    open_ = belief_of(Observations(space.points[:4], values), space)
    assert told is not None and open_ is not None
    assert told.disagreement == pytest.approx(np.zeros((1, 7)))
    spread = np.sqrt((told.factors[0] ** 2).sum(axis=1))
    assert spread[-1] > 0.05  # two steps beyond the measured ones, a unit of effort may cost something else
    assert spread[0] < 0.02


def test_two_points_tell_the_price_of_counted_work() -> None:
    x = np.array([2.0, 3, 4, 6, 8, 10])
    space = Space(("n",), x[:, None], np.ones(6), np.array([12.0]))
    square, cube = (Term((Factor(0, PowerLog(Fraction(power), 0)),)) for power in (2, 3))
    prior = computation_prior(ModelFunction(1e-6, (2e-3, 1e-3), (square, cube)), "basic_blocks")
    seconds = prior.function(np.array([column.effort for column in prior.columns])).evaluate(space.points)
    two = Observations(space.points[:2], seconds[None, :2, None], seconds[:2, None], (prior,))
    assert predicted_s(two, space) == pytest.approx(seconds, rel=0.02)
    belief = belief_of(two, space)
    assert belief is not None and belief.predicted[0, :-1] == pytest.approx(seconds, rel=0.02)


def test_points_where_a_call_path_was_not_timed_leave_it_uncertain() -> None:
    x = np.array([2.0, 3, 4, 6, 8, 10])
    space = Space(("n",), x[:, None], np.ones(6), np.array([12.0]))
    values = np.stack([3 * x**2, 3 * x**2])[..., None] * np.array([0.99, 1.01])
    values[1, 4:] = np.nan
    belief = belief_of(Observations(space.points, values, priors=(known(SQUARE), known(SQUARE))), space)
    assert belief is not None
    timed, untimed = np.sqrt((belief.factors[:, -1] ** 2).sum(axis=1))
    assert untimed > 1.5 * timed


def test_costs_grow_as_call_paths_with_known_terms_do_where_the_start_hides_it() -> None:
    n = np.array([1.0, 2, 3, 4, 8, 16])
    space = Space(("n",), n[:, None], np.ones(6), np.array([32.0]))
    work = 0.01 * n[:4] ** 2
    start = 0.5 + np.array([0.2, 0.05, 0.0, 0.1])  # seconds, and how they scatter
    told = Observations(
        space.points[:4], work[None, :, None], (start + work)[:, None], (known(SQUARE),), names=(("time", "a"),)
    )
    seconds = predicted_s(told, space)
    assert seconds is not None
    assert seconds[:4] == pytest.approx(start + work)
    assert seconds[4:] == pytest.approx(0.575 + 0.01 * n[4:] ** 2, rel=0.01)
    visits = np.stack([work, 100 + 0 * work])[:, :, None]
    both = Observations(told.points, visits, told.program_s, (known(SQUARE), None), np.array([0, 1]))
    assert predicted_s(both, space) == pytest.approx(seconds)


def test_no_cost_counts_on_work_that_gets_cheaper() -> None:
    """Sizes that are powers of two may be slow: after one of these, a larger size is the faster one."""
    n = np.array([512.0, 720, 1024, 2048, 4096])
    space = Space(("n",), n[:, None], np.ones(5), np.array([8192.0]))
    seconds = 1e-8 * n[:2] ** 2 * np.array([6.0, 1.0])
    work = ModelFunction(0.0, (1.0,), (SQUARE,))
    measured = Observations(
        space.points[:2], seconds[None, :, None], 0.3 + seconds[:, None], (computation_prior(work),), work=(work,)
    )
    predicted = predicted_s(measured, space)
    assert predicted is not None and (np.diff(predicted[1:]) > 0).all()
    assert predicted[-1] > 0.3 + 1e-8 * 4096**2


def test_steps_of_one_number_are_expected_to_repeat_work() -> None:
    points = np.array(list(product((8.0, 16.0), (5.0, 100.0))))
    space = Space(("n", "s"), points, np.ones(4), np.array([32.0, 100.0]), steps=("s",))
    seconds = 1e-4 * points[::2, 0] ** 2
    work = ModelFunction(0.0, (1.0,), (SQUARE,))
    measured = Observations(
        points[::2], seconds[None, :, None], 0.3 + seconds[:, None], (computation_prior(work),), work=(work,)
    )
    predicted = predicted_s(measured, space)
    assert predicted is not None and predicted[1::2] == pytest.approx(0.3 + 20 * seconds, rel=0.05)


def test_counts_are_settled_when_none_that_matters_is_open() -> None:
    def said(path: str, seconds: float | None, settled: bool) -> PathPrior:
        return PathPrior(path, "counts", at_target_s=seconds, settled=settled)

    def settled(*priors: PathPrior) -> bool:
        return plan._counts_settled(SimpleNamespace(priors=priors))  # type: ignore[arg-type]

    assert not settled()
    assert settled(said("a", 1.0, True), said("b", 0.009, False))
    assert not settled(said("a", 1.0, True), said("b", 0.02, False))
    assert settled(said("a", 1.0, True), said("b", None, False))


@pytest.mark.parametrize("columns", [3, 9, 40])
def test_fewer_directions_keep_the_variance_at_the_target(columns: int) -> None:
    factors = np.random.default_rng(columns).normal(size=(12, columns))
    kept = fewer(factors, 5)
    assert kept.shape[1] <= max(5, min(columns, 5))
    assert (kept @ kept[-1])[-1] == pytest.approx((factors @ factors[-1])[-1])
    assert np.diag(kept @ kept.T).sum() <= np.diag(factors @ factors.T).sum() * (1 + 1e-9)
    whole = fewer(factors, 12)
    assert whole @ whole.T == pytest.approx(factors @ factors.T)


@pytest.mark.parametrize("shape", ["crosses zero", "zero but once", "next to nothing", "zero"])
def test_predictions_of_nothing_leave_no_infinite_doubt(shape: str) -> None:
    x = np.array([1.0, 2, 3, 4, 5, 6, 8, 10])
    space = Space(("n",), x[:, None], np.ones(8), np.array([12.0]))
    seconds = {
        "crosses zero": x - 6.0,  # 0 at a place that nothing is measured at
        "zero but once": np.where(x == 1, 1e-9, 0.0),
        "next to nothing": 1e-12 * x,
        "zero": np.zeros(8),
    }[shape]
    both = np.stack([seconds, 3 + x**2])
    values = both[:, :5, None] * np.array([0.99, 1.0, 1.01])
    found = belief_of(Observations(space.points[:5], values), space)
    assert found is not None and np.isfinite(found.factors).all() and np.isfinite(found.disagreement).all()
    assert np.linalg.norm(found.information, axis=2).max() <= 1e4 * (1 + 1e-9)
    assert np.isfinite(found.expected_error)
