"""Readers and writers that other packages bring: asked as the built-in ones are, and named where they do not work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from buran.cli import main
from buran.errors import FormatError, PluginError, UsageError
from buran.profiles.experiment.extrap_files import read_extrap_text
from buran.profiles.experiment.formats import READERS, Reader, Sample, Writer, writer_for
from buran.profiles.experiment.read import detect_format, read_experiment

TEXT = "PARAMETER x\nPOINTS 1 2\nREGION a\nMETRIC m\nDATA 1\nDATA 2\n"
MAGIC = b"\x89RUNS"

BINARY = Reader(
    "a binary file of runs", lambda sample: sample.head.startswith(MAGIC), lambda path, problems: read_text_of(path)
)
COMMENTS = Reader("a file that begins with a comment", lambda sample: sample.first_line.startswith("#"), BINARY.read)
FOLDER = Reader("a folder with a list of runs", lambda sample: (sample.path / "runs.list").is_file(), BINARY.read)
TWIN = Writer(".json", "another JSON")
INCOMPLETE = object()
Bring = Callable[..., None]


def read_text_of(path: Path):
    text = path.parent / "behind.txt"
    text.write_bytes(path.read_bytes().removeprefix(MAGIC))
    return read_extrap_text(text)


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bring:
    """Install a distribution with one reader or writer of this file."""

    def bring(name: str, value: str, group: str = "buran.readers") -> None:
        info = tmp_path / "installed" / "others-2.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 2.0\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {value}\n")
        monkeypatch.syspath_prepend(info.parent)

    return bring


def test_a_binary_format_is_told_by_its_first_bytes(
    bring: Bring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "runs.bin"
    path.write_bytes(MAGIC + TEXT.encode())
    with pytest.raises(FormatError, match="no text"):
        read_experiment(path)
    bring("binary", f"{__name__}:BINARY")
    assert detect_format(path) == "binary"
    assert main(["convert", str(path), str(tmp_path / "out.jsonl")]) == 0
    assert main(["convert", str(path), str(tmp_path / "tree")]) == 2
    assert "single ranks" in capsys.readouterr().err
    assert read_experiment(tmp_path / "out.jsonl").points.tolist() == [[1], [2]]
    (tmp_path / "odd").write_text("odd")
    with pytest.raises(FormatError) as refused:
        detect_format(tmp_path / "odd")
    assert all(reader.what in str(refused.value) for reader in READERS)
    assert BINARY.what in str(refused.value)


@pytest.mark.parametrize("kept", ["latest", "."])
def test_of_results_of_a_campaign_the_table_is_named(kept: str, tmp_path: Path) -> None:
    (tmp_path / kept).mkdir(exist_ok=True)
    table = tmp_path / kept / "experiment.jsonl"
    table.touch()
    with pytest.raises(FormatError, match="results of a campaign") as refused:
        detect_format(tmp_path)
    assert str(refused.value.hint).endswith(str(table))


def test_a_folder_may_be_of_another_format(bring: Bring, tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    folder.mkdir()
    (folder / "runs.list").touch()
    with pytest.raises(FormatError, match="no profiles"):
        detect_format(folder)
    bring("listed", f"{__name__}:FOLDER")
    assert detect_format(folder) == "listed"


def test_a_file_that_two_readers_recognise_is_not_guessed(
    bring: Bring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.txt"
    path.write_text("# runs\n" + TEXT)
    assert detect_format(path) == "text"
    bring("comments", f"{__name__}:COMMENTS")
    with pytest.raises(UsageError, match="text or comments"):
        read_experiment(path)
    assert main(["model", str(path)]) == 2
    assert "--from text" in capsys.readouterr().err
    assert main(["convert", "--from", "text", str(path), str(tmp_path / "out.jsonl")]) == 0


@pytest.mark.parametrize(
    ("value", "why"),
    [("no_such_module:READER", "ModuleNotFoundError"), (f"{__name__}:INCOMPLETE", "has no what")],
)
def test_a_reader_that_does_not_work_is_named(
    value: str, why: str, bring: Bring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "data.txt"
    path.write_text(TEXT)
    bring("mine", value)
    assert main(["model", str(path)]) == int(PluginError.exit_code)
    said = capsys.readouterr().err
    assert "'mine'" in said and why in said
    assert "others 2.0" in said and "pip uninstall others" in said
    assert main(["convert", "--from", "text", str(path), str(tmp_path / "out.jsonl")]) == 0


def test_a_reader_with_the_name_of_another_is_refused(bring: Bring) -> None:
    bring("json", f"{__name__}:BINARY")
    with pytest.raises(PluginError, match="'json'"):
        detect_format(Path(__file__))


def test_two_writers_for_one_suffix_are_refused(bring: Bring) -> None:
    bring("twin", f"{__name__}:TWIN", "buran.writers")
    with pytest.raises(PluginError, match=r"json and twin .*'\.json'"):
        writer_for(Path("out.json"))
    assert writer_for(Path("out.txt")).what == "Extra-P's text format"


def test_suffixes_that_nobody_writes_are_answered_with_those_there_are() -> None:
    with pytest.raises(UsageError) as refused:
        writer_for(Path("out.xyz"))
    assert all(suffix in str(refused.value) for suffix in (".jsonl", ".json", ".txt", "no suffix"))


def test_samples_of_what_has_no_text(tmp_path: Path) -> None:
    assert Sample(tmp_path).head == b"" and Sample(tmp_path).first_line == ""
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert Sample(tmp_path / "bytes").head == b"\xff\xfe\x00" and Sample(tmp_path / "bytes").first_line == ""
    (tmp_path / "text").write_text("\ufeff\n\n  a b \nc")
    assert Sample(tmp_path / "text").first_line == "a b"
