"""Shell completion, tried in bash itself; and what is meant where no campaign file is named."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from buran.cli import completion, main
from buran.errors import ToolError

_ASK = """\
source "$1"
shift
COMP_WORDS=(buran "$@"); COMP_CWORD=$#; COMPREPLY=()
complete -p buran | grep -q _shtab_buran && _shtab_buran buran "${@: -1}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("completion") / "buran.bash"
    done = subprocess.run([sys.executable, "-m", "buran.cli", "completion", "bash"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    path.write_text(done.stdout)
    return path


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["sug"], {"suggest"}),
        (["run", ""], {"campaign.yaml", "other.yml", "folder"}),
        (["run", "c"], {"campaign.yaml"}),
        (["status", "folder/"], {"folder/inner.yaml"}),
        (["run", "--profile", "sl"], {"slurm"}),
        (["init", "--example", "s"], {"stencil", "sweep"}),
        (["completion", ""], {"bash", "zsh", "fish", "tcsh"}),
    ],
)
def test_bash_completes(script: Path, tmp_path: Path, words: list[str], found: set[str]) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("campaign.yaml", "other.yml", "notes.txt", "folder/inner.yaml"):
        (tmp_path / name).touch()
    done = subprocess.run(
        ["bash", "-c", _ASK, "ask", script, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    assert set(done.stdout.split()) == found


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("buran sug", ["suggest"]),
        ("buran run ", ["campaign.yaml", "folder/"]),
        ("buran run --profile sl", ["slurm"]),
        ("buran run --dr", ["--dry-run"]),
    ],
)
def test_fish_completes(line: str, found: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fish"]) == 0
    (tmp_path / "buran.fish").write_text(capsys.readouterr().out)
    (tmp_path / "folder").mkdir()
    (tmp_path / "campaign.yaml").touch()
    (tmp_path / "notes.txt").touch()
    words = ["fish", "--no-config", "-c", f"source buran.fish; complete -C '{line}'"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert [said.split("\t")[0] for said in done.stdout.splitlines()] == found


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_every_shell_has_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    shown = capsys.readouterr().out
    assert "suggest" in shown and "yaml" in shown.replace("y*ml", "yaml")


def test_without_shtab_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["completion", "bash"]) == ToolError.exit_code
    assert "pip install 'buran[completion]'" in capsys.readouterr().err


# -- the campaign file of the current folder ---------------------------------------------------------------


@pytest.mark.parametrize("verb", ["check", "plan", "simulate", "run", "status", "verify", "filter", "report"])
def test_the_campaign_file_here_is_meant(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([verb]) == 2
    shown = capsys.readouterr().err
    assert "campaign.yaml" in shown and "there is no such file" in shown and "buran init" in shown


def test_what_follows_two_dashes_is_for_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from buran.cli import run

    seen = []
    monkeypatch.setattr(run, "run", lambda arguments: seen.append(arguments) or 0)
    assert main(["run", "--", "--cores", "1"]) == 0
    assert main(["run", "other.yaml", "-n", "--", "--forceall"]) == 0
    assert [str(each.file) for each in seen] == ["campaign.yaml", "other.yaml"]
    assert [each.passed_on for each in seen] == [["--cores", "1"], ["--forceall"]]
