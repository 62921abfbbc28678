"""``buran simulate`` through the real workflow: same seed, same plans; killed and resumed, same end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.cli import main
from buran.errors import UsageError
from buran.workflow.session import open_session
from buran_studies.simulate.twin import write_twin
from killed import count, derived, kill_when, start
from simulated_campaigns import PROGRAM, written

EVALUATED: dict[str, Any] = {"evaluation_points": [{"p": 64, "n": 60}], "repetitions": 1}


def real_campaign(folder: Path, **changes: Any) -> Path:
    """Write a campaign of a program that is to be built, and the program's description beside it."""
    path = written(folder)
    data = yaml.safe_load(path.read_text())
    del data["backend"], data["simulated"]
    (folder / "src").mkdir()
    (folder / "src" / "a.c").write_text("int main() {}")
    program = {"source": "src", "build": "make CC={mpicc}", "binary": "a", "run": "{binary} {n}"}
    environments = {"cluster": {"launcher": "srun", "modules": ["gcc"]}}
    path.write_text(yaml.safe_dump({**data, "program": program, "environments": environments, **changes}))
    return path


def test_a_twin_asks_the_same_of_a_description(tmp_path: Path) -> None:
    points = [{"p": 4, "n": 20}, {"p": 8, "n": 30}]
    path = real_campaign(tmp_path, points=points, parameters={"p": {"role": "ranks"}, "n": {"role": "size"}})
    twin = write_twin(path, tmp_path / "twin", program=tmp_path / "program.yaml", budget_core_hours=7.0, seed=5)
    session = open_session(twin)
    assert session.campaign.config.backend == "simulated"
    assert session.campaign.config.seed == 5
    assert session.campaign.config.budget.core_hours == 7.0
    assert [dict(point) for point in session.campaign.points] == points
    assert session.layout.root.is_relative_to(tmp_path / "twin")
    assert session.target.backend.machine.clock == "virtual"


def test_words_that_other_readers_take_for_truth_values_stay_words(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text() + "model: {priors: off}\n")
    twin = write_twin(path, tmp_path / "twin", program=None, budget_core_hours=None, seed=None)
    assert open_session(twin).campaign.config.model.priors == "off"


def test_a_twin_needs_to_know_the_program_and_a_folder_of_its_own(tmp_path: Path) -> None:
    path = real_campaign(tmp_path)
    with pytest.raises(UsageError, match="--program"):
        write_twin(path, tmp_path / "twin", program=None, budget_core_hours=None, seed=None)
    with pytest.raises(UsageError, match="another folder"):
        write_twin(path, tmp_path, program=tmp_path / "program.yaml", budget_core_hours=None, seed=None)


@pytest.mark.parametrize("budget", ["0", "-1", "inf", "nan"])
def test_a_budget_is_above_nothing(tmp_path: Path, budget: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", str(written(tmp_path)), "--budget", budget]) == 2
    assert "budget" in capsys.readouterr().err


def command(file: Path, folder: Path) -> list[str]:
    return ["simulate", str(file), "--folder", str(folder), "--json"]


def finish(file: Path, folder: Path) -> dict[str, Any]:
    process = start(command(file, folder), folder.parent)
    text, _ = process.communicate()
    assert process.returncode == 0, text
    found: dict[str, Any] = json.loads(text[text.index("\n{") :])
    return found


@pytest.mark.thorough
def test_killed_in_every_phase_and_resumed_it_ends_the_same(tmp_path: Path) -> None:
    file = written(tmp_path, **EVALUATED)
    whole = finish(file, tmp_path / "whole")
    folder = tmp_path / "broken"
    # Every phase once; what is left of an earlier kill is gone on with.
    phases = {
        "first builds": count("pointers/builds/*.spec.json", 1),
        "first measurements": count("store/*/*/*~*/rep-*/run.json", 4),
        "first models": count("iterations/*/0/models.json", 1),
        "refined filter": count("iterations/*/1/scorep.filter", 1),
        "times under the new filter": count("iterations/*/1/plan.json", 1),
        "evaluation": count("iterations/*/2/plan.json", 1),
        "the last plan": count("iterations/*/3/plan.json", 1),
    }
    for reached in phases.values():
        kill_when(command(file, folder), folder.parent, folder / "results" / "sim", reached)
    ended = finish(file, folder)
    # A run that was killed stays in the ledger, without costs: what was simulated of it is nothing.
    aborted = [each for each in ended["account"] if each["phase"] == "aborted"]
    assert all(each["core_hours"] == 0 for each in aborted)
    ended["account"] = [each for each in ended["account"] if each not in aborted]
    assert ended == whole
    assert derived(folder / "results" / "sim") == derived(tmp_path / "whole" / "results" / "sim")
    assert whole["models"]


@pytest.mark.thorough
def test_the_same_seed_gives_the_same_plans_another_another(tmp_path: Path) -> None:
    noisy = {**PROGRAM, "noise": {"percent": 5, "tail": {"probability": 0.05, "mean": 1}}}
    file = written(tmp_path, noisy, strategy={"name": "design", "max_iterations": 2}, budget={"core_hours": 0.05})
    one, two = (finish(file, tmp_path / name) for name in ("one", "two"))
    assert one == two
    assert derived(tmp_path / "one" / "results" / "sim") == derived(tmp_path / "two" / "results" / "sim")
