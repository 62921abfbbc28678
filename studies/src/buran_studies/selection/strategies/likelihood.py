"""A Gaussian process whose hyperparameters have the largest likelihood, the noise of each datum being known."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri
from scipy.optimize import minimize

from buran.numerics.arrays import Array, Ids
from buran.numerics.gaussian_process import Process

_JITTER = 1e-10  # of the variance, added to the diagonal (judged when first written)
_MOST_FITTED = 128  # data that length scales are fitted to; all of them predict (judged when first written)


def fit_process(inputs: Array, values: Array, noise_variance: Array, isotropic: bool = False) -> Process:
    """Fit length scales and variance by the likelihood of the data; the noise is given.

    Parameters
    ----------
    inputs
        Shape (datum, parameter).
    values
        Shape (datum,).
    noise_variance
        Shape (datum,).
    isotropic
        One length scale for all parameters.
    """
    mean = float(values.mean())
    centred = values - mean
    spread = max(float(centred.var()), 1e-12)
    few = thinned(len(inputs), _MOST_FITTED)
    loss = _Loss(inputs[few], centred[few], noise_variance[few], spread, isotropic)
    dimensions = 1 if isotropic else inputs.shape[1]
    bounds = [(-3.0, 4.0)] * dimensions + [(-3.0, 5.0)]
    start = np.zeros(dimensions + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 12})
    logs = found.x if np.isfinite(found.fun) else start
    lengths = np.asarray(np.exp(np.broadcast_to(logs[:-1], (inputs.shape[1],))), dtype=np.float64)
    variance = float(np.exp(logs[-1]) * spread)
    return Process.of(inputs, values, noise_variance + _JITTER * spread, lengths, variance, mean)


class _Loss:
    """Negative logarithm of the likelihood with its derivatives, by logarithms of length scales and variance."""

    def __init__(self, inputs: Array, values: Array, noise: Array, spread: float, isotropic: bool) -> None:
        gaps = 3.0 * (inputs.T[:, :, None] - inputs.T[:, None, :]) ** 2
        self._gaps = gaps.sum(axis=0, keepdims=True) if isotropic else gaps
        self._values, self._spread = values, spread
        self._diagonal = noise + _JITTER * spread

    def __call__(self, logs: Array) -> tuple[float, Array]:
        squares = np.exp(-2 * logs[:-1])
        gap = np.sqrt(np.tensordot(squares, self._gaps, axes=1))
        falling = np.exp(logs[-1]) * self._spread * np.exp(-gap)
        signal = falling * (1 + gap)
        covariance = signal.copy()
        covariance[np.diag_indices(len(covariance))] += self._diagonal
        root, failed = dpotrf(covariance, lower=1)
        if failed:
            return 1e12, np.zeros(len(logs))
        inverse = dpotri(root, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        weights = inverse @ self._values
        loss = float(self._values @ weights / 2 + np.log(root.diagonal()).sum())
        slope = inverse - np.outer(weights, weights)
        lengths = np.tensordot(self._gaps, slope * falling, axes=((1, 2), (0, 1))) * squares
        return loss, np.append(lengths, (slope * signal).sum()) / 2


def thinned(count: int, most: int) -> Ids:
    """Return at most so many of `count` indices, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))
