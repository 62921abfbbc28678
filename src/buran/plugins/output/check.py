"""What the output of runs says: which conditions it does not meet, and its figures of merit."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.plugins.output import lines
from buran.plugins.output.keys import SanityKeys
from buran.wording import named

if TYPE_CHECKING:
    from buran.workflow.history import FinishedRun, History

_LIMIT_S = 20.0


def ask(questions: Sequence[Any], outputs: Sequence[Sequence[Path]]) -> list[list[Any]]:
    """Return the answers to questions for each of some outputs.

    Patterns run in a process of their own with a time limit: one that backtracks may never end, and Python's regular
    expressions cannot be interrupted from another thread.

    Parameters
    ----------
    questions
        Conditions, or the pattern of a figure: see `violation` and `figure` of `lines`.
    outputs
        Files with what each run printed; what is missing counts as empty.
    """
    task = {
        "questions": questions,
        "outputs": [[str(path) for path in of_run] for of_run in outputs],
        "limit_s": _LIMIT_S,
    }
    command = [sys.executable, "-I", str(lines.__file__)]
    done = subprocess.run(command, input=json.dumps(task), capture_output=True, encoding="utf-8", check=True)
    answers: list[list[Any]] = json.loads(done.stdout)
    return answers


def violations(keys: SanityKeys, outputs: Sequence[Sequence[Path]]) -> list[str | None]:
    """Return for each run which condition its output does not meet; None where it meets all."""
    return [why for (why,) in ask([keys.model_dump(mode="json")], outputs)]


def output_of(run: FinishedRun) -> tuple[Path, Path]:
    """Return the files with what a run printed."""
    return run.folder / "stdout.log", run.folder / "stderr.log"


@lru_cache(maxsize=2)  # models, notes and report ask the same
def figures_in(patterns: tuple[str, ...], outputs: tuple[tuple[Path, ...], ...]) -> list[list[float | str]]:
    """Return for each run its figures, or why it has none."""
    return ask(patterns, outputs)


def earlier_runs(keys: SanityKeys, history: History) -> list[str]:
    """Name the measured runs that do not meet the conditions: they were made before these were added."""
    from buran.workflow.history import in_store

    runs = list(in_store(history.runs))
    outputs = list(map(output_of, runs))
    failed = [(run, why) for run, why in zip(runs, violations(keys, outputs), strict=True) if why is not None]
    if not failed:
        return []
    points = dict.fromkeys(named(run.point) for run, _ in failed)
    return [
        f"{len(failed)} of {len(runs)} measured runs do not meet the conditions of key sanity, which were added later: "
        f"{'; '.join(points)}. The first: {failed[0][1]}. `buran run --remeasure` makes them "
        "again."
    ]
