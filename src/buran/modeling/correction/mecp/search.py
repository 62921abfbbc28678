"""The evolutionary search (Fig. 3): genetic programming for a term, a genetic algorithm for parameters, in concert."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.expression import Case, Evolved, PrefixProgram
from buran.modeling.correction.mecp.trees import Grower, Population
from buran.modeling.correction.mecp.tuning import EvolutionTuning
from buran.modeling.correction.terms import Problem


def evolve(
    base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator,
    search: EvolutionTuning | None = None,
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
    """
    return _Evolution(base, points, values, case, theta, random, search or EvolutionTuning()).run()


class _Evolution:
    def __init__(
        self, base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator,
        search: EvolutionTuning,
    ) -> None:  # fmt: skip
        self.base, self.points, self.measured, self.case = base, points, values, case
        self.random, self.search = random, search
        self.box = Problem(base, points, np.zeros(len(points)), np.ones((1, len(points)), dtype=bool))
        self.free = case in (3, 4) and len(base.parameters) > 0
        self.terminal = case in (1, 3)
        self.grower = Grower(points.shape[1], self.terminal, search.constant, search.nodes)
        size = search.population
        self.units = np.tile(self.box.unit(theta), (size, 1))
        self.theta = theta
        if self.free:
            self.units[1:] = random.random((size - 1, len(theta)))
        self.original = base.evaluate(theta, points)
        self.base_values = self._base(self.units)
        ramp = 2 + np.arange(size) % max(search.initial_depth - 1, 1)
        depths, full = np.minimum(ramp, search.initial_depth), np.arange(size) // 2 % 2 == 0
        self.trees = self.grower.trees(depths, full, random)

    def _base(self, units: Array) -> Array:
        if not self.free:
            return np.broadcast_to(self.original, (len(units), len(self.points)))
        with np.errstate(all="ignore"):
            return self.base.evaluate(self.box.theta(units), self.points)

    def run(self) -> Evolved:
        errors = self.errors()
        for _ in range(self.search.generations):
            self._generation(errors)
            errors = self.errors()
        best = int(np.argmin(errors))
        program = PrefixProgram(self.trees.program(best, list(self.base.variables)))
        theta = self.box.theta(self.units[best]) if self.free else self.theta
        return Evolved(self.case, program, tuple(theta.tolist()), float(errors[best]))

    def errors(self) -> Array:
        values = self.trees.values(self.points, self.base_values)
        with np.errstate(all="ignore"):
            if not self.terminal:
                values = values + self.base_values
            errors = np.sqrt(np.mean(np.square(values - self.measured), axis=1))
        return np.where(np.isfinite(errors), errors, np.inf)

    def _generation(self, errors: Array) -> None:
        size, random, search = len(errors), self.random, self.search
        order = np.argsort(errors, kind="stable")
        kept = order[: max(1, round(search.elite * size))]
        number = size - len(kept)
        one, two = (order[(size * (1 - np.sqrt(1 - random.random(number)))).astype(np.int64)] for _ in range(2))
        crossed = random.random(number) < search.crossover
        on_theta = random.integers(2, size=number).astype(bool) if self.free else np.zeros(number, dtype=bool)
        units, trees = self.units[one], self.trees.take(one)
        rows = np.flatnonzero(~on_theta)
        others = self.trees.take(two[rows])
        grown = next_trees(trees.take(rows), others, crossed[rows], self.grower, search, random)
        trees.codes[rows], trees.numbers[rows] = grown.codes, grown.numbers
        rows = np.flatnonzero(on_theta)
        units[rows] = next_parameters(units[rows], self.units[two[rows]], crossed[rows], search, random)
        self.trees = self.trees.take(kept).join(Population(trees.codes, trees.numbers))
        self.units = np.concatenate([self.units[kept], units])
        self.base_values = self._base(self.units)


def next_trees(
    trees: Population, others: Population, crossed: NDArray[np.bool_], grower: Grower, search: EvolutionTuning,
    random: np.random.Generator,
) -> Population:  # fmt: skip
    """Return a child of each tree (Fig. 1): a random node of it is replaced, unless that makes it too large.

    Parameters
    ----------
    trees, others
        Both parents of each child.
    crossed
        Which get a part of the other parent; the others get a new random part.
    grower, search
        What makes new parts, and settings.
    random
        Source of all choices.
    """
    at, begin = random.integers(trees.sizes), np.where(crossed, random.integers(others.sizes), 0)
    mutated = np.flatnonzero(~crossed)
    depths = np.full(len(mutated), search.initial_depth)
    fresh = grower.trees(depths, np.zeros(len(mutated), dtype=bool), random)
    donors = Population(others.codes.copy(), others.numbers.copy())
    donors.codes[mutated], donors.numbers[mutated] = fresh.codes, fresh.numbers
    return trees.replaced(at, donors, begin)


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
