"""Gaussian process regression with the Matern kernel (nu = 1.5) and noise that is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import ndtr

from buran.select.space import Array

_JITTER = 1e-10


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
    _inverse: Array
    _weights: Array
    _mean: float

    def predict(self, inputs: Array) -> tuple[Array, Array]:
        """Return mean and standard deviation without noise at `inputs` (place, parameter)."""
        across = self.variance * matern(inputs, self.inputs, self.lengths)
        variance = self.variance - np.einsum("pd,de,pe->p", across, self._inverse, across)
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
    mean = float(values.mean())
    centred = values - mean
    dimensions = 1 if isotropic else inputs.shape[1]
    spread = max(float(centred.var()), 1e-12)
    gaps = (inputs[:, None] - inputs[None]) ** 2

    def loss(logs: Array) -> float:
        lengths = np.exp(np.broadcast_to(logs[:-1], (inputs.shape[1],)) if isotropic else logs[:-1])
        gap = np.sqrt(3.0 * (gaps / lengths**2).sum(axis=2))
        covariance = np.exp(logs[-1]) * spread * (1 + gap) * np.exp(-gap)
        covariance[np.diag_indices(len(inputs))] += noise_variance + _JITTER * spread
        try:
            root = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            return 1e12
        half = np.linalg.solve(root, centred)
        return float(half @ half / 2 + np.log(root.diagonal()).sum())

    bounds = [(-3.0, 4.0)] * dimensions + [(-3.0, 5.0)]
    start = np.zeros(dimensions + 1)
    found = minimize(loss, start, method="L-BFGS-B", bounds=bounds, options={"maxiter": 12})
    logs = found.x if np.isfinite(found.fun) else start
    lengths = np.asarray(np.exp(np.broadcast_to(logs[:-1], (inputs.shape[1],))), dtype=np.float64)
    variance = float(np.exp(logs[-1]) * spread)
    covariance = variance * matern(inputs, inputs, lengths) + np.diag(noise_variance + _JITTER * spread)
    inverse = np.asarray(np.linalg.pinv(covariance, hermitian=True), dtype=np.float64)
    return Process(inputs, lengths, variance, inverse, inverse @ centred, mean)


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return by how much a value is expected to exceed `best`."""
    safe = np.where(deviation > 0, deviation, 1.0)
    z = (mean - best) / safe
    improvement = (mean - best) * ndtr(z) + safe * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.where(deviation > 0, improvement, np.maximum(mean - best, 0.0)))
