"""``buran plan``: what would be built and measured, why, and what it will cost."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

from buran.cli.arguments import OF_RESULTS, add_campaign_file, add_loudness, open_to_read
from buran.cli.terminal import duration, hushed, note, style, table
from buran.wording import counted, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buran.campaign.plan import Plan
    from buran.reporting.summary import CampaignSummary

HELP = "show the plans so far or the first one, and the cost of the next one and of the full matrix"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser, OF_RESULTS)
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_loudness(parser, "name the builds of runs")


def run(arguments: argparse.Namespace) -> int:
    """Print the plans."""
    from buran.workflow.history import History
    from buran.workflow.notes import sharing_ahead
    from buran.workflow.views.ahead import Ahead
    from buran.workflow.views.summary import summarize

    session = open_to_read(arguments.file)
    history = History.open(session)
    ahead = Ahead.of(history)
    summary, plans = summarize(history, ahead), history.plans or (ahead.next,)
    assert summary.next is not None
    if arguments.json:
        print(json.dumps({"plans": [plan.to_json() for plan in plans], "next": asdict(summary.next)}, indent=2))
        return 0
    with hushed():
        for text in (*summary.changes, *sharing_ahead(session.campaign)):
            note(text, sys.stdout)
        _show_plans(plans, summary, each_run=arguments.verbose)
        _show_phases(summary)
        print()
    if ahead.next not in plans:
        print(style(f"next: iteration {summary.next.iteration}, {summary.next.reason}", "bold"))
    show_cost(summary)
    return 0


def _show_plans(plans: Sequence[Plan], summary: CampaignSummary, *, each_run: bool) -> None:
    """Print what each plan builds and measures; `each_run`: also of which builds the runs of a point are."""
    for plan in plans:
        print(style(f"iteration {plan.iteration}: {plan.reason}", "bold"))
        if plan.done:
            continue
        # of the plan that is begun or next, what runs that are made have shown
        is_next = summary.next is not None and plan.iteration == summary.next.iteration
        hours = summary.next.next_core_hours if is_next and summary.next else plan.predicted_core_hours
        runs = sum(len(bundle.runs) for bundle in plan.bundles)
        numbers = (len(plan.builds), "build"), (len(plan.bundles), "point"), (runs, "run")
        print(f"{', '.join(counted(*number) for number in numbers)}; expected cost: {hours_in_words(hours)}")
        rows = []
        for each in (point for point in summary.points if point.iteration == plan.iteration):
            present, claimed = each.states["measured"] + each.states["failed"], each.states["running"]
            new = each.states["queued"] + each.states["missing"]
            builds = [", ".join(f"{number} {mode}" for mode, number in sorted(each.modes.items()))]
            rows.append((each.point, each.purpose, new, present, claimed, *builds * each_run))
        header = ("point", "for", "new runs", "present", "claimed", *["of builds"] * each_run)
        print(table(header, rows, right=(2, 3, 4)))


def _show_phases(summary: CampaignSummary) -> None:
    """Print what core hours went into, and what is to come."""
    from buran.workflow.views.summary import PHASES

    made, rows = {item.phase: item for item in summary.account}, []
    for phase in (each for each in PHASES if each in made or each in summary.to_come):
        item, rest = made.get(phase), summary.to_come.get(phase)
        spent = ("0", "") if item is None else (str(item.runs), f"{item.core_hours:.3g}")
        hours, takes = ("", "") if rest is None else ("?", "?")
        if rest is not None and rest.core_hours is not None and rest.seconds is not None:
            hours, takes = f"{rest.core_hours:.3g}", duration(rest.seconds)
        rows.append((phase, *spent, str(0 if rest is None else rest.runs), hours, takes))
    print()
    print(table(("phase", "made", "core hours", "to come", "core hours", "takes"), rows, right=range(1, 6)))
    if any(rest.core_hours is None for rest in summary.to_come.values()):
        print("?: known when some runs are made, or from resources.expected_time")


def show_cost(summary: CampaignSummary) -> None:
    """Print what the next plan and the full matrix will cost."""
    plan = summary.next
    assert plan is not None
    if plan.runs:
        print(f"{counted(plan.points, 'point')}, {counted(plan.runs, 'run')} not made yet")
    print(f"expected cost: {hours_in_words(plan.next_core_hours)} ({plan.source})")
    full, share = plan.full_matrix_core_hours, ""
    if plan.next_core_hours is not None and full:
        share = f"; the next plan is {100 * plan.next_core_hours / full:.3g} % of it"
    print(f"full matrix:   {hours_in_words(full)}{share}")
    if plan.target_s is not None:
        print(f"a run at {named(plan.target)} takes {plan.target_s:.4g} s")
    if plan.budget_core_hours is not None:
        budget, spent = map(hours_in_words, (plan.budget_core_hours, plan.spent_core_hours))
        print(f"budget:        {budget}, {spent} spent")


def hours_in_words(hours: float | None) -> str:
    """Say a cost, which may not be known."""
    return "unknown" if hours is None else f"{hours:.4g} core hours"
