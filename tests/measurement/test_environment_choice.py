"""A parameter that chooses environments: each is built and run in its own, with an identity of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError, spelled
from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.records import Status, read_build
from buran.cli import main
from buran.errors import Exit, ToolError
from buran.files import not_synced, read_json
from buran.measurement.backends.command import OtherTools
from buran.measurement.build import build
from buran.measurement.earlier_runs import RecordedBackend
from buran.workflow.history import FinishedRun, History
from buran.workflow.refine import start_build
from buran.workflow.report import write_results
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import write_campaign_of

SCRIPT = '#!/bin/sh\necho "runs with $FLAVOUR"\n'
HERE: dict[str, Any] = {"launcher": "none"}
ENVIRONMENTS: dict[str, Any] = {
    "one": {**HERE, "variables": {"FLAVOUR": "a"}},
    "two": {**HERE, "variables": {"FLAVOUR": "b"}},
    "three": {**HERE, "variables": {"FLAVOUR": "b"}, "extra_flags": "-g"},
}
PROGRAM = {
    "source": "source",
    "build": "cp program.sh program && chmod +x program && echo echo built with $FLAVOUR {flags} >> program",
    "binary": "program",
    "run": "{binary} {n}",
}


def write(folder: Path, *words: str, **keys: Any) -> Path:
    changed = {
        "program": PROGRAM,
        "parameters": {"n": [1, 2], "tools": list(words)},
        "environment": "tools",
        "environments": ENVIRONMENTS,
        "target": {"n": 4, "tools": words[0]},
        **keys,
    }
    return write_campaign_of(SCRIPT, folder, **changed)


def measured(path: Path) -> tuple[Session, History]:
    session = open_session(path)
    carry_out(session)
    return session, History.open(session)


def said(run: FinishedRun) -> list[str]:
    return (run.folder / "stdout.log").read_text().splitlines()


def test_each_choice_is_built_and_run_in_its_own_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    with not_synced():
        _, history = measured(write(tmp_path, "one", "two"))
        expected = {"one": ["runs with a", "built with a -O2"], "two": ["runs with b", "built with b -O2"]}
        assert {str(run.point["tools"]): said(run) for run in history.runs} == expected
        folders = {run.folder for run in history.runs}
        write_results(history, tmp_path / "out")
        notes = read_json(tmp_path / "out" / "report.json")["notes"]
        (note,) = (note for note in notes if note.startswith("Compared with tools = one"))
        assert "two: " in note and "2 points" in note

        # One more leaves the others alone; flags are of the environment.
        session, history = measured(write(tmp_path, "one", "two", "three"))
        assert folders < {run.folder for run in history.runs}
        assert {tuple(said(run)) for run in history.runs if run.point["tools"] == session.campaign.target["tools"]} == {
            ("runs with a", "built with a -O2")
        }
        third = [run for run in history.runs if run.folder not in folders]
        assert {(str(run.point["tools"]), *said(run)) for run in third} == {
            ("three", "runs with b", "built with b -O2 -g")
        }
        folders = {run.folder for run in history.runs}

        # A change of one environment measures in that one again.
        changed = {**ENVIRONMENTS, "two": {**HERE, "variables": {"FLAVOUR": "c"}}}
        session, history = measured(write(tmp_path, "one", "two", "three", environments=changed))
        new = [run for run in history.runs if run.folder not in folders]
        assert {(str(run.point["tools"]), *said(run)) for run in new} == {("two", "runs with c", "built with c -O2")}
        assert {run.point["tools"] for run in history.runs} == {run.point["tools"] for run in third} | {
            point["tools"] for point in session.campaign.points
        }

        # Whoever reads it without the tools finds the same.
        def missing(*_: object) -> None:
            raise ToolError("no compiler")

        monkeypatch.setattr(OtherTools, "open", missing)
        elsewhere = open_session(session.campaign.path, to_read=True)
        assert isinstance(elsewhere.target.backend, RecordedBackend)
        assert elsewhere.id == session.id
        assert {run.folder for run in History.open(elsewhere).runs} == {run.folder for run in history.runs}
        spec = next(build for plan in history.plans for build in plan.builds)
        assert elsewhere.target.build_spec(spec.mode, spec.filter_text, session.campaign.points[-1]).environment


def test_a_specification_keeps_its_environment_and_its_name_without_one() -> None:
    plain = BuildSpec("0123456789ab", Mode.TIME, "EXCLUDE *", (("n", 4),))
    assert plain.hash == "ce2149aa1b2534cd" and "environment" not in plain.to_json()
    chosen = BuildSpec("0123456789ab", Mode.TIME, "A", (("n", 4),), "", environment="f" * 16)
    assert BuildSpec.from_json(json.loads(json.dumps(chosen.to_json()))) == chosen
    assert chosen.compiled.environment == chosen.environment and chosen.compiled.filter_text == ""
    assert chosen.hash != BuildSpec("0123456789ab", Mode.TIME, "A", (("n", 4),), "").hash


@pytest.mark.parametrize(
    ("words", "keys", "where"),
    [
        (("one", "twoo"), {}, "parameters.tools"),
        (("one", "two"), {"parameters": {"n": [1, 2], "tools": [1, 2]}, "target": {"n": 4, "tools": 2}}, "environment"),
        (("one", "two"), {"environments": {**ENVIRONMENTS, "tools": HERE}}, "environment"),
        (("one", "two"), {"environment": "tolos"}, "environment"),
        (("one", "two"), {"environments": {**ENVIRONMENTS, "two": {"compiler": "gcc"}}}, "environments.two.compiler"),
        (
            ("one", "three"),
            {"program": {**PROGRAM, "build": "cp program.sh program"}},
            "environments.three.extra_flags",
        ),
        (
            ("one", "two"),
            {"environments": {**ENVIRONMENTS, "one": {"machine": {"topology": "crossbar", "seconds_per_block": 1e-9}}}},
            "environments.one.machine",
        ),
        (
            ("one", "two"),
            {
                "parameters": {"n": {"role": "size"}, "tools": {"role": "choice"}},
                "points": [{"n": 1, "tools": "one"}, {"n": 2, "tools": "six"}],
            },
            "parameters.tools",
        ),
    ],
)
def test_choices_that_are_no_environments(
    tmp_path: Path, words: tuple[str, ...], keys: dict[str, Any], where: str
) -> None:
    with pytest.raises(CampaignError) as caught:
        load_campaign(write(tmp_path, *words, **keys))
    assert where in [spelled(mistake.path) for mistake in caught.value.mistakes]


@pytest.mark.mpi
def test_two_compilers_stand_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    program = "#include <mpi.h>\nint main(int c, char **v) { MPI_Init(&c, &v); return MPI_Finalize(); }\n"
    path = write_campaign_of(
        program,
        tmp_path,
        backend="embedded",
        program={
            "source": "source",
            "build": "cp program.sh main.c && {mpicc} {flags} main.c -o program",
            "binary": "program",
            "run": "{binary} {n}",
        },
        parameters={"n": [1, 2], "compiler": ["gnu", "llvm"]},
        environment="compiler",
        environments={"gnu": {"compiler": "gcc"}, "llvm": {"compiler": "clang", "extra_flags": "-O1"}},
    )
    with not_synced():
        session = open_session(path)
        specs = {
            session.target.build_spec(mode, "", point)
            for mode in (Mode.VANILLA, Mode.EFFORT)
            for point in session.campaign.points
        }
        assert len({spec.hash for spec in specs}) == len(specs) == 4
        assert {spec.target for spec in specs} == {session.target.id}
        for spec in specs:
            outcome = build(session.target, session.layout, spec)
            assert outcome.status is Status.MEASURED
            record = read_build(session.layout.root / outcome.folder)
            is_gnu = dict(spec.values)["compiler"] == session.campaign.target["compiler"]
            assert record.toolchain["kind"] == ("gcc-plugin" if is_gnu else "clang-plugin")
            assert record.flags == ("-O2" if is_gnu else "-O2 -O1")
            binary = (session.layout.root / str(record.binary)).read_bytes()
            assert (b"clang version" in binary) is not is_gnu


@pytest.mark.mpi
@pytest.mark.parametrize("missing", ["gcc-99", "clang-99"])
def test_a_compiler_that_is_not_here_is_named_before_anything_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    path = write(
        tmp_path,
        *("gnu", "llvm"),
        backend="embedded",
        program={**PROGRAM, "build": "make CC={mpicc}"},
        environments={"gnu": {"compiler": "gcc"}, "llvm": {"compiler": missing}},
    )
    assert main(["check", str(path)]) == Exit.ENVIRONMENT
    assert f"environments.llvm.compiler: {missing}" in capsys.readouterr().err
    with pytest.raises(ToolError) as error:
        _ = open_session(path).target
    assert f"environments.llvm.compiler: {missing}" in str(error.value)


@pytest.mark.mpi
def test_the_first_filter_is_chosen_in_the_environment_of_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        tmp_path,
        *("gnu", "llvm"),
        backend="embedded",
        program={**PROGRAM, "build": "make CC={mpicc}"},
        environments={"gnu": {"compiler": "gcc"}, "llvm": {"compiler": "clang"}},
        target={"n": 4, "tools": "llvm"},
        refinement={"start": "statements"},
    )
    session = open_session(path)
    spec = start_build(session)
    assert spec is not None
    assert session.target.at(dict(spec.values)).backend.description["kind"] == "clang-plugin"
