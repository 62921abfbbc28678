"""Programs that were executed on a simulated machine, as truths for strategies; noise is drawn on top."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from buran.planning.space import Array, Space
from buran_studies.campaign.measured import full_matrix
from buran_studies.machine.codes import on
from buran_studies.machine.study import MACHINES
from buran_studies.selection.play import space_of

CODES = ("stencil", "sweep", "treesort")
"""The bundled ones: the same wherever the study runs."""
_MACHINE = "fat tree"


@dataclass(frozen=True, eq=False)
class Executed:
    """Times of a program without noise.

    Attributes
    ----------
    space
        The full matrix, and a target at four times the ranks and twice the size.
    seconds
        Shape (call path, place): mean over ranks, without callees.
    program_s
        Shape (place,): of the whole program.
    truth
        Shape (call path,): at the target.
    """

    space: Space
    seconds: Array
    program_s: Array
    truth: Array


@lru_cache
def executed(code: str) -> Executed:
    """Execute a code at all points of its space, and at the target."""
    example = replace(on(MACHINES[_MACHINE], code), repetitions=1)
    table, target, walls_s = full_matrix(example)
    order = [table.parameters.index(name) for name in example.parameters]
    points = table.points[:, order]
    space = space_of(points, np.array(example.target, dtype=np.float64))
    space = replace(space, parameters=tuple(example.parameters))
    at = {tuple(point): place for place, point in enumerate(points.tolist())}
    rows = [at[tuple(point)] for point in space.points.tolist()]
    there = dict(zip(target.tree.names, target.over_locations("time")[:, 0, 0].tolist(), strict=True))
    seconds = table.over_locations("time")[:, rows, 0]
    known = np.array([name in there for name in table.tree.names]) & np.isfinite(seconds).all(axis=1)
    truth = np.array([there.get(name, np.nan) for name in table.tree.names])
    wall = {tuple(float(point[name]) for name in example.parameters): value for point, value in walls_s.items()}
    program_s = np.array([wall[tuple(point)] for point in space.points.tolist()])
    return Executed(space, seconds[known], program_s, truth[known])
