"""What is written down of a run's circumstances, and what must not be."""

from __future__ import annotations

import json
from pathlib import Path

from buran.measurement.machine import provenance


def test_secrets_do_not_get_into_records() -> None:
    variables = {
        "OMP_NUM_THREADS": "4",
        "LOADEDMODULES": "gcc:openmpi",
        "UCX_TLS": "rc",
        "CXXFLAGS": "-O3",
        "LDFLAGS": "-static",
        "AWS_SECRET_ACCESS_KEY": "x",
        "GITHUB_TOKEN": "x",
        "SSH_AUTH_SOCK": "x",
        "HOME": "/x",
    }
    assert set(provenance.environment_of(variables)) == {
        *("OMP_NUM_THREADS", "LOADEDMODULES", "UCX_TLS", "CXXFLAGS", "LDFLAGS")
    }


def test_a_node_is_described_once_and_always_alike(tmp_path: Path) -> None:
    name = provenance.record_node(tmp_path)
    provenance.describe_node.cache_clear()
    assert provenance.record_node(tmp_path) == name
    (file,) = (tmp_path / "nodes").iterdir()
    assert json.loads(file.read_text())["kernel"]


def test_the_state_of_the_machine_is_plain_data() -> None:
    state = json.loads(json.dumps(provenance.machine_state()))
    assert state["cpu_mask"] and len(state["load"]) == 3
    assert provenance.tool_versions()["buran"]
