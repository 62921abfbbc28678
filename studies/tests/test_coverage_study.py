"""The study of intervals: every kind of truth in every layout, and shares that add up."""

from __future__ import annotations

import numpy as np
import pytest

from buran_studies.coverage import study
from buran_studies.evaluation.study import Settings
from buran_studies.functions import grid


@pytest.mark.parametrize(("parameters", "points"), [(2, 11), (3, 16), (4, 21)])
def test_layouts_have_as_many_points_as_the_base(parameters: int, points: int) -> None:
    for kind in ("lines+m", "far"):
        chosen = study.layout(parameters, kind)
        assert len(np.unique(chosen, axis=0)) == points
        assert {tuple(row) for row in chosen.tolist()} <= {tuple(row) for row in grid(parameters).tolist()}


def test_far_points_vary_every_pair_of_parameters_together() -> None:
    far = study.layout(3, "far")[-3:]
    assert ((far == grid(3)[-1]).sum(axis=1) == 2).all()


def test_a_quick_run_gives_every_kind_a_figure() -> None:
    settings = Settings("coverage", quick=True, seed=3, draws=2)
    asked = [shard for shard in study.shards(settings) if shard["parameters"] == 1 and shard["noise"] == 1.0]
    evaluation = study.summarise([study.run_shard(shard, settings) for shard in asked], settings)
    assert len(evaluation.tables[0].rows) == len(study.KINDS) == len(asked)
    assert [figure.samples for figure in evaluation.figures[: len(study.KINDS)]] == [2] * len(study.KINDS)
    assert (evaluation.figures[-1].value, evaluation.figures[-1].samples) == (0, 2 * len(study.KINDS))
    assert all(0 <= (figure.value or 0.0) <= 100 for figure in evaluation.figures)
