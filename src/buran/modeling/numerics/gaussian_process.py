"""Covariance functions of Gaussian processes, and a process that is averaged over its hyperparameters.

The average is over many processes, each by its likelihood, where few points do not decide on one and nothing is known
about the noise.
"""

from __future__ import annotations

import numpy as np

from buran.modeling.numerics.least_squares import Array
from buran.modeling.numerics.tuning import COMBINATIONS, MATTERS

# Ends of the length scales, in standard deviations of a variable. Tuned: no record of its own; choices were made on
# the seeds 7001 and 7003 (evidence/correction.md).
LENGTHS = (0.3, 12.0)
# Ends of the noise, in the signal. Tuned: no record of its own; choices were made on the seeds 7001 and 7003
# (evidence/correction.md).
NOISES = (0.02, 1.0)


def matern(one: Array, other: Array, lengths: Array | float = 1.0) -> Array:
    """Return the correlations of two sets of inputs, by the Matern kernel with nu = 1.5.

    Equation 5 of the paper on cost-effective modelling; shape (one, other) of inputs (place, parameter).
    """
    gap = np.sqrt(3.0 * (((one[:, None] - other[None]) / lengths) ** 2).sum(axis=2))
    return np.asarray((1 + gap) * np.exp(-gap))


def squared_exponential(one: Array, other: Array, lengths: Array) -> Array:
    """Return correlations for many length scales (draw, parameter): shape (draw, one, other)."""
    gap = np.square(one[:, None, :] - other[None])
    return np.asarray(np.exp(-0.5 * np.einsum("qpv,dv->dqp", gap, lengths**-2.0)))


def average_process(inputs: Array, values: Array) -> tuple[Array, Array]:
    """Fit a process of mean 0 with the squared exponential kernel, averaged over its hyperparameters.

    Each draw counts by its marginal likelihood, so that few points do not decide on one of many length scales.

    Parameters
    ----------
    inputs
        Shape (datum, variable), each with standard deviation 1, or 0 throughout.
    values
        Shape (datum,).

    Returns
    -------
    lengths
        Length scales, shape (draw, variable).
    pull
        Shape (draw, datum): the mean is the sum of correlations times these, over draws and data.
    """
    from scipy.linalg.lapack import dpotrf, dpotrs  # it takes long, and models do without

    size = inputs.shape[1]
    unit = spread_evenly(COMBINATIONS, size + 1)
    lengths = np.where(np.ptp(inputs, axis=0) > 0, _between(unit[:, :size], *LENGTHS), 1.0)
    noise = _between(unit[:, size], *NOISES)
    likelihood, pull = np.empty(COMBINATIONS), np.empty((COMBINATIONS, len(inputs)))
    gaps = np.square(inputs[:, None] - inputs[None])
    for draw in range(COMBINATIONS):
        covariance = np.exp(-0.5 * (gaps @ lengths[draw] ** -2.0))
        covariance[np.diag_indices(len(inputs))] += noise[draw] ** 2
        root, failed = dpotrf(covariance, lower=1)
        if failed:
            raise np.linalg.LinAlgError("the covariance of a process with noise is not positive")
        pull[draw] = dpotrs(root, values, lower=1)[0]
        signal = max(values @ pull[draw] / len(values), np.finfo(np.float64).tiny)  # the likeliest variance
        likelihood[draw] = -0.5 * len(values) * np.log(signal) - np.log(root.diagonal()).sum()
    share = np.exp(likelihood - likelihood.max())
    order = np.argsort(-share, kind="stable")
    best = order[: np.searchsorted(share[order].cumsum(), (1 - MATTERS) * share.sum()) + 1]
    return lengths[best], pull[best] * (share[best] / share[best].sum())[:, None]


def _between(unit: Array, low: float, high: float) -> Array:
    return np.asarray(low * (high / low) ** unit)


def spread_evenly(count: int, size: int) -> Array:
    """Return evenly spread numbers in the unit box, shape (number, size).

    They are multiples of powers of the generalised golden ratio, as in Roberts's sequence R_d (2018).
    """
    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (size + 1))
    return np.asarray((0.5 + np.arange(1, count + 1)[:, None] * ratio ** -np.arange(1.0, size + 1)) % 1.0)
