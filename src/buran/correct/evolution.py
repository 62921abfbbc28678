"""The evolutionary search of the cases 1 to 4, which another distribution brings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from buran.correct.base import BaseModel
from buran.correct.data import Data
from buran.correct.formula import Array
from buran.plugins import Door

if TYPE_CHECKING:
    from buran.correct.corrected import Corrected

Case = Literal[1, 2, 3, 4]
CASES: tuple[Case, ...] = (1, 2, 3, 4)


class EvolvedCorrection(Protocol):
    """A corrected model that a search found."""

    @property
    def theta(self) -> tuple[float, ...]:
        """The base model's parameters in it."""

    def evaluate(self, base: BaseModel, points: Array) -> Array:
        """Return values at points (point, variable); they may be negative or not finite."""

    def expression(self, variables: Mapping[str, Any], base: Any) -> Any:
        """Return it in sympy's terms: of the variables by name, and of the base model's expression."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `Evolution.read`."""


class Evolution(Protocol):
    """A search for programs that correct a base model."""

    @property
    def name(self) -> str:
        """Name of the entry point."""

    def compete(
        self, base: BaseModel, points: Array, values: Array, case: Case, theta: Array, random: np.random.Generator
    ) -> EvolvedCorrection:
        """Search for a correction that is judged beside others, from points (point, variable) and values (point,)."""

    def read(self, data: Mapping[str, Any], base: BaseModel) -> EvolvedCorrection:
        """Rebuild what `to_json` gave; raise `KeyError`, `TypeError` or `ValueError` for anything else."""

    def correct_as_published(
        self, base: BaseModel, data: Data, case: Case, trials: int, seed: int, progress: Callable[[int], None] | None
    ) -> Corrected:
        """Run the procedure as published; `progress` is told how many trials are done."""


EVOLUTIONS: Door[Evolution] = Door("evolutionary search", "buran.evolutions", Evolution, {}, {"mecp": "buran-studies"})
