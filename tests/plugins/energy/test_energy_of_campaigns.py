"""Campaigns that ask for energy: from a made-up counter, which the program itself advances, to models and report."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from buran.campaign.identity import Decides, decides
from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.campaign.plan import Mode
from buran.campaign.shape import shape_of_files
from buran.files import not_synced
from buran.plugins.energy import campaign as energy
from buran.plugins.energy.campaign import consumed, energy_notes, energy_table
from buran.plugins.energy.powercap import FOLDER_VARIABLE
from buran.profiles.experiment.read import read_experiment
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import write_campaign_of

pytestmark = pytest.mark.slow

RANGE_UJ = 20_000_000
JOULES = "3 + n^2 / 4"
PROGRAM = f"""#!/bin/sh
counter="$BURAN_POWERCAP/intel-rapl:0/energy_uj"
test -w "$counter" && echo $((($(cat "$counter") + 3000000 + 250000 * $1 * $1) % {RANGE_UJ})) > "$counter"
exit 0
"""


def folder_of_zones(folder: Path) -> Path:
    zone = folder / "zones" / "intel-rapl:0"
    zone.mkdir(parents=True)
    for name, text in (("name", "package-0"), ("energy_uj", "19999999"), ("max_energy_range_uj", str(RANGE_UJ))):
        (zone / name).write_text(f"{text}\n")
    return folder / "zones"


def write_campaign(folder: Path, **keys: Any) -> Path:
    own = {"name": "joules", "target": {"n": 16}, "repetitions": 2, "energy": True}
    return write_campaign_of(PROGRAM, folder, **(own | keys))


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    def measured(**keys: Any) -> Session:
        monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
        with not_synced():
            session = open_session(write_campaign(tmp_path, **keys))
            carry_out(session)
            write_results(History.open(session), tmp_path / "out")
        return session

    return measured


def test_joules_are_modelled_and_stand_beside_core_hours(
    measured: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder_of_zones(tmp_path)))
    measured()
    table = read_experiment(tmp_path / "out" / "experiment.jsonl")
    joules = table.over_locations("energy")[list(table.tree.names).index("program")]
    points = table.points[:, 0]
    np.testing.assert_allclose(joules, np.repeat((3 + points**2 / 4)[:, None], 2, axis=1), rtol=1e-6)
    assert table.units["energy"] == "J"
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    found = report["energy"]
    assert [row["joules"] for row in found["rows"]] == pytest.approx((3 + points**2 / 4).tolist())
    assert found["source"] == "powercap" and found["runs"] == [20, 20]
    assert found["joules"] == pytest.approx(4 * (3 + points**2 / 4).sum())
    value, low, high = found["joules_at_target"]
    assert low <= value <= high and value == pytest.approx(3 + 16**2 / 4, rel=1e-6)
    seconds = [row["core_hours"] * 3600 for row in found["rows"]]
    assert all(0 < each < 10 for each in seconds)
    assert "energy" in report["models"]
    text = (tmp_path / "out" / "report.txt").read_text()
    assert "3 + 0.25 n^2" in text and "n=16, predicted" in text
    page = (tmp_path / "out" / "report.html").read_text()
    assert '<section id="energy">' in page and "n=16, predicted" in page


def test_a_machine_that_tells_none_is_said_to(
    measured: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    session = measured()
    assert "energy" not in read_experiment(tmp_path / "out" / "experiment.jsonl").metrics
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["energy"] is None and "energy" not in report["models"]
    (note,) = (note for note in report["notes"] if "energy" in note)
    assert "20 of 20 runs" in note and "is not there" in note
    assert "energy" not in (tmp_path / "out" / "page.json").read_text()
    assert energy_notes(History.open(session)) == [note]


def test_runs_from_before_count_and_have_no_energy(
    measured: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder_of_zones(tmp_path)))
    measured(energy=False, parameters={"n": {"role": "size", "values": [1, 2, 4, 5]}})
    session = measured()
    history = History.open(session)
    assert len(consumed(history, history.runs).joules) == 4 and len(history.runs) == 20
    (note,) = energy_notes(history)
    assert "16 of 20 runs" in note and "key energy" in note


def test_what_different_sources_count_is_not_mixed(
    measured: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder_of_zones(tmp_path)))
    history = History.open(measured())
    read = history.run_record

    def other(folder: Path) -> Any:
        record = read(folder)
        given = {"exclusive": False} if record.point["n"] == 2 else None
        return replace(record, allocation=given, energy_from="slurm" if record.point["n"] == 8 else "powercap")

    history.__dict__["run_record"] = other
    table = energy_table(history, history.runs, None)
    assert table is not None and table.points[:, 0].tolist() == [1, 2, 4, 5]
    notes = " ".join(energy_notes(history))
    assert "counted by slurm" in notes
    assert "of other programs" in notes


def test_simulated_programs_and_machines_consume_nothing(tmp_path: Path) -> None:
    with pytest.raises(CampaignError, match="backend: simulated"):
        load_campaign(write_campaign(tmp_path, backend="simulated", simulated="program.yaml"))


def test_hooks_are_taken_out_where_the_program_did_not_run_without(
    measured: Callable[..., Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder_of_zones(tmp_path)))
    history = History.open(measured())
    known = consumed(history, history.runs)
    dearer = {
        run.folder: joules * (1.25 if run.mode is Mode.TIME else 1)
        for run in history.runs
        for joules in [known.joules[run.folder]]
    }
    monkeypatch.setattr(energy, "consumed", lambda *_: replace(known, joules=dearer))
    fewer = [run for run in history.runs if run.point["n"] != 8 or run.mode is Mode.TIME]
    table = energy_table(history, fewer, None)
    assert table is not None
    np.testing.assert_allclose(table.over_locations("energy")[0, -1], 3 + 8**2 / 4, rtol=1e-6)


def test_the_key_makes_another_campaign_of_the_same_runs(tmp_path: Path) -> None:
    without, before = (load_campaign(write_campaign(tmp_path, energy=asked)) for asked in (False, True))
    assert without.digest() != before.digest()
    assert decides(shape_of_files().model_fields["energy"]) is Decides.PLAN
