"""Which parameters were varied together: how they act together is not known of the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.model.terms import Array, ModelFunction


def usual_values(points: Array) -> Array:
    """Return the value of each parameter that most points (point, parameter) have, the smallest of equals."""
    out = []
    for column in points.T:
        values, counts = np.unique(column, return_counts=True)
        out.append(values[np.argmax(counts)])
    return np.array(out)


def together(points: Array) -> tuple[tuple[int, ...], ...]:
    """Return the groups of parameters that are linked by points (point, parameter) at which two of them differ.

    Parameters with a single value are in none. One group: every interaction shows in the values. Two and more, as of
    lines through one point: whether their shares are added or multiplied, no value says.
    """
    differs = points != usual_values(points)
    groups = [{p} for p in range(points.shape[1]) if differs[:, p].any()]
    for row in np.unique(differs, axis=0):
        met = [group for group in groups if group & set(np.flatnonzero(row).tolist())]
        if len(met) > 1:
            groups = [group for group in groups if group not in met] + [set().union(*met)]
    return tuple(sorted(tuple(sorted(group)) for group in groups))


def other_structures(function: ModelFunction, base: Array, groups: Sequence[Sequence[int]], at: Array) -> Array:
    """Return what the function's parts along each group predict as a sum, and as a product: shape (2, point).

    Parameters
    ----------
    function
        That fits the points.
    base
        Shape (parameter,): where the lines meet.
    groups
        Parameters that were varied together; see `together`.
    at
        Shape (point, parameter).
    """
    parts = []
    for group in groups:
        moved = np.tile(base, (len(at), 1))
        moved[:, list(group)] = at[:, list(group)]
        parts.append(function.evaluate(moved))
    middle = float(function.evaluate(base))
    along = np.stack(parts)
    total = along.sum(axis=0) - (len(groups) - 1) * middle
    product = along.prod(axis=0) / middle ** (len(groups) - 1) if middle else total
    return np.stack([total, product])


def undecided(points: Array, parameters: Sequence[str]) -> str | None:
    """Return what the points do not tell and the run that would, in words; None where every interaction shows."""
    groups = together(points) if len(points) else ()
    if len(groups) < 2:
        return None
    names = [", ".join(parameters[p] for p in group) for group in groups]
    decides = ", ".join(f"{parameters[p]} = {points[:, p].max():g}" for group in groups for p in group)
    return (
        f"{' and '.join(names)} were never varied together: whether what grows with them is added or multiplied is not "
        f"known, and intervals hold both. One run with {decides} decides it"
    )
