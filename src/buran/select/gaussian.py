"""Gaussian process regression with the Matern kernel (nu = 1.5) and noise that is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dpotri, dtrtri
from scipy.special import ndtr

from buran.select.space import Array

_JITTER = 1e-10
_MOST_FITTED = 128  # data that length scales are fitted to; all of them predict


@dataclass(frozen=True, eq=False)
class Process:
    """A process with its data.

    Attributes
    ----------
    inputs
        Shape (datum, parameter), scaled.
    lengths
        Shape (parameter,): length scales.
    variance
        Of the values around their mean.
    """

    inputs: Array
    lengths: Array
    variance: float
    _whitening: Array
    _weights: Array
    _mean: float

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation without noise at `inputs` (place, parameter)."""
        across = self.variance * matern(inputs, self.inputs, self.lengths)
        variance = self.variance - ((across @ self._whitening.T) ** 2).sum(axis=1)
        return self._mean + across @ self._weights, np.sqrt(np.maximum(variance, 0.0))


def matern(one: Array, other: Array, lengths: Array) -> Array:
    """Return the correlation of two sets of inputs, Eq. 5 of the paper on cost-effective modelling with nu = 1.5."""
    gap = np.sqrt(3.0 * (((one[:, None] - other[None]) / lengths) ** 2).sum(axis=2))
    return np.asarray((1 + gap) * np.exp(-gap))


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
    from scipy.optimize import minimize  # it takes long, and other strategies do without

    mean = float(values.mean())
    centred = values - mean
    spread = max(float(centred.var()), 1e-12)
    few = _spread_out(len(inputs), _MOST_FITTED)
    loss = _Loss(inputs[few], centred[few], noise_variance[few], spread, isotropic)
    dimensions = 1 if isotropic else inputs.shape[1]
    bounds = [(-3.0, 4.0)] * dimensions + [(-3.0, 5.0)]
    start = np.zeros(dimensions + 1)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 12})
    logs = found.x if np.isfinite(found.fun) else start
    lengths = np.asarray(np.exp(np.broadcast_to(logs[:-1], (inputs.shape[1],))), dtype=np.float64)
    variance = float(np.exp(logs[-1]) * spread)
    covariance = variance * matern(inputs, inputs, lengths) + np.diag(noise_variance + _JITTER * spread)
    root, failed = dpotrf(covariance, lower=1)
    if failed:  # equal inputs without noise
        values_, vectors = np.linalg.eigh(covariance)
        kept = values_ > _JITTER * values_[-1]
        whitening = (vectors[:, kept] / np.sqrt(values_[kept])).T
    else:
        whitening = dtrtri(root, lower=1)[0]
    return Process(inputs, lengths, variance, whitening, whitening.T @ (whitening @ centred), mean)


def _spread_out(count: int, most: int) -> NDArray[np.int64]:
    """Return at most so many indices, evenly spread."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(np.int64))


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


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return by how much a value is expected to exceed `best`."""
    safe = np.where(deviation > 0, deviation, 1.0)
    z = (mean - best) / safe
    improvement = (mean - best) * ndtr(z) + safe * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.where(deviation > 0, improvement, np.maximum(mean - best, 0.0)))
