"""The way in: a base model and measurements become a corrected model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from numpy.typing import ArrayLike

from buran.errors import UsageError
from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import Corrected
from buran.modeling.correction.data import prepare
from buran.modeling.correction.gate import Gate
from buran.modeling.correction.mecp.expression import CASES, Case
from buran.modeling.correction.mecp.trials import correct_as_published
from buran.modeling.correction.mecp.tuning import PROCEDURE
from buran.modeling.correction.robust import Competition, correct_robustly

Preset = Literal["robust", "published"]
_TESTED = Gate()


def correct(
    base: BaseModel, points: ArrayLike | Mapping[str, ArrayLike], values: ArrayLike, *, preset: Preset = "robust",
    case: Literal["terms"] | Case | None = None, seed: int = 0, gate: Gate | None = _TESTED,
    trials: int = PROCEDURE.trials, progress: Callable[[int], None] | None = None,
) -> Corrected:  # fmt: skip
    """Correct an analytical model by measurements.

    Parameters
    ----------
    base
        The model.
    points, values
        Columns by the variables' names, or shape (point, variable); times of shape (point,).
    preset
        ``robust``, or ``published`` for the procedure of the MECP paper.
    case
        ``terms``: a formula of positive terms; None: the best of terms, a Gaussian process and their average. With
        ``published`` one of its cases 1 to 4; None: case 4.
    seed
        Of everything random; the same seed gives the same model.
    gate
        What the robust preset asks of a correction; None takes the best without a test.
    trials, progress
        Of the published procedure; `progress` is told how many are done.

    Raises
    ------
    UsageError
        For measurements that cannot be used, and choices that do not exist.
    """
    if case not in (None, "terms", *CASES):
        raise UsageError(f"there is no case {case!r}", hint="one of terms, 1, 2, 3, 4")
    if preset not in ("robust", "published"):
        raise UsageError(f"there is no preset {preset!r}", hint="robust or published")
    data = prepare(base, points, values)
    if preset == "robust":
        if case not in (None, "terms"):
            raise UsageError(f"case {case} is of the preset published", hint="add --preset published, or take terms")
        return correct_robustly(base, data, Competition(case == "terms", gate, seed))
    if case == "terms":
        raise UsageError(
            "the published procedure has cases 1 to 4", why="terms are none of them", hint="as in --case 4"
        )
    return correct_as_published(base, data, case or CASES[PROCEDURE.case - 1], trials, seed, progress)
