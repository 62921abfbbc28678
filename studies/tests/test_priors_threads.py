"""Threads of OpenMP as a parameter, on a program that really runs."""

from __future__ import annotations

import numpy as np
import pytest

from buran.campaign.plan import Mode
from buran.errors import ToolError
from buran.modeling.priors.paths import Source, priors_of, work_of_a_thread
from buran.profiles.experiment.build import experiment_from_profiles
from buran_studies.priors import threads as priors_threads


@pytest.mark.mpi
@pytest.mark.thorough
@pytest.mark.parametrize("compiler", ["clang", "gcc"])
def test_a_parallel_region_shares_its_basic_blocks_among_threads(
    compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(priors_threads, "SIZES", (12, 24, 48, 72))
    monkeypatch.setattr(priors_threads, "THREADS", (1, 2, 3, 4))
    try:
        with priors_threads.workshop(compiler) as (made, source):
            counted = experiment_from_profiles(priors_threads.runs(made, source, Mode.EFFORT))
    except ToolError as error:
        pytest.skip(str(error))
    row = priors_threads.row_of(counted)
    found = priors_of(counted.tree, counted, counted.points)
    effort = found[row].effort
    assert found[row].source is Source.COMPUTATION and effort is not None
    assert priors_threads.deviation(effort).max() == 0
    counts = work_of_a_thread(counted).over_locations("basic_blocks")[row, :, 0]
    np.testing.assert_allclose(effort.evaluate(counted.points), counts, rtol=1e-6)
