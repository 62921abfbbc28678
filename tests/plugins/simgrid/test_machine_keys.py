"""Every key of a simulated machine says what it decides; what a change of it causes is what it says."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
from test_document import NEW as LOADED
from test_document import refused, written
from test_identity import folder, identities, loaded

from buran.campaign.identity import Decides, decides
from buran.campaign.mistakes import spelled
from buran.plugins.simgrid.calibration import Calibration
from buran.plugins.simgrid.keys import MachineKeys

__all__ = ["folder"]
NEW: dict[str, Any] = {
    "topology": "torus", "platform": "one.xml", "nodes": 128, "cores_per_node": 2, "shape": [8, 8, 8],
    "bandwidth_gb_s": 25.0, "latency_us": 0.5, "loopback_bandwidth_gb_s": 1.0, "loopback_latency_us": 1.0,
    "collectives": "mpich", "factors": "simgrid", "seconds_per_block": 2e-9, "run_limit": 60.0,
    "calibrated": "calibration.json", "eager_limit_bytes": 4096, "what_if": {"n": {"10": {"bandwidth_gb_s": 25.0}}},
}  # fmt: skip
"""Another value of each key."""
MACHINE: dict[str, Any] = {
    "topology": "crossbar", "nodes": 64, "cores_per_node": 1, "bandwidth_gb_s": 10.0, "latency_us": 1.0,
    "seconds_per_block": 1e-9,
}  # fmt: skip
OTHER_MACHINES: dict[str, dict[str, Any]] = {
    "platform": {"platform": "zero.xml", "seconds_per_block": 1e-9},
    "calibrated": {**{k: v for k, v in MACHINE.items() if k != "seconds_per_block"}, "calibrated": "zero.json"},
    "shape": {**MACHINE, "topology": "fat_tree"},
}


def test_every_key_is_tried() -> None:
    assert set(MachineKeys.model_fields) == set(NEW)


@pytest.mark.parametrize("key", NEW)
def test_a_change_causes_what_the_key_says(folder: Path, key: str) -> None:
    for name in ("zero.xml", "one.xml"):
        (folder / name).write_text(f'<platform><cluster radical="0-63" prefix="{name}"/></platform>')
    for name, cost in (("zero.json", 1e-9), ("calibration.json", 2e-9)):
        costs = Calibration(
            ("n", "p"), ("p",), (), ((1.0, 1.0), (1000.0, 1.0)), (0,), ("",), ((cost, cost),), (math.log(cost),),
            {"n": ((0.0, 0.0),), "p": ((0.0,),)}, None,
        )  # fmt: skip
        (folder / name).write_text(json.dumps({"schema": Calibration.schema_read, **dataclasses.asdict(costs)}))
    machine = OTHER_MACHINES.get(key, MACHINE)
    both = (machine, {**machine, key: NEW[key]})
    before, after = (identities(loaded(folder, {"environments.here.machine": each})) for each in both)
    changed_target, changed_question, changed_run = (one != other for one, other in zip(before, after, strict=True))
    decided = decides(MachineKeys.model_fields[key])
    assert decided is not None and decided is not Decides.TARGET
    assert not changed_target
    assert changed_question is decided.changes_the_question
    assert changed_run is (decided is Decides.RUN)


def test_a_key_of_an_earlier_version_is_refused_with_its_name_now(tmp_path: Path) -> None:
    changes = {"environments": {"a": {"machine": {"run_limit_s": 1}}}}
    mistakes = refused(written(tmp_path, LOADED | changes)).mistakes
    (mistake,) = (each for each in mistakes if spelled(each.path) == "environments.a.machine.run_limit_s")
    assert mistake.line > 0
    assert "environments.machine.run_limit" in str(mistake.hint)
