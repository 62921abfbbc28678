"""The evolutionary search (Fig. 3): genetic programming for a term, a genetic algorithm for parameters, in concert."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.fit import Problem
from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.trees import Case, Evolved, Grower, Population, PrefixProgram


@dataclass(frozen=True)
class EvolutionTuning:
    """Constants of the evolutionary search for corrections, as published."""

    # Programs. Published: Table 1.
    population: int = 3000
    # Generations. Published: Table 1.
    generations: int = 100
    # Share of new programs that are crossed; the others are mutated. Published: Table 1.
    crossover: float = 0.9
    # Depth of the first trees, at most. Published: Table 1.
    initial_depth: int = 7
    # Share of the best that goes on unchanged. Tuned: judgement, as the paper does not say (explanation/correction.md).
    elite: float = 0.05
    # Nodes of a tree, at most. Tuned: judgement, as the paper does not say (explanation/correction.md).
    nodes: int = 60
    # Random constants R are between this and its negative. Tuned: judgement, as the paper does not say
    # (explanation/correction.md).
    constant: float = 10.0
    # How far beyond both parents crossed parameters may lie, in their distances. Tuned: ours: the MECP paper does not
    # say (explanation/correction.md).
    blend: float = 0.3
    # Standard deviation of a parameter's mutation, in shares of its bounds. Tuned: judgement, as the paper does not say
    # (explanation/correction.md).
    spread: float = 0.1


class Evolution:
    """A search for a correction: programs and parameters of a population, in concert.

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

    def __init__(
        self, base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator,
        search: EvolutionTuning | None = None,
    ) -> None:  # fmt: skip
        search = search or EvolutionTuning()
        self.case, self.theta = case, theta
        self.base, self.points, self.measured = base, points, values
        self.random, self.search = random, search
        self.box = Problem(base, points, np.zeros(len(points)), np.ones((1, len(points)), dtype=bool))
        self.free = case in (3, 4) and len(base.parameters) > 0
        self.terminal = case in (1, 3)
        self.grower = Grower(points.shape[1], self.terminal, search.constant, search.nodes)
        size = search.population
        self.units = np.tile(self.box.unit(theta), (size, 1))
        if self.free:
            self.units[1:] = random.random((size - 1, len(theta)))
        self.original = base.evaluate(theta, points)
        ramp = 2 + np.arange(size) % max(search.initial_depth - 1, 1)
        depths, full = np.minimum(ramp, search.initial_depth), np.arange(size) // 2 % 2 == 0
        self.trees = self.grower.trees(depths, full, random)

    def run(self) -> Evolved:
        """Return the best individual of the last generation."""
        errors = self.errors()
        for _ in range(self.search.generations):
            self.advance(errors)
            errors = self.errors()
        best = int(np.argmin(errors))
        program = PrefixProgram(self.trees.program(best, list(self.base.variables)))
        theta = self.box.theta(self.units[best]) if self.free else self.theta
        return Evolved(self.case, program, tuple(theta.tolist()), float(errors[best]))

    def errors(self) -> Array:
        """Return shape (individual,): the root mean square error; infinite where a value is missing."""
        with np.errstate(all="ignore"):
            base = np.broadcast_to(self.original, (len(self.units), len(self.points)))
            if self.free:
                base = self.base.evaluate(self.box.theta(self.units), self.points)
            values = self.trees.values(self.points, base)
            if not self.terminal:
                values = values + base
            errors = np.sqrt(np.mean(np.square(values - self.measured), axis=1))
        return np.where(np.isfinite(errors), errors, np.inf)

    def advance(self, errors: Array) -> None:
        """Make the next generation: the best stay, the others are children of parents drawn by their rank."""
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
        self.trees, self.units = self.trees.take(kept).join(trees), np.concatenate([self.units[kept], units])


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
