"""A fitted model: what predicts, and the parameters it was measured over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buran.modeling.tensor.axes import Array, Axis, Unseen, encode, refuse, too_far
from buran.modeling.tensor.blend import Blend
from buran.modeling.tensor.growth import Extrapolation, doublings
from buran.modeling.tensor.published.model import PublishedModel

_LARGEST_LOG = 700.0  # the exponential of more overflows


@dataclass(frozen=True, eq=False)
class TensorModel:
    """A model of run time.

    Attributes
    ----------
    axes
        The parameters.
    free
        Columns of the parameters that may leave the measured range.
    inner
        Predicts inside it; that of the published method also outside.
    growth
        What happens outside, for the default preset.
    observations
        Number of them.
    """

    axes: tuple[Axis, ...]
    free: tuple[int, ...]
    inner: Blend | PublishedModel
    growth: Extrapolation | None
    observations: int

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(axis.name for axis in self.axes)

    def predict(
        self,
        columns: Sequence[NDArray[Any]],
        outside: Literal["error", "clamp", "nan"] = "error",
        unseen: Unseen = "error",
    ) -> tuple[Array, Array]:
        """Return times, and the standard deviations of their logarithms in the ensemble, both of shape (point,)."""
        points = encode(columns, self.axes, unseen)
        far = too_far(points, self.axes, self.free)
        if outside == "error":
            refuse(points, self.axes, far)
        low, high = np.array([axis.low for axis in self.axes]), np.array([axis.high for axis in self.axes])
        points = np.where(far, np.clip(points, low, high), points)
        rise = np.zeros(len(points))
        if self.growth is not None:
            points, rise = self.growth.add(points, self.axes)
        logs, spread = self.inner.predict_log(points)
        logs = np.clip(logs + rise, -_LARGEST_LOG, _LARGEST_LOG)
        return np.where(far.any(axis=1), np.nan, np.exp(logs)) if outside == "nan" else np.exp(logs), spread

    def error_quantile(self, level: float) -> float:
        """Return the absolute error of the logarithm that a share of measurements inside the range stays below."""
        quantiles = self.inner.residuals
        return float(np.interp(level, np.linspace(0, 1, len(quantiles)), quantiles))

    def error(self, columns: Sequence[NDArray[Any]], level: float, unseen: Unseen = "error") -> Array:
        """Return what the absolute error of the logarithm stays below for a share of new measurements, shape (point,).

        Inside the measured range that is known from observations that were left out of the fit, beyond it from the
        largest ones, predicted from smaller ones; NaN where neither could be tried.
        """
        points = encode(columns, self.axes, unseen)
        inside = self.error_quantile(level)
        if self.growth is None:
            return np.where(doublings(points, self.axes, self.free) > 0, np.nan, inside)
        return np.maximum(inside, self.growth.error(level, points, self.axes))
