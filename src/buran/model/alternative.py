"""Hypotheses that a model competed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, overload

from buran.model.discrepancy import Discrepancy
from buran.model.terms import ModelFunction

_TOGETHER = 500  # call paths; more would need much memory at once


@dataclass(frozen=True)
class Alternative:
    """A hypothesis within reach of the best, fitted.

    Attributes
    ----------
    function
        The prediction.
    weight
        How much speaks for it, of 1 for all alternatives of a call path.
    covariance
        Of the constant and the coefficients, in the function's order; not there without a degree of freedom.
    noise
        Standard deviation of a value around the function, as a share of the function's value.
    degrees
        Degrees of freedom that remain.
    discrepancy
        What no hypothesis of the call path says, the same for all of them; None where it was not looked at.
    """

    function: ModelFunction
    weight: float
    covariance: tuple[tuple[float, ...], ...]
    noise: float
    degrees: int
    discrepancy: Discrepancy | None = None


class Hypotheses(Protocol):
    """Where alternatives come from."""

    def alternatives(self, calls: Sequence[int]) -> list[tuple[Alternative, ...]]:
        """Fit the hypotheses within reach for some call paths."""


class LazyAlternatives(Sequence[Alternative]):
    """Alternatives of one call path, fitted on first use."""

    def __init__(self, source: Hypotheses, call: int) -> None:
        self._source = source
        self._call = call
        self._fitted: tuple[Alternative, ...] | None = None

    def _all(self) -> tuple[Alternative, ...]:
        if self._fitted is None:
            self._fitted = self._source.alternatives([self._call])[0]
        return self._fitted

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Alternative: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Alternative, ...]: ...
    def __getitem__(self, index: int | slice) -> Alternative | tuple[Alternative, ...]:
        return self._all()[index]


def prepare(groups: Sequence[Sequence[Alternative]]) -> None:
    """Fit those that are not fitted yet, together."""
    by_source: dict[int, list[LazyAlternatives]] = {}
    for alternatives in groups:
        if isinstance(alternatives, LazyAlternatives) and alternatives._fitted is None:
            by_source.setdefault(id(alternatives._source), []).append(alternatives)
    for waiting in by_source.values():
        for start in range(0, len(waiting), _TOGETHER):
            some = waiting[start : start + _TOGETHER]
            fitted = some[0]._source.alternatives([path._call for path in some])
            for path, alternatives in zip(some, fitted, strict=True):
                path._fitted = alternatives
