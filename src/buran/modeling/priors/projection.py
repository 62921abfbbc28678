"""Call paths under a narrow filter that take up those under a wide one."""

from __future__ import annotations

import numpy as np

from buran.modeling.pmnf.candidates import Ids
from buran.modeling.pmnf.terms import Array
from buran.profiles.profile import CallTree
from buran.profiles.regroup import TreeUnion, fold


def project(counted: CallTree, timed: CallTree) -> tuple[Ids, Ids]:
    """Find the call path under a narrow filter that takes up each call path under a wide one.

    A function that the narrow filter leaves out belongs to its caller, and its callees to the caller, too.

    Returns
    -------
    target
        Shape (counted call path,): index into `timed`, -1 if there is none.
    itself
        Shape (counted call path,): whether it is the same call path, not a callee that was taken up.
    """
    union = TreeUnion()
    functions, rows = _without_openmp(timed)
    same = dict(zip(union.add(functions).tolist(), rows.tolist(), strict=True))
    target = np.full(len(counted), -1, dtype=np.int64)
    itself = np.zeros(len(counted), dtype=bool)
    regions = [union.region_number(*region_key) for region_key in zip(counted.regions, counted.identities, strict=True)]
    numbers = [-1] * len(counted)
    for row, (region, parent) in enumerate(zip(counted.region.tolist(), counted.parent.tolist(), strict=True)):
        above = numbers[parent] if parent >= 0 else -1
        number = union.node(above, regions[region])
        itself[row] = number is not None
        numbers[row] = above if number is None else number
        target[row] = same.get(numbers[row], -1)
    itself &= target >= 0
    return target, itself


def taken_up(values: Array, counted: CallTree, timed: CallTree) -> Array:
    """Add values, shape (counted call path, ...), to the call paths that take up theirs under a narrow filter."""
    target, _ = project(counted, timed)
    out = np.zeros((len(timed), *values.shape[1:]))
    np.add.at(out, target[target >= 0], values[target >= 0])
    return out


def _without_openmp(timed: CallTree) -> tuple[CallTree, Ids]:
    """Return the call paths of functions alone, as the build that counts has them, and the timed one of each.

    Score-P has regions of OpenMP between a function and what it calls there. What such a region does itself is counted
    with the function around it, whose time does not hold it: this function has no timed call path, -1; nor has one
    that is called in several regions, among which its counts cannot be divided.
    """
    inside = np.array([region.paradigm == "openmp" for region in timed.regions], dtype=bool)
    if not inside.any():
        return timed, np.arange(len(timed))
    folding = fold(timed, ~inside)
    stays = np.flatnonzero(folding.stays)
    rows = np.full(len(folding.tree), -1, dtype=np.int64)
    rows[folding.target[stays]] = stays
    rows[np.bincount(folding.target[stays], minlength=len(rows)) > 1] = -1
    rows[np.isin(rows, timed.parent[~folding.stays])] = -1
    return folding.tree, rows
