"""Programs that measure themselves, or that another tool measures: what they print, leave, and lack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.errors import ConfigError, FormatError, RunError
from buran.files import not_synced
from buran.measurement.backends.command import COMMAND, at_root, printed_time
from buran.profiles.experiment.read import read_single_run
from buran.profiles.metrics import metric_of
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.workflow.history import History
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import models_of, write_campaign


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Session]:
    """Measure a campaign of the program in this process."""

    def measured(command: Mapping[str, Any], **keys: Any) -> Session:
        monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
        with not_synced():
            session = open_session(write_campaign(tmp_path, command, **keys))
            carry_out(session)
        return session

    return measured


def reasons(session: Session) -> set[str]:
    runs = [run for outcome in History.open(session).outcomes(History.open(session).plans) for run in outcome.runs]
    return {run.reason for run in runs if run.reason}


def test_the_clock_of_a_program_takes_the_place_of_the_time_of_the_run(measured: Callable[..., Session]) -> None:
    models = models_of(measured({"clock": r"rate: (\S+) updates"}))
    assert models.keys() == {"time"}
    assert models["time"].call_paths == ("program",)
    assert models["time"].predict(np.array([[2.0], [5.0]]))[0] == pytest.approx([500, 200], rel=0.3)


def test_a_file_that_a_reader_knows_becomes_the_profile(measured: Callable[..., Session]) -> None:
    command = {"variables": {"LEAVE": "profile.jsonl"}, "profile": "*.jsonl", "further_metrics": ["cells"]}
    models = models_of(measured(command))
    assert models.keys() == {"time", "cells"}
    solve = models["cells"].call_paths.index("main->solve")
    assert models["cells"].models[solve].function.lead(0) == (2, 0)
    assert models["time"].models[models["time"].call_paths.index("main->solve")].function.lead(0) == (1, 0)


def test_what_a_tool_makes_afterwards_is_read(measured: Callable[..., Session]) -> None:
    afterwards = """test -x "$BURAN_BINARY" && echo '{"params":{"x":1},"metric":"time","value":3}' > made.jsonl"""
    session = measured({"afterwards": afterwards, "profile": "made.jsonl"})
    assert not reasons(session)
    assert models_of(session)["time"].models[0].function.constant == pytest.approx(3)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (
            {"clock": r"speed: (\S+)"},
            ["shows no clock", "stdout.log", "nowhere"],
        ),
        ({"clock": r"(\d+)"}, ["is in the output 2 times", "stdout.log", "lines 1, 2"]),
        ({"clock": r"rate: (\S+ u)"}, ["shows no number", "stdout.log, line 2"]),
        ({"profile": "*.cali"}, ["left no file *.cali", "work"]),
        ({"profile": "*.txt", "afterwards": "touch a.txt b.txt"}, ["2 files are named *.txt"]),
        ({"profile": "a.txt", "afterwards": "echo no profile > a.txt"}, ["the profile cannot be read"]),
        ({"profile": "a.txt", "afterwards": "echo oh no; exit 3"}, ["command.afterwards failed", "oh no"]),
        (
            {"variables": {"LEAVE": "p.jsonl"}, "profile": "p.jsonl", "further_metrics": ["joules"]},
            ["no metric joules", "time, cells"],
        ),
    ],
)
def test_a_run_that_does_not_tell_what_it_should_fails_with_the_reason(
    measured: Callable[..., Session], command: Mapping[str, Any], words: list[str]
) -> None:
    said = reasons(measured(command, parameters={"n": {"role": "size", "values": [2, 3]}}))
    assert said
    for word in words:
        assert all(word in reason for reason in said)


def test_only_measured_runs_have_the_wrapper(tmp_path: Path) -> None:
    path = write_campaign(tmp_path, {"wrapper": "perf stat -o 'a b'"})
    backend, point = COMMAND.open(load_campaign(path), tmp_path), Point.of({"n": 3})
    timed, _ = backend.command(load_campaign(path), point, tmp_path, 2, Mode.TIME)
    plain, _ = backend.command(load_campaign(path), point, tmp_path, 2, Mode.VANILLA)
    assert timed == ["perf", "stat", "-o", "a b", *plain]


def test_flags_are_those_of_measured_builds(tmp_path: Path) -> None:
    backend = COMMAND.open(load_campaign(write_campaign(tmp_path, {"extra_flags": "-pg"})), tmp_path)
    assert backend.tools(Mode.TIME)["flags"] == "-O2 -pg"
    assert "flags" not in backend.tools(Mode.VANILLA)
    other = COMMAND.open(load_campaign(write_campaign(tmp_path, {})), tmp_path)
    assert backend.identity != other.identity


@pytest.mark.parametrize(
    ("command", "keys", "where", "what"),
    [
        ({"clock": "("}, {}, "command.clock", "regular expression"),
        ({"clock": "x"}, {}, "command.clock", "one group"),
        ({"further_metrics": ["a"]}, {}, "command.further_metrics", "no profile"),
        ({}, {"refinement": {"enabled": True}}, "refinement.enabled", "no filters"),
        ({}, {"metrics": ["time", "basic_blocks"]}, "metrics", "not available"),
        ({"extra_flags": "-g"}, {"backend": "embedded"}, "command", "no effect"),
    ],
)
def test_mistakes_in_the_section_are_named(
    tmp_path: Path, command: Mapping[str, Any], keys: Mapping[str, Any], where: str, what: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load_campaign(write_campaign(tmp_path, command, **keys))
    said = str(caught.value)
    assert where in said
    assert what in said


def test_a_file_with_several_runs_is_no_single_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"params":{"x":1},"metric":"time","value":3}\n{"params":{"x":2},"metric":"time","value":3}\n')
    with pytest.raises(FormatError, match="of one run"):
        read_single_run(path)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.floats(0.1, 10))
def test_figures_stand_at_one_root_and_change_nothing_else(parents: list[int], figure: float) -> None:
    parent = np.array([min(above, number) - 1 for number, above in enumerate(parents)])
    regions = tuple(Region(f"r{number}") for number in range(len(parent)))
    order = np.arange(len(parent))
    tree = CallTree(regions, region=order, parent=parent)
    if any(above >= number for number, above in enumerate(parent.tolist())):
        return
    stored = tree.inclusive(np.arange(1.0, len(parent) + 1)[:, None])
    profile = Profile(tree, (Location(0),), {"time": metric_of("time")}, {"time": stored}, {})
    changed = at_root(profile, {"figure": figure})
    assert (changed.tree.parent < 0).sum() == 1
    assert changed.exclusive("figure")[0, 0] == figure
    assert changed.exclusive("figure").sum() == figure
    own = dict(zip(tree.names, profile.exclusive("time")[:, 0], strict=True))
    kept = dict(zip(changed.tree.names, changed.exclusive("time")[:, 0], strict=True))
    for name, value in own.items():
        assert pytest.approx(value) == kept.get(name, kept.get(f"program->{name}"))


def test_the_clock_is_found_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_text("a: 1\nrate: 2.5e3\n")
    assert printed_time(r"^rate: (.+)$", path) == 2500.0
    with pytest.raises(RunError, match="no number"):
        printed_time(r"^(rate): ", path)
