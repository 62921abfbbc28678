"""The evolutionary search: genetic programming for a term, a genetic algorithm for the parameters, in concert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from buran.correct.base import BaseModel
from buran.correct.evolution import Case
from buran.correct.formula import Array
from buran.correct.terms import Problem
from buran_studies.correction.evolution.forest import Forest, Ids
from buran_studies.correction.evolution.program import Evolved, PrefixProgram

Objective = Literal["rmse", "log"]


@dataclass(frozen=True)
class Search:
    """Settings; the defaults are those of Table 1 of the MECP paper, and ours where it is silent.

    Attributes
    ----------
    population, generations, crossover, initial_depth
        As published. What is not crossed over is mutated.
    elite
        Share of the best that goes on unchanged. Parents are drawn with a chance that falls linearly with their
        rank: our reading of "graduated elitist".
    nodes
        Most nodes of a tree. The paper names none.
    mutation_depth
        Of the new part of a tree.
    objective
        ``rmse`` is our reading of the paper; ``log`` the root mean square of the logarithm of the ratio.
    blend, spread
        Parameters cross by BLX-alpha and mutate by a normal step, in the unit box of their bounds.
    """

    population: int = 3000
    generations: int = 100
    crossover: float = 0.9
    initial_depth: int = 7
    elite: float = 0.05
    nodes: int = 60
    mutation_depth: int = 3
    objective: Objective = "rmse"
    blend: float = 0.3
    spread: float = 0.1


def evolve(
    base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator,
    search: Search | None = None,
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
        Settings.
    """
    return _Evolution(base, points, values, case, theta, random, search or Search()).run()


class _Evolution:
    def __init__(
        self, base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator,
        search: Search,
    ) -> None:  # fmt: skip
        self.base, self.points, self.measured, self.case = base, points, values, case
        self.random, self.search = random, search
        self.box = Problem(base, points, np.zeros(len(points)), np.ones((1, len(points)), dtype=bool))
        self.free = case in (3, 4) and len(base.parameters) > 0
        self.terminal = case in (1, 3)
        self.forest = Forest(points, self.terminal)
        size = search.population
        self.units = np.tile(self.box.unit(theta), (size, 1))
        self.theta = theta
        if self.free:
            self.units[1:] = random.random((size - 1, len(theta)))
        self.original = base.evaluate(theta, points)
        self.base_values = self._base(self.units)
        self.leaves = self._leaves(self.base_values)
        ramp = 2 + np.arange(size) % max(search.initial_depth - 1, 1)
        self.roots = self.forest.random(
            size,
            np.minimum(ramp, search.initial_depth),
            np.arange(size) // 2 % 2 == 0,
            self.leaves,
            search.nodes,
            random,
        )

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
        errors = self._errors()
        for _ in range(self.search.generations):
            self._generation(errors)
            errors = self._errors()
            if self.forest.is_full:
                self.roots, self.leaves = self.forest.compact(self.roots, self.leaves)
        best = int(np.argmin(errors))
        program = PrefixProgram(self.forest.program(int(self.roots[best]), list(self.base.variables)))
        theta = self.box.theta(self.units[best]) if self.free else self.theta
        return Evolved(self.case, program, tuple(theta.tolist()), float(errors[best]))

    def _errors(self) -> Array:
        values = self.forest.values[self.roots]
        with np.errstate(all="ignore"):
            if not self.terminal:
                values = values + self.base_values
            gaps = values - self.measured if self.search.objective == "rmse" else np.log(values / self.measured)
            errors = np.sqrt(np.mean(np.square(gaps), axis=1))
        return np.where(np.isfinite(errors), errors, np.inf)

    def _generation(self, errors: Array) -> None:
        size, random, search = len(errors), self.random, self.search
        order = np.argsort(errors, kind="stable")
        kept = order[: max(1, round(search.elite * size))]
        number = size - len(kept)
        one, two = (order[(size * (1 - np.sqrt(1 - random.random(number)))).astype(np.int64)] for _ in range(2))
        crossed = random.random(number) < search.crossover
        on_theta = random.random(number) < 0.5 if self.free else np.zeros(number, dtype=bool)
        units, leaves, roots = self.units[one], self.leaves[one], self.roots[one]
        values = self.base_values[one] if self.free else self.base_values[:number]
        rows = np.flatnonzero(~on_theta)
        roots[rows] = self._new_trees(roots[rows], two[rows], crossed[rows], leaves[rows])
        rows = np.flatnonzero(on_theta)
        if len(rows):
            units[rows] = self._new_units(units[rows], self.units[two[rows]], crossed[rows])
            values[rows] = self._base(units[rows])
            if self.terminal:
                leaves[rows] = self.forest.bases(values[rows])
                roots[rows] = self.forest.rebase(roots[rows], leaves[rows])
        self.roots = np.concatenate([self.roots[kept], roots])
        self.leaves = np.concatenate([self.leaves[kept], leaves])
        if self.free:
            self.units = np.concatenate([self.units[kept], units])
            self.base_values = np.concatenate([self.base_values[kept], values])

    def _new_trees(self, roots: Ids, others: Ids, crossed: NDArray[np.bool_], leaves: Ids) -> Ids:
        forest, random = self.forest, self.random
        paths = forest.paths(roots, random)
        removed = forest.size[paths[-1][1]]
        donors = forest.paths(self.roots[others[crossed]], random)[-1][1]
        number = int((~crossed).sum())
        fresh = forest.random(
            number, np.full(number, self.search.mutation_depth), np.zeros(number, dtype=bool), leaves[~crossed],
            self.search.nodes, random,
        )  # fmt: skip
        by = np.zeros(len(roots), dtype=np.int64)
        by[crossed], by[~crossed] = donors, fresh
        fits = forest.size[roots] - removed + forest.size[by] <= self.search.nodes
        if self.terminal and self.free:
            own = np.flatnonzero(crossed & fits)
            by[own] = forest.rebase(by[own], leaves[own])
        return np.where(fits, forest.replace(paths, by, fits), roots)

    def _new_units(self, one: Array, two: Array, crossed: NDArray[np.bool_]) -> Array:
        gap = np.abs(one - two)
        low = np.minimum(one, two) - self.search.blend * gap
        blended = low + self.random.random(one.shape) * (1 + 2 * self.search.blend) * gap
        moved = one + self.search.spread * self.random.standard_normal(one.shape)
        return np.clip(np.where(crossed[:, None], blended, moved), 0.0, 1.0)
