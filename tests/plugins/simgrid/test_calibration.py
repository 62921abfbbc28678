"""What computing costs by a calibration: at its points, between them, and where it says nothing."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from campaign_files import WriteCampaign
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.plugins.simgrid.calibration import Calibration, weights
from buran.plugins.simgrid.simulator import SimGrid

MACHINE: dict[str, Any] = {
    "topology": "crossbar", "nodes": 4, "cores_per_node": 2, "bandwidth_gb_s": 12.5, "latency_us": 0.5,
    "calibrated": "calibration.json",
}  # fmt: skip
# A block of `work` costs 10 ns at n = 10 and 40 at 160; `idle` computed at p = 2 alone; nothing is known of `call`.
CALIBRATION = Calibration(
    parameters=("p", "n"),
    parallel=("p",),
    choices=(),
    points=((1.0, 10.0), (1.0, 160.0), (2.0, 10.0)),
    depths=(0, 1, 2, 2, 1),
    symbols=("", "main", "work", "idle", "call"),
    seconds_per_block=(
        (1e-9, 1e-9, 1e-9),
        (2e-9, 2e-9, 2e-9),
        (1e-8, 4e-8, 1e-8),
        (None, None, 3e-9),
        (None, None, None),
    ),
    base=(math.log(1e-9), math.log(2e-9), math.log(2e-8), math.log(3e-9), None),
    effects={
        "p": ((0.0, 0.0),) * 5,
        "n": ((0.0, 0.0), (0.0, 0.0), (math.log(0.5), math.log(2)), (0.0, 0.0), (0.0, 0.0)),
    },
    uncertainty=0.05,
)


def costs(**point: int) -> dict[str, float]:
    lines = [line.split(" ") for line in CALIBRATION.costs(point).splitlines()]
    assert [int(line[0]) for line in lines] == list(CALIBRATION.depths)
    return {line[2]: float(line[1]) for line in lines}


def test_at_a_measured_point_costs_are_the_measured_ones() -> None:
    assert costs(p=1, n=10) == {"": 1e-9, "main": 2e-9, "work": 1e-8, "idle": pytest.approx(3e-9), "call": 1e-9}


def test_between_points_costs_are_modelled_and_beyond_the_ranks_they_stay() -> None:
    assert costs(p=1, n=40)["work"] == pytest.approx(2e-8)
    assert costs(p=1024, n=40) == pytest.approx(costs(p=2, n=40))


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=5, unique=True).map(sorted), st.floats(0, 1))
def test_neighbours_share_a_value_between_them(values: list[float], share: float) -> None:
    value = values[0] + share * (values[-1] - values[0])
    found = weights(values, min(max(value, values[0]), values[-1]))
    assert sum(found.values()) == pytest.approx(1) and all(-1e-9 <= weight <= 1 + 1e-9 for weight in found.values())
    assert max(found) - min(found) <= 1


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"p": 64, "n": 20}, None),
        ({"p": 1, "n": 161}, "n was 10 to 160 there"),
        ({"p": 1, "n": 9}, "n was 10 to 160 there"),
        ({"p": 1}, "a parameter 'n', which the campaign does not have"),
        ({"p": 1, "n": 10, "m": 3}, "no parameter 'm'"),
    ],
)
def test_points_that_are_not_covered_are_named(point: dict[str, int], words: str | None) -> None:
    said = CALIBRATION.uncovered(point)
    assert said is None if words is None else said is not None and words in said
    assert CALIBRATION.uncovered({"p": 1, "n": 10, "network": 2}, ["network"]) is None


def written(folder: Path, **changes: Any) -> None:
    content = {"schema": Calibration.schema_read, **asdict(CALIBRATION), **changes}
    (folder / "calibration.json").write_text(json.dumps(content))


def test_a_campaign_takes_its_costs_from_a_calibration(write_campaign: WriteCampaign) -> None:
    path = write_campaign(environments__desk={"machine": MACHINE})
    written(path.parent)
    campaign = load_campaign(path)
    assert isinstance(campaign.simulator, SimGrid)
    platform = campaign.simulator.at({"p": 2, "n": 10})
    assert platform.costs({"p": 2, "n": 10}) == CALIBRATION.costs({"p": 2, "n": 10})
    assert "calibration.json" in campaign.simulated_on
    before = campaign.digest()
    written(path.parent, uncertainty=0.06)
    assert load_campaign(path).digest() != before
    written(path.parent, modelled=1, uncertainty_beyond=0.2)
    campaign = load_campaign(path)
    assert campaign.digest() != before
    assert "20 % uncertain" in campaign.simulated_on


def test_one_of_before_costs_could_be_modelled_is_the_same(write_campaign: WriteCampaign) -> None:
    path = write_campaign(environments__desk={"machine": MACHINE})
    written(path.parent)
    new = load_campaign(path).digest()
    content = json.loads((path.parent / "calibration.json").read_text())
    del content["modelled"], content["uncertainty_beyond"]
    content["doubt"] = content.pop("uncertainty")
    (path.parent / "calibration.json").write_text(json.dumps(content))
    assert load_campaign(path).digest() == new
    assert CALIBRATION.content == "74e2adf5bedb"


@pytest.mark.parametrize(
    ("keys", "content", "words"),
    [
        ({}, None, ["what computing costs cannot be read", "finish the measured campaign first"]),
        ({}, {"schema": "buran-calibration/0"}, ["no calibration of this version"]),
        ({"calibrated": "measured.yaml"}, {}, ["what computing costs cannot be read", "no such file"]),
        ({"seconds_per_block": 1e-9}, {}, ["said twice what computing costs"]),
        ({"calibrated": None}, {}, ["not said what computing costs"]),
        ({}, {"points": [[1, 20], [1, 160], [2, 20]]}, ["does not cover", "n=10", "n was 20 to 160 there"]),
    ],
)
def test_a_calibration_that_does_not_do_is_refused(
    write_campaign: WriteCampaign, keys: dict[str, Any], content: dict[str, Any] | None, words: list[str]
) -> None:
    path = write_campaign(environments__desk={"machine": {k: v for k, v in (MACHINE | keys).items() if v is not None}})
    if content is not None:
        written(path.parent, **content)
    with pytest.raises(CampaignError) as caught:
        load_campaign(path)
    for word in words:
        assert word in str(caught.value)
    assert "environments.desk.machine" in str(caught.value)
