"""Which kind of model predicts the whole program's run time in a campaign."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from buran.tensor import CPRegressor

Kind = Literal["auto", "pmnf", "cpr"]
FILE = "runtime.npz"
"""Name of the tensor model's file, beside the other models of an iteration."""
_FEW_PARAMETERS = 4
_LEAST_POINTS = 20


def choose_kind(wanted: Kind, parameters: int, points: int) -> tuple[Literal["pmnf", "cpr"], str]:
    """Choose between performance models in normal form and a tensor model, and say why.

    Parameters
    ----------
    parameters, points
        Numbers of them.
    """
    if wanted != "auto":
        return wanted, "the campaign file asks for it"
    if parameters <= _FEW_PARAMETERS:
        return "pmnf", f"there are no more than {_FEW_PARAMETERS} parameters"
    if points < _LEAST_POINTS:
        return "pmnf", f"a tensor model needs {_LEAST_POINTS} measured points"
    return "cpr", f"there are more than {_FEW_PARAMETERS} parameters"


def fit_program(points: NDArray[np.float64], times: NDArray[np.float64], names: tuple[str, ...]) -> CPRegressor:
    """Fit a tensor model that may leave the measured range in every parameter.

    Parameters
    ----------
    points
        Shape (point, parameter).
    times
        Shape (point,): in seconds.
    """
    from buran.tensor import CPRegressor

    return CPRegressor(names=names, extrapolate=names, random_state=0).fit(points, times)


def write_program(path: Path, model: CPRegressor, reason: str) -> None:
    """Write the model."""
    from buran.tensor import save_model

    save_model(path, model.model_, {"metric": "runtime", "unit": "sec", "reason": reason})
