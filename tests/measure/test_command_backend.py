"""Programs that measure themselves, or that another tool measures: what they print, leave, and lack."""

from __future__ import annotations

import json
import shutil
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
from buran.experiment.gprof import read_gprof
from buran.experiment.perf_stat import read_perf_stat
from buran.experiment.read import read_experiment
from buran.experiment.single_run import read_single_run
from buran.files import not_synced
from buran.loop.history import History
from buran.loop.session import Session, open_session
from buran.measure.backends.command import COMMAND, at_root, figures_of_merit
from buran.model import read_models
from buran.profile.metrics import metric_of
from buran.profile.profile import CallTree, Location, Profile, Region
from buran_studies.simulate.in_process import carry_out

PROGRAM = """#!/bin/sh
echo "size $1"
echo "rate: $((1000 / $1)) updates/s"
test -n "$LEAVE" && printf '%s\\n' \\
  '{"params":{"run":1},"callpath":"main","metric":"time","value":0.5}' \\
  '{"params":{"run":1},"callpath":"main->solve","metric":"time","value":'$1'}' \\
  '{"params":{"run":1},"callpath":"main->solve","metric":"cells","value":'$(($1 * $1))'}' \\
  '{"params":{"run":1},"callpath":"main","metric":"cells","value":0}' > "$LEAVE"
exit 0
"""
PERF = """# started on Mon Nov 23 06:39:39 2026

<not supported>,,instructions:u,0,100.00,,
5.46,msec,task-clock,5464167,100.00,0.817,CPUs utilized
62,,page-faults,5464167,100.00,11.347,K/sec
6688950,ns,duration_time,6688950,100.00,1.224,G/sec
12,MiB,ext/read-bytes/,6688950,100.00,,
"""
GPROF = """Flat profile:

Each sample counts as 0.01 seconds.
  %   cumulative   self              self     total
 time   seconds   seconds    calls  ms/call  ms/call  name
 90.17      0.45     0.45        4   112.69   112.69  leaf
  9.00      0.50     0.05                             main
  0.00      0.50     0.00        1     0.00   338.06  ns::mid(int, char const*)
"""


def write_campaign(folder: Path, command: Mapping[str, Any], **keys: Any) -> Path:
    (folder / "source").mkdir(exist_ok=True)
    (folder / "source" / "program.sh").write_text(PROGRAM)
    campaign = {
        "name": "itself",
        "backend": "command",
        "target": {
            "source": "source",
            "build": "cp program.sh program && chmod +x program",
            "binary": "program",
            "run": "{binary} {n}",
        },
        "parameters": {"n": {"role": "size", "values": [1, 2, 4, 5, 8]}},
        "environments": {"here": {"launcher": "none"}},
        "resources": {"ranks": 1, "time_limit_s": 60},
        "repetitions": 1,
        "warmup": False,
        "command": dict(command),
        **keys,
    }
    path = folder / "campaign.json"
    path.write_text(json.dumps(campaign))
    return path


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


def models_of(session: Session) -> dict[str, Any]:
    last = len(History.open(session).plans) - 1
    return {models.metric: models for models in read_models(session.layout.models(session.id, last - 1))}


def reasons(session: Session) -> set[str]:
    runs = [run for outcome in History.open(session).outcomes(History.open(session).plans) for run in outcome.runs]
    return {run.reason for run in runs if run.reason}


def test_what_a_program_prints_is_modelled_beside_the_time_of_the_run(measured: Callable[..., Session]) -> None:
    models = models_of(measured({"figures_of_merit": {"rate": r"rate: (\S+) updates"}}))
    assert models.keys() == {"time", "rate"}
    assert models["rate"].call_paths == ("program",)
    rates = models["rate"].predict(np.array([[2.0], [5.0]]))[0]
    assert rates == pytest.approx([500, 200], rel=0.3)


def test_a_file_that_a_reader_knows_becomes_the_profile(measured: Callable[..., Session]) -> None:
    command = {"variables": {"LEAVE": "profile.jsonl"}, "profile": "*.jsonl", "further_metrics": ["cells"]}
    session = measured({**command, "figures_of_merit": {"rate": r"^rate: (\S+)"}})
    models = models_of(session)
    assert models.keys() == {"time", "cells", "rate"}
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
            {"figures_of_merit": {"fom": r"speed: (\S+)"}},
            ["fom is not in the output", "stdout.log", "nowhere"],
        ),
        ({"figures_of_merit": {"fom": r"(\d+)"}}, ["fom is in the output 2 times", "stdout.log", "lines 1, 2"]),
        ({"figures_of_merit": {"fom": r"rate: (\S+ u)"}}, ["fom is no number", "stdout.log, line 2"]),
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


@pytest.mark.mpi
def test_a_wrapper_stands_before_the_program_or_the_launcher(tmp_path: Path) -> None:
    keys = {"environments": {"here": {"launcher": "mpiexec -n {ranks} {command}"}}, "resources": {"ranks": 2}}
    words = {}
    for wraps in ("program", "launcher"):
        campaign = load_campaign(write_campaign(tmp_path, {"wrapper": "tool", "wraps": wraps}, **keys))
        backend = COMMAND.open(campaign, tmp_path)
        words[wraps], _ = backend.command(campaign, Point.of({"n": 3}), tmp_path, 2, Mode.TIME)
    program = [str(tmp_path / "program"), "3"]
    assert words["program"] == ["mpiexec", "-n", "2", "tool", *program]
    assert words["launcher"] == ["tool", "mpiexec", "-n", "2", *program]


def test_flags_are_those_of_measured_builds(tmp_path: Path) -> None:
    backend = COMMAND.open(load_campaign(write_campaign(tmp_path, {"extra_flags": "-pg"})), tmp_path)
    assert backend.tools(Mode.TIME)["flags"] == "-O2 -pg"
    assert "flags" not in backend.tools(Mode.VANILLA)
    other = COMMAND.open(load_campaign(write_campaign(tmp_path, {})), tmp_path)
    assert backend.identity != other.identity


@pytest.mark.parametrize(
    ("command", "keys", "where", "what"),
    [
        ({"figures_of_merit": {"a": "("}}, {}, "command.figures_of_merit.a", "regular expression"),
        ({"figures_of_merit": {"a": "x"}}, {}, "command.figures_of_merit.a", "one group"),
        ({"figures_of_merit": {"a b": "(x)"}}, {}, "command.figures_of_merit", ""),
        ({"further_metrics": ["a"]}, {}, "command.further_metrics", "no profile"),
        (
            {"further_metrics": ["a"], "profile": "x", "figures_of_merit": {"a": "(x)"}},
            {},
            "command.figures_of_merit.a",
            "a figure of",
        ),
        ({}, {"refinement": {"enabled": True}}, "refinement.enabled", "no filters"),
        ({}, {"metrics": ["time", "basic_blocks"]}, "metrics", "cannot be had"),
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


def test_perf_stat_is_read_with_our_names_and_units(tmp_path: Path) -> None:
    path = tmp_path / "perf.csv"
    path.write_text(PERF)
    table = read_experiment(path)
    values = {name: table.over_locations(name).item() for name in table.metrics}
    assert values == pytest.approx(
        {"task_clock": 5.46e-3, "page_faults": 62, "duration_time": 6.68895e-3, "ext_read_bytes_": 12}
    )
    assert table.units["task_clock"] == table.units["duration_time"] == "sec"
    assert table.units["ext_read_bytes_"] == "MiB"


def test_gprof_is_read_as_functions_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "profile.txt"
    path.write_text(GPROF)
    table = read_experiment(path)
    names = table.tree.names
    seconds = dict(zip(names, table.over_locations("time")[:, 0, 0], strict=True))
    visits = dict(zip(names, table.over_locations("visits")[:, 0, 0], strict=True))
    assert seconds["program->leaf"] == 0.45
    assert visits["program->leaf"] == 4
    assert seconds["program->main"] == 0.05
    assert visits["program->ns::mid(int, char const*)"] == 1
    assert read_single_run(path).values["time"][0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_perf_stat, "<not supported>,,cycles,0,100.00,,\n", "perf counted nothing"),
        (read_perf_stat, "1,,cycles,0,100.00,,\nnonsense\n", "line 2"),
        (read_perf_stat, "1,,cycles,0,100.00,,\n1,,cycles:u,0,100.00,,\n", "twice"),
        (read_gprof, "Flat profile:\n\nno time accumulated\n", "empty"),
        (read_gprof, GPROF + GPROF.splitlines()[-1] + "\n", "twice"),
    ],
)
def test_output_of_a_tool_that_cannot_be_used_is_refused(
    tmp_path: Path, read: Callable[[Path], object], text: str, words: str
) -> None:
    path = tmp_path / "output.txt"
    path.write_text(text)
    with pytest.raises(FormatError, match=words):
        read(path)


def test_a_file_with_several_runs_is_no_single_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"params":{"x":1},"metric":"time","value":3}\n{"params":{"x":2},"metric":"time","value":3}\n')
    with pytest.raises(FormatError, match="not that of one run"):
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


def test_a_figure_is_found_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "stdout.log"
    path.write_text("a: 1\nrate: 2.5e3\n")
    assert figures_of_merit({"rate": r"^rate: (.+)$"}, path) == {"rate": 2500.0}
    with pytest.raises(RunError, match="no number"):
        figures_of_merit({"rate": r"^(rate): "}, path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gprof") is None, reason="gprof is not installed")
def test_a_program_measured_with_gprof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = {
        "extra_flags": "-pg",
        "afterwards": 'gprof -b -p "$BURAN_BINARY" gmon.out > profile.txt',
        "profile": "profile.txt",
    }
    target = {"source": "source", "build": "{cc} {flags} -o loops loops.c", "binary": "loops", "run": "{binary} {n}"}
    sizes = {"n": {"role": "size", "values": [20, 40, 60, 80, 100]}}
    path = write_campaign(tmp_path, command, target=target, parameters=sizes, metrics=["time", "visits"])
    (tmp_path / "source" / "loops.c").write_text(
        "#include <stdlib.h>\nvolatile double s;\n"
        "__attribute__((noinline)) void turn(void) { for (int i = 0; i < 400000; i++) s += i; }\n"
        "int main(int c, char **v) { for (int i = atoi(v[1]); i > 0; i--) turn(); return 0; }\n"
    )
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    with not_synced():
        session = open_session(path)
        carry_out(session)
    visits = models_of(session)["visits"]
    turn = visits.models[visits.call_paths.index("program->turn")]
    assert turn.function.lead(0) == (1, 0)
