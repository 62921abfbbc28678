"""The points to begin with: the cheapest line along each parameter, and points off the lines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.planning.space import Array, Ids, Mask, Space

# Values along each parameter's line; with fewer, a one-parameter model cannot tell its terms apart. Tuned: five
# values tell n from n log n (tutorial/your-own-program.md).
LINE_LENGTH = 5


def base_indices(
    space: Space,
    length: int = LINE_LENGTH,
    off_lines: bool = True,
    spread: bool = False,
    affordable: Mask | None = None,
    whole: bool = False,
    published: bool = False,
) -> Ids:
    """Return the indices of the base, cheapest first as far as one can tell.

    For each parameter the `length` cheapest points with the others at their cheapest (section III and Fig. 3 of the
    paper on cost-effective modelling: 9, 13 and 17 points for two to four parameters), and off these lines as many
    points as there are parameters, see `_far_points`: only they tell a product of terms from a sum. With one rank
    nothing is communicated: lines along other parameters lie where there are two, if they can. In a space that is no
    product, the lines that hold most points are taken. Where a line has more values, `spread` takes them from its whole
    range, evenly on a logarithmic scale, instead of the cheapest, and `whole` takes all of them. Points off the lines
    do not depend on that: a further value adds its own points alone. `affordable` (point,) says which points off the
    lines may be taken; all by default. With `published`, they are the cheapest, as sections III-A and III-B have it.
    """
    cost = weight(space)
    lines = [line(space, cost, column, length, spread) for column in range(len(space.parameters))]
    chosen = [index for judged, every in lines for index in (every if whole else judged)]
    if off_lines and published:
        others = np.setdiff1d(np.arange(len(cost)), [index for _, every in lines for index in every])
        chosen += others[np.argsort(cost[others], kind="stable")][: len(lines)].tolist()
    elif off_lines and len(space.parameters) > 1:
        chosen += _far_points(space, [judged for judged, _ in lines], cost, affordable)
    indices = np.unique(np.array(chosen, dtype=np.int64))
    return indices[np.lexsort((indices, cost[indices]))]


def _far_points(space: Space, lines: Sequence[Sequence[int]], cost: Array, affordable: Mask | None) -> list[int]:
    """Return points where parameters are at the far ends of their lines together, as many as there are parameters.

    Each leaves one parameter at its smallest value. So every pair of parameters is varied together, and as far as
    the lines reach, where a sum and a product differ most: of sums of three terms on 16 points with 1 % noise 96 % are
    then predicted within 5 %, and 62 % with the cheapest points instead. Two parameters are varied together at
    the far corner and halfway to it. The nearest point stands for one that the space does not have.
    """
    indices = [np.array(members, dtype=np.int64) for members in lines]
    parameters = len(indices)
    across = [np.concatenate([other for k, other in enumerate(indices) if k != column]) for column in range(parameters)]
    low = np.array([space.points[across[column], column].min() for column in range(parameters)])
    high = np.array([space.points[indices[column], column].max() for column in range(parameters)])
    ranks = np.stack([_ranks(space.points[:, column]) for column in range(parameters)], axis=1)
    first, last = (
        np.array([ranks[space.points[:, column] == end[column], column][0] for column in range(parameters)])
        for end in (low, high)
    )
    wanted = [np.where(np.arange(parameters) == column, first, last) for column in range(parameters)]
    if parameters == 2:
        wanted = [last, (first + last) // 2]
    taken = np.zeros(len(cost), dtype=bool)
    taken[np.concatenate(indices)] = True
    # Below the lines, as with one rank, a parameter shows nothing of what it does beyond them.
    varied = np.where(high > low, space.points > low, space.points != low)
    open_ = ~taken & (varied.sum(axis=1) >= 2) & (True if affordable is None else affordable)
    out: list[int] = []
    for corner in wanted:
        if open_.any():
            apart = np.abs(ranks - corner).sum(axis=1) + 1e-6 * cost / cost.max()
            out.append(int(np.argmin(np.where(open_, apart, np.inf))))
            open_[out[-1]] = False
    return out


def _ranks(values: Array) -> Ids:
    """Return the index of each value among the different ones."""
    return np.unique(values, return_inverse=True)[1].reshape(-1)


def weight(space: Space) -> Array:
    """Relative cost of a run before anything ran; ties keep the order of the space."""
    guess = space.cores if space.expected_s is None else space.cores * space.expected_s
    return np.asarray(guess * (1 + 1e-9 * np.arange(len(guess))))


def line(space: Space, cost: Array, column: int, length: int, spread: bool) -> tuple[list[int], list[int]]:
    """Return the cheapest places of the line along a parameter that holds most points, and all its places."""
    others = np.delete(space.points, column, axis=1)
    keys, group = np.unique(others, axis=0, return_inverse=True)
    group = group.reshape(-1)
    names = [name for k, name in enumerate(space.parameters) if k != column]
    best: tuple[tuple[int, bool, float], list[int], list[int]] | None = None
    for number in range(len(keys)):
        members = np.flatnonzero(group == number)
        members = members[np.argsort(cost[members], kind="stable")]
        judged = _spread(members, space.points[members, column], length) if spread else members[:length]
        communicates = space.ranks not in names or bool(keys[number][names.index(str(space.ranks))] > 1)
        merit = (len(judged), communicates, -float(cost[judged].sum()))
        if best is None or merit > best[0]:
            best = (merit, judged.tolist(), members.tolist())
    assert best is not None
    return best[1:]


def _spread(members: Ids, values: Array, length: int) -> Ids:
    """Return `length` of the points whose values are spread evenly on a logarithmic scale, first and last included."""
    if len(members) <= length:
        return members
    logs = np.log(np.maximum(values, np.finfo(np.float64).tiny))
    kept = [int(np.argmin(logs)), int(np.argmax(logs))]
    for log in np.linspace(logs.min(), logs.max(), length)[1:-1].tolist():
        free = np.setdiff1d(np.arange(len(members)), kept)
        kept.append(int(free[np.argmin(np.abs(logs[free] - log))]))
    return np.asarray(members[np.sort(kept)])


def rungs(space: Space, indices: Ids) -> Ids:
    """Return how far up each point is: the largest rank of its values among those of the base."""
    base = space.points[indices]
    out = np.zeros(len(indices), dtype=np.int64)
    for column in range(base.shape[1]):
        out = np.maximum(out, np.searchsorted(np.unique(base[:, column]), base[:, column]))
    return out


def next_of_base(
    space: Space,
    indices: Sequence[int],
    runs: Ids,
    repetitions: int,
    cost: Array | None,
    each_run: float,
    all_runs: float,
) -> tuple[list[int], bool]:
    """Return the runs of the base to make now, as indices, and whether the budget held some back.

    The first repetition of all points comes before the second of any. Nothing is known before the first run: then
    only the lower three values of each parameter are taken, afterwards one value more at a time, so that models
    can warn of what does not fit.

    Parameters
    ----------
    indices
        Indices of the points of the base, cheapest first.
    runs
        Shape (point,): runs so far.
    repetitions
        Wanted of each point.
    cost
        Shape (point,): predicted core hours of a run; None where nothing is known.
    each_run, all_runs
        Core hours that one run, and all of them together, may take.
    """
    base = np.array(indices, dtype=np.int64)
    height = rungs(space, base)
    for repetition in range(1, repetitions + 1):
        missing: Mask = runs[base] < repetition
        if not missing.any():
            continue
        if cost is None:
            return base[missing & (height <= 2)].tolist() or base[missing].tolist(), False
        affordable = missing & (cost[base] <= each_run)
        if not affordable.any():
            return [], True
        reach = max(2, int(height[affordable].min()))
        chosen = base[affordable & (height <= reach)]
        total = np.cumsum(cost[chosen])
        return chosen[total <= max(all_runs, cost[chosen[0]])].tolist(), bool((missing & ~affordable).any())
    return [], False
