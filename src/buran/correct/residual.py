"""What a formula leaves over: a Gaussian process on logarithms, averaged over its hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.correct.formula import Array

MOST_POINTS = 200
"""Beyond it, the time of a fit, which grows with the third power, is not worth it."""

_DRAWS = 192
_CELLS = 1 << 21  # of kernel matrices at a time
_KEPT = 24  # hyperparameters whose weights matter
_LENGTHS = (0.3, 12.0)  # in standard deviations of a variable's logarithm
_SIGNALS = (0.3, 3.0)  # of the values' root mean square
_NOISES = (0.02, 1.0)  # of the signal


@dataclass(frozen=True)
class Process:
    """A fitted process; it falls back to 0 far from its points.

    Attributes
    ----------
    centre, spread
        Of the variables' logarithms, shape (variable,).
    points
        Scaled logarithms, shape (point, variable).
    lengths
        Shape (draw, variable).
    pull
        Shape (draw, point): weights of the points, the draws' shares included.
    """

    centre: Array
    spread: Array
    points: Array
    lengths: Array
    pull: Array

    def evaluate(self, points: Array) -> Array:
        """Return the mean at points (point, variable)."""
        at = (np.log(points) - self.centre) / self.spread
        out = np.zeros(len(at))
        for first in range(0, len(at), 2000):  # memory
            gap = np.square(at[first : first + 2000, None, :] - self.points[None])
            kernel = np.exp(-0.5 * np.einsum("qpv,dv->dqp", gap, self.lengths**-2.0))
            out[first : first + 2000] = np.einsum("dqp,dp->q", kernel, self.pull)
        return out


def fit_process(points: Array, values: Array) -> Process:
    """Fit a process of mean 0.

    Each draw of the hyperparameters counts by its marginal likelihood, so that few points do not decide on one
    of many length scales.

    Parameters
    ----------
    points
        Shape (point, variable), positive.
    values
        Shape (point,), logarithms of ratios.
    """
    logs = np.log(points)
    centre, spread = logs.mean(axis=0), logs.std(axis=0)
    varied = spread > 0
    spread = np.where(varied, spread, 1.0)
    at = (logs - centre) / spread
    count, size = at.shape
    unit = spread_evenly(_DRAWS, size + 2)
    lengths = np.where(varied, _between(unit[:, :size], *_LENGTHS), 1.0)
    level = float(np.sqrt(np.mean(values**2))) or 1e-12
    signal = level * _between(unit[:, size], *_SIGNALS)
    noise = signal * _between(unit[:, size + 1], *_NOISES)
    gap = np.square(at[:, None, :] - at[None])
    likelihood, pull = np.empty(_DRAWS), np.empty((_DRAWS, count))
    chunk = max(1, _CELLS // count**2)
    for first in range(0, _DRAWS, chunk):
        own = slice(first, first + chunk)
        likelihood[own], pull[own] = _condition(gap, lengths[own], signal[own], noise[own], values)
    share = np.exp(likelihood - likelihood.max())
    best: NDArray[np.int64] = np.argsort(-share, kind="stable")[:_KEPT]
    share = share[best] / share[best].sum()
    return Process(centre, spread, at, lengths[best], pull[best] * (share * signal[best] ** 2)[:, None])


def _condition(gap: Array, lengths: Array, signal: Array, noise: Array, values: Array) -> tuple[Array, Array]:
    """Return log marginal likelihoods, shape (draw,), and weights of the points, (draw, point)."""
    count = len(values)
    kernel = np.exp(-0.5 * np.einsum("qpv,dv->dqp", gap, lengths**-2.0)) * (signal**2)[:, None, None]
    factor = np.linalg.cholesky(kernel + (noise**2)[:, None, None] * np.eye(count))
    half = np.linalg.solve(factor, np.broadcast_to(values[:, None], (len(lengths), count, 1)))
    pull = np.linalg.solve(factor.transpose(0, 2, 1), half)[..., 0]
    likelihood = -0.5 * np.square(half[..., 0]).sum(axis=1) - np.log(np.einsum("dpp->dp", factor)).sum(axis=1)
    return np.asarray(likelihood), np.asarray(pull)


def _between(unit: Array, low: float, high: float) -> Array:
    return np.asarray(low * (high / low) ** unit)


def spread_evenly(count: int, size: int) -> Array:
    """Return evenly spread numbers in the unit box: multiples of powers of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(40):
        ratio = (1 + ratio) ** (1 / (size + 1))
    return np.asarray((0.5 + np.arange(1, count + 1)[:, None] * ratio ** -np.arange(1.0, size + 1)) % 1.0)
