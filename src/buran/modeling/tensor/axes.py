"""Parameters of a tensor model: their scales, tables of points, and the edges of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError

# A numerical parameter with at most this many values has a node at each of them. Tuned: no record of its own; choices
# were made under seeds other than the reported one (evidence/tensor.md).
FEW_NODES = 16

Array = NDArray[np.float64]
Whole = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
Scale = Literal["auto", "log", "linear", "categorical"]
SCALES: tuple[Scale, ...] = ("auto", "log", "linear", "categorical")


class InputError(UsageError, ValueError):
    """A table or an option that an estimator cannot use; a ValueError too, as scikit-learn's users expect."""


@dataclass(frozen=True, eq=False)
class Axis:
    """One parameter.

    Attributes
    ----------
    name
        For messages.
    scale
        ``log``, ``linear`` or ``categorical``.
    low, high
        Smallest and largest measured value; 0 and 0 for categories.
    values
        Shape (value,): the distinct values if they are `FEW_NODES`; empty otherwise, and for categories.
    whole
        Whether all measured values are whole numbers.
    categories
        The measured categories, each a number or a text; empty for numerical parameters.
    """

    name: str
    scale: Scale
    low: float
    high: float
    values: Array
    whole: bool = False
    categories: tuple[float | str, ...] = ()

    @property
    def is_categorical(self) -> bool:
        """Whether values have no order."""
        return self.scale == "categorical"

    def position(self, x: Array) -> Array:
        """Return values where they are equidistant: their logarithms or themselves."""
        return np.log(x) if self.scale == "log" else x


def columns_of(table: NDArray[Any]) -> list[NDArray[Any]]:
    """Return the columns of a table (point, parameter), each an array of numbers or of texts."""
    if table.dtype.kind in "biuf":
        return list(np.asarray(table, dtype=np.float64).T)
    return [_column(table[:, j]) for j in range(table.shape[1])]


def _column(column: NDArray[Any]) -> NDArray[Any]:
    try:
        return np.asarray(column, dtype=np.float64)
    except (ValueError, TypeError):
        if all(isinstance(value, str | int | float | np.number) for value in column):
            return np.asarray([str(value) for value in column], dtype=object)
        raise TypeError("argument must be a string or a real number: a parameter's value is neither") from None


def fit_axes(columns: Sequence[NDArray[Any]], scale: Sequence[str] | None, names: Sequence[str]) -> tuple[Axis, ...]:
    """Describe each parameter by its measured values.

    Raises
    ------
    InputError
        A scale is unknown or does not suit the values; a value is not finite.
    """
    scales = ["auto"] * len(columns) if scale is None else list(scale)
    if len(scales) != len(columns):
        raise InputError(
            "there must be one scale for each parameter", why=f"{len(scales)} scales, {len(columns)} parameters"
        )
    return tuple(_axis(c, s, n) for c, s, n in zip(columns, scales, names, strict=True))


def _axis(column: NDArray[Any], scale: str, name: str) -> Axis:
    if scale not in SCALES:
        raise InputError(f"parameter {name}: no scale is called {scale!r}", hint=f"choose from {', '.join(SCALES)}")
    text = column.dtype == object
    if text and scale not in ("auto", "categorical"):
        raise InputError(f"parameter {name}: texts have no {scale} scale", hint="choose categorical")
    if text or scale == "categorical":
        if not text:
            _check_finite(column, name)
        return Axis(name, "categorical", 0.0, 0.0, np.empty(0), False, tuple(np.unique(column).tolist()))
    _check_finite(column, name)
    distinct = np.unique(column)
    low, high = float(distinct[0]), float(distinct[-1])
    if scale == "log" and low <= 0:
        raise InputError(
            f"parameter {name}: a logarithmic scale needs values above zero",
            why=f"the smallest is {low:g}",
            hint="choose linear",
        )
    if scale == "auto":
        scale = "log" if low > 0 else "linear"
    few = distinct if len(distinct) <= FEW_NODES else np.empty(0)
    whole = bool((distinct == np.rint(distinct)).all())
    return Axis(name, "log" if scale == "log" else "linear", low, high, few, whole)


def _check_finite(column: Array, name: str) -> None:
    if not np.isfinite(column).all():
        raise InputError(f"parameter {name}: a value is missing or infinite", why="Input contains NaN or infinity")


Unseen = Literal["error", "mean"]


def encode(columns: Sequence[NDArray[Any]], axes: Sequence[Axis], unseen: Unseen = "error") -> Array:
    """Return shape (point, parameter): numbers as they are, categories as their places; -1 for unseen ones.

    Raises
    ------
    InputError
        A category was not measured and `unseen` is ``error``, a value is missing, or a logarithmic parameter has a
        value that is not positive.
    """
    out = np.empty((len(columns[0]), len(axes)))
    for j, (column, axis) in enumerate(zip(columns, axes, strict=True)):
        if axis.is_categorical:
            out[:, j] = _codes(column, axis, unseen)
            continue
        if column.dtype == object:
            raise InputError(f"parameter {axis.name}: a text stands where a number is expected")
        _check_finite(column, axis.name)
        if axis.scale == "log" and (column <= 0).any():
            raise InputError(
                f"parameter {axis.name}: its scale is logarithmic", why=f"{float(column.min()):g} is not above zero"
            )
        out[:, j] = column
    return out


def _codes(column: NDArray[Any], axis: Axis, unseen: Unseen) -> Whole:
    texts = isinstance(axis.categories[0], str)
    try:
        column = np.asarray([str(each) if texts else float(each) for each in column], dtype=object if texts else None)
    except ValueError:
        raise InputError(f"parameter {axis.name}: its categories are numbers, and a text is given") from None
    categories = np.asarray(axis.categories, dtype=column.dtype)
    index = np.minimum(np.searchsorted(categories, column), len(categories) - 1)
    known = np.asarray(categories[index] == column)
    if not known.all() and unseen == "error":
        missing = sorted({str(value) for value in column[~known][:100]})
        raise InputError(
            f"parameter {axis.name}: a category was never measured",
            why=f"{', '.join(missing[:5])}; measured are {', '.join(map(str, axis.categories[:20]))}",
            hint="measure it, or take the mean of all categories with unseen='mean'",
        )
    return np.where(known, index, -1).astype(np.int64)


def too_far(points: Array, axes: Sequence[Axis], free: Sequence[int]) -> NDArray[np.bool_]:
    """Return shape (point, parameter): whether a value leaves the measured range by more than its edge.

    Parameters
    ----------
    points
        Shape (point, parameter), encoded.
    free
        Columns of the parameters that may leave the range.
    """
    out = np.zeros(points.shape, dtype=bool)
    for j, axis in enumerate(axes):
        if not axis.is_categorical and j not in free:
            at, (low, high) = axis.position(points[:, j]), axis.position(np.array([axis.low, axis.high]))
            slack = (high - low) / FEW_NODES  # a step between nodes
            out[:, j] = (at < low - slack) | (at > high + slack)
    return out


def refuse(points: Array, axes: Sequence[Axis], far: NDArray[np.bool_]) -> None:
    """Refuse points that are `too_far`.

    Raises
    ------
    InputError
        There is one.
    """
    for j in np.flatnonzero(far.any(axis=0)).tolist()[:1]:
        axis = axes[j]
        raise InputError(
            f"parameter {axis.name}: a point lies outside what was measured",
            why=f"{points[far[:, j], j][0]:g} is not between {axis.low:g} and {axis.high:g}",
            hint=f"make the model with extrapolate=[{axis.name!r}] (--extrapolate {axis.name}), "
            "or predict with outside='clamp' (--outside clamp)",
        )


def cut_off(
    points: Array, axes: Sequence[Axis], free: tuple[int, ...], octaves: int, together: bool = True
) -> tuple[Whole, Whole]:
    """Return the observations with small and those with the largest values of the extrapolated parameters.

    The largest of all of them `together`, or of one of them at least.
    """
    inside, outside = np.ones(len(points), dtype=bool), np.full(len(points), together)
    for j in free:
        high = axes[j].high
        if high <= axes[j].low:
            continue
        step = high - axes[j].low
        bound = high / 2**octaves if axes[j].low > 0 else high - step * octaves / 4
        top = high / 2 if axes[j].low > 0 else high - step / 4
        inside &= points[:, j] <= bound
        outside = outside & (points[:, j] > top) if together else outside | (points[:, j] > top)
    return np.flatnonzero(inside), np.flatnonzero(outside)


def narrowed(points: Array, axes: tuple[Axis, ...], free: tuple[int, ...]) -> tuple[Axis, ...]:
    """Return the axes as they would be, had only these points been measured."""
    out = list(axes)
    for j in free:
        axis, column = axes[j], points[:, j]
        values = axis.values[axis.values <= column.max()] if len(axis.values) else axis.values
        out[j] = Axis(axis.name, axis.scale, float(column.min()), float(column.max()), values, axis.whole)
    return tuple(out)
