"""Averages of corrections by different terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array
from buran.modeling.correction.terms import TermModel


@dataclass(frozen=True)
class Average:
    """Models with different terms; the logarithms of their corrections are averaged.

    Attributes
    ----------
    models
        The best one first.
    weights
        Weights of the models; they add up to 1.
    """

    models: tuple[TermModel, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.models or len(self.weights) != len(self.models) or not math.isclose(sum(self.weights), 1):
            raise ValueError("the weights of the terms do not add up to 1")

    @property
    def best(self) -> TermModel:
        """The model with the largest weight."""
        return self.models[0]

    def log_factor(self, base: BaseModel, theta: Array, points: Array, clamped: Array) -> Array:
        """Return the logarithm of the correction's factor at points (point, variable); see `TermModel.evaluate`.

        Where the models disagree the mean is shrunk: by its square over its square plus their variance.

        Parameters
        ----------
        base, theta
            The base model with its own fitted parameters.
        points, clamped
            Where its components are evaluated, and where the terms' growth is.
        """
        values = np.stack([model.evaluate(base, points, clamped) for model in self.models])
        shifts = np.log(values / base.evaluate(theta, points))
        weights = np.array(self.weights)
        mean = weights @ shifts
        spread = weights @ np.square(shifts - mean)
        size = np.square(mean) + spread
        share = np.divide(np.square(mean), size, out=np.where(np.isnan(size), np.nan, 0.0), where=size > 0)
        return np.asarray(mean * share)


def averaged(models: Sequence[TermModel]) -> Average:
    """Average models by what they leave over at points that were left out: by the inverses of the sums of squares.

    The average of different wrong models extrapolates better than any of them.

    Parameters
    ----------
    models
        With terms, and with costs of points left out.
    """
    ranked = sorted((model for model in models if math.isfinite(model.cost)), key=lambda model: model.cost)
    costs = np.array([model.cost for model in ranked])
    weights = 1 / np.maximum(costs / max(costs[0], 1e-300), 1)
    return Average(tuple(ranked), tuple((weights / weights.sum()).tolist()))
