"""Sparse grid regression among the rivals, by an interpreter that has pysgpp."""

from __future__ import annotations

import io
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from buran.errors import RunError
from buran_studies.tensor.data import Array

VARIABLE = "BURAN_SGPP_PYTHON"
"""Environment variable that names the interpreter: pysgpp needs numpy < 2, an environment of its own."""
_WORKER = Path(__file__).with_name("sparse_grid_worker.py")


class SparseGrid:
    """Piecewise linear functions on a regular sparse grid.

    Everything is done at prediction, whose time holds that of the fit: grids stay in the other interpreter. Of its
    file only the coefficients are counted, which a level and the data's range turn into the grid again.
    """

    def __init__(self, level: int) -> None:
        self.level, self.points = level, 0

    def __getstate__(self) -> dict[str, Any]:
        return {"level": self.level, "low": self.low, "width": self.width, "coefficients": np.zeros(self.points)}

    def fit(self, F: Array, y: Array) -> SparseGrid:
        """Keep the observations, scaled to the unit cube."""
        self.low, self.width = F.min(axis=0), np.maximum(np.ptp(F, axis=0), 1e-12)
        self.X, self.centre, self.y = (F - self.low) / self.width, y.mean(), y - y.mean()
        return self

    def predict(self, F: Array) -> Array:
        """Fit and predict in the other interpreter.

        Raises
        ------
        RunError
            It failed.
        """
        data = io.BytesIO()
        np.savez(data, X=self.X, y=self.y, Z=np.clip((F - self.low) / self.width, 0, 1), level=self.level)
        done = subprocess.run(
            [os.environ[VARIABLE], str(_WORKER)], input=data.getvalue(), capture_output=True, check=False
        )
        if done.returncode:
            raise RunError("sparse grid regression failed", why=done.stderr.decode(errors="replace")[-300:])
        # The library writes to its standard output too: the arrays come behind.
        found = np.load(io.BytesIO(done.stdout[done.stdout.index(b"PK\x03\x04") :]))
        self.points = int(found["points"])
        return np.asarray(found["found"] + self.centre)


def missing() -> str | None:
    """Say why it cannot be run, if so."""
    python = os.environ.get(VARIABLE)
    if not python:
        return f"{VARIABLE} names no interpreter with pysgpp"
    return None if Path(python).is_file() else f"{VARIABLE} is no file: {python}"
