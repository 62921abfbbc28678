"""``buran plan``: what would be built and measured, why, and what it will cost."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING

from buran.cli.arguments import OF_RESULTS, add_campaign_file, add_loudness, open_to_read
from buran.cli.terminal import duration, hushed, note, style, table
from buran.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from buran.campaign.plan import Plan
    from buran.reporting.content import AccountItem
    from buran.workflow.session import Session
    from buran.workflow.views.estimate import Estimate
    from buran.workflow.views.remaining import Remaining

HELP = "show the plans so far or the first one, and the cost of the next one and of the full matrix"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser, "name the builds of runs")


def run(arguments: argparse.Namespace) -> int:
    """Print the plans."""
    from buran.workflow.crowded import sharing_ahead
    from buran.workflow.history import History
    from buran.workflow.plan import first_plan
    from buran.workflow.views.changes import changes_in_words
    from buran.workflow.views.estimate import ahead_of, estimate
    from buran.workflow.views.status import progress_of

    session = open_to_read(arguments.file)
    history = History.open(session)
    plans = history.plans or (first_plan(session),)
    ahead = estimate(history)
    if arguments.json:
        print(json.dumps({"plans": [plan.to_json() for plan in plans], "next": asdict(ahead)}, indent=2))
        return 0
    with hushed():
        for text in (*changes_in_words(history), *sharing_ahead(session.campaign)):
            note(text, sys.stdout)
        _show_plans(session, plans, ahead, each_run=arguments.verbose)
        _show_phases(progress_of(history).account, ahead_of(history))
        print()
    if ahead.iteration not in {plan.iteration for plan in plans}:
        print(style(f"next: iteration {ahead.iteration}, {ahead.reason}", "bold"))
    show_estimate(ahead)
    return 0


def _show_plans(session: Session, plans: Sequence[Plan], ahead: Estimate, *, each_run: bool) -> None:
    """Print what each plan builds and measures; `each_run`: also of which builds the runs of a point are."""
    from buran.measurement.bundle import slots_of

    for plan in plans:
        print(style(f"iteration {plan.iteration}: {plan.reason}", "bold"))
        if plan.done:
            continue
        # of the plan that is begun or next, what runs that are made have shown
        hours = ahead.next_core_hours if plan.iteration == ahead.iteration else plan.predicted_core_hours
        cost, runs = hours_in_words(hours), sum(len(bundle.runs) for bundle in plan.bundles)
        numbers = (len(plan.builds), "build"), (len(plan.bundles), "point"), (runs, "run")
        print(f"{', '.join(counted(*number) for number in numbers)}; expected cost: {cost}")
        rows = []
        for bundle in plan.bundles:
            slots = [slot for _, slot in slots_of(session.target, session.layout, bundle)]
            present = sum(slot.verdict() is not None for slot in slots)
            claimed = sum(slot.verdict() is None and slot.claim.exists() for slot in slots)
            modes = Counter(run.mode for run in bundle.runs)
            row = (bundle.point.key, bundle.purpose, len(slots) - present - claimed, present, claimed)
            rows.append((*row, *([", ".join(f"{number} {mode}" for mode, number in sorted(modes.items()))] * each_run)))
        header = ("point", "for", "new runs", "present", "claimed", *(["of builds"] * each_run))
        print(table(header, rows, right=(2, 3, 4)))


def _show_phases(account: Sequence[AccountItem], ahead: Mapping[str, Remaining]) -> None:
    """Print what core hours went into, and what is to come."""
    from buran.reporting.account import PHASES

    made, rows = {item.phase: item for item in account}, []
    for phase in (each for each in PHASES if each in made or each in ahead):
        item, rest = made.get(phase), ahead.get(phase)
        spent = ("0", "") if item is None else (str(item.runs), f"{item.core_hours:.3g}")
        hours, takes = ("", "") if rest is None else ("?", "?")
        if rest is not None and not rest.unknown:
            hours, takes = f"{rest.core_hours:.3g}", duration(sum(rest.seconds.values()))
        rows.append((phase, *spent, str(0 if rest is None else rest.runs), hours, takes))
    print()
    print(table(("phase", "made", "core hours", "to come", "core hours", "takes"), rows, right=range(1, 6)))
    if any(rest.unknown for rest in ahead.values()):
        print("?: known when some runs are made, or from resources.expected_time")


def show_estimate(estimate: Estimate) -> None:
    """Print what the next plan and the full matrix will cost."""
    if estimate.runs:
        print(f"{counted(estimate.points, 'point')}, {counted(estimate.runs, 'run')} not made yet")
    print(f"expected cost: {hours_in_words(estimate.next_core_hours)} ({estimate.source})")
    share = estimate.share_of_full_matrix
    print(
        f"full matrix:   {hours_in_words(estimate.full_matrix_core_hours)}"
        + ("" if share is None else f"; the next plan is {100 * share:.3g} % of it")
    )
    if estimate.target_s is not None:
        from buran.wording import named

        print(f"a run at {named(estimate.target)} takes {estimate.target_s:.4g} s")
    if estimate.budget_core_hours is not None:
        budget, spent = map(hours_in_words, (estimate.budget_core_hours, estimate.spent_core_hours))
        print(f"budget:        {budget}, {spent} spent")


def hours_in_words(hours: float | None) -> str:
    """Say a cost, which may not be known."""
    return "unknown" if hours is None else f"{hours:.4g} core hours"
