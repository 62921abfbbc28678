"""Versions of which one was simulated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError

MACHINE = {
    "topology": "crossbar", "nodes": 4, "cores_per_node": 2, "bandwidth_gb_s": 12.5, "latency_us": 0.5,
    "seconds_per_block": 1e-9,
}  # fmt: skip
TARGET = {"source": ".", "build": "{mpicc} a.c", "binary": "a.out", "run": "{binary} {n}"}


@pytest.mark.parametrize(("before", "is_simulated"), [("", True), ("a simulated machine: ...", False)])
def test_simulated_and_measured_versions_are_not_mixed(tmp_path: Path, before: str, is_simulated: bool) -> None:
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "report.json").write_text(json.dumps({"simulated_on": before}))
    environments = {"desk": {"machine": MACHINE} if is_simulated else {}}
    parameters = {"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [1, 2]}}
    keys = {"name": "mixed", "program": TARGET, "environments": environments, "compare_with": "before"}
    path = tmp_path / "campaign.json"
    path.write_text(json.dumps({**keys, "parameters": parameters, "resources": {"ranks": "p"}}))
    (tmp_path / "a.c").touch()
    with pytest.raises(CampaignError, match="earlier version"):
        load_campaign(path)
