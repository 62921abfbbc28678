"""Which parameters were varied together: how the others act together is not known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from buran.modeling.pmnf.terms import Array
from buran.wording import shown_value

Pairs = tuple[tuple[int, int], ...]


def usual_values(points: Array) -> Array:
    """Return the value of each parameter that most points (point, parameter) have, the smallest of equals."""
    out = []
    for column in points.T:
        values, counts = np.unique(column, return_counts=True)
        out.append(values[np.argmax(counts)])
    return np.array(out)


def pairs_varied(points: Array) -> Pairs:
    """Return the pairs of parameters that were varied."""
    varied = np.flatnonzero((points != points[:1]).any(axis=0)).tolist()
    return tuple(combinations(varied, 2))


def pairs_apart(points: Array) -> Pairs:
    """Return those that never were both at once: no point differs in both.

    Whether their shares are added or multiplied, no value says.
    """
    differs = points != usual_values(points)
    return tuple((i, j) for i, j in pairs_varied(points) if not (differs[:, i] & differs[:, j]).any())


def pairs_tied(points: Array) -> Pairs:
    """Return the pairs of parameters that always change at once: each value of one has one of the other with it."""
    kinds = [len(np.unique(column)) for column in points.T]
    pairs = ((i, j) for i, j in combinations(range(len(kinds)), 2) if kinds[i] == kinds[j] > 1)
    return tuple((i, j) for i, j in pairs if len(np.unique(points[:, [i, j]], axis=0)) == kinds[i])


def undecided(points: Array, parameters: Sequence[str]) -> str | None:
    """Return what the points do not say and the runs that would, as text; None where they say everything."""
    if not len(points):
        return None
    notes = []
    if pairs := pairs_apart(points):
        acting = sorted({p for pair in pairs for p in pair})
        names = ", ".join(f"{parameters[i]} and {parameters[j]}" for i, j in pairs)
        decides = ", ".join(f"{parameters[p]} = {shown_value(points[:, p].max())}" for p in acting)
        notes.append(
            f"{names} were never varied together: whether what grows with them is added or multiplied is not known; "
            f"both count as equally likely, and intervals cover both. One run with {decides} decides it"
        )
    for i, j in pairs_tied(points):
        decides = f"{parameters[i]} = {shown_value(points[:, i].max())}, {parameters[j]} = "
        decides += shown_value(points[points[:, i].argmin(), j])
        notes.append(
            f"{parameters[i]} and {parameters[j]} always change together: which of them anything grows with is not "
            f"known, and predictions hold where they change as they did. One run with {decides} distinguishes them"
        )
    for name, column in zip(parameters, points.T, strict=True):
        if (column == column[0]).all():
            notes.append(
                f"{name} has one value, {shown_value(column[0])}: what another one would change is not known. One "
                f"run with another {name} says whether anything changes"
            )
    return ". ".join(notes) or None
