"""The evolutionary search of the cases 1 to 4, which another distribution brings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from buran.correct.base import BaseModel
from buran.correct.corrected import Corrected
from buran.correct.data import Data
from buran.correct.formula import Array
from buran.correct.program import Case, Evolved
from buran.plugins import Door


class Evolution(Protocol):
    """A search for programs that correct a base model."""

    @property
    def name(self) -> str:
        """Name of the entry point."""

    def compete(
        self, base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator
    ) -> Evolved:
        """Search for a correction that is judged beside others, from points (point, variable) and values (point,)."""

    def correct_as_published(
        self, base: BaseModel, data: Data, case: Case, trials: int, seed: int, progress: Callable[[int], None] | None
    ) -> Corrected:
        """Run the procedure as published; `progress` is told how many trials are done."""


EVOLUTIONS: Door[Evolution] = Door("evolutionary search", "buran.evolutions", Evolution, {}, {"mecp": "buran-studies"})
