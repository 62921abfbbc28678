"""What is written down of a run's circumstances, and what must not be."""

from __future__ import annotations

import json
import subprocess
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


def git(folder: Path, *words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", str(folder), *identity, *words], check=True, capture_output=True)


def test_uncommitted_changes_are_kept(tmp_path: Path) -> None:
    assert provenance.working_copy(tmp_path) == {"commit": None, "diff": None}
    git(tmp_path, "init")
    (tmp_path / "a.c").write_text("int a;\n")
    git(tmp_path, "add", "a.c")
    git(tmp_path, "commit", "-m", "one")
    clean = provenance.working_copy(tmp_path)
    assert clean["commit"] and clean["diff"] is None
    (tmp_path / "a.c").write_text("int b;\n")
    assert "+int b;" in str(provenance.working_copy(tmp_path)["diff"])
