"""Campaigns whose Score-P cannot do what they need: said before anything is built, with what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from buran.cli import main

HOOKS = "      Compiler instrumentation: yes\n        C:                      gcc_plugin\n"
SUMMARY = f"      C++11 compiler:           /usr/bin/g++ -std=c++11 (gnu 12.2.0)\n{HOOKS}"
CAMPAIGN = {
    "name": "small",
    "program": {"source": ".", "build": "{mpicc} -o program *.c", "binary": "program", "run": "{binary} {n}"},
    "parameters": {"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [20, 40]}},
    "backend": "scorep",
}


def write(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    ("summary", "wrappers", "texts"),
    [
        ("      Compiler instrumentation: no\n", ("scorep-mpicc",), ("not instrument functions", "compiler plugin")),
        (SUMMARY, (), ("no wrappers for an MPI", "configured with an MPI")),
        (SUMMARY.replace("gcc_plugin", "-finstrument-functions"), ("scorep-mpicc",), ("filtering: run",)),
        (None, (), ("Score-P was not found", "load its module")),
    ],
    ids=["without a plugin", "without MPI", "without filters", "none"],
)
def test_what_a_score_p_lacks_is_said_with_the_way_out(
    summary: str | None,
    wrappers: tuple[str, ...],
    texts: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tools, others = tmp_path / "bin", os.environ["PATH"].split(":")
    tools.mkdir()
    if summary is not None:
        write(tools, "scorep", 'echo "Score-P 8.4"')
        write(tools, "scorep-info", f"cat <<END\n{summary}END")
    for name in wrappers:
        write(tools, name, "exit 1")
    others = [folder for folder in others if not (Path(folder) / "scorep").exists()]
    monkeypatch.setenv("PATH", ":".join([str(tools), *others]))
    (tmp_path / "program.c").write_text("int main(void) { return 0; }\n")
    file = tmp_path / "campaign.yaml"
    file.write_text(yaml.safe_dump(CAMPAIGN))
    assert main(["run", str(file)]) != 0
    said = capsys.readouterr().err
    assert "Traceback" not in said
    for text in ("error: ", "where: ", "why: ", "next: ", *texts):
        assert text in said
    assert not list(tmp_path.glob("results/*/store/*/*"))
