"""Checks of a corrected model over the domain that its variables are declared for."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import Corrected
from buran.modeling.correction.formula import Array
from buran.modeling.numerics.arrays import spread_evenly
from buran.modeling.numerics.tuning import COMBINATIONS, MATTERS
from buran.modeling.pmnf.tuning import ALLOWANCE


def domain(base: BaseModel, points: Array) -> tuple[Array, Array]:
    """Return the ends of what the declared ranges and the points cover, by variable."""
    low, high = points.min(axis=0), points.max(axis=0)
    for i, variable in enumerate(base.variables.values()):
        least, most = variable.range or (low[i], high[i])
        low[i], high[i] = min(low[i], least), max(high[i], most)
    return low, high


def samples(low: Array, high: Array) -> Array:
    """Return corners and evenly spread points of a box, on logarithmic scales."""
    corners = np.array(list(itertools.product(*zip(low, high, strict=True)))) if len(low) <= 8 else low[None]
    inside = low * (high / low) ** spread_evenly(COMBINATIONS, len(low))
    return np.concatenate([corners, inside])


def objection(model: Corrected, points: Array) -> str | None:
    """Return why a corrected model cannot be trusted somewhere in its domain, or None.

    Where the base model gives a time, values must be finite and positive, the correction's factor within
    `ALLOWANCE`, and the direction kept where one is declared and the base model keeps it.
    """
    low, high = domain(model.base, points)
    at = np.concatenate([samples(low, high), points])
    at = at[_positive(model.base, np.array(model.theta), at)]
    prediction = model.predict(at)
    names = list(model.base.variables)
    bad = ~np.isfinite(prediction.value)
    if bad.any():
        return f"it gives no positive time at {_shown(at[bad][0], names)}"
    wild = (prediction.factor < 1 / ALLOWANCE) | (prediction.factor > ALLOWANCE)
    if wild.any():
        worst = int(np.argmax(np.abs(np.log(prediction.factor))))
        return (
            f"at {_shown(at[worst], names)} it changes the base model by a factor of {prediction.factor[worst]:.3g}, "
            f"which is no correction any more ({1 / ALLOWANCE:g} to {ALLOWANCE:g})"
        )
    for i, (name, variable) in enumerate(model.base.variables.items()):
        if variable.monotone is None:
            continue
        larger = at.copy()
        larger[:, i] = np.minimum((1 + MATTERS) * at[:, i], high[i])
        sign = 1.0 if variable.monotone == "increasing" else -1.0
        with np.errstate(all="ignore"):
            rises = np.log(model.predict(larger).value / prediction.value) * sign
            base = [model.base.evaluate(np.array(model.theta), some) for some in (at, larger)]
            plain = np.log(base[1] / base[0]) * sign
        broken = np.flatnonzero((rises < -1e-9) & (plain >= -1e-9))
        if len(broken):
            return f"it is not {variable.monotone} in {name}, as declared, near {_shown(at[broken[0]], names)}"
    return None


def without_time(base: BaseModel, theta: Array, points: Array) -> str | None:
    """Return where in the domain the base model itself gives no positive time, or None."""
    at = samples(*domain(base, points))
    bad = ~_positive(base, theta, at)
    return f"the base model gives no positive time at {_shown(at[bad][0], list(base.variables))}" if bad.any() else None


def _positive(base: BaseModel, theta: Array, points: Array) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):
        value = base.evaluate(theta, points)
    return np.isfinite(value) & (value > 0)


def _shown(point: Array, names: list[str]) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, point, strict=True))
