"""Which algorithms an MPI operation has: terms of others than the usual one, where the data pay for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from buran.modeling.numerics.tuning import MATTERS
from buran.modeling.pmnf.candidates import Mask
from buran.modeling.pmnf.terms import Array, ModelFunction
from buran.modeling.price.regression import regress
from buran.modeling.priors.prior import Prior
from buran.modeling.priors.tuning import OUTLIERS

# By which terms of other algorithms must lower the Bayesian information criterion. Tuned: of 0, 4, 8 and 14: with 4,
# 2 of 100 models without these terms get them at 75 % noise.
GAIN = 4.0


def with_algorithms(points: Array, values: Array, priors: Sequence[Prior | None]) -> list[Prior | None]:
    """Give priors of MPI operations the columns of other algorithms where times are explained much better by them.

    An MPI switches between algorithms by ranks and bytes. Coefficients are never negative, so that points on both sides
    of a switch take from each algorithm what they need. What is returned has no further columns to choose from, so that
    it is not looked at again.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    values
        Shape (call path, point): times; NaN where nothing was measured.
    priors
        One for each call path; None for those without.
    """
    out = list(priors)
    groups: dict[tuple[tuple[ModelFunction, ...], int, bytes], list[tuple[int, Prior]]] = {}
    for row, prior in enumerate(priors):
        if prior is not None and prior.others:
            same = (prior.widened.functions, len(prior.columns), np.isfinite(values[row]).tobytes())
            groups.setdefault(same, []).append((row, prior))
    for members in groups.values():
        rows, given = zip(*members, strict=True)
        present = np.isfinite(values[rows[0]])
        wide = given[0].widened.design(points[present])
        pays = others_pay(wide[:, : len(given[0].columns)], wide, values[np.ix_(rows, present)])
        for (row, prior), better in zip(members, pays.tolist(), strict=True):
            out[row] = prior.widened if better else replace(prior, others=())
    return out


def others_pay(usual: Array, wide: Array, values: Array) -> Mask:
    """Return shape (call path,): whether a design with more columns explains values (call path, point) much better."""
    if len(usual) <= wide.shape[1] + 1:  # the correction for few points has no value
        return np.zeros(len(values), dtype=np.bool_)
    return np.asarray(_criterion(usual, values) - _criterion(wide, values) > GAIN)


def _criterion(design: Array, values: Array) -> Array:
    """Return the Bayesian information criterion for few points, of noise that is a share of the prediction (gamma)."""
    fitted = regress(design, values, nonnegative=True, outliers=OUTLIERS)
    predicted = np.maximum(fitted.coefficients @ design.T, np.finfo(float).tiny)
    ratio = np.maximum(values / predicted, np.finfo(float).tiny)
    deviance = 2 * np.mean(ratio - 1 - np.log(ratio), axis=1) + MATTERS**2
    used = (fitted.coefficients > 0).sum(axis=1)
    few = len(design) / (len(design) - design.shape[1] - 1)  # the correction of Hurvich and Tsai (1989)
    return np.asarray(len(design) * np.log(deviance) + np.log(len(design)) * few * used)
