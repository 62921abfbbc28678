"""Genetic programming: new trees from those of a population, by crossover and mutation (Fig. 1 of the MECP paper)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.mecp.trees import Forest, Ids
from buran.modeling.correction.mecp.tuning import EvolutionTuning


def next_trees(
    forest: Forest, roots: Ids, others: Ids, crossed: NDArray[np.bool_], bases: Ids, rebase: bool,
    search: EvolutionTuning, random: np.random.Generator,
) -> Ids:  # fmt: skip
    """Return a child of each tree: a random node of it is replaced; it stays as it is where that makes it too large.

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
