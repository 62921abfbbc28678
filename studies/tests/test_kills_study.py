"""The study of kills: nothing is lost or doubled, what falls is seen, the engine does not wait for itself."""

from __future__ import annotations

import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from buran.errors import Exit, UsageError
from buran_studies.evaluation.study import NEEDS, RESULTS, Settings
from buran_studies.kills import campaign, study
from buran_studies.kills.campaign import Harassed, write_campaign
from buran_studies.kills.hook import RENAMES, Hook, role_of

STEPS = Settings("kills", preset="steps", draws=12)


def test_the_kills_are_shared_out() -> None:
    undisturbed, *others = study.shards(Settings("kills", draws=120))
    assert [shard["kills"] for shard in others] == [50, 50, 20]
    assert all(shard[NEEDS] == [undisturbed] for shard in others)
    with pytest.raises(UsageError, match="no preset 'paper'"):
        study.shards(Settings("kills", preset="paper"))


@pytest.mark.thorough
def test_steps_that_are_killed_lose_and_double_nothing() -> None:
    undisturbed, disturbed = study.shards(STEPS)
    expected = study.run_shard(undisturbed, STEPS)
    found = study.run_shard({**disturbed, RESULTS: [expected]}, STEPS)
    assert len(found["kills"]) == 12 and found["starts"] > 12
    assert (found["lost"], found["doubled"], found["stuck"], found["other"]) == ([], [], [], 0)
    evaluation = study.summarise([expected, found], STEPS)
    assert [figure.value for figure in evaluation.figures] == [12, found["starts"] + 1, 0, 0, 0, 0]
    assert sum(int(row[-1] or 0) for row in evaluation.tables[0].rows) == 12


@pytest.fixture
def harassed(tmp_path: Path) -> Harassed:
    """Write a simulated campaign."""
    made = Harassed(tmp_path / "campaign", random.Random(0))
    write_campaign(made.folder, measured=False)
    return made


def test_what_is_lost_changed_or_begun_twice_is_seen(harassed: Harassed) -> None:
    assert harassed.step(None) == Exit.DONE
    first, second, *_ = map(Path, sorted(path for path in harassed.finished if "/rep-" in path))
    shutil.rmtree(first)
    (second / "SHA256SUMS").chmod(0o644)
    (second / "SHA256SUMS").write_text("")
    harassed.verify()
    assert any(second.name in text for text in harassed.stuck)
    for pointer in harassed.layout.made_pointers("bundles"):
        pointer.unlink()
    harassed.step(None)
    assert {str(first), str(second)} <= harassed.lost


def test_a_run_that_begins_beside_another_is_noted(tmp_path: Path) -> None:
    hook = Hook(str(tmp_path), "job")
    (tmp_path / "rep-00").mkdir()
    (tmp_path / "rep-00" / "run.json").touch()
    hook.watch_run(str(tmp_path / ".tmp-rep-00-12-ab"))
    (tmp_path / ".tmp-rep-01-12-ab").mkdir()
    hook.watch_run(str(tmp_path / ".tmp-rep-01-13-cd"))
    hook.watch_run(str(tmp_path / ".tmp-rep-02-13-cd"))
    assert [line.count("again") for line in (tmp_path / "log").read_text().splitlines()] == [1, 1]


@pytest.mark.parametrize(
    ("words", "role"),
    [
        (["python", "-I", "-S", "/b/workflow/engine/supervisor.py", "60", "python", "-m", "snakemake"], "supervisor"),
        (["python", "-m", "buran.cli", "run"], "controller"),
        (["python", "-m", "snakemake", "--snakefile", "S"], "engine"),
        (["python", "/r/.snakemake/scripts/tmp1.measure.py"], "job"),
        (["make"], None),
    ],
)
def test_roles_are_told_by_command_lines(words: list[str], role: str | None) -> None:
    assert role_of(words) == role


@pytest.mark.thorough
def test_the_engine_is_stopped_while_it_updates_its_plan_and_the_next_run_goes_on(harassed: Harassed) -> None:
    """It logs the update while its thread holds the lock that its handler of SIGTERM waits for."""

    def aim(victim: str, number: signal.Signals) -> dict[str, Any]:
        where = {"role": "engine", "at": "checkpoint", "number": 0, "after": False}
        return {**where, "victim": victim, "signal": int(number), "hold_s": 0.2}

    assert harassed.run([aim("engine", signal.SIGTERM)]) == Exit.ENVIRONMENT
    assert harassed.run([aim("controller", signal.SIGKILL)]) == -signal.SIGKILL
    assert [kill["killed"] for kill in harassed.kills] == ["engine", "controller"]
    assert harassed.run() == Exit.DONE
    harassed.verify()
    assert (harassed.lost, harassed.doubled, harassed.stuck) == (set(), [], [])


def test_calls_that_are_counted_are_the_systems_own() -> None:
    assert all(getattr(os, name) is campaign.hook._plain[name] for name in RENAMES)  # only children are hooked
