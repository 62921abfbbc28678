"""Models are ranked after constraints on their coefficients, not before."""

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.fit import fit_models
from buran.modeling.pmnf import SearchOptions
from buran.modeling.pmnf.repetitions import scatter_of

LAWS = 60


def test_work_whose_unit_time_drifts_keeps_its_complexity():
    """A ramp in the time of a unit of work must not let a sum of cancelling terms win that constraints then ruin."""
    rng = np.random.default_rng(9)
    for _ in range(LAWS):
        sizes = np.array(sorted(rng.choice(np.arange(8, 49, 2), 5, replace=False)), float)
        start, width, most = rng.uniform(8, 40), rng.uniform(4, 20), rng.uniform(1.1, 2.0)
        points = np.array([(p, n) for n in sizes for p in (1, 2)], float)
        ramp = 1 + (most - 1) * np.clip((points[:, 1] - start) / width, 0, 1)
        times = points[:, 1] ** rng.choice([1.0, 2.0, 3.0]) * ramp
        repetitions = times[None, :, None] * (1 + 0.02 * rng.normal(size=(1, 10, 3)))
        mean = repetitions.mean(axis=2)
        (model,) = fit_models(points, mean, scatter=scatter_of(repetitions)).models
        assert np.abs(model.function.evaluate(points) / mean[0] - 1).max() < 0.3


def test_no_alternative_with_weight_misses_the_values_widely():
    sizes = np.array([8.0, 12.0, 16.0, 34.0, 42.0])
    points = np.array([(p, n) for n in sizes for p in (1, 2)])
    times = points[:, 1] ** 3 * (1 + 0.79 * np.clip((points[:, 1] - 11) / 19, 0, 1))
    repetitions = times[None, :, None] * (1 + 0.02 * np.random.default_rng(0).normal(size=(1, 10, 3)))
    mean = repetitions.mean(axis=2)
    (model,) = fit_models(points, mean, scatter=scatter_of(repetitions)).models
    far_off = [np.abs(other.function.evaluate(points) / mean[0] - 1).mean() > 0.3 for other in model.alternatives]
    assert sum(other.weight for other, off in zip(model.alternatives, far_off, strict=True) if off) < 0.01


GRID = np.array([[p, n] for p in (2.0, 4, 8, 16, 32) for n in (10.0, 20, 30, 40)])


@pytest.mark.parametrize("criterion", ["error", "smape"])
def test_every_criterion_finds_exact_functions(criterion):
    p, n = GRID.T
    fit = fit_models(GRID, np.stack([1 + 3 * p * n, 7 + n**2]), options=SearchOptions(criterion=criterion))
    assert fit.predict(np.array([[64.0, 50.0]])) == pytest.approx(np.array([[9601], [2507]]))


def test_no_more_terms_of_a_parameter_than_allowed():
    values = 5 + GRID[:, 1] ** 2 + 40 * GRID[:, 1]
    for most in (1, 2):
        (model,) = fit_models(GRID, values[None], options=SearchOptions(terms_per_parameter=most)).models
        own = {factor for term in model.function.terms for factor in term.factors if factor.parameter == 1}
        assert len(own) == most
    assert model.function.evaluate(GRID) == pytest.approx(values)
    with pytest.raises(UsageError):
        SearchOptions(terms_per_parameter=0)
