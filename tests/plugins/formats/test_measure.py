"""The key ``measure``: what it stands for, what it contradicts, what a machine lacks, and what tools leave."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profiles_of_tools import hpctoolkit, tau

from buran.campaign.load import load_campaign
from buran.errors import ConfigError
from buran.files import not_synced
from buran.measurement.schedulers.base import NONE
from buran.plugins.formats.measure import FEATURE
from buran.workflow.history import History
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import models_of, write_campaign_of

PROGRAM = '#!/bin/sh\necho "solve: 0.$1 s"\ntest -z "$GMON_OUT_PREFIX" || touch "$GMON_OUT_PREFIX.$$"\n'
SIZES = {"n": {"role": "size", "values": [1, 2, 4, 5, 8]}}


def campaign(folder: Path, measure: Any, script: str = PROGRAM, **keys: Any) -> Path:
    keys = {"backend": "command", "measure": measure, "parameters": SIZES, **keys}
    return write_campaign_of(script, folder, **keys)


def measured(path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(path.parent))
    with not_synced():
        session = open_session(path)
        carry_out(session)
    return session


def reasons(session: Session) -> set[str]:
    history = History.open(session)
    return {run.reason for outcome in history.outcomes(history.plans) for run in outcome.runs if run.reason}


def stub(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program on PATH that behaves as a tool's documentation says."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / name).write_text(f"#!/bin/sh\n{script}\n")
    (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")


@pytest.mark.parametrize("short", ["perf", {"tool": "perf"}])
def test_a_tool_stands_for_keys_of_command(tmp_path: Path, short: Any) -> None:
    config = load_campaign(campaign(tmp_path, short)).config
    assert config.backend == "command"
    assert config.metrics == ("time",)
    assert config.command.further_metrics == ("task_clock", "page_faults", "context_switches")
    assert (config.command.profile, config.command.format) == ("measured", "perf")
    by_hand = campaign(tmp_path, None, command=config.command.model_dump(exclude_unset=True), metrics=["time"])
    assert load_campaign(by_hand).digest() == load_campaign(campaign(tmp_path, short)).digest()


def test_events_become_metrics_by_our_names(tmp_path: Path) -> None:
    keys = {"tool": "perf", "events": ["cpu-cycles:u", "L1-dcache-loads"]}
    config = load_campaign(campaign(tmp_path, keys, command={"further_metrics": ["page_faults"]})).config
    assert config.command.further_metrics == ("cycles", "L1_dcache_loads", "page_faults")
    assert "-e cpu-cycles:u,L1-dcache-loads " in str(config.command.wrapper)


@pytest.mark.parametrize(
    ("measure", "keys", "where", "what"),
    [
        ("prof", {}, "measure.tool", "did you mean 'gprof'"),
        ({"tool": "perf", "events": ["a'; rm -r x"]}, {}, "measure.events", "not allowed"),
        ({"tool": "perf", "events": ["cycles:u", "cpu-cycles"]}, {}, "measure.events", "cycles"),
        ({"tool": "gprof", "events": ["cycles"]}, {}, "measure.events", "is of perf"),
        ({"tool": "perf", "clock": "a (.)"}, {}, "measure.clock", "is of printed"),
        ("printed", {}, "measure", "needs a clock"),
        ({"tool": "printed", "clock": "("}, {}, "measure.clock", "regular expression"),
        ("perf", {"backend": "embedded"}, "backend", "itself"),
        ("perf", {"command": {"wrapper": "time"}}, "command.wrapper", "itself"),
        ("perf", {"aggregate": "max"}, "aggregate", "mean over ranks"),
        (3, {}, "measure", "not allowed"),
    ],
)
def test_contradictions_are_named(tmp_path: Path, measure: Any, keys: Mapping[str, Any], where: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_campaign(campaign(tmp_path, measure, **keys))
    assert where in str(caught.value)
    assert what in str(caught.value)


def test_a_missing_tool_is_named_before_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for tool, programs in {"perf": "perf", "gprof": "gprof", "hpctoolkit": "hpcrun, hpcstruct, hpcprof"}.items():
        notes = list(FEATURE.ahead(load_campaign(campaign(tmp_path, tool)), NONE))  # type: ignore[misc]
        assert notes[0].startswith(programs)
    for tool in (None, "caliper", {"tool": "printed", "clock": "a (.)"}):
        assert not list(FEATURE.ahead(load_campaign(campaign(tmp_path, tool)), NONE))  # type: ignore[misc]


def test_events_that_the_machine_does_not_count_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = campaign(tmp_path, {"tool": "perf", "events": ["instructions", "task-clock"]})
    stub(
        tmp_path,
        "perf",
        "echo '<not supported>,,instructions,0,100.00,,' >&2; echo '1,msec,task-clock,1' >&2",
        monkeypatch,
    )
    (note,) = FEATURE.ahead(load_campaign(path), NONE)  # type: ignore[misc]
    assert "instructions" in note
    stub(tmp_path, "perf", "echo 'No permission' >&2; exit 255", monkeypatch)
    (note,) = FEATURE.ahead(load_campaign(path), NONE)  # type: ignore[misc]
    assert "No permission" in note


def test_a_printed_time_is_modelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = measured(campaign(tmp_path, {"tool": "printed", "clock": r"solve: (\S+) s"}), monkeypatch)
    assert models_of(session)["time"].models[0].function.lead(0) == (1, 0)


PERF = """
while [ "$1" != -o ]; do shift; done
file=$2; shift 3; "$@"; code=$?
{ echo "# started"; echo; echo "10.0,msec,task-clock,1,100.00,,"; echo "$(($2 * $2)),,page-faults,1,100.00,,"
  echo "0,,context-switches,1,100.00,,"; } > "$file"
exit $code
"""


def test_each_rank_leaves_a_file_and_their_mean_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stub(tmp_path, "perf", PERF, monkeypatch)
    stub(tmp_path, "launch", '"$@" & "$@" & wait', monkeypatch)
    keys = {"environments": {"here": {"launcher": "launch {command}"}}, "resources": {"ranks": 2, "time_limit": 60}}
    session = measured(campaign(tmp_path, "perf", **keys), monkeypatch)
    assert not reasons(session)
    models = models_of(session)
    assert models.keys() == {"time", "task_clock", "page_faults", "context_switches"}
    assert models["page_faults"].models[0].function.lead(0) == (2, 0)
    assert models["task_clock"].models[0].function.constant == pytest.approx(0.01)


def test_hpctoolkit_leaves_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hatchet")
    for n in SIZES["n"]["values"]:  # type: ignore[attr-defined]
        hpctoolkit(tmp_path / "databases" / str(n), [(0, 1, n)])
    run = 'while [ "$1" != -o ]; do shift; done; folder=$2; shift 2; "$@" || exit 1; mkdir -p $folder'
    stub(tmp_path, "hpcrun", f'{run}; echo $2 > "$folder/program-000000-000-a8c0-$$-0.hpcrun"', monkeypatch)
    stub(tmp_path, "hpcstruct", 'test -d "$1"', monkeypatch)
    copy = f'cp -r {tmp_path}/databases/$(cat "$3"/*.hpcrun) "$2"'
    stub(tmp_path, "hpcprof", f'test "$1" = -o && {copy}', monkeypatch)
    session = measured(campaign(tmp_path, "hpctoolkit"), monkeypatch)
    assert not reasons(session)
    times = models_of(session)["time"]
    solve = next(row for row, path in enumerate(times.call_paths) if path.endswith("->solve"))
    assert times.models[solve].function.lead(0) == (1, 0)


def test_tau_leaves_two_clocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("hatchet")
    for n in SIZES["n"]["values"]:  # type: ignore[attr-defined]
        for clock, share in (("TIME", 2), ("CPU_TIME", 1)):
            times = {("main",): 1e6, ("main", "solve"): 1e6 * n * share}
            tau(tmp_path / "profiles" / str(n) / f"MULTI__{clock}", [times])
    run = f'test "$1 $2 $TAU_METRICS" = "-T mpi TIME:CPU_TIME" && cp -r {tmp_path}/profiles/$4/* .'
    stub(tmp_path, "tau_exec", run, monkeypatch)
    session = measured(campaign(tmp_path, "tau"), monkeypatch)
    assert not reasons(session)
    models = models_of(session)
    assert models.keys() == {"time", "visits", "cpu_time"}
    solve = next(row for row, path in enumerate(models["cpu_time"].call_paths) if path.endswith("->solve"))
    assert models["cpu_time"].predict(np.array([[10.0]]))[solve] == pytest.approx(10)


CALIPER = """#!/bin/sh
test -z "$CALI_CONFIG" || echo '{"data": [['$1'.5, 0], [1.0, 1]], "columns": ["time", "path"],
  "column_metadata": [{"is_value": true, "attribute.unit": "sec"}, {"is_value": false}],
  "nodes": [{"label": "main", "column": "path"}, {"label": "solve", "column": "path", "parent": 0}]}' \
  > "${CALI_CONFIG##*output=}"
"""


def test_caliper_leaves_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = measured(campaign(tmp_path, "caliper", CALIPER), monkeypatch)
    assert not reasons(session)
    times = models_of(session)["time"]
    main = next(row for row, path in enumerate(times.call_paths) if path.endswith("main"))
    assert times.models[main].function.lead(0) == (1, 0)


def test_a_program_without_caliper_fails_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = reasons(measured(campaign(tmp_path, "caliper", parameters={"n": [1, 2]}), monkeypatch))
    assert said
    assert all("profile.json" in reason for reason in said)


@pytest.mark.parametrize("tool", ["perf", "gprof"])
def test_a_rank_that_left_nothing_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str) -> None:
    stub(tmp_path, "perf", PERF, monkeypatch)
    stub(tmp_path, "gprof", "echo 'Flat profile:'", monkeypatch)
    keys = {
        "environments": {"here": {"launcher": "env {command}"}},
        "resources": {"ranks": 2, "time_limit": 60},
        "parameters": {"n": {"role": "size", "values": [1, 2]}},
    }
    said = reasons(measured(campaign(tmp_path, tool, **keys), monkeypatch))
    assert said
    assert all("1 of 2 ranks" in reason for reason in said)


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.skipif(shutil.which("gprof") is None, reason="gprof is not installed")
def test_gprof_measures_each_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = {
        "source": "source",
        "build": "{mpicc} {flags} -o loops loops.c",
        "binary": "loops",
        "run": "{binary} {n}",
    }
    keys = {"program": program, "environments": {"here": {}}, "resources": {"ranks": 2, "time_limit": 60}}
    path = campaign(tmp_path, "gprof", **keys, parameters={"n": {"role": "size", "values": [20, 40, 60, 80, 100]}})
    (tmp_path / "source" / "loops.c").write_text(
        "#include <mpi.h>\n#include <stdlib.h>\nvolatile double s;\n"
        "__attribute__((noinline)) void turn(void) { for (int i = 0; i < 400000; i++) s += i; }\n"
        "int main(int c, char **v) { int r; MPI_Init(&c, &v); MPI_Comm_rank(MPI_COMM_WORLD, &r);\n"
        "for (int i = (1 + r) * atoi(v[1]); i > 0; i--) turn(); MPI_Finalize(); return 0; }\n"
    )
    session = measured(path, monkeypatch)
    assert not reasons(session)
    visits = models_of(session)["visits"]
    turn = visits.call_paths.index("program->turn")
    assert visits.models[turn].function.lead(0) == (1, 0)
    assert visits.predict(np.array([[20.0]]))[turn] == pytest.approx(30)  # the mean of 20 and 40
