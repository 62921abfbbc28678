"""What a correction must show: that it helps at points it was not made from, and that it is sane in its domain."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import FORWARD_SHARE, Corrected
from buran.modeling.correction.formula import Array
from buran.modeling.numerics.gaussian_process import spread_evenly
from buran.modeling.numerics.intervals import of_mean
from buran.modeling.numerics.tuning import ALLOWANCE, COMBINATIONS, MATTERS

# Points up to which they are left out one by one; more are divided into this number of parts. Tuned: no record of
# its own; choices were made on the seeds 7001 and 7003 (evidence/correction.md).
FOLDS = 20
# Share of the error at left-out points that a correction takes off, and what is less simple, a term more or a
# Gaussian process, off that of what is simpler. Tuned: first 0.1, then 0.07; the fresh seed 20261120 showed that
# to be too small (evidence/correction.md).
GAIN = 0.15
# Chance of refusing wrongly in the paired test of the errors at the largest points. Tuned: first 0.05; changed
# while the method was built, no figures kept (evidence/correction.md).
FORWARD_LEVEL = 0.01


def masks(scale: Array, random: np.random.Generator) -> NDArray[np.bool_]:
    """Return shape (fold, point), True where a fold trains; the last one is the forward fold.

    Each point is left out by one of the others; the forward fold leaves out the largest.

    Parameters
    ----------
    scale
        How large the run of each point is.
    random
        Source of the division.
    """
    count = len(scale)
    folds = min(count, FOLDS)
    part = np.empty(count, dtype=np.int64)
    part[random.permutation(count)] = np.arange(count) % folds
    limit = np.quantile(scale, 1 - FORWARD_SHARE)
    forward = scale <= limit if limit < scale.max() else scale < scale.max()
    return np.concatenate([part != np.arange(folds)[:, None], forward[None]])


def best_of(inside: Mapping[str, float], formulas: Sequence[str]) -> str:
    """Return the best candidate by its error over the base model's at left-out points.

    Parameters
    ----------
    inside
        These errors.
    formulas
        Those without a Gaussian process, simple ones first.
    """
    ranked = {name: inside[name] / (1 - GAIN) ** i for i, name in enumerate(formulas)}
    best = min(ranked, key=ranked.__getitem__)
    other = min((name for name in inside if name not in formulas), key=inside.__getitem__, default=best)
    return other if inside[other] < (1 - GAIN) * ranked[best] else best


def reason_against(inside: float, base: Array, ahead: Array) -> str | None:
    """Return why a candidate is refused, or None.

    Parameters
    ----------
    inside
        Its error over the base model's at left-out points.
    base, ahead
        Errors of the base model and of the candidate at the largest points, shape (point,).
    """
    if not inside <= 1 - GAIN:
        change = f"{100 * abs(1 - inside):.0f} % {'smaller' if inside <= 1 else 'larger'}"
        return (
            f"at points that were left out the error of the best correction is {change} than that of the base "
            f"model; at least {100 * GAIN:.0f} % smaller is wanted"
        )
    if _is_worse(base, ahead):
        return (
            f"it helps between the points, where the error falls to {100 * inside:.0f} % of the base model's, and "
            f"misleads beyond them: the largest runs, predicted from the others, have "
            f"{100 * ahead.mean() / max(base.mean(), 1e-12):.0f} %"
        )
    return None


def _is_worse(base: Array, ahead: Array) -> bool:
    """Whether errors at the same points are larger, by a paired t test on one side."""
    if not np.isfinite(ahead).all():
        return True
    if ahead.mean() <= base.mean():
        return False
    worse, reach = of_mean(ahead - base, 1 - 2 * FORWARD_LEVEL)
    return not worse <= reach  # one point alone has no reach


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
    at = at[model.base.has_time(np.array(model.theta), at)]
    prediction = model.predict(at)
    bad = ~np.isfinite(prediction.value)
    if bad.any():
        return f"it gives no positive time at {model.base.shown(at[bad][0])}"
    wild = (prediction.factor < 1 / ALLOWANCE) | (prediction.factor > ALLOWANCE)
    if wild.any():
        worst = int(np.argmax(np.abs(np.log(prediction.factor))))
        return (
            f"its factor is {prediction.factor[worst]:.3g} at {model.base.shown(at[worst])}: "
            f"a correction is one within {1 / ALLOWANCE:g} to {ALLOWANCE:g}"
        )
    for i, (name, variable) in enumerate(model.base.variables.items()):
        if variable.monotone is None:
            continue
        # d log(t) along the variable, of the corrected and of the base model
        larger = at.copy()
        larger[:, i] = np.minimum((1 + MATTERS) * at[:, i], high[i])
        sign = 1.0 if variable.monotone == "increasing" else -1.0
        with np.errstate(all="ignore"):
            rises = np.log(model.predict(larger).value / prediction.value) * sign
            base = [model.base.evaluate(np.array(model.theta), some) for some in (at, larger)]
            plain = np.log(base[1] / base[0]) * sign
        broken = np.flatnonzero((rises < -1e-9) & (plain >= -1e-9))
        if len(broken):
            return f"it is not {variable.monotone} in {name}, as declared, near {model.base.shown(at[broken[0]])}"
    return None


def without_time(base: BaseModel, theta: Array, points: Array) -> str | None:
    """Return where in the domain the base model itself gives no positive time, or None."""
    at = samples(*domain(base, points))
    bad = ~base.has_time(theta, at)
    return f"the base model gives no positive time at {base.shown(at[bad][0])}" if bad.any() else None
