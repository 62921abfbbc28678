"""The full run as a workflow: one job for each shard, and what is finished stays."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from buran.files import read_json, write_json
from buran_studies.evaluation.run import Run
from buran_studies.evaluation.study import Settings
from buran_studies.verbs.evaluate import WORKFLOW


def snakemake(run: Run, *targets: Path) -> str:
    command = [
        *(sys.executable, "-m", "snakemake", "--cores", "1", "--rerun-triggers", "mtime"),
        *("--snakefile", str(WORKFLOW), "--directory", str(run.folder)),
        *("--config", f"evaluation={run.folder}", "--", *map(str, targets)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.thorough
def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    run = Run.create(Settings("priors", quick=True, draws=1), tmp_path)
    names = list(run.shards)
    finished, missing = names[0], names[-1]
    write_json(run.result(finished), {"result": "finished before"})
    text = snakemake(run, run.result(finished), run.result(missing))
    assert read_json(run.result(finished)) == {"result": "finished before"}
    assert f"Working on shard {missing}" in text and f"Working on shard {finished}" not in text
    assert read_json(run.result(missing))["result"]["kind"] == "waiting"
    assert "Nothing to be done" in snakemake(run, run.result(finished), run.result(missing))
    run.result(missing).unlink()
    snakemake(run, run.result(missing))
    assert run.result(missing).is_file()


@pytest.mark.thorough
def test_shards_come_after_those_that_they_are_made_from(tmp_path: Path) -> None:
    run = Run.create(Settings("priors", draws=1), tmp_path)
    shards = run.shards
    judge = next(name for name, shard in shards.items() if shard["kind"] == "judge")
    noise = next(name for name, shard in shards.items() if shard["kind"] == "noise")
    assert [shards[path.stem]["kind"] for path in run.needed(judge)] == ["count"] + ["time"] * 5
    assert run.needed(noise) == [run.result(judge)]
    command = [
        *(sys.executable, "-m", "snakemake", "--dry-run", "--quiet", "rules", "--cores", "1"),
        *("--snakefile", str(WORKFLOW), "--directory", str(run.folder)),
        *("--config", f"evaluation={run.folder}", "--", str(run.result(noise))),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    planned = done.stdout + done.stderr
    assert "evaluate" in planned and "8" in planned  # a count, five times, a judge and the noise


def naming(folder: Path) -> list[str]:
    """Return the command lines of processes that name a folder."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in lines if str(folder) in line]


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.thorough
def test_an_interrupted_evaluation_leaves_no_process_behind(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "buran.cli", "evaluate", "priors", "-o", str(tmp_path), "--cores", "2"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as evaluation:
        assert evaluation.stderr is not None
        wait_until(lambda: any(".evaluate.py" in line for line in naming(tmp_path)))
        evaluation.terminate()  # it alone, as a batch system or a supervisor does
        assert evaluation.wait() == 130 and "interrupted" in evaluation.stderr.read()
    wait_until(lambda: not naming(tmp_path))
