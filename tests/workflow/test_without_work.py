"""Runs that are start-up alone, because a program did not find its input and ended without an error."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from buran.profiles.profile import CallTree, Region
from buran.workflow.notes import _without_work

TREE = CallTree(
    (Region("app"), Region("main"), Region("MPI_Init", paradigm="mpi")), np.array([0, 1, 2]), np.array([-1, 0, 1])
)


@pytest.mark.parametrize(
    ("work_s", "startup_s", "shortest_s", "notes"),
    [(5e-5, 0.2, 0.3, 1), (0.1, 0.2, 0.3, 0), (5e-5, 0.0, 1e-3, 0), (0.0, 0.2, 0.0, 0)],
)
def test_runs_without_work_are_noted(work_s: float, startup_s: float, shortest_s: float, notes: int) -> None:
    seconds = ((0.0, 0.0), (work_s / 2, work_s), (startup_s, startup_s))
    findings = SimpleNamespace(tree=TREE, extremes_s=seconds, shortest_run_s=shortest_s)
    assert len(_without_work(findings)) == notes  # type: ignore[arg-type]
    assert not _without_work(SimpleNamespace(tree=TREE, extremes_s=(), shortest_run_s=1.0))  # type: ignore[arg-type]
