"""Campaigns whose points are chosen from what was measured."""

from __future__ import annotations

import json

import pytest

from workbench import Workbench

pytestmark = [pytest.mark.mpi, pytest.mark.thorough]


def test_a_strategy_chooses_points_round_by_round_and_predicts_a_held_out_one(workbench: Workbench) -> None:
    workbench.write(
        parameters={
            "p": {"role": "ranks", "values": [1, 2]},
            "n": {"role": "size", "values": [20, 30, 40, 50, 60]},
        },
        evaluation_points=[{"p": 2, "n": 80}],
        metrics=["time", "visits"],
        strategy={"name": "design", "max_iterations": 5},
        budget={"percent_of_full_matrix": 90},
        target={"p": 2, "n": 80},
        refinement={"enabled": False},
        repetitions=2,
    )
    workbench.buran("run", str(workbench.file), expect=None)
    plans = json.loads(workbench.buran("plan", str(workbench.file), "--json"))["plans"]
    assert plans[-1]["done"] and len(plans) >= 3
    assert "'design'" in plans[0]["reason"]
    runs = [
        (bundle["point"]["p"], bundle["point"]["n"], *run.values())
        for plan in plans
        for bundle in plan["bundles"]
        for run in bundle["runs"]
    ]
    assert len(set(runs)) == len(runs)
    assert [bundle["purpose"] for bundle in plans[-2]["bundles"]] == ["evaluation"]
    started = workbench.started()
    workbench.buran("run", str(workbench.file), expect=None)
    assert workbench.started() == started
