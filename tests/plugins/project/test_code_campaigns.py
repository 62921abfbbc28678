"""The page of well-known codes: its commands write campaigns that are right, with stand-ins for the checkouts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from buran.campaign.config import Campaign
from buran.campaign.load import load_campaign
from buran.campaign.point import Point
from buran.cli import main

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "example-codes.md"
COMMANDS = {
    words[2]: words[3:]
    for block in re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for line in block.replace("\\\n", " ").splitlines()
    if (words := shlex.split(line))[:2] == ["buran", "init"]
}


def campaign_of(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    """Write the campaign of a code as the page says, beside a checkout that says how a program is built."""
    words = COMMANDS[name]
    source = folder / words[words.index("--from") + 1]
    source.mkdir(parents=True)
    (source / "Makefile").write_text("prog: prog.c\n\t$(CC) -o prog prog.c\n")
    (source / "prog.c").write_text("#include <mpi.h>\nint main(void) { return 0; }\n")
    monkeypatch.chdir(folder)
    assert main(["init", name, *words, "--yes", "--no-build"]) == 0
    assert "# <-" not in (folder / name / "campaign.yaml").read_text()
    return load_campaign(folder / name / "campaign.yaml")


@pytest.mark.parametrize("name", COMMANDS)
def test_campaigns_need_no_edit(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(COMMANDS) == 6
    campaign = campaign_of(name, tmp_path, monkeypatch)
    assert len(campaign.points) >= 20
    largest = {parameter: max(point[parameter] for point in campaign.points) for parameter in campaign.parameters}
    assert all(campaign.target[parameter] > largest[parameter] for parameter in largest if parameter != "g")


@pytest.mark.parametrize(
    ("name", "ranks", "words"),
    [
        ("kripke", 27, "--procs 3,3,3 --zones 24,24,24 --quad 32 --dset 8 --groups 32"),
        ("amg", 8, "-problem 1 -P 2 2 2 -n 16 16 16"),
        ("quicksilver", 1, "-I 1 -J 1 -K 1 -x 2 -y 2 -z 2 -X 2 -Y 2 -Z 2 -n 80"),
        ("quicksilver", 8, "-I 2 -J 2 -K 2 -x 4 -y 4 -z 4 -X 4 -Y 4 -Z 4 -n 640"),
        ("quicksilver", 32, "-I 4 -J 4 -K 2 -x 8 -y 8 -z 4 -X 8 -Y 8 -Z 4 -n 2560"),
        ("quicksilver", 512, "-I 8 -J 8 -K 8 -x 16 -y 16 -z 16 -X 16 -Y 16 -Z 16 -n 40960"),
    ],
)
def test_ranks_are_arranged_in_grids(
    name: str, ranks: int, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    campaign = campaign_of(name, tmp_path, monkeypatch)
    values = {"p": ranks, "n": 16, "d": 4, "g": 32, "m": 2, "s": 10}
    point = Point.of({parameter: values[parameter] for parameter in campaign.parameters})
    assert campaign.run_command(point, "prog", "build")[1:] == words.split()
