"""A real campaign with a choice without an order: tensor models of the run time, in planning and afterwards."""

from __future__ import annotations

import csv
import io
import json

import pytest

from workbench import Workbench, new_workbench

pytestmark = [pytest.mark.mpi, pytest.mark.thorough]


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> Workbench:
    bench = new_workbench(tmp_path_factory.mktemp("choice"))
    bench.write(
        program={**bench.config["program"], "run": "{binary} {n} {solver}"},
        parameters={
            "p": {"role": "ranks", "values": [1, 2]},
            "n": {"role": "size", "values": [400, 3200]},  # the larger one takes longer than MPI's start
            "solver": {"role": "choice", "values": [1, 2, 3]},
        },
        metrics=["time", "visits"],
        strategy={"name": "tensor", "max_iterations": 3, "batch": 6, "base_repetitions": 1},
    )
    bench.buran("run", "campaign.yaml")
    return bench


def test_the_report_says_which_model_and_why(chosen: Workbench) -> None:
    report = (chosen.results / "latest" / "report.txt").read_text()
    assert "tensor model" in report and "1 of 3 parameters" in report
    assert "solver = 3" in report


def test_the_ensemble_chose_points(chosen: Workbench) -> None:
    reasons = [json.loads(path.read_text()).get("reason") for path in sorted(chosen.results.rglob("plan.json"))]
    assert any("tensor models disagree" in str(each) for each in reasons), reasons


def test_predictions_know_the_choice(chosen: Workbench) -> None:
    model = str(chosen.results / "latest" / "runtime.npz")
    (chosen.folder / "points.csv").write_text("solver,n,p\n1,3200,1\n2,3200,1\n")
    text = chosen.buran("predict", model, "points.csv", "--at", "p=1,n=3200,solver=3", "--csv")
    rows = {row["solver"]: row for row in csv.DictReader(io.StringIO(text))}
    assert 1.5 * float(rows["1.0"]["predicted"]) < float(rows["2.0"]["predicted"])
    assert set(rows) == {"1.0", "2.0", "3.0"}


def test_choices_with_their_uncertainty(chosen: Workbench) -> None:
    model = str(chosen.results / "latest" / "runtime.npz")
    points = [part for solver in (1, 2, 3) for part in ("--at", f"p=1,n=3200,solver={solver}")]
    found = json.loads(chosen.buran("predict", model, *points, "--json"))["predictions"]
    found.sort(key=lambda each: each["predicted"])
    assert found[0]["solver"] == 1.0 and found[2]["solver"] == 2.0
    assert all(each["lower"] <= each["predicted"] <= each["upper"] for each in found)


def test_a_choice_that_was_not_measured_is_refused(chosen: Workbench) -> None:
    model = str(chosen.results / "latest" / "runtime.npz")
    assert "never measured" in chosen.buran("predict", model, "--at", "p=1,n=3200,solver=7", expect=2)
