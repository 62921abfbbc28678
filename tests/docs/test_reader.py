"""What is told of the documentation can fail."""

from __future__ import annotations

from pathlib import Path

import pytest
import snippets
from commands import commands_in, mistake_in
from reader import Reader
from snippets import Block, blocks_of, sessions
from test_snippets import completed


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(snippets, "ROOT", tmp_path)
    return tmp_path / "page.md"


def read(page: Path, text: str) -> list[Block]:
    page.write_text(text)
    return list(blocks_of(page))


def follow(page: Path, text: str) -> Reader:
    reader = Reader(page.parent)
    reader.read(read(page, text))
    return reader


def test_blocks_have_a_language_a_place_and_what_is_said_of_them(page: Path) -> None:
    said, plain, indented = read(page, "<!-- exit code: 1 -->\n```sh\nfalse\n```\n\n```yaml\na: 1\n```\n\n    old\n")
    assert (said.language, said.place, dict(said.said), said.is_run) == ("sh", "page.md:2", {"exit code": "1"}, True)
    assert (plain.language, dict(plain.said), plain.is_run) == ("yaml", {}, False)
    assert indented.language is None


def test_a_comment_needs_a_block(page: Path) -> None:
    with pytest.raises(AssertionError, match="without a block"):
        read(page, "```sh\ntrue\n```\n<!-- not run: forgotten -->\n")


def test_the_shell_remembers(page: Path) -> None:
    follow(page, "```sh\nmkdir a; cd a\nexport X=7\n```\ntext\n```sh\ntest $X = 7\ntouch here\n```\n")
    assert (page.parent / "a" / "here").is_file()


def test_python_remembers(page: Path) -> None:
    assert follow(page, "```python\na = 1\n```\n```python\nb = a + 1\n```\n").names["b"] == 2


def test_files_are_there_before_what_reads_them(page: Path) -> None:
    follow(page, "```sh\ntest $(cat a/b.txt) = x\n```\n<!-- file: a/b.txt -->\n```text\nx\n```\n")


@pytest.mark.parametrize(
    "text",
    [
        "```sh\nfalse\ntrue\n```\n",
        "```sh\nfalse | cat\n```\n",
        "<!-- exit code: 1 -->\n```sh\ntrue\n```\n",
        "<!-- first: false -->\n```sh\ntrue\n```\n",
        "```console\n$ echo other\nwords\n```\n",
        "```console\n$ echo words and more\nwords\n```\n",
        "```sh\necho Traceback\n```\n",
    ],
)
def test_what_does_not_do_as_it_says_is_found(page: Path, text: str) -> None:
    with pytest.raises(AssertionError):
        follow(page, text)


def test_python_that_fails_names_its_line(page: Path) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        follow(page, "words\n\n```python\na = 1\n1 / 0\n```\n")
    assert caught.traceback[-1].lineno == 4  # counted from 0


def test_numbers_and_white_space_may_differ_in_what_is_printed(page: Path) -> None:
    follow(page, "```console\n$ printf '%s\\n' 'time   1.5e-3 s' skipped end\ntime 27 s\n...\nend\n```\n")


def test_console_blocks_are_commands_with_what_they_print() -> None:
    assert list(sessions("$ one \\\n  two\nout\n$ three\n")) == [("one \\\n  two\n", "out\n"), ("three\n", "")]


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("buran check --jsn", True),
        ("buran chekc", True),
        ("buran run a.yaml -- --cores 4", False),
        ("buran predict a.npz points.csv --csv > out.csv", False),
        ("make demo", False),
        ("make dmeo", True),
        ("python studies/benchmarks/modeller.py --seed 1", False),
        ("python studies/benchmarks/modeller.py --sede 1", True),
        ("python studies/benchmarks/none.py", True),
        ("tools/none", True),
    ],
)
def test_commands_that_do_not_exist_are_found(line: str, wrong: bool) -> None:
    (words,) = commands_in(line)
    assert (mistake_in(words) is not None) is wrong


def test_lists_and_pipes_are_several_commands() -> None:
    assert list(commands_in("a 'b c' | d && e \\\n f   # g")) == [["a", "b c"], ["d"], ["e", "f"]]


def test_keys_stand_in_a_campaign_whose_program_takes_all_parameters() -> None:
    keys = {"parameters": {"p": {}, "solver": {}}}
    assert completed(keys)["program"]["run"] == "{binary} {p} {solver}"
