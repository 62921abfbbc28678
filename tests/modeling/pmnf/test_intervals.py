"""Prediction intervals and alternatives."""

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import full_space
from buran.modeling.pmnf import ModelSet
from buran.modeling.pmnf.alternative import MIXTURE_PARTS, divided
from buran_studies.noise import inject

POINTS = np.array([[p, n] for p in (4.0, 8, 16, 32, 64) for n in (10.0, 20, 30, 40, 50)])
BEYOND = np.array([[128.0, 60.0]])


def fitted(percent: float, functions: int = 60, seed: int = 5):
    """Fit sums and products; return the fit, new measurements and true values beyond the grid."""
    random = np.random.default_rng(seed)
    pairs = full_space().pairs
    true = []
    for _ in range(functions):
        (a, b), (c, d) = (pairs[k] for k in random.integers(len(pairs), size=2))
        c0, c1, c2 = random.uniform(1, 1000, 3)
        all_points = np.concatenate([POINTS, BEYOND])
        s, t = (
            all_points[:, k] ** float(i) * np.log2(all_points[:, k]) ** j for k, (i, j) in ((0, (a, b)), (1, (c, d)))
        )
        true.append(c0 + c1 * s * t if random.random() < 0.5 else c0 + c1 * s + c2 * t)
    noisy = inject(np.array(true), percent, repetitions=5, seed=seed).mean(axis=-1)
    return fit_models(POINTS, noisy[:, :-1]), noisy[:, -1], np.array(true)[:, -1]


def test_new_measurements_fall_into_the_interval_as_often_as_it_says():
    fit, new, true = fitted(5, 150)
    lower, upper = (ends[:, 0] for ends in fit.predict_interval(BEYOND))
    assert np.mean((new >= lower) & (new <= upper)) >= 0.83
    low, high = (ends[:, 0] for ends in fit.predict_interval(BEYOND, of="mean"))
    assert np.mean((true >= low) & (true <= high)) >= 0.8
    assert ((low >= lower - 1e-9 * true) & (high <= upper + 1e-9 * true)).mean() > 0.95


def test_a_higher_level_and_more_noise_widen_the_interval():
    fit, _, true = fitted(5)
    width = [np.subtract(*fit.predict_interval(BEYOND, level)[::-1])[:, 0] for level in (0.5, 0.9, 0.99)]
    assert (width[0] <= width[1]).all()
    assert (width[1] <= width[2]).all()
    noisier = fitted(10)[0]
    wider = np.subtract(*noisier.predict_interval(BEYOND)[::-1])[:, 0]
    assert np.median(wider / true) > 1.1 * np.median(width[1] / true)


def test_the_prediction_lies_within():
    fit, _, _ = fitted(10)
    lower, upper = fit.predict_interval(BEYOND, 0.05)
    assert (lower <= fit.predict(BEYOND)).all()
    assert (fit.predict(BEYOND) <= upper).all()


def test_exact_values_leave_no_doubt():
    fit = fit_models(POINTS, (3 + 2 * POINTS[:, 0] * POINTS[:, 1] ** 2)[None])
    lower, upper = fit.predict_interval(BEYOND)
    assert upper[0, 0] - lower[0, 0] <= 1e-8 * upper[0, 0]
    assert fit.models[0].alternatives[0].function == fit.models[0].function


def test_alternatives_are_weighed_and_the_chosen_one_leads():
    fit, _, _ = fitted(5)
    for model in fit.models:
        weights = [alternative.weight for alternative in model.alternatives]
        assert sum(weights) == pytest.approx(1)
        assert min(weights) > 0
        assert model.alternatives[0].function == model.function
        assert len({alternative.function.terms for alternative in model.alternatives}) == len(weights)


def test_too_few_points_give_no_bounds():
    fit = fit_models(np.array([[2.0]]), np.array([[5.0]]))
    lower, upper = fit.predict_interval(np.array([[4.0]]))
    assert (lower[0, 0], upper[0, 0]) == (0, np.inf)
    nothing = fit_models(np.array([[2.0]]), np.array([[np.nan]])).predict_interval(np.array([[4.0]]))
    assert np.isnan(nothing).all()


@pytest.mark.parametrize("level", [0, 1, -1, np.nan])
def test_levels_are_checked(level):
    with pytest.raises(UsageError, match="between 0 and 1"):
        fitted(5, 1)[0].predict_interval(BEYOND, level)


def test_a_file_keeps_intervals():
    fit, _, _ = fitted(5, 8)
    points = tuple(map(tuple, POINTS.tolist()))
    paths = tuple(f"f{k}" for k in range(8))
    own = ModelSet(("p", "n"), "time", "sec", paths, fit.models, "mean", "median", points)
    again = ModelSet.from_json(own.to_json())
    for ends, kept in zip(own.predict_interval(BEYOND), again.predict_interval(BEYOND), strict=True):
        assert kept == pytest.approx(ends)


def test_no_interval_of_values_that_cannot_be_negative_reaches_below_zero():
    random = np.random.default_rng(3)
    sizes = np.array([[4.0], [8], [16], [32], [64]])
    values = np.array([[1.0, 1.4, 0.7, 1.2, 2.0], [1.0, 3.0, 2.0, 9.0, 1.0]])
    noisy = np.concatenate([values, random.uniform(0.1, 3, (40, 5))])
    far = np.array([[1024.0], [65536.0]])
    lower, upper = fit_models(sizes, noisy).predict_interval(far)
    assert (lower >= 0).all() and (upper >= lower).all()
    signed = fit_models(sizes, -noisy)
    assert (signed.predict_interval(far)[0] < 0).any()
    document = ModelSet(("n",), "gain", "", ("f",), signed.models[:1], "mean", "median", ()).to_json()
    assert ModelSet.from_json(document).models[0].signed


def test_hypotheses_whose_odds_vanish_stand_for_nothing():
    slopes = np.arange(1.0, 1 + 2 * len(MIXTURE_PARTS))
    assert divided((slopes == 9).astype(float), slopes) == ([8], [1.0])
