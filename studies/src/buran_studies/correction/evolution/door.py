"""What Buran asks of an evolutionary search."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from buran.correct.base import BaseModel
from buran.correct.corrected import Corrected
from buran.correct.data import Data
from buran.correct.evolution import Case
from buran.correct.formula import Array
from buran_studies.correction.evolution.evolve import Search, evolve
from buran_studies.correction.evolution.program import Evolved, evolved_from
from buran_studies.correction.evolution.trials import corrected_as_published, halves, run_trials

COMPETING = Search(population=500, generations=40, nodes=25, initial_depth=5, objective="log")
"""Settings of the search that competes with terms."""


class Mecp:
    """The search of the MECP paper."""

    name = "mecp"

    def compete(
        self, base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator
    ) -> Evolved:
        """Search for a correction that is judged beside others."""
        return evolve(base, points, values, case, theta, random, COMPETING)

    def read(self, data: Mapping[str, Any], base: BaseModel) -> Evolved:
        """Rebuild what `Evolved.to_json` gave."""
        return evolved_from(data, base)

    def correct_as_published(
        self, base: BaseModel, data: Data, case: Case, trials: int, seed: int, progress: Callable[[int], None] | None
    ) -> Corrected:
        """Run the procedure as published: trials on one half of the data."""
        train, test = halves(data, seed)
        found = run_trials(base, train, test, case, trials=trials, seed=seed, progress=progress)
        return corrected_as_published(base, found, seed)


SEARCH = Mecp()
