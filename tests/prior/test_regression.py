"""Coefficients of priors: what the points cannot tell apart."""

from __future__ import annotations

import numpy as np
import pytest

from buran.prior.regression import regress


@pytest.mark.parametrize("nonnegative", [True, False])
def test_columns_that_grow_alike_are_one_coefficient(nonnegative: bool) -> None:
    """Bytes sent and received are, for many operations: a latency and a bandwidth are all that times tell."""
    random = np.random.default_rng(7)
    p = np.repeat([2.0, 4.0, 8.0, 16.0], 3)
    apart = np.stack([np.ones(12), p], axis=1)
    alike = np.stack([np.ones(12), p, 3 * p - 1e-3], axis=1)  # a sum of the others
    values = (1 + 0.5 * p) * (1 + 0.2 * random.standard_normal((40, 12)))
    one, two = (regress(design, values, nonnegative=nonnegative, outliers=2.0) for design in (apart, alike))
    assert (two.degrees == one.degrees).all() and (one.degrees == 10).all()
    assert two.noise == pytest.approx(one.noise, rel=1e-4)
    assert two.coefficients @ alike.T == pytest.approx(one.coefficients @ apart.T, rel=1e-4)
