"""Other ways to spend few core hours, played on a full matrix that was measured: strategies, and single repetitions.

Each run that a way makes is one of the matrix, at what that run took. What it measured is modelled by Extra-P, and by
the product's search, which sees times alone, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from buran.planning.base import Base
from buran.planning.observations import Observations
from buran.planning.space import Array, Ids, Mask, Space, cheapest_first
from buran.planning.strategies import strategy_of
from buran.profiles.experiment.table import Experiment
from buran_studies.extrap import extrap_python, predictions_by_extrap
from buran_studies.selection.play import modelled, play

STRATEGIES = ("cpf", "gpr", "random")
SHARE = 0.1
"""Budget of the strategies, over the cost of the matrix."""
OURS, EXTRAP = "our models", "Extra-P"


@dataclass(frozen=True, eq=False)
class Matrix:
    """A measured matrix of points.

    Attributes
    ----------
    table
        Times of the call paths.
    walls_s
        Shape (point, repetition).
    cores
        Shape (point,).
    target
        P+.
    """

    table: Experiment
    walls_s: Array
    cores: Array
    target: Mapping[str, float]


def ways() -> list[tuple[str, float]]:
    """Return names and budgets of the ways, in the order of `predictions`."""
    played = [(f"{strategy}, {modeller}", SHARE) for strategy in STRATEGIES for modeller in (EXTRAP, OURS)]
    return [(f"one repetition, {EXTRAP}", 0.2), (f"one repetition, {OURS}", 0.2), *played]


def predictions(matrix: Matrix, folder: Path, seed: int) -> Iterator[tuple[float, dict[str, float]]]:
    """Yield for each way the core hours it spent, and its predictions by call path."""
    once = np.ones(len(matrix.cores), dtype=np.int64)
    for runs in (once, *(_played(matrix, strategy, seed) for strategy in STRATEGIES)):
        made = np.arange(matrix.walls_s.shape[1]) < runs[:, None]
        spent = float((np.where(made, matrix.walls_s, 0.0).sum(axis=1) * matrix.cores).sum()) / 3600
        seen = _only(matrix.table, made)
        yield spent, _by_extrap(seen, matrix.target, folder)
        yield spent, _by_search(seen, matrix.target)


def _played(matrix: Matrix, strategy: str, seed: int) -> Ids:
    """Let a strategy spend its budget; return shape (point,): runs of each point."""
    points = matrix.table.points
    order = cheapest_first(points, matrix.cores)
    target = np.array([matrix.target[name] for name in matrix.table.parameters], dtype=np.float64)
    space = Space(
        tuple(matrix.table.parameters), points[order], matrix.cores[order], target, matrix.walls_s.shape[1],
        ranks="p" if "p" in matrix.table.parameters else None,
    )  # fmt: skip
    values = np.nan_to_num(matrix.table.over_locations("time")[:, order])
    whole = float((matrix.walls_s.sum(axis=1) * matrix.cores).sum()) / 3600
    chosen = strategy_of(strategy, base=Base(1))
    _, measured = play(chosen, space, values, matrix.walls_s[order], SHARE * whole, seed=seed, most=1)
    runs = np.zeros(len(points), dtype=np.int64)
    places = space.indices(measured.points)
    runs[order[places]] = measured.counts
    return runs


def _only(table: Experiment, made: Mask) -> Experiment:
    """Return a table with these runs alone, of shape (point, repetition)."""
    here = made.any(axis=1)
    values = {name: np.where(made[..., None], array, np.nan)[:, here] for name, array in table.values.items()}
    return replace(table, points=table.points[here], values=values)


def _by_extrap(table: Experiment, target: Mapping[str, float], folder: Path) -> dict[str, float]:
    python = extrap_python()
    return predictions_by_extrap(python, table, target, folder) if python and len(table.points) else {}


def _by_search(table: Experiment, target: Mapping[str, float]) -> dict[str, float]:
    if not len(table.points):
        return {}
    observed = Observations.of(table, ["time"])
    at = np.array([[target[name] for name in table.parameters]], dtype=np.float64)
    predicted = modelled(observed).predict(at)[:, 0]
    return {name: value for (_, name), value in zip(observed.names, predicted.tolist(), strict=True)}
