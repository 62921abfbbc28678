"""What a run finds where it starts, what is kept of it, and sources that change under our hands."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from buran.campaign.resources import Input
from buran.campaign.sections import InputKeys
from buran.errors import BuildError
from buran.measurement.machine import machine
from buran.measurement.machine.machine import bring_inputs, changed_input, keep_output
from buran.measurement.source import copy_source, local_source


def test_inputs_are_copied_or_linked(tmp_path: Path) -> None:
    for name in ("data/a/x.txt", "data/y.txt", "build/cases/case.in", "big.bin"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    written = ["data", InputKeys(path="{build}/cases", name="."), InputKeys(path="big.bin", name="in/big", link=True)]
    inputs = [Input.of(entry, tmp_path) for entry in written]
    run = tmp_path / "run"
    linked = bring_inputs(inputs, tmp_path / "build", run)
    assert {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()} == {
        *("data/a/x.txt", "data/y.txt", "case.in", "in/big")
    }
    (run / "data" / "y.txt").write_text("written by the run")
    assert (tmp_path / "data" / "y.txt").read_text() == "data/y.txt" and changed_input(linked) is None
    (run / "in" / "big").write_text("written by the run, which is longer")
    assert "big.bin" in str(changed_input(linked))
    assert inputs[0].content != "" and inputs[1].content == ""


def test_values_are_put_into_an_input_and_nothing_else_changes(tmp_path: Path) -> None:
    (tmp_path / "case.in").write_bytes(b"x_cells={n}\r\n\xe9 {{keep}}\n")
    entry = Input.of(InputKeys(path="case.in", fill=True), tmp_path)
    text = b"x_cells=16\r\n\xe9 {keep}\n".decode(errors="surrogateescape")
    bring_inputs([entry], tmp_path, tmp_path / "run", {"case.in": text})
    assert (tmp_path / "run" / "case.in").read_bytes() == b"x_cells=16\r\n\xe9 {keep}\n"


def test_the_content_of_an_input_identifies_it(tmp_path: Path) -> None:
    path = tmp_path / "a.in"
    path.write_text("1")
    before = Input.of("a.in", tmp_path).content
    path.write_text("2")
    assert Input.of("a.in", tmp_path).content != before


def test_a_missing_input_of_the_build_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"program\.inputs"):
        bring_inputs([Input.of("{build}/absent", tmp_path)], tmp_path, tmp_path / "run")


def test_output_is_kept_while_it_fits(tmp_path: Path) -> None:
    work, kept = tmp_path / "work", tmp_path / "output"
    for name, size in (("a.log", 60), ("b.log", 60), ("sub/c.log", 30), ("d.txt", 1)):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_bytes(bytes(size))
    (work / "e.log").symlink_to("/etc/passwd")
    assert keep_output(work, ["*.log", "**/c.*"], 100, kept) == {"output/b.log": 60}
    assert {str(path.relative_to(kept)) for path in kept.rglob("*") if path.is_file()} == {"a.log", "sub/c.log"}


def test_a_run_that_fills_the_disk_is_said_for_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "huge").write_bytes(bytes(3_000_000))

    def room(folder: Path) -> None:
        if work.exists():
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(machine, "check_room", room)
    reason = machine.with_room(work, "exit code 1")
    assert "3 MB" in reason and reason.endswith("exit code 1")
    assert machine.with_room(work, "exit code 1") == "exit code 1"


def test_sources_that_change_while_they_are_copied_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a.c").write_text("int a;")
    tree = local_source(source)
    copy_source(tree, tmp_path / "good")
    (source / "a.c").write_text("int b;")
    with pytest.raises(BuildError, match="changed"):
        copy_source(tree, tmp_path / "bad")
