"""Comparison of two models: which grows faster, and where they cross; ranking by predicted share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.tuning import COMBINATIONS
from buran.modeling.pmnf.basis import Lead
from buran.modeling.pmnf.terms import Array, ModelFunction

Order = Literal["first", "second", "same", "neither"]


@dataclass(frozen=True)
class ModelComparison:
    """How two models relate.

    Attributes
    ----------
    faster
        By parameter: which of the two grows faster with it in the long run, the others fixed at the point; "same" if
        both have the same lead exponents.
    overall
        Which one outgrows the other: "neither" where parameters disagree.
    crossings
        By parameter: values at which the two are equal, the other parameters held at the point, ascending.
    ratio
        Second divided by first at the point; NaN where the first is 0.
    """

    faster: tuple[Order, ...]
    overall: Order
    crossings: tuple[tuple[float, ...], ...]
    ratio: float


def compare(first: ModelFunction, second: ModelFunction, point: Sequence[float]) -> ModelComparison:
    """Compare two models around a point (one value for each parameter, all positive)."""
    at = np.asarray(point, dtype=np.float64)
    faster = tuple(_order(first.lead(p), second.lead(p)) for p in range(len(at)))
    kinds = {order for order in faster if order != "same"}
    overall: Order = "same" if not kinds else kinds.pop() if len(kinds) == 1 else "neither"
    values = [float(order.evaluate(at)) for order in (first, second)]
    crossings = tuple(_crossings(first, second, at, p) for p in range(len(at)))
    return ModelComparison(faster, overall, crossings, values[1] / values[0] if values[0] else float("nan"))


def _order(first: Lead, second: Lead) -> Order:
    if first == second:
        return "same"
    return "first" if first > second else "second"


def _crossings(first: ModelFunction, second: ModelFunction, point: Array, parameter: int) -> tuple[float, ...]:
    from scipy.optimize import brentq  # it takes long, and few need it

    begin = min(1.0, float(point[parameter]))
    if begin <= 0:
        begin = 1.0
    end = max(float(point[parameter]), begin) / np.finfo(np.float64).eps  # beyond, numbers are no longer exact
    grid = np.geomspace(begin, end, COMBINATIONS)

    def gap(x: Array | float) -> Array:
        at = np.array(np.broadcast_to(point, (*np.shape(x), len(point))))
        at[..., parameter] = x
        return np.asarray(second.evaluate(at) - first.evaluate(at))

    with np.errstate(over="ignore", invalid="ignore"):
        sign = np.sign(gap(grid))
    out = []
    for k in np.flatnonzero(sign[:-1] * sign[1:] < 0).tolist():
        out.append(float(brentq(lambda x: float(gap(x)), grid[k], grid[k + 1])))
    touching = sign == 0
    if not touching.all():
        out += [float(x) for x in grid[touching]]
    return tuple(sorted(out))


def ranking(predicted: Array) -> tuple[NDArray[np.int64], Array]:
    """Order call paths by their share of what is predicted at a point: the list of scalability bugs.

    Parameters
    ----------
    predicted
        Shape (call path,); NaN without a model. Negative predictions count as nothing.

    Returns
    -------
    order
        Call paths, the largest share first.
    shares
        Shape (call path,), in the order of `predicted`; of all that is predicted.
    """
    values = np.maximum(np.nan_to_num(predicted), 0.0)
    total = values.sum()
    return np.argsort(-values, kind="stable"), values / total if total > 0 else values
