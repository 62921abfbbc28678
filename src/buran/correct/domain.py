"""Checks of a corrected model over the domain that its variables are declared for."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from buran.correct.base import BaseModel
from buran.correct.corrected import Corrected
from buran.correct.formula import Array
from buran.correct.tuning import CORRECTION
from buran.model.tuning import ALLOWANCE
from buran.numerics.sequence import spread_evenly


def domain(base: BaseModel, points: Array) -> tuple[Array, Array]:
    """Return the ends of what the declared ranges and the points cover, by variable."""
    low, high = points.min(axis=0), points.max(axis=0)
    for i, variable in enumerate(base.variables.values()):
        low[i] = low[i] if variable.lower is None else min(low[i], variable.lower)
        high[i] = high[i] if variable.upper is None else max(high[i], variable.upper)
    return low, high


def samples(low: Array, high: Array) -> Array:
    """Return corners and evenly spread points of a box, on logarithmic scales."""
    corners = np.array(list(itertools.product(*zip(low, high, strict=True)))) if len(low) <= 8 else low[None]
    inside = low * (high / low) ** spread_evenly(CORRECTION.samples, len(low))
    return np.concatenate([corners, inside])


def objection(model: Corrected, points: Array) -> str | None:
    """Return why a corrected model cannot be trusted somewhere in its domain, or None.

    Where the base model gives a time, values must be finite and positive, the correction's factor within the
    limits of `CORRECTION`, and the direction kept where one is declared and the base model keeps it.
    """
    low, high = domain(model.base, points)
    at = np.concatenate([samples(low, high), points])
    at = at[_positive(model.base, np.array(model.theta), at)]
    prediction = model.predict(at)
    names = list(model.base.variables)
    bad = ~np.isfinite(prediction.value)
    if bad.any():
        return f"it gives no positive time at {_place(at[bad][0], names)}"
    wild = (prediction.factor < 1 / ALLOWANCE.factor) | (prediction.factor > ALLOWANCE.factor)
    if wild.any():
        worst = int(np.argmax(np.abs(np.log(prediction.factor))))
        return (
            f"at {_place(at[worst], names)} it changes the base model by a factor of {prediction.factor[worst]:.3g}, "
            f"which is no correction any more ({1 / ALLOWANCE.factor:g} to {ALLOWANCE.factor:g})"
        )
    for i, (name, variable) in enumerate(model.base.variables.items()):
        if variable.monotone is None:
            continue
        shape = (CORRECTION.samples // CORRECTION.places, CORRECTION.places)
        lines = (low * (high / low) ** spread_evenly(shape[0], len(low)))[:, None, :].repeat(shape[1], axis=1)
        lines[:, :, i] = low[i] * (high[i] / low[i]) ** np.linspace(0, 1, shape[1])
        flat = lines.reshape(-1, len(low))
        sign = 1.0 if variable.monotone == "increasing" else -1.0
        with np.errstate(all="ignore"):
            rises = np.diff(np.log(model.predict(flat).value).reshape(shape), axis=1) * sign
            plain = np.diff(np.log(model.base.evaluate(np.array(model.theta), flat)).reshape(shape), axis=1) * sign
        broken = (rises < -1e-9) & (plain >= -1e-9)
        if broken.any():
            line, step = np.argwhere(broken)[0]
            return f"it is not {variable.monotone} in {name}, as declared, near {_place(lines[line, step], names)}"
    return None


def without_time(base: BaseModel, theta: Array, points: Array) -> str | None:
    """Return where in the domain the base model itself gives no positive time, or None."""
    at = samples(*domain(base, points))
    bad = ~_positive(base, theta, at)
    return f"the base model gives no positive time at {_place(at[bad][0], list(base.variables))}" if bad.any() else None


def _positive(base: BaseModel, theta: Array, points: Array) -> NDArray[np.bool_]:
    with np.errstate(all="ignore"):
        value = base.evaluate(theta, points)
    return np.isfinite(value) & (value > 0)


def _place(point: Array, names: list[str]) -> str:
    return ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, point, strict=True))
