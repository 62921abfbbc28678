"""A fitted model: what predicts, and the parameters it was measured over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buran.tensor.axes import Array, Axis, Unseen, check_range, encode
from buran.tensor.growth import Extrapolation
from buran.tensor.presets import Inner
from buran.tensor.tuning import SMOOTH

_LARGEST_LOG = 700.0  # the exponential of more overflows


@dataclass(frozen=True, eq=False)
class TensorModel:
    """A model of run time.

    Attributes
    ----------
    axes
        The parameters.
    free
        Places of the parameters that may leave the measured range.
    inner
        Predicts inside it; that of a preset that is not the default one also outside.
    growth
        What happens outside, for the default preset.
    observations
        Number of them.
    """

    axes: tuple[Axis, ...]
    free: tuple[int, ...]
    inner: Inner
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
        slack = np.array([self._slack(axis) for axis in self.axes])
        free = [j in self.free for j in range(len(self.axes))]
        if outside == "error":
            check_range(points, self.axes, slack, free)
        points, beyond = self._inside(points, slack)
        rise = np.zeros(len(points))
        if self.growth is not None:
            points, rise = self.growth.add(points, self.axes)
        logs, spread = self.inner.predict_log(points)
        logs = np.clip(logs + rise, -_LARGEST_LOG, _LARGEST_LOG)
        return np.where(beyond, np.nan, np.exp(logs)) if outside == "nan" else np.exp(logs), spread

    def error_quantile(self, level: float) -> float:
        """Return the absolute error of the logarithm that a share of new measurements stays below."""
        quantiles = self.inner.residuals
        return float(np.interp(level, np.linspace(0, 1, len(quantiles)), quantiles))

    def _slack(self, axis: Axis) -> float:
        if axis.is_categorical:
            return 0.0
        ends = axis.position(np.array([axis.low, axis.high]))
        return float(SMOOTH.edge * (ends[1] - ends[0]))

    def _inside(self, points: Array, slack: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Move points that are too far out, in parameters that may not be, to the edge; tell which were."""
        out, beyond = points.copy(), np.zeros(len(points), dtype=bool)
        for j, axis in enumerate(self.axes):
            if axis.is_categorical or j in self.free:
                continue
            at = axis.position(points[:, j])
            ends = axis.position(np.array([axis.low, axis.high]))
            far = (at < ends[0] - slack[j]) | (at > ends[1] + slack[j])
            out[far, j] = np.clip(points[far, j], axis.low, axis.high)
            beyond |= far
        return out, beyond
