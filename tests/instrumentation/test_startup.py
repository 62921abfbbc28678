"""Starting MPI takes most of a short run, and is no reason to forget the program's own functions."""

from __future__ import annotations

import numpy as np
from refining import refine

from buran.modeling.fit import fit_models
from buran.modeling.pmnf.model_set import ModelSet
from buran.profiles.profile import CallTree, Region


def test_starting_mpi_hides_no_function() -> None:
    regions = (Region("main", "main"), Region("MPI_Init", "MPI_Init", paradigm="mpi"), Region("work", "work"))
    tree = CallTree(regions, np.array([0, 1, 2]), np.array([-1, 0, 0]))
    points = np.array([[2.0], [4.0], [8.0], [16.0], [32.0]])
    seconds = np.array([np.full(5, 1e-6), np.full(5, 10.0), points[:, 0] * 1e-3])
    values = tuple(map(tuple, points))
    time = ModelSet(("n",), "time", "sec", tree.names, fit_models(points, seconds).models, "mean", "median", values)
    refinement = refine(tree, time, None, [32.0])
    assert refinement.names == ("main", "work")


def test_the_share_of_all_hooks_is_told() -> None:
    regions = (Region("main", "main"), Region("work", "work"))
    tree = CallTree(regions, np.array([0, 1]), np.array([-1, 0]))
    points = np.array([[2.0], [4.0], [8.0], [16.0], [32.0]])
    values = tuple(map(tuple, points))

    def models(metric: str, rows: list[np.ndarray]) -> ModelSet:
        fit = fit_models(points, np.array(rows))
        return ModelSet(("n",), metric, "", tree.names, fit.models, "mean", "median", values)

    seconds = models("time", [np.full(5, 0.5), np.full(5, 0.5)])
    visits = models("visits", [np.full(5, 1.0), np.full(5, 1e6)])
    refinement = refine(tree, seconds, visits, [32.0], visit_cost_s=1e-7)
    assert abs(refinement.hook_share - 0.1) < 1e-6
