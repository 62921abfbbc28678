"""The evolutionary search (Fig. 3): genetic programming for a term, a genetic algorithm for parameters, in concert."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.expression import Case, Evolved, PrefixProgram
from buran.modeling.correction.mecp.trees import Forest, Ids
from buran.modeling.correction.mecp.tuning import EvolutionTuning
from buran.modeling.correction.terms import Problem

Objective = Literal["rmse", "log"]


def evolve(
    base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator,
    search: EvolutionTuning | None = None, objective: Objective = "rmse",
) -> Evolved:  # fmt: skip
    """Search for a correction.

    Parameters
    ----------
    base
        The model to correct.
    points, values
        Training data, shape (point, variable) and (point,).
    case
        See `Evolved`; in cases 1 and 2 the parameters stay as they are.
    theta
        Parameters of the original model.
    random
        Source of all choices: the same state gives the same program.
    search
        Settings; those of the paper by default.
    objective
        ``rmse`` is our reading of the paper; ``log`` the root mean square of the logarithm of the ratio.
    """
    return _Evolution(base, points, values, case, theta, random, search or EvolutionTuning(), objective).run()


class _Evolution:
    def __init__(
        self, base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator,
        search: EvolutionTuning, objective: Objective,
    ) -> None:  # fmt: skip
        self.base, self.points, self.measured, self.case = base, points, values, case
        self.random, self.search, self.objective = random, search, objective
        self.box = Problem(base, points, np.zeros(len(points)), np.ones((1, len(points)), dtype=bool))
        self.free = case in (3, 4) and len(base.parameters) > 0
        self.terminal = case in (1, 3)
        self.forest = Forest(points, self.terminal, search.constant)
        size = search.population
        self.units = np.tile(self.box.unit(theta), (size, 1))
        self.theta = theta
        if self.free:
            self.units[1:] = random.random((size - 1, len(theta)))
        self.original = base.evaluate(theta, points)
        self.base_values = self._base(self.units)
        self.leaves = self._leaves(self.base_values)
        ramp = 2 + np.arange(size) % max(search.initial_depth - 1, 1)
        depths, full = np.minimum(ramp, search.initial_depth), np.arange(size) // 2 % 2 == 0
        self.roots = self.forest.random(size, depths, full, self.leaves, search.nodes, random)

    def _base(self, units: Array) -> Array:
        if not self.free:
            return np.broadcast_to(self.original, (len(units), len(self.points)))
        with np.errstate(all="ignore"):
            return self.base.evaluate(self.box.theta(units), self.points)

    def _leaves(self, values: Array) -> Ids:
        """Return each individual's leaf of the base model: one for all where the parameters are fixed."""
        if not self.terminal:
            return np.zeros(len(values), dtype=np.int64)
        if not self.free:
            return np.repeat(self.forest.bases(values[:1]), len(values))
        return self.forest.bases(values)

    def run(self) -> Evolved:
        errors = self.errors()
        for _ in range(self.search.generations):
            self._generation(errors)
            errors = self.errors()
            if self.forest.is_full:
                self.roots, self.leaves = self.forest.compact(self.roots, self.leaves)
        best = int(np.argmin(errors))
        program = PrefixProgram(self.forest.program(int(self.roots[best]), list(self.base.variables)))
        theta = self.box.theta(self.units[best]) if self.free else self.theta
        return Evolved(self.case, program, tuple(theta.tolist()), float(errors[best]))

    def errors(self) -> Array:
        values = self.forest.values[self.roots]
        with np.errstate(all="ignore"):
            if not self.terminal:
                values = values + self.base_values
            gaps = values - self.measured if self.objective == "rmse" else np.log(values / self.measured)
            errors = np.sqrt(np.mean(np.square(gaps), axis=1))
        return np.where(np.isfinite(errors), errors, np.inf)

    def _generation(self, errors: Array) -> None:
        size, random, search = len(errors), self.random, self.search
        order = np.argsort(errors, kind="stable")
        kept = order[: max(1, round(search.elite * size))]
        number = size - len(kept)
        one, two = (order[(size * (1 - np.sqrt(1 - random.random(number)))).astype(np.int64)] for _ in range(2))
        crossed = random.random(number) < search.crossover
        on_theta = random.integers(2, size=number).astype(bool) if self.free else np.zeros(number, dtype=bool)
        units, leaves, roots = self.units[one], self.leaves[one], self.roots[one]
        values = self.base_values[one] if self.free else self.base_values[:number]
        rows = np.flatnonzero(~on_theta)
        rebase = self.terminal and self.free
        roots[rows] = next_trees(
            self.forest, roots[rows], self.roots[two[rows]], crossed[rows], leaves[rows], rebase, search, random
        )
        rows = np.flatnonzero(on_theta)
        if len(rows):
            units[rows] = next_parameters(units[rows], self.units[two[rows]], crossed[rows], search, random)
            values[rows] = self._base(units[rows])
            if self.terminal:
                leaves[rows] = self.forest.bases(values[rows])
                roots[rows] = self.forest.rebase(roots[rows], leaves[rows])
        self.roots = np.concatenate([self.roots[kept], roots])
        self.leaves = np.concatenate([self.leaves[kept], leaves])
        if self.free:
            self.units = np.concatenate([self.units[kept], units])
            self.base_values = np.concatenate([self.base_values[kept], values])


def next_trees(
    forest: Forest, roots: Ids, others: Ids, crossed: NDArray[np.bool_], bases: Ids, rebase: bool,
    search: EvolutionTuning, random: np.random.Generator,
) -> Ids:  # fmt: skip
    """Return a child of each tree (Fig. 1): a random node of it is replaced, unless that makes it too large.

    Parameters
    ----------
    forest
        Where all trees are.
    roots, others
        Both parents of each child.
    crossed
        Which get a part of the other parent; the others get a new random part.
    bases, rebase
        Each child's leaf of the base model, and whether parts of others must be brought to it.
    search
        Settings.
    random
        Source of all choices.
    """
    paths = forest.paths(roots, random)
    removed = forest.size[paths[-1][1]]
    donors = forest.paths(others[crossed], random)[-1][1]
    number = int((~crossed).sum())
    fresh = forest.random(
        number, np.full(number, search.initial_depth), np.zeros(number, dtype=bool), bases[~crossed], search.nodes,
        random,
    )  # fmt: skip
    by = np.zeros(len(roots), dtype=np.int64)
    by[crossed], by[~crossed] = donors, fresh
    fits = forest.size[roots] - removed + forest.size[by] <= search.nodes
    if rebase:
        own = np.flatnonzero(crossed & fits)
        by[own] = forest.rebase(by[own], bases[own])
    return np.where(fits, forest.replace(paths, by, fits), roots)


def next_parameters(
    one: Array, two: Array, crossed: NDArray[np.bool_], search: EvolutionTuning, random: np.random.Generator
) -> Array:
    """Return a child of each pair of parents (Fig. 3), shape (pair, parameter) in the unit box of the bounds.

    They cross by BLX-alpha, anywhere between both and a little beyond; or the first moves by a normal step.
    """
    gap = np.abs(one - two)
    low = np.minimum(one, two) - search.blend * gap
    blended = low + random.random(one.shape) * (1 + 2 * search.blend) * gap
    moved = one + search.spread * random.standard_normal(one.shape)
    return np.clip(np.where(crossed[:, None], blended, moved), 0.0, 1.0)
