"""Pieces of a model file that holds a published model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from buran.modeling.tensor.axes import Array, Arrays, Axis
from buran.modeling.tensor.published.cells import TensorMode
from buran.modeling.tensor.published.model import Choice, Grown, PublishedModel
from buran.modeling.tensor.published.spline import Hinges


def put_published(model: PublishedModel, arrays: Arrays) -> dict[str, Any]:
    """Add a model's arrays, and return the rest as JSON values."""
    out: dict[str, Any] = {"sizes": _put_modes("published", model.modes, model.factors, arrays)}
    arrays["residuals"] = model.residuals
    out["choice"] = asdict(model.choice)
    if model.grown is not None:
        grown = model.grown
        out["grown_sizes"] = _put_modes("grown", grown.modes, grown.factors, arrays)
        out["splines"] = [None if s is None else s.constant for s in grown.splines]
        for j, (spline, scale) in enumerate(zip(grown.splines, grown.scales, strict=True)):
            arrays[f"scale{j}"] = scale
            if spline is not None:
                arrays[f"spline{j}"] = np.stack([spline.slopes, spline.knots, spline.signs])
    return out


def get_published(header: dict[str, Any], arrays: Arrays, axes: tuple[Axis, ...]) -> PublishedModel:
    """Return the model of a file; in files of earlier versions it is called paper."""
    name = "published" if "published" in header else "paper"
    own = header[name]
    modes, factors = _get_modes(name, own["sizes"], arrays, axes)
    grown = None
    if "grown_sizes" in own:
        grown_modes, grown_factors = _get_modes("grown", own["grown_sizes"], arrays, axes)
        splines = tuple(
            None if constant is None else Hinges(float(constant), *arrays[f"spline{j}"])
            for j, constant in enumerate(own["splines"])
        )
        grown = Grown(grown_modes, grown_factors, splines, tuple(arrays[f"scale{j}"] for j in range(len(axes))))
    choice = Choice(tuple(own["choice"]["cells"]), own["choice"]["rank"], own["choice"]["ridge"])
    return PublishedModel(modes, factors, grown, choice, arrays["residuals"])


def _put_modes(name: str, modes: Sequence[TensorMode], factors: Sequence[Array], arrays: Arrays) -> list[int]:
    arrays[f"{name}.nodes"] = np.concatenate([mode.nodes for mode in modes])
    arrays[f"{name}.bounds"] = np.concatenate([mode.bounds for mode in modes])
    arrays[f"{name}.factors"] = np.concatenate(factors)
    return [mode.size for mode in modes]


def _get_modes(
    name: str, sizes: list[int], arrays: Arrays, axes: tuple[Axis, ...]
) -> tuple[tuple[TensorMode, ...], tuple[Array, ...]]:
    bounds = [0 if axis.is_categorical else size - 1 for axis, size in zip(axes, sizes, strict=True)]
    parts = zip(
        axes,
        np.split(arrays[f"{name}.nodes"], np.cumsum(sizes)[:-1]),
        np.split(arrays[f"{name}.bounds"], np.cumsum(bounds)[:-1]),
        strict=True,
    )
    factors = tuple(np.split(arrays[f"{name}.factors"], np.cumsum(sizes)[:-1]))
    return tuple(TensorMode(axis, nodes, bound) for axis, nodes, bound in parts), factors
