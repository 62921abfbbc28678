"""``buran status``: how far a campaign is."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buran.steps.progress import Progress

HELP = "show what is measured, failed, running and missing"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", type=Path, help="campaign file")
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    """Print the state of a campaign."""
    from buran.cli.terminal import style, table
    from buran.errors import Exit
    from buran.steps.progress import progress_of
    from buran.steps.session import open_session

    state = progress_of(open_session(arguments.file))
    code = Exit.SOME_RUNS_FAILED if state.failures else Exit.DONE
    if arguments.json:
        print(json.dumps(state.to_json(), indent=2))
        return code
    header = ("iteration", "build", "for", "runs", "measured", "failed", "running", "queued")
    rows = [
        (row.iteration, row.mode, row.purpose, row.runs, row.measured, row.failed, row.running, row.queued)
        for row in state.rows
    ]
    print(f"{style('campaign', 'bold')} {state.campaign}: {'done: ' if state.done else ''}{state.reason}")
    if rows:
        print(table(header, rows, right=(0, 3, 4, 5, 6, 7)))
    budget = "" if state.budget_core_hours is None else f" of {state.budget_core_hours:.4g}"
    left = "unknown" if state.remaining_core_hours is None else f"{state.remaining_core_hours:.4g}"
    print(f"core hours: {state.spent_core_hours:.4g}{budget} spent, {left} left in the plans so far")
    if state.other_targets:
        print(f"{state.other_targets} other versions of the target (sources, flags or compiler) were measured before")
    print_failures(state)
    return code


def print_failures(state: Progress, limit: int = 10) -> None:
    """Name failed builds and runs with their reasons and logs."""
    from buran.cli.terminal import style

    for failure in state.failures[:limit]:
        print(f"{style('failed', 'red')} {failure.what}: {failure.reason}\n         log: {failure.log}")
    if len(state.failures) > limit:
        print(f"... and {len(state.failures) - limit} more")
