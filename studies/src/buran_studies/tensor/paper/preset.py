"""What Buran asks of a preset: fitting, and the pieces of a model file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from buran.tensor.axes import Array, Axis
from buran.tensor.presets import Arrays, GridOptions
from buran_studies.tensor.paper.cells import Mode
from buran_studies.tensor.paper.model import Choice, Grown, PaperModel, fit_paper
from buran_studies.tensor.paper.spline import Hinges


class Paper:
    """The preset ``paper``."""

    name = "paper"

    def fit(
        self,
        points: Array,
        times: Array,
        axes: tuple[Axis, ...],
        free: tuple[int, ...],
        options: GridOptions,
        random: np.random.Generator,
    ) -> PaperModel:
        """Fit as the paper does."""
        return fit_paper(points, times, axes, free, options, random)

    def put(self, inner: PaperModel, arrays: Arrays) -> dict[str, Any]:
        """Add a model's arrays, and return the rest as JSON values."""
        out: dict[str, Any] = {"sizes": _put_modes("paper", inner.modes, inner.factors, arrays)}
        arrays["residuals"] = inner.residuals
        out["choice"] = asdict(inner.choice)
        if inner.grown is not None:
            grown = inner.grown
            out["grown_sizes"] = _put_modes("grown", grown.modes, grown.factors, arrays)
            out["splines"] = [None if s is None else s.constant for s in grown.splines]
            for j, (spline, scale) in enumerate(zip(grown.splines, grown.scales, strict=True)):
                arrays[f"scale{j}"] = scale
                if spline is not None:
                    arrays[f"spline{j}"] = np.stack([spline.slopes, spline.knots, spline.signs])
        return out

    def get(self, header: dict[str, Any], arrays: Arrays, axes: tuple[Axis, ...]) -> PaperModel:
        """Return the model that `put` took apart."""
        modes, factors = _get_modes("paper", header["sizes"], arrays, axes)
        grown = None
        if "grown_sizes" in header:
            grown_modes, grown_factors = _get_modes("grown", header["grown_sizes"], arrays, axes)
            splines = tuple(
                None if constant is None else Hinges(float(constant), *arrays[f"spline{j}"])
                for j, constant in enumerate(header["splines"])
            )
            grown = Grown(grown_modes, grown_factors, splines, tuple(arrays[f"scale{j}"] for j in range(len(axes))))
        choice = Choice(tuple(header["choice"]["cells"]), header["choice"]["rank"], header["choice"]["ridge"])
        return PaperModel(modes, factors, grown, choice, arrays["residuals"])


def _put_modes(name: str, modes: Sequence[Mode], factors: Sequence[Array], arrays: Arrays) -> list[int]:
    arrays[f"{name}.nodes"] = np.concatenate([mode.nodes for mode in modes])
    arrays[f"{name}.bounds"] = np.concatenate([mode.bounds for mode in modes])
    arrays[f"{name}.factors"] = np.concatenate(factors)
    return [mode.size for mode in modes]


def _get_modes(
    name: str, sizes: list[int], arrays: Arrays, axes: tuple[Axis, ...]
) -> tuple[tuple[Mode, ...], tuple[Array, ...]]:
    bounds = [0 if axis.is_categorical else size - 1 for axis, size in zip(axes, sizes, strict=True)]
    parts = zip(
        axes,
        np.split(arrays[f"{name}.nodes"], np.cumsum(sizes)[:-1]),
        np.split(arrays[f"{name}.bounds"], np.cumsum(bounds)[:-1]),
        strict=True,
    )
    factors = tuple(np.split(arrays[f"{name}.factors"], np.cumsum(sizes)[:-1]))
    return tuple(Mode(axis, nodes, bound) for axis, nodes, bound in parts), factors


PRESET = Paper()
