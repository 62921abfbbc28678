"""Coefficients from noisy times."""

from __future__ import annotations

import numpy as np
import pytest
from prior_tables import POINTS

from buran.errors import UsageError
from buran.modeling.functions.terms import ModelFunction, added, multiplied, power, scaled
from buran.modeling.pmnf.model import prediction_interval
from buran.modeling.priors.prior import ONE, Column, Prior, computation_prior
from buran.modeling.priors.resilient import PUBLISHED, FitOptions, fit_priors, predictions
from buran_studies.noise import inject

N, NP = power(1, 1), multiplied(power(0, 1), power(1, 1))
EFFORT = added((ModelFunction(275.0), scaled(N, 1.6), scaled(NP, 0.48)))
TRUE = added((ModelFunction(7e-6), scaled(N, 1.4e-7), scaled(NP, 3.7e-8)))
PRIOR = computation_prior(EFFORT)
FAR = np.array([[64.0, 320.0]])
ALONE = FitOptions(share=False)


@pytest.mark.parametrize("options", [FitOptions(), ALONE, PUBLISHED])
def test_times_without_noise_give_the_coefficients(options: FitOptions) -> None:
    found = fit_priors(POINTS, TRUE.evaluate(POINTS)[None].repeat(3, axis=0), [PRIOR] * 3, options)
    for own in found:
        assert own is not None
        np.testing.assert_allclose(own.model.function.evaluate(FAR), TRUE.evaluate(FAR), rtol=1e-6)
        np.testing.assert_allclose(own.coefficients, (7e-6, 3.7e-8, 1.4e-7), rtol=1e-5)


def test_noise_does_not_bend_the_model() -> None:
    noisy = inject(TRUE.evaluate(POINTS), 75, "mixed", repetitions=200, seed=5).T
    found = fit_priors(POINTS, noisy, [PRIOR] * 200, ALONE)
    ratio = np.array([own.model.function.evaluate(FAR)[0] for own in found if own]) / TRUE.evaluate(FAR)[0]
    assert abs(ratio.mean() - 1) < 0.04  # weights by the measurement would be off by a third
    assert np.abs(ratio - 1).mean() < 0.15


def test_standard_errors_mean_what_they_say() -> None:
    noisy = inject(TRUE.evaluate(POINTS), 10, "gaussian", repetitions=300, seed=6).T
    found = fit_priors(POINTS, noisy, [PRIOR] * 300, FitOptions(share=False, cost_spread=np.inf, nonnegative=False))
    gaps = []
    for own in filter(None, found):
        best = own.model.alternatives[0]
        row = np.array([1.0, *(term.evaluate(FAR)[0] for term in best.function.terms)])
        gap = best.function.evaluate(FAR)[0] - TRUE.evaluate(FAR)[0]
        gaps.append(gap / np.sqrt(row @ np.array(best.covariance) @ row))
    assert 0.8 < np.std(gaps) < 1.25
    model = found[0].model  # type: ignore[union-attr]
    low, high = model.predict_interval(FAR)
    assert low[0] < model.function.evaluate(FAR)[0] < high[0]


def test_what_counts_do_not_say_widens_the_interval_beyond_the_points() -> None:
    full = np.stack(np.meshgrid([2.0, 4, 8, 16, 32], [20.0, 40, 80, 160, 320], indexing="ij"), axis=-1).reshape(-1, 2)
    far = np.array([[64.0, 640.0]])
    dearer = 1 + (full[:, 0] / 16) ** 2  # caches and memory are shared: a unit of work does not cost the same

    def width(times: np.ndarray) -> float:
        model = fit_priors(full, inject(times, 1, repetitions=1, seed=3).T, [PRIOR], ALONE)[0].model  # type: ignore[union-attr]
        lower, upper = model.predict_interval(far)
        return float((upper - lower)[0] / model.function.evaluate(far)[0])

    assert width(TRUE.evaluate(full) * dearer) > width(TRUE.evaluate(full)) > 0.1


def test_sharing_helps_call_paths_with_the_same_costs() -> None:
    efforts = [scaled(EFFORT, factor) for factor in (1.0, 3.0, 10.0, 0.5, 2.0, 5.0)]
    priors: list[Prior | None] = [computation_prior(effort) for effort in efforts]
    cost = 1e-7
    errors = {}
    for options in (FitOptions(), ALONE):
        gaps = []
        for seed in range(30):
            true = np.array([scaled(effort, cost).evaluate(POINTS) for effort in efforts])
            noisy = inject(true, 50, "mixed", repetitions=1, seed=seed)[..., 0]
            found = fit_priors(POINTS, noisy, priors, options)
            for own, effort in zip(found, efforts, strict=True):
                assert own is not None
                gaps.append(abs(own.model.function.evaluate(FAR)[0] / (cost * effort.evaluate(FAR)[0]) - 1))
        errors[options.share] = np.mean(gaps)
    assert errors[True] < 0.8 * errors[False]


def test_nothing_is_faster_with_more_effort() -> None:
    falling = 1.0 / POINTS[:, 1]
    own = fit_priors(POINTS, falling[None], [PRIOR], ALONE)[0]
    assert own is not None and min(own.coefficients) >= 0
    free = fit_priors(POINTS, falling[None], [PRIOR], FitOptions(nonnegative=False, share=False))[0]
    assert free is not None and min(free.coefficients) < 0


@pytest.mark.parametrize(("noise", "cost"), [(5, 0.01), (20, 0.03)])
def test_cheap_blocks_beside_dear_ones_are_not_taken_for_free(noise: float, cost: float) -> None:
    cells, pairs = multiplied(power(0, -1), power(1, 3)), power(0, 2)
    effort = added((ModelFunction(100.0), scaled(cells, 16.0), scaled(pairs, 20.0)))
    time = added((ModelFunction(1e-7), scaled(cells, 1.6e-8), scaled(pairs, 2e-8 * cost)))
    far = np.array([[1024.0, 192.0]])
    noisy = inject(time.evaluate(POINTS), noise, "mixed", repetitions=60, seed=11).T
    models = [own.model for own in fit_priors(POINTS, noisy, [computation_prior(effort)] * 60, ALONE) if own]
    lower, upper = prediction_interval(models, far)
    held = (lower[:, 0] <= time.evaluate(far)) & (time.evaluate(far) <= upper[:, 0])
    assert all(pairs.terms[0] in model.function.terms for model in models)
    assert held.mean() >= 0.9


def test_missing_values_and_priors_are_left_out() -> None:
    values = TRUE.evaluate(POINTS)[None].repeat(3, axis=0)
    values[0, ::2] = np.nan
    values[1] = np.nan
    found = fit_priors(POINTS, values, [PRIOR, PRIOR, None])
    assert found[1] is None and found[2] is None and found[0] is not None
    assert found[0].model.quality.points == 12
    np.testing.assert_allclose(found[0].model.function.evaluate(FAR), TRUE.evaluate(FAR), rtol=1e-6)


def test_bad_requests_are_refused() -> None:
    with pytest.raises(UsageError, match="do not match"):
        fit_priors(POINTS, np.ones((2, 3)), [PRIOR])


def test_predictions_are_those_of_the_models() -> None:
    noisy = inject(TRUE.evaluate(POINTS), 50, "mixed", repetitions=6, seed=7).T
    noisy[1, 3], noisy[2] = np.nan, np.nan
    other = computation_prior(scaled(N, 2.0))
    priors = [PRIOR, PRIOR, PRIOR, None, other, other]
    models = fit_priors(POINTS, noisy, priors)
    found = predictions(POINTS, noisy, priors, FAR)
    for model, own in zip(models, found[:, 0].tolist(), strict=True):
        assert np.isnan(own) if model is None else own == pytest.approx(model.model.function.evaluate(FAR)[0])


@pytest.mark.parametrize("level", [10, 75])
def test_one_wild_point_does_not_bend_the_model(level: float) -> None:
    noisy = inject(TRUE.evaluate(POINTS), level, "mixed", repetitions=200, seed=8).T
    wild = noisy.copy()
    wild[np.arange(200), np.arange(200) % 25] *= 10
    priors: list[Prior | None] = [PRIOR] * 200
    true = TRUE.evaluate(FAR)[0]
    least_squares = FitOptions(share=False, outliers=np.inf)
    gap, robust, fragile = (
        float(np.abs(predictions(POINTS, values, priors, FAR, options)[:, 0] / true - 1).mean())
        for values, options in ((noisy, ALONE), (wild, ALONE), (wild, least_squares))
    )
    assert robust < 1.6 * gap and fragile > 2 * robust


def test_points_that_rounding_misses_are_not_wild_where_most_are_met_exactly() -> None:
    steps, work = power(0, 0, 1), power(0, 1, 1)
    effort = added((ModelFunction(2.0), scaled(work, 64.0), scaled(steps, 2.0)))
    points = np.array([*((1, n) for n in range(1, 6)), (2, 1), (2, 2), (4, 1), (4, 5)], dtype=float)
    times = scaled(effort, 8e-9)
    own = fit_priors(points, times.evaluate(points)[None], [computation_prior(effort)])[0]
    assert own is not None
    np.testing.assert_allclose(own.model.function.evaluate(FAR), times.evaluate(FAR), rtol=1e-4)


def test_a_call_path_that_takes_no_time_beside_others_gets_a_model_of_zeros() -> None:
    times = TRUE.evaluate(POINTS)[None].repeat(8, axis=0) * np.linspace(1, 2, 8)[:, None]
    times[0] = 0.0
    own = fit_priors(POINTS, times, [PRIOR] * 8)[0]
    assert own is not None and own.model.function.evaluate(FAR)[0] == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(own.costs[0].covariance).all()


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_call_path_with_few_points_has_the_noise_of_others(number: int) -> None:
    """As one that a new filter timed at few points only; alone it has no interval."""
    seed = 5
    times = inject(TRUE.evaluate(POINTS)[None].repeat(9, axis=0), 10, "mixed", repetitions=1, seed=seed)[..., 0]
    times[0, number:] = np.nan
    beside = fit_priors(POINTS, times, [PRIOR] * 9)
    alone = fit_priors(POINTS, times[:1], [PRIOR])
    assert beside[0] is not None and beside[1] is not None and alone[0] is not None
    models = [beside[0].model, beside[1].model]
    lower, upper = (ends[:, 0] for ends in prediction_interval(models, FAR))
    assert np.isfinite(upper).all() and upper[0] - lower[0] > upper[1] - lower[1] > 0
    assert lower[0] <= TRUE.evaluate(FAR)[0] <= upper[0]
    if number < len(PRIOR.columns):
        assert not np.isfinite(prediction_interval([alone[0].model], FAR)[1]).any()


def test_only_columns_that_count_the_same_share_costs() -> None:
    """Messages cost more than basic blocks, though both grow as log p and blocks are not seen on one rank."""
    tree, one_rank = power(0, 0, 1), POINTS.copy()
    one_rank[:, 0] = np.where(one_rank[:, 1] > one_rank[:, 1].min(), 1.0, one_rank[:, 0])
    sends = Prior((Column("constant", ONE), Column("calls x log2(N)", tree)), "MPI_Allreduce")
    blocks = Prior((Column("constant", ONE, 3.0), Column("effort", tree, 1e6)), "basic_blocks")
    times = np.array([*(1e-3 + k * 1e-4 * tree.evaluate(one_rank) for k in range(1, 7)), np.full(len(POINTS), 1e-6)])
    times[-1] = np.where(one_rank[:, 0] == 1, times[-1], np.nan)
    found = fit_priors(one_rank, times, [sends] * 6 + [blocks])
    assert found[0] is not None and found[-1] is not None
    assert found[0].model.function.evaluate(FAR)[0] == pytest.approx(1e-3 + 6e-4, rel=0.02)
    assert found[-1].model.function.evaluate(FAR)[0] < 1e-3, "1e6 blocks take no 1e6 messages"
