"""What the machine can do: what is there is tried, what is not is named with its cost and what helps."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from buran.measurement.machine import doctor
from buran.measurement.machine.doctor import Health
from buran.measurement.machine.provenance import refused_counters


def ask(*words, **variables):
    return subprocess.run(
        [sys.executable, "-m", "buran.cli", "doctor", *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )


def by_part(text):
    return {finding["part"]: finding for finding in json.loads(text)}


@pytest.mark.mpi
def test_a_machine_that_can_measure(tmp_path):
    done = ask(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    found = by_part(done.stdout)
    assert found["MPI"]["state"] == "works" and found["storage"]["state"] == "works"
    for each in found.values():  # a lack says what it costs
        assert each["found"] and (each["state"] == "works" or each["costs"]), each
    assert not list(tmp_path.iterdir())


def test_a_machine_without_tools_says_what_to_install(tmp_path):
    # Python finds what is installed beside it; a link elsewhere has nothing beside it.
    done = ask(tmp_path, PATH=str(tmp_path), BURAN_MPICC="")
    assert done.returncode == 3 and "Traceback" not in done.stderr
    assert "needed" in done.stdout
    assert "apt install" in done.stdout


def test_no_folder_is_a_mistake(tmp_path):
    done = ask(tmp_path / "none")
    assert done.returncode == 2 and str(tmp_path / "none") in done.stderr


def test_storage_without_hard_links_is_refused(tmp_path, monkeypatch):
    # A mock: no file system without hard links can be mounted here.
    def refuse(first, second):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    found = doctor._storage(tmp_path)
    assert found.state is Health.NEEDED and "Operation not permitted" in found.found and "results" in found.remedy


def test_storage_whose_links_overwrite_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", lambda first, second: Path(second).touch())
    assert doctor._storage(tmp_path).state is Health.NEEDED


@pytest.mark.mpi
def test_the_last_line_is_the_verdict(tmp_path):
    assert ask(tmp_path).stdout.splitlines()[-1].startswith("this machine can")
    assert ask(tmp_path, PATH=str(tmp_path), BURAN_MPICC="").stdout.splitlines()[-1].startswith("nothing can")


def test_counters_are_tried_in_one_group():
    every = ["page-faults", "instructions", "cpu-cycles", "task-clock"]
    refused = refused_counters(every)
    assert set(refused) <= set(every) and all(refused.values())
    assert refused_counters([]) == {}


def test_an_unknown_processor_counts_nothing(monkeypatch):
    monkeypatch.setattr("platform.machine", lambda: "pdp11")
    assert "pdp11" in refused_counters(["instructions"])["instructions"]
