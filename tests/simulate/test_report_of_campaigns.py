"""Reports of campaigns that went wrong or changed: each says so, and its numbers are right all the same."""

from __future__ import annotations

import copy
import errno
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.cli import main
from buran.errors import Exit, StorageError
from buran.files import not_synced
from buran.instrumentation.filter_file import format_filter, only, parse
from buran.instrumentation.start import EVERYTHING
from buran.workflow import report as loop_report
from buran.workflow.history import History
from buran.workflow.model import make_models
from buran.workflow.overhead import instrumented
from buran.workflow.report import link_latest, write_results
from buran.workflow.session import Session, logged, open_session
from buran.workflow.views.filters import Request, Universe, make
from buran.workflow.views.summary import summarize
from buran_studies.simulate.in_process import carry_out
from simulated_campaigns import CAMPAIGN, PROGRAM, opened

SMALL: dict[str, Any] = {
    "parameters": {"p": {"role": "ranks", "values": [4, 8, 16]}, "n": {"role": "size", "values": [20, 40]}},
    "strategy": {"name": "full"},
    "target": {"p": 64, "n": 80},
    "refinement": {"enabled": False},
}


def report_of(session: Session) -> Path:
    with not_synced():
        write_results(History.open(session), session.layout.results(session.id))
        link_latest(session)
    return session.layout.results(session.id)


def finished(folder: Path, program: dict[str, Any] | None = None, **changes: Any) -> tuple[Session, Path]:
    session = opened(folder, program, **{**SMALL, **changes})
    with not_synced():
        carry_out(session)
    return session, report_of(session)


def data_of(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "page.json").read_text())


def pages(folder: Path) -> str:
    """Page and text: what is said must be in both."""
    page, text = (folder / "report.html").read_text(), (folder / "report.txt").read_text()
    return page + text


def test_a_campaign_without_a_finished_run(tmp_path: Path) -> None:
    program = {**copy.deepcopy(PROGRAM), "failure_probability": 1}
    _, folder = finished(tmp_path, program, repetitions=1)
    page = (folder / "report.html").read_text()
    assert "no run succeeded" in page and "Not known" in page
    assert data_of(folder)["paths"] == [] and (folder / "report.csv").read_text().count("\n") == 1
    states = {point["state"] for each in data_of(folder)["iterations"] for point in each["points"]}
    assert states == {"failed"}
    (step,) = json.loads((folder / "report.json").read_text())["next_steps"]
    assert step.startswith("read store/") and "--retry-failed" in step, "nothing else helps before a run succeeds"


def test_there_is_a_filter_list_before_any_filter_was_in_force(tmp_path: Path) -> None:
    session, folder = finished(tmp_path, repetitions=1)
    text = (folder / "scorep.filter").read_text()
    assert parse(text).named
    assert text == make(Universe.open(session.campaign.path), Request(), "scorep")
    assert (folder / "in-force.filter").read_text() == ""


def test_a_program_that_complains_in_its_output(tmp_path: Path) -> None:
    session, _ = finished(tmp_path, {**copy.deepcopy(PROGRAM), "failure_probability": 1}, repetitions=1)
    for log in session.layout.store.rglob("stderr.log"):
        log.rename(log.with_name("stdout.log"))
        log.touch()
    logs = [failure.log for failure in summarize(History.open(session)).failures]
    assert logs and all(log.endswith("stdout.log") for log in logs)


def test_one_point(tmp_path: Path) -> None:
    _, folder = finished(tmp_path, {**PROGRAM, "failure_probability": "min(1, p - 4 + n - 20)"})
    data = data_of(folder)
    assert data["points"] == [[4.0, 20.0]]
    assert {path["grows"] for path in data["paths"] if path["at"]} == {"1"}  # nothing else can be told
    assert all(path["low"] is None or path["low"] <= path["at"] for path in data["paths"] if path["at"])
    states = [point["state"] for each in data["iterations"] for point in each["points"]]
    assert sorted(states) == ["failed"] * 5 + ["measured"]
    assert "1 of 6 points measured" in pages(folder)


def test_a_program_of_one_call_path(tmp_path: Path) -> None:
    program = {**PROGRAM, "program": {"main": {"time_s": "1e-6 * n**2", "basic_blocks": "n**2"}}}
    values = {"p": {"role": "ranks", "values": [4, 8]}, "n": {"role": "size", "values": [10, 20, 40, 80, 160]}}
    _, folder = finished(tmp_path, program, parameters=values)
    paths = data_of(folder)["paths"]
    assert [path["grows"] for path in paths if path["name"].endswith("main")] == ["n^2"]
    assert sum(path["share"] for path in paths) == pytest.approx(1, abs=1e-3)


def test_a_store_that_is_partly_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session, folder = finished(tmp_path)
    before = data_of(folder)
    gone = sorted(session.layout.store.glob("*/*/*~*/rep-*"))[::5]
    for run in gone:
        shutil.rmtree(run)
    assert main(["report", str(session.campaign.path), "--json"]) == 0
    said = capsys.readouterr()
    assert f"{len(gone)} of 36 finished runs" in said.err and "buran verify" in said.err
    assert json.loads(said.out)["campaign"] == "sim"  # remarks do not mix with what programs read
    after = data_of(report_of(open_session(session.campaign.path)))
    assert pages(folder).count(f"{len(gone)} of 36 finished runs") == 2
    assert [path["at"] for path in after["paths"]] == [path["at"] for path in before["paths"]]
    assert after["iterations"] == before["iterations"]  # what it cost is known all the same


def test_models_made_after_a_loss_do_without_what_is_lost(tmp_path: Path) -> None:
    session, _ = finished(tmp_path, model={"pool_filters": "off"})  # counting runs would be further repetitions
    for run in sorted(session.layout.store.glob("*/*/*~*/rep-01")):
        shutil.rmtree(run)
    layout, last = session.layout, History.open(session).plans[-1].iteration - 1
    written = [each(session.id, last) for each in (layout.models, layout.findings, layout.table)]
    make_models(History.open(session, last + 1), *written)
    folder = report_of(session)
    data = data_of(folder)
    largest = max(data["paths"], key=lambda path: path["share"])
    assert largest["measured"][1] == largest["measured"][2]  # one repetition is left
    assert "buran verify" in pages(folder)


def test_a_campaign_file_that_changed_since_the_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session, folder = finished(tmp_path)
    file = session.campaign.path
    old = json.loads((folder / "report.json").read_text())["points"]
    data = {**CAMPAIGN, **SMALL, "repetitions": 3}
    data["parameters"] = {**SMALL["parameters"], "n": {"role": "size", "values": [20, 30]}}
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    assert main(["report", str(file), "--json"]) == 0
    said = capsys.readouterr()
    assert "parameters.n.values, repetitions" in said.err
    assert json.loads(said.out)["points"] == old
    changed = open_session(file)
    with not_synced():
        carry_out(changed)
    after = report_of(changed)
    assert any("file changed" in note for note in json.loads((after / "report.json").read_text())["notes"])
    assert {tuple(point) for point in data_of(after)["points"]} == {(p, n) for p in (4, 8, 16) for n in (20, 30)}
    capsys.readouterr()
    assert main(["report", str(file)]) == 0
    screen = capsys.readouterr()
    assert screen.err == "" and len(screen.out.splitlines()) <= 24 and "buran report --full" in screen.out
    assert main(["report", str(file), "--full"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 24


def test_without_any_report_it_says_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = opened(tmp_path, **SMALL)
    assert main(["report", str(session.campaign.path)]) == 2
    assert f"buran run {session.campaign.path}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("filter_text", "expected"),
    [
        ("", (None, None)),
        (EVERYTHING, (None, 0)),
        (EVERYTHING.replace("*\nS", "*\nEXCLUDE MANGLED _Z1av\nS"), (None, 1)),
        (format_filter(only(["main", "_Z1av"])), (2, None)),
    ],
)
def test_what_a_filter_instruments_is_counted_in_functions(
    filter_text: str, expected: tuple[int | None, int | None]
) -> None:
    """Rules for everything are no functions."""
    assert instrumented(filter_text) == expected


@pytest.mark.parametrize("when", ["copyfile", "gather", "write_page"])
def test_a_folder_that_is_removed_while_the_report_is_written_is_said(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, folder = finished(tmp_path, repetitions=1)
    owner = loop_report.shutil if when == "copyfile" else loop_report
    ours = getattr(owner, when)

    def remove_before(*arguments: Any) -> Any:
        shutil.rmtree(folder, ignore_errors=True)
        return ours(*arguments)

    monkeypatch.setattr(owner, when, remove_before)
    with pytest.raises(StorageError) as caught:
        write_results(History.open(session), folder)
    assert str(folder) == caught.value.where and "buran run" in str(caught.value.hint)
    monkeypatch.undo()
    report_of(session)
    assert main(["report", str(session.campaign.path)]) == 0


def test_the_last_report_is_shown_while_the_next_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session, folder = finished(tmp_path, repetitions=1)
    shown: list[tuple[int, str]] = []
    looking: list[bool] = []
    for step in ("gather", "write_page"):
        ours = getattr(loop_report, step)

        def look_before(*arguments: Any, ours: Any = ours) -> Any:
            if not looking:  # what is shown may have to be made, by the same steps
                looking.append(True)
                code = main(["report", str(session.campaign.path), "--full"])
                shown.append((code, capsys.readouterr().out))
                looking.clear()
            return ours(*arguments)

        monkeypatch.setattr(loop_report, step, look_before)
    write_results(History.open(session), folder)
    assert shown == [(0, (folder / "report.txt").read_text())] * 2
    # The first report is not there before all of it is: until then, one of the newest models is made to be shown.
    shutil.rmtree(folder)
    shown.clear()
    write_results(History.open(session), folder)
    assert [code for code, _ in shown] == [0, 0]


def test_a_disk_that_is_full_while_models_are_written_loses_nothing(tmp_path: Path) -> None:
    session, _ = finished(tmp_path, repetitions=1)
    last = History.open(session).plans[-1].iteration - 1
    paths = [getattr(session.layout, kind)(session.id, last) for kind in ("models", "findings", "table")]
    made = [path.read_bytes() for path in paths]
    runs = sorted(session.layout.store.rglob("run.json"))
    half = paths[0].with_name(f".{paths[0].name}.{os.getpid()}.tmp")
    half.symlink_to("/dev/full")  # where the kernel says that there is no room
    log = tmp_path / "model.log"
    with pytest.raises(SystemExit) as ended, logged(log, session.campaign.path, session.id) as again:
        make_models(History.open(again, last + 1), *paths)
    assert ended.value.code == Exit.ENVIRONMENT
    assert os.strerror(errno.ENOSPC) in log.read_text() and "make room" in log.read_text()
    assert not os.path.lexists(half)
    assert [path.read_bytes() for path in paths] == made and sorted(session.layout.store.rglob("run.json")) == runs
    make_models(History.open(session, last + 1), *paths)
    assert [path.read_bytes() for path in paths] == made
