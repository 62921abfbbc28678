"""What is known of a call path's time beside its counted effort, before any time is seen: what plug-ins may add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from buran.modeling.pmnf.candidates import Mask
from buran.modeling.pmnf.terms import Array
from buran.modeling.priors.paths import TIMES_ALONE, Source
from buran.modeling.priors.prior import ONE, Column, Prior


class Account(Protocol):
    """An account of times, such as cache misses: columns of priors with costs that are known beforehand."""

    @property
    def name(self) -> str:
        """What it accounts for."""

    @property
    def remark(self) -> str:
        """What is noted of call paths whose times have it; empty for nothing."""

    def explains(self, points: Array, values: Array) -> Mask:
        """Return shape (call path,): of which times it may be most, so that it is a prior without counted effort."""

    def added_to(
        self, priors: Sequence[Prior | None], computing: Sequence[bool], points: Array, values: Array
    ) -> list[Prior | None]:
        """Return priors with its columns, which have a cost, where these matter.

        Parameters
        ----------
        priors, computing
            One for each call path, and whether it is of computation: only those get columns.
        points, values
            Of the times, shapes (point, parameter) and (call path, point).
        """


def with_accounts(
    points: Array,
    values: Array,
    accounts: Sequence[Account],
    priors: list[Prior | None],
    sources: list[Source],
    notes: list[tuple[str, ...]],
    can_wait: Sequence[bool],
) -> list[Prior | None]:
    """Return priors with what accounts know; one may be all that is known of a call path: enter that."""
    for account in accounts:
        for row in np.flatnonzero(account.explains(points, values)).tolist():
            if priors[row] is None and not can_wait[row]:
                priors[row], sources[row] = Prior((Column("constant", ONE),), account.name), Source.COMPUTATION
                notes[row] = tuple(note.removesuffix(f": {TIMES_ALONE}") for note in notes[row])
    computing = [source is Source.COMPUTATION for source in sources]
    for account in accounts:
        before, priors = priors, account.added_to(priors, computing, points, values)
        for row, (old, new) in enumerate(zip(before, priors, strict=True)):
            if account.remark and old is not None and new is not None and len(new.columns) > len(old.columns):
                notes[row] = (*notes[row], account.remark)
    return priors
