"""The alarm on a history of really measured versions of the example bodies: false alarms, and changes that are found.

    python studies/benchmarks/history_of_bodies.py FOLDER [--unchanged 20] [--changed 10]

Unchanged versions first, then versions with a growth of the work of `forces` by 2 % each, another growth class of
`energy` in one of them, and one that is measured next to a process that takes a core. Every version is built and
measured anew, in a folder of its own; with FOLDER again it goes on where it ended. Printed is what `check` says of each
against the ten before it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from buran import assets
from buran.plugins.history import store
from buran.plugins.history.check import CheckResult, check
from buran.plugins.history.entry import entry_of
from buran.plugins.history.feature import VARIABLE
from buran.workflow.history import History
from buran.workflow.report import gather, write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out

LAST = 10  # versions that one is compared with
GROWS, CLASS_CHANGES, NOISY = 3, 6, 8  # of the versions that change
GROWTH = 0.02
CAMPAIGN: dict[str, Any] = {
    "name": "bodies",
    "program": {
        "source": "program",
        "build": "make MPICC={mpicc} CFLAGS='{flags}'",
        "flags": "-O2",
        "binary": "bodies",
        "run": "{binary} {n}",
    },
    "parameters": {"p": [1, 2], "n": [200, 400, 600]},
    "strategy": {"name": "full"},
    "repetitions": 2,
    "warmup": False,
}


def source_of(text: str, grown: int, other_class: bool) -> str:
    """Return the program with `grown` steps of growth, and with a sum of energies for each rank."""
    rows = "for (int i = 0; i < few; i++) {\n        force"
    more = f"for (int k = 0; k < {GROWTH * grown:g} * few * n; k++) force[k % few] = mine[k % few];\n    {rows}"
    energy = "double sum = energy(all, n, 0, 1);"
    times = f"{energy} for (int k = 1; k < ranks; k++) sum += energy(all, n, 0, 1);"
    for old, new, wanted in ((rows, more, grown > 0), (energy, times, other_class)):
        if text.count(old) != 1:
            raise ValueError(f"the example has changed: {old!r} is not there once")
        text = text.replace(old, new) if wanted else text
    return text


@contextmanager
def beside(busy: bool) -> Iterator[None]:
    """Take a core meanwhile."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def measured(folder: Path, source: str, noisy: bool) -> None:
    """Measure a version, which is then the newest of the history."""
    program = folder / "program"
    program.mkdir(parents=True, exist_ok=True)
    (program / "Makefile").write_text((assets.folder("examples") / "bodies" / "Makefile").read_text())
    (program / "bodies.c").write_text(source)
    (folder / "campaign.yaml").write_text(yaml.safe_dump(CAMPAIGN, sort_keys=False))
    session = open_session(folder / "campaign.yaml")
    with beside(noisy):
        carry_out(session)
    history = History.open(session)
    if failed := [run.reason for outcome in history.outcomes(history.plans) for run in outcome.runs if run.reason]:
        raise SystemExit(f"{folder}: {len(failed)} runs failed, such as: {failed[0]}")
    write_results(history, session.layout.results(session.id))


def checked(folder: Path, history: Path) -> tuple[CheckResult, int]:
    """Compare a version with those before it."""
    session = open_session(folder / "campaign.yaml", to_read=True)
    campaign = History.open(session)
    entry = entry_of(campaign, gather(campaign), session.layout.results(session.id))
    query = "SELECT * FROM campaigns WHERE id < (SELECT id FROM campaigns WHERE key = ?) ORDER BY id DESC LIMIT ?"
    last = store.read(history, query, (entry.key, LAST))
    return check({**entry.columns, **json.loads(json.dumps(entry.content))}, last), len(last)


def main() -> None:
    """Measure and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--unchanged", type=int, default=20)
    parser.add_argument("--changed", type=int, default=10)
    arguments = parser.parse_args()
    root = arguments.folder.absolute()
    history = root / "history.sqlite"
    os.environ[VARIABLE] = str(history)
    text = (assets.folder("examples") / "bodies" / "bodies.c").read_text()
    for number in range(arguments.unchanged + arguments.changed):
        change = number - arguments.unchanged
        grown = min(max(change - GROWS + 1, 0), CLASS_CHANGES + 1 - GROWS)
        folder = root / f"version-{number:02d}"
        if not (folder / "checked.txt").is_file():
            measured(folder, source_of(text, grown, change >= CLASS_CHANGES), change == NOISY)
            result, others = checked(folder, history)
            kind = "unchanged" if change < 0 else f"changed {change}"
            alarms = "".join(f"\n    {alarm}" for alarm in result.alarms)
            said = f"{result.counts} counts, {result.times} times of {others} compared: {len(result.alarms)} alarms"
            (folder / "checked.txt").write_text(f"version {number} ({kind}): {said}{alarms}\n")
        print((folder / "checked.txt").read_text(), end="", flush=True)


if __name__ == "__main__":
    main()
