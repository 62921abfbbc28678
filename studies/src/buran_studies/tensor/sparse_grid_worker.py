"""Sparse grid regression in an interpreter of its own: pysgpp needs numpy < 2.

    PYTHON sparse_grid_worker.py < arrays.npz > arrays.npz

Reads `X`, `y`, `Z` (inputs between 0 and 1) and `level`; writes `found`, the prediction at `Z`, and `points`, the size
of the grid. Nothing of this package is imported here.
"""

from __future__ import annotations

import io
import sys

import numpy as np


def main() -> None:
    """Fit and predict."""
    import pysgpp

    given = np.load(io.BytesIO(sys.stdin.buffer.read()))
    grid = pysgpp.RegularGridConfiguration()
    grid.dim_, grid.level_, grid.type_ = int(given["X"].shape[1]), int(given["level"]), pysgpp.GridType_ModLinear
    refined = pysgpp.AdaptivityConfiguration()
    refined.numRefinements_, refined.noPoints_ = 0, 0
    solver = pysgpp.SLESolverConfiguration()
    solver.type_, solver.maxIterations_, solver.eps_ = pysgpp.SLESolverType_CG, 200, 1e-7
    ridge = pysgpp.RegularizationConfiguration()
    ridge.type_, ridge.lambda_, ridge.exponentBase_ = pysgpp.RegularizationType_Identity, 1e-6, 1.0
    learner = pysgpp.RegressionLearner(grid, refined, solver, solver, ridge)
    learner.train(pysgpp.DataMatrix(given["X"]), pysgpp.DataVector(given["y"].tolist()))
    found = np.array(list(learner.predict(pysgpp.DataMatrix(given["Z"])).array()))
    out = io.BytesIO()
    np.savez(out, found=found, points=learner.getGridSize())
    sys.stdout.buffer.write(out.getvalue())


if __name__ == "__main__":
    main()
