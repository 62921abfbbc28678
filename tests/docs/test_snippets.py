"""Every command and snippet of README and docs is run, or says why it cannot be."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import commands_in, mistake_in
from reader import Reader
from results import RESULTS, first_command
from snippets import COMMANDS, LANGUAGES, PAGES, ROOT, SHOWN, blocks_of, name_of

from buran.campaign.load import load_campaign

TUTORIAL = ROOT / "docs" / "tutorial" / "your-own-program.md"
RUN = [page for page in PAGES if any(block.is_run for block in blocks_of(page))]
FIRST = ("README.md",)
"""The page that `make test` follows; `make test-all` follows the others too."""

# What a few keys of a campaign file stand in.
CAMPAIGN: dict[str, Any] = {
    "name": "snippet",
    "program": {"source": "../mycode", "build": "make CXX={mpicxx}", "binary": "mycode", "run": "{binary} {n}"},
    "parameters": {
        "p": {"role": "ranks", "values": [1, 2, 4, 8, 16, 32]},
        "n": {"role": "size", "values": [10, 20, 30, 40, 50]},
    },
    "resources": {"expected_time": 1},
}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_block_says_what_it_is(page: Path) -> None:
    for block in blocks_of(page):
        assert block.language in LANGUAGES, f"{block.place}: fence it, with one of {', '.join(LANGUAGES)}"
        if "not run" in block.said:
            assert block.language in (*COMMANDS, "python", "yaml") and len(block.said["not run"]) > 10, block.place
        if block.language in SHOWN and "file" not in block.said:
            typed = re.search(r"^(\$ |buran |make |python )", block.text, re.MULTILINE)
            assert not typed, f"{block.place}: commands are fenced as sh or console"
        if block.language == "console":
            assert block.text.startswith("$ "), block.place


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page: Path) -> None:
    """Those that are not run, too."""
    for block in blocks_of(page):
        if block.language in COMMANDS:
            for words in commands_in(block.commands):
                mistake = mistake_in(words)
                assert mistake is None, f"{block.place}: {shlex.join(words)}: {mistake}"


def test_what_each_command_prints_is_checked() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page) if block.language == "sh" and block.is_run]
    assert {(block.page.name, first_command(block.text)) for block in blocks} == {
        (page, command) for page, commands in RESULTS.items() for command in commands
    }


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_campaign_keys_are_right(page: Path, tmp_path: Path) -> None:
    (tmp_path / "mycode").mkdir()
    (tmp_path / "mycode" / "Makefile").write_text("mycode:\n")
    folder = tmp_path / "campaign"
    folder.mkdir()
    (folder / "points.csv").write_text("p,n\n1,10\n2,20\n")
    before = tmp_path / "before"  # an earlier version with results
    (before / "results" / "mine" / "latest").mkdir(parents=True)
    (before / "results" / "mine" / "latest" / "report.json").write_text("{}")
    (before / "campaign.yaml").write_text("name: mine\n")
    blocks = list(blocks_of(page))
    Reader(folder).write_files(blocks)
    for block in blocks:
        if block.language == "yaml" and not block.said.keys() & {"file", "not run"}:
            path = folder / "snippet.yaml"
            path.write_text(yaml.safe_dump(completed(yaml.safe_load(block.text)), sort_keys=False))
            load_campaign(path)


def completed(keys: dict[str, Any]) -> dict[str, Any]:
    """Put keys into a whole campaign file, whose program takes all parameters."""
    whole = {**CAMPAIGN, **keys}
    if "target" not in keys:
        command = " ".join(["{binary}", *(f"{{{name}}}" for name in whole["parameters"])])
        whole["program"] = {**whole["program"], "run": command}
    return whole


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tutorial, followed to its end once for all pages that go on from there."""
    folder = tmp_path_factory.mktemp("tutorial") / "mine"
    folder.mkdir()
    Reader(folder).read(list(blocks_of(TUTORIAL)))
    return folder


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.name in FIRST else pytest.mark.thorough, id=name_of(page)) for page in RUN],
)
def test_pages_do_as_they_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if page == TUTORIAL:
        request.getfixturevalue("campaign")
        return
    if page.name == "simulated-machine.md" and shutil.which("smpirun") is None:
        pytest.skip("SimGrid is not installed")
    folder = tmp_path / "reader"
    blocks = list(blocks_of(page))
    if any(block.said.get("given") == "campaign" for block in blocks):
        shutil.copytree(request.getfixturevalue("campaign"), folder, symlinks=True)
    else:
        folder.mkdir()
    monkeypatch.chdir(folder)
    Reader(folder).read(blocks)
