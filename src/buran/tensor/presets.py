"""Presets of tensor models beyond the default one, which other distributions bring."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from buran.plugins import Door
from buran.tensor.axes import Array, Axis

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class GridOptions:
    """What a user may set of a tensor on a grid; see `CPRegressor`.

    Attributes
    ----------
    cells, nodes
        For each parameter; None where the preset chooses.
    """

    cells: Sequence[int] | None
    nodes: Sequence[Array | None]
    rank: int | None
    ridge: float | None
    sweeps: int
    growth_rank: int | None


class Inner(Protocol):
    """What predicts inside the measured range."""

    @property
    def preset(self) -> str:
        """Name of the preset that makes such models."""

    @property
    def residuals(self) -> Array:
        """Quantiles of the absolute error of the logarithm at observations that were left out, evenly spaced."""

    def predict_log(self, points: Array) -> tuple[Array, Array]:
        """Return logarithms of times and their spread in the ensemble, for encoded points (point, parameter)."""


class Preset(Protocol):
    """A way to fit, and what it writes to model files."""

    @property
    def name(self) -> str:
        """As in `CPRegressor(preset=...)`, and in the header of files."""

    def fit(
        self,
        points: Array,
        times: Array,
        axes: tuple[Axis, ...],
        free: tuple[int, ...],
        options: GridOptions,
        random: np.random.Generator,
    ) -> Inner:
        """Fit times (point,) at encoded points (point, parameter); `free` may leave the measured range."""

    def put(self, inner: Any, arrays: Arrays) -> dict[str, Any]:
        """Add a model's arrays, and return the rest as JSON values."""

    def get(self, header: dict[str, Any], arrays: Arrays, axes: tuple[Axis, ...]) -> Inner:
        """Return the model that `put` took apart."""


PRESETS: Door[Preset] = Door("preset", "buran.tensor_presets", Preset, {}, {"paper": "buran-studies"})
