"""What belongs to a source folder: one walk that hashes and copies, with links followed."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from buran.errors import ConfigError
from buran.measurement.source import copy_source, local_source, source_files


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "sub").mkdir(parents=True)
    (folder / "main.c").write_text("int main() {}\n")
    (folder / "sub" / "a.h").write_text("int a;\n")
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "x.h").write_text("int x;\n")
    (folder / "y.h").symlink_to("x.h")
    return folder


def copied(source: Path, destination: Path) -> Path:
    copy_source(local_source(source), destination)
    return destination


def test_what_links_lead_to_is_copied_and_identified(source: Path, outside: Path, tmp_path: Path) -> None:
    (source / "folder").symlink_to(outside)
    (source / "file.h").symlink_to(outside / "x.h")
    before = local_source(source).identity
    copy = copied(source, tmp_path / "copy")
    assert (copy / "folder" / "y.h").readlink() == Path("x.h")  # it came along
    for name in ("folder/x.h", "file.h"):
        assert (copy / name).read_text() == "int x;\n" and not (copy / name).is_symlink()
    (outside / "x.h").write_text("int other;\n")
    assert local_source(source).identity != before


def test_links_inside_the_source_stay_links(source: Path, tmp_path: Path) -> None:
    (source / "all.h").symlink_to("sub/a.h")
    (source / "include").symlink_to("sub", target_is_directory=True)
    (source / "sub" / "self").symlink_to(".", target_is_directory=True)
    (source / "nowhere").symlink_to("missing")
    (source / "round").symlink_to("round")
    before = local_source(source).identity
    copy = copied(source, tmp_path / "copy")
    links = {"all.h": "sub/a.h", "include": "sub", "sub/self": ".", "nowhere": "missing", "round": "round"}
    assert {name: str((copy / name).readlink()) for name in links} == links
    assert (copy / "include" / "self" / "a.h").read_text() == "int a;\n"
    (source / "sub" / "a.h").write_text("int b;\n")
    assert local_source(source).identity != before


def test_a_link_that_would_lead_nowhere_in_the_copy_is_followed(source: Path, outside: Path, tmp_path: Path) -> None:
    (source / "absolute.h").symlink_to(source / "sub" / "a.h")
    (source / ".git").mkdir()
    (source / ".git" / "generated.h").write_text("int g;\n")
    (source / "left_out.h").symlink_to(".git/generated.h")
    (source / "around.h").symlink_to("../source/sub/a.h")
    copy = copied(source, tmp_path / "copy")
    texts = {name: (copy / name).read_text() for name in ("absolute.h", "left_out.h", "around.h")}
    assert texts == {"absolute.h": "int a;\n", "left_out.h": "int g;\n", "around.h": "int a;\n"}
    assert not any((copy / name).is_symlink() for name in texts)


@pytest.mark.parametrize("goal", ["..", "/"])
def test_a_circle_of_links_is_refused(source: Path, goal: str) -> None:
    (source / "sub" / "up").symlink_to(goal if goal == "/" else source.parent, target_is_directory=True)
    with pytest.raises(ConfigError, match="goes in a circle") as error:
        local_source(source)
    assert "sub/up" in str(error.value) and error.value.hint


def test_a_circle_outside_is_refused(source: Path, outside: Path, tmp_path: Path) -> None:
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "back").symlink_to(outside)
    (outside / "on").symlink_to(tmp_path / "third")
    (source / "out").symlink_to(outside)
    with pytest.raises(ConfigError, match="goes in a circle"):
        local_source(source)


def test_special_files_are_refused(source: Path) -> None:
    os.mkfifo(source / "sub" / "pipe")
    with pytest.raises(ConfigError, match="special file") as error:
        local_source(source)
    assert str(source / "sub" / "pipe") in str(error.value)
    (source / "sub" / "pipe").unlink()
    (source / "null").symlink_to("/dev/null")
    with pytest.raises(ConfigError, match="special file"):
        local_source(source)
    (source / "null").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(source)  # the name of a socket is short
        try:
            server.bind("s")
        finally:
            os.chdir(here)
    with pytest.raises(ConfigError, match="special file"):
        local_source(source)


def test_any_name_that_a_file_system_takes_is_a_source(source: Path, tmp_path: Path) -> None:
    names = [b"line\nbreak.c", b"\xff\xfe.c", b"\x1b[31m.c", "ü.c".encode()]
    for name in names:
        (source / os.fsdecode(name)).write_text("int n;\n")
    copy = copied(source, tmp_path / "copy")
    assert all((copy / os.fsdecode(name)).is_file() for name in names)


def test_results_and_products_stay_behind(source: Path, outside: Path) -> None:
    (source / "main.o").write_bytes(b"")
    (source / "results").symlink_to(outside)
    files = source_files(source, (outside,))
    assert [str(file.path) for file in files] == ["main.c", "sub/a.h"]
