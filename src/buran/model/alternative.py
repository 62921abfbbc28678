"""Hypotheses that a model competed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, overload

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
    """

    function: ModelFunction
    weight: float
    covariance: tuple[tuple[float, ...], ...]
    noise: float
    degrees: int


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
    for own in groups:
        if isinstance(own, LazyAlternatives) and own._fitted is None:
            by_source.setdefault(id(own._source), []).append(own)
    for waiting in by_source.values():
        for start in range(0, len(waiting), _TOGETHER):
            some = waiting[start : start + _TOGETHER]
            for own, found in zip(some, some[0]._source.alternatives([each._call for each in some]), strict=True):
                own._fitted = found
