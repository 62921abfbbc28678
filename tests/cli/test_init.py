from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.cli import init
from buran.errors import Exit, UsageError


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    init.add_arguments(parser)
    return init.run(parser.parse_args(arguments))


@pytest.mark.parametrize("example", init.EXAMPLES)
def test_an_example_is_ready_to_run(tmp_path: Path, example: str) -> None:
    folder = tmp_path / "new" / "demo"
    assert run(str(folder), "--example", example) == 0
    campaign = load_campaign(folder / "campaign.yaml")
    assert campaign.source == folder / example
    assert folder in campaign.results_root.parents
    assert (folder / example / "Makefile").is_file()
    assert not (folder / example / example).exists()
    text = (folder / "campaign.yaml").read_text()
    said = [line for line in text.splitlines() if not line.startswith("#")]
    assert "yaml-language-server" not in text and not any("../" in line for line in said)


def test_the_template_says_what_to_fill_in(tmp_path: Path) -> None:
    assert run(str(tmp_path)) == 0
    path = tmp_path / "campaign.yaml"
    with pytest.raises(CampaignError) as caught:
        load_campaign(path)
    others = [mistake for mistake in caught.value.mistakes if "still to be filled in" not in mistake.what]
    assert [mistake.path for mistake in others] == [("program", "source")]
    assert len(caught.value.mistakes) == 1 + path.read_text().count("# <-")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.c").touch()
    path.write_text(path.read_text().replace("path/to/sources", "code").replace("# <-", "#"))
    assert len(load_campaign(path).points) == 25


@pytest.mark.parametrize("existing", ["campaign.yaml", "stencil"])
def test_nothing_is_overwritten(tmp_path: Path, existing: str) -> None:
    (tmp_path / existing).write_text("mine")
    with pytest.raises(UsageError, match="not overwritten") as caught:
        run(str(tmp_path), "--example", "stencil")
    assert caught.value.exit_code == Exit.USAGE
    assert [path.name for path in tmp_path.iterdir()] == [existing]
    assert (tmp_path / existing).read_text() == "mine"


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    for folder in (tmp_path / "x", tmp_path / "x" / "y"):
        with pytest.raises(UsageError):
            run(str(folder))


def test_the_name_of_a_file_is_no_name_of_a_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name of a file") as caught:
        run(str(tmp_path / "mine.yaml"))
    assert str(caught.value.hint).endswith("mine") and not list(tmp_path.iterdir())


def test_other_files_in_the_folder_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert run(str(tmp_path), "--example", "sweep") == 0
