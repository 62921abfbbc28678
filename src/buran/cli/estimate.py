"""``buran estimate``: what comes next, and what it will cost."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from buran.cli.arguments import OF_RESULTS, add_campaign_file
from buran.cli.reading import open_to_read
from buran.cli.terminal import style
from buran.wording import counted

if TYPE_CHECKING:
    from buran.views.estimate import Estimate

HELP = "show what the next plan will cost, and what the full matrix would"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    """Print the estimate."""
    from buran.loop.history import History
    from buran.views.estimate import estimate

    next_plan = estimate(History.open(open_to_read(arguments.file)))
    if arguments.json:
        print(json.dumps(asdict(next_plan), indent=2))
    else:
        show(next_plan)
    return 0


def show(estimate: Estimate) -> None:
    """Print an estimate for people."""
    print(style(f"iteration {estimate.iteration}: {estimate.reason}", "bold"))
    if estimate.runs:
        print(f"{counted(estimate.points, 'point')}, {counted(estimate.runs, 'run')} not made yet")
    print(f"expected cost: {hours_in_words(estimate.next_core_hours)} ({estimate.source})")
    share = estimate.share_of_full_matrix
    print(
        f"full matrix:   {hours_in_words(estimate.full_matrix_core_hours)}"
        + ("" if share is None else f"; the next plan is {100 * share:.3g} % of it")
    )
    if estimate.target_s is not None:
        from buran.report.plain import named

        print(f"a run at {named(estimate.target)} takes {estimate.target_s:.4g} s")
    if estimate.budget_core_hours is not None:
        budget, spent = map(hours_in_words, (estimate.budget_core_hours, estimate.spent_core_hours))
        print(f"budget:        {budget}, {spent} spent")


def hours_in_words(hours: float | None) -> str:
    """Say a cost, which may not be known."""
    return "unknown" if hours is None else f"{hours:.4g} core hours"
