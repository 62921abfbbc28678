"""Genetic algorithm: new parameters of the base model from those of a population (Fig. 3 of the MECP paper)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.tuning import EvolutionTuning


def next_parameters(
    one: Array, two: Array, crossed: NDArray[np.bool_], search: EvolutionTuning, random: np.random.Generator
) -> Array:
    """Return a child of each pair of parents, shape (pair, parameter) in the unit box of the bounds.

    They cross by BLX-alpha, anywhere between both and a little beyond; or the first moves by a normal step.
    """
    gap = np.abs(one - two)
    low = np.minimum(one, two) - search.blend * gap
    blended = low + random.random(one.shape) * (1 + 2 * search.blend) * gap
    moved = one + search.spread * random.standard_normal(one.shape)
    return np.clip(np.where(crossed[:, None], blended, moved), 0.0, 1.0)
