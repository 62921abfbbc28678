"""Checking the output of runs against the conditions of a campaign."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from buran.plugins.sanity import lines
from buran.plugins.sanity.feature import SanityKeys

if TYPE_CHECKING:
    from buran.loop.history import History

_LIMIT_S = 20.0


def violations(keys: SanityKeys, outputs: Sequence[Sequence[Path]]) -> list[str | None]:
    """Return for each run which condition its output does not meet; None where it meets all.

    Patterns run in a process of their own with a time limit: one that backtracks may never end, and Python's regular
    expressions cannot be interrupted from another thread.

    Parameters
    ----------
    outputs
        Files with what each run printed; what is missing counts as empty.
    """
    task = {
        "conditions": keys.model_dump(mode="json"),
        "outputs": [[str(path) for path in of_run] for of_run in outputs],
    }
    command = [sys.executable, "-I", str(lines.__file__)]
    try:
        done = subprocess.run(
            command, input=json.dumps(task), capture_output=True, text=True, timeout=_LIMIT_S, check=True
        )
    except subprocess.TimeoutExpired:
        why = f"the patterns took more than {_LIMIT_S:g} s, as repetitions inside of repetitions do: (a+)+"
        return [why] * len(outputs)
    found: list[str | None] = json.loads(done.stdout)
    return found


def earlier_runs(keys: SanityKeys, history: History) -> list[str]:
    """Name the measured runs that do not meet the conditions: they were made before these were added."""
    from buran.loop.collect import in_store

    runs = [run for run in in_store(history.runs) if not run.build.origin]
    outputs = [(run.folder / "stdout.log", run.folder / "stderr.log") for run in runs]
    failed = [(run, why) for run, why in zip(runs, violations(keys, outputs), strict=True) if why is not None]
    if not failed:
        return []
    points = dict.fromkeys(", ".join(f"{name} = {value:g}" for name, value in run.point.items()) for run, _ in failed)
    return [
        f"{len(failed)} of {len(runs)} measured runs do not meet the conditions of key sanity, which were added later: "
        f"{'; '.join(points)}. The first: {failed[0][1]}. `buran run --remeasure` makes them "
        "again."
    ]
