"""What people try first and get wrong: each ends in words that say what to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.cli import main
from buran.errors import Exit

CAMPAIGN: dict[str, Any] = {
    "name": "small",
    "program": {"source": ".", "build": "make MPICC={mpicc}", "binary": "program", "run": "{binary} {n}"},
    "parameters": {"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [20, 40]}},
}


def write(folder: Path, **changes: Any) -> str:
    (folder / "program.c").write_text("int main(void) { return 0; }\n")
    file = folder / "campaign.yaml"
    file.write_text(yaml.safe_dump({key: value for key, value in (CAMPAIGN | changes).items() if value is not None}))
    return str(file)


@pytest.mark.parametrize(
    ("changes", "hint"),
    [
        ({"constraints": ["p*n =< 4096"]}, "write `<=`"),
        ({"constraints": ["p*n => 4096"]}, "write `>=`"),
        ({"environments": {"local": {"launcher": "mpirun"}}}, "mpirun -n {ranks} {command}"),
        ({"environments": {"local": {"launcher": "intelmpi"}}}, "write `mpich`"),
        ({"parameters": {"n": {"role": "size", "values": ["small", "large"]}}}, "role: choice"),
        ({"budget": 2}, '`budget: "2h"`'),
        ({"budget": [2]}, "text or"),
        ({"budget": "-2h"}, "greater than zero"),
        ({"resources": {"time_limit": "-5min"}}, "greater than zero"),
        ({"parameters": {"p": 4, "n": [10, 20]}}, '`parameters: {"p": [1, 2, 4]'),
        ({"refinement": {"share": None}}, "remove the line"),
        ({"constraints": ["p *"]}, "such as p * n <= 4096"),
        ({"include": "campaign.yaml"}, "out of one"),
        ({"include": "."}, "name a file;"),
        ({"instrumentation": "All"}, "'all'?"),
        ({"target": {"p": 2, "m": 3}}, "'m' is no parameter"),
        ({"environments": 5}, "keys of"),
        ({"program": None}, 'program: {"source": ".", '),
        ({"parameters": None}, 'parameters: {"p": [1, 2, 4]'),
    ],
)
def test_a_mistake_says_what_to_write(
    changes: dict[str, Any], hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", write(tmp_path, **changes)]) == Exit.USAGE
    assert hint in capsys.readouterr().err


def test_the_least_campaign_is_one(tmp_path: Path) -> None:
    from buran.campaign.load import load_campaign
    from buran.campaign.validation import schema_at

    (tmp_path / "program.c").touch()
    file = tmp_path / "campaign.yaml"
    least = ("name", "program", "parameters")
    file.write_text(yaml.safe_dump({key: schema_at((key,))["examples"][0] for key in least}))
    assert load_campaign(file).name == "my-campaign"


def test_a_binary_is_no_campaign_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"\x7fELF\0\0\xd0\xff")
    assert main(["check", str(path)]) == Exit.USAGE
    said = capsys.readouterr().err
    assert "no text file" in said and "iconv" not in said


@pytest.mark.parametrize("verb", ["check", "plan", "run"])
@pytest.mark.parametrize("where", ["below what cannot be made", "dangling link", "read-only"])
def test_results_that_cannot_be_written_are_said_by_every_verb(
    where: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "purged")
    results = {
        "below what cannot be made": "/proc/nowhere",
        "dangling link": "link",
        "read-only": "/sys/kernel",  # for root, too
    }[where]
    assert main([verb, write(tmp_path, results=results)]) == Exit.ENVIRONMENT
    said = capsys.readouterr().err
    assert f"{results.strip('/')}/small" in said and "results" in said.partition("next:")[2]


def test_a_check_leaves_nothing_behind(tmp_path: Path) -> None:
    assert main(["check", write(tmp_path, results="a/b")]) == Exit.DONE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["campaign.yaml", "program.c"]


@pytest.mark.parametrize("words", [("check", "--js"), ("run", "--profil", "slurm"), ("report", "--ful")])
def test_options_are_written_out(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(list(words)) == Exit.USAGE
    assert "unrecognized arguments" in capsys.readouterr().err


@pytest.mark.mpi
def test_before_the_first_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path)
    assert main(["status", file]) == Exit.DONE
    said = capsys.readouterr().out
    assert f"buran run {file}" in said and "unknown" not in said
    assert main(["report", file]) == Exit.USAGE
    assert "not been run" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("point", "why"),
    [("p=3,n=20", "p: 1, 2"), ("p=2,n=7", "n: 20, 40, 80"), ("p=2,n=80", "together")],
)
def test_a_point_that_there_is_not_says_which_values_there_are(point: str, why: str, tmp_path: Path) -> None:
    from buran.campaign.load import load_campaign
    from buran.cli.arguments import named_numbers
    from buran.errors import UsageError
    from buran.workflow.measure import point_of

    file = write(
        tmp_path,
        parameters={**CAMPAIGN["parameters"], "n": {"role": "size", "values": [20, 40, 80]}},
        constraints=["p * n <= 80"],
    )
    with pytest.raises(UsageError) as caught:
        point_of(load_campaign(Path(file)), named_numbers(point, ""))
    assert why in str(caught.value.why)


def test_formats_stand_one_on_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "data.txt").write_text("garbage")
    assert main(["model", str(tmp_path / "data.txt")]) == Exit.USAGE
    lines = capsys.readouterr().err.splitlines()
    assert max(map(len, lines)) < 120 and sum(line.strip().startswith("- ") for line in lines) > 5


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (b"", "`buran init DIR`"),
        (b"# nothing\n", "`buran init DIR`"),
        (b"name: demo\nprogram:\n\tsource: code\n", "indent with spaces"),
        (b"name: [demo\n", "quotes and brackets"),
        (b"name: d\xe4mo\n", "as UTF-8"),
        ("name: demo\n".encode("utf-16"), "text in UTF-8"),
        (b"\x7fELF\n", "no text"),
        (b"name: demo\nname: other\n", "keep one"),
        (b"? [a, b]\n: 3\n", "`key: value`"),
        (b"- a\n", "keys at"),
        (b"name: !!python/object:os.system demo\n", "leave it out"),
        (None, "in it: "),
    ],
)
def test_what_is_no_campaign_file_says_what_to_do(
    text: bytes | None, hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "campaign.yaml"
    file.write_bytes(b"name: demo\n" if text is None else text)
    assert main(["check", str(tmp_path if text is None else file)]) == Exit.USAGE
    printed = capsys.readouterr().err
    assert hint in printed and str(tmp_path) in printed and "Traceback" not in printed


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--chek"], "`buran --help`"),
        (["check", "--proflie", "local"], "--profile?"),
        (["run", "--retry_failed"], "--retry-failed?"),
        (["check", "a", "b"], "`buran help check`"),
        (["check", "CAMPAIGN", "--profile", "./"], "config.yaml"),
        (["convert", "nothing", "out"], "with measurements"),
        (["predict", "CAMPAIGN"], "buran model"),
    ],
)
def test_a_mistake_on_the_command_line_says_what_to_write(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main([file if word == "CAMPAIGN" else word for word in words]) == Exit.USAGE
    assert said in " ".join(capsys.readouterr().err.split())
