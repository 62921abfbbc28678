"""``buran status``: how far a campaign is."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import astuple
from typing import TYPE_CHECKING

from buran.cli.arguments import OF_RESULTS, add_campaign_file, add_loudness, open_to_read
from buran.cli.terminal import duration, hushed, note, style, table
from buran.errors import Exit

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from buran.reporting.summary import AccountItem, CampaignSummary, Failure

HELP = "show what is measured, failed, running and missing"

_MOST_NAMED = 10  # failures


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser, "name every failure")


def run(arguments: argparse.Namespace) -> int:
    """Print the state of a campaign."""
    from buran.workflow.history import History
    from buran.workflow.views.summary import summarize

    session = open_to_read(arguments.file)
    state = summarize(History.open(session))
    if arguments.json:
        print(json.dumps(state.to_json(), indent=2))
    else:
        print(f"{style('campaign', 'bold')} {state.campaign}: {'done: ' if state.done else ''}{state.reason}")
        with hushed():
            _print_rest(state, arguments.file, every=arguments.verbose)
    return Exit.SOME_RUNS_FAILED if state.failures else Exit.DONE


def _print_rest(state: CampaignSummary, file: Path, *, every: bool) -> None:
    header = ("iteration", "build", "for", "runs", "measured", "failed", "running", "queued", "missing")
    if rows := [astuple(row) for row in state.rows]:
        print(table(header, rows, right=(0, 3, 4, 5, 6, 7, 8)))
    if state.queue is not None and (state.queue.running or state.queue.pending):
        why = ", ".join(f"{number} {reason}" for reason, number in sorted(state.queue.reasons.items()))
        counts = f"{state.queue.running} running, {state.queue.pending} waiting"
        print(f"jobs in {state.queue.scheduler}: {counts}{f' ({why})' if why else ''}")
    budget = "" if state.budget_core_hours is None else f" of {state.budget_core_hours:.4g}"
    left = "unknown" if state.remaining_core_hours is None else f"{state.remaining_core_hours:.4g}"
    claimed = f"{state.claimed_core_hours:.4g} being spent, " if state.claimed_core_hours else ""
    own = f" ({state.program_core_hours:.4g} by programs)" if state.program_core_hours < state.spent_core_hours else ""
    if not rows:
        print(f"start it with: buran run {file}")
    to_come = "" if state.done or not rows else f", {claimed}{left} left in the plans so far"
    print(f"core hours: {state.spent_core_hours:.4g}{budget} spent{own}{to_come}")
    if state.account:
        print(table(("spent on", "runs", "core hours"), account_rows(state.account), right=(1, 2)))
    if state.eta_s and not state.done:
        print(f"about {duration(state.eta_s)} until they are measured")
    for text in (*state.changes, *state.simulated):
        note(text, sys.stdout)
    print_failures(state, every=every)
    for problem in state.problems:
        print(f"{style('stopped', 'yellow')} {problem}")
    _print_some(state.interruptions, style("missing", "yellow"), every=every)


def account_rows(account: Sequence[AccountItem]) -> list[tuple[str, str, str]]:
    """Return the rows of a table of what core hours went into, with their sum."""
    rows = [(item.phase, str(item.runs), f"{item.core_hours:.4g}") for item in account]
    runs, total = sum(item.runs for item in account), sum(item.core_hours for item in account)
    return [*rows, ("in total", str(runs), f"{total:.4g}")]


def print_failures(state: CampaignSummary, *, every: bool = False) -> None:
    """Name failed builds and runs with their reasons and logs: those of one cause together, or `every` one."""
    _print_some(state.failures if every else state.causes, style("failed", "red"), every=every)


def _print_some(failures: Sequence[Failure], kind: str, *, every: bool) -> None:
    for failure in failures if every else failures[:_MOST_NAMED]:
        print(f"{kind} {failure.what}: {failure.reason}\n         log: {failure.log}")
    if len(failures) > _MOST_NAMED and not every:
        print(f"... and {len(failures) - _MOST_NAMED} more: buran status -v")
