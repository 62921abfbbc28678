"""Nested cross-validation: whether a correction would have helped at points it was not made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.formula import Array
from buran.modeling.numerics.intervals import of_mean

Masks = NDArray[np.bool_]


@dataclass(frozen=True)
class Gate:
    """What a correction has to show."""

    # Points up to which they are left out one by one; more are divided into this number of parts. Tuned: no record of
    # its own; choices were made on the seeds 7001 and 7003 (evidence/correction.md).
    few: int = 20
    # Largest part of the points by scale, which is predicted from the others. Tuned: no record of its own; choices
    # were made on the seeds 7001 and 7003 (evidence/correction.md).
    forward_share: float = 0.25
    # Share of the error at left-out points that a correction takes off, and what is less simple, a term more or a
    # Gaussian process, off that of what is simpler. Tuned: first 0.1, then 0.07; the fresh seed 20261120 showed that
    # to be too small (evidence/correction.md).
    gain: float = 0.15
    # Chance of refusing wrongly in the paired test of the errors at the largest points. Tuned: first 0.05; changed
    # while the method was built, no figures kept (evidence/correction.md).
    forward_level: float = 0.01

    def masks(self, scale: Array, random: np.random.Generator) -> Masks:
        """Return shape (fold, point), True where a fold trains; the last one is the forward fold.

        Parameters
        ----------
        scale
            How large the run of each point is.
        random
            Source of the division.
        """
        count = len(scale)
        folds = min(count, self.few)
        part = np.empty(count, dtype=np.int64)
        part[random.permutation(count)] = np.arange(count) % folds
        limit = np.quantile(scale, 1 - self.forward_share)
        forward = scale <= limit if limit < scale.max() else scale < scale.max()
        return np.concatenate([part != np.arange(folds)[:, None], forward[None]])

    def scores(self, masks: Masks, logs: Array, predict: Callable[[int, Masks], Array]) -> tuple[Array, Array]:
        """Return errors of candidates at left-out points, shape (candidate, point), and at those of the forward fold.

        Parameters
        ----------
        masks
            See `masks`.
        logs
            Logarithms of what was measured, shape (point,).
        predict
            Logarithms by candidate, shape (candidate, left-out point), for a fold's number and its mask of
            points that are left out.
        """
        total: Array | None = None
        for fold, mask in enumerate(masks[:-1]):
            errors = np.abs(predict(fold, ~mask) - logs[~mask])
            if total is None:
                total = np.zeros((len(errors), len(logs)))
            total[:, ~mask] += errors
        assert total is not None
        times = (~masks[:-1]).sum(axis=0)
        forward = np.abs(predict(len(masks) - 1, ~masks[-1]) - logs[~masks[-1]])
        return total / times, forward

    def choose(self, inside: Mapping[str, float], formulas: Sequence[str]) -> str:
        """Return the best candidate by its error over the base model's at left-out points."""
        ranked = {name: inside[name] / (1 - self.gain) ** i for i, name in enumerate(formulas)}
        best = min(ranked, key=lambda name: ranked[name])
        others = [name for name in inside if name not in formulas]
        if others:
            other = min(others, key=lambda name: inside[name])
            if inside[other] < (1 - self.gain) * ranked[best]:
                return other
        return best

    def reason_against(self, inside: float, base: Array, ahead: Array) -> str | None:
        """Return why a candidate is refused, or None.

        Parameters
        ----------
        inside
            Its error over the base model's at left-out points.
        base, ahead
            Errors of the base model and of the candidate at the largest points, shape (point,).
        """
        if not inside <= 1 - self.gain:
            change = f"{100 * abs(1 - inside):.0f} % {'smaller' if inside <= 1 else 'larger'}"
            return (
                f"at points that were left out the error of the best correction is {change} than that of the base "
                f"model; at least {100 * self.gain:.0f} % smaller is wanted"
            )
        if self._is_worse(base, ahead):
            return (
                f"it helps between the points, where the error falls to {100 * inside:.0f} % of the base model's, and "
                f"misleads beyond them: the largest runs, predicted from the others, have "
                f"{100 * ahead.mean() / max(base.mean(), 1e-12):.0f} %"
            )
        return None

    def _is_worse(self, base: Array, ahead: Array) -> bool:
        """Whether errors at the same points are larger, by a paired t test on one side."""
        if not np.isfinite(ahead).all():
            return True
        if ahead.mean() <= base.mean():
            return False
        if len(base) < 2:
            return True
        worse, reach = of_mean(ahead - base, 1 - 2 * self.forward_level)
        return bool(worse > reach)
