"""``buran plan``: what would be built and measured, and why."""

from __future__ import annotations

import argparse
import json

from buran.cli.arguments import add_campaign_file
from buran.cli.terminal import style, table

HELP = "show the plans so far, or the first one, without measuring"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser)
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    """Print the plans."""
    from buran.loop.history import History
    from buran.loop.plan import first_plan
    from buran.loop.session import open_session
    from buran.measure.bundle import slots_of
    from buran.views.changes import changes_in_words

    session = open_session(arguments.file)
    history = History.open(session)
    plans = history.plans or (first_plan(session),)
    if arguments.json:
        print(json.dumps([plan.to_json() for plan in plans], indent=2))
        return 0
    for change in changes_in_words(history):
        print(f"{style('note:', 'yellow')} {change}")
    for plan in plans:
        print(style(f"iteration {plan.iteration}: {plan.reason}", "bold"))
        if plan.done:
            continue
        cost = "unknown" if plan.predicted_core_hours is None else f"{plan.predicted_core_hours:.4g} core hours"
        runs = sum(len(bundle.runs) for bundle in plan.bundles)
        print(f"{len(plan.builds)} builds, {len(plan.bundles)} points, {runs} runs; expected cost: {cost}")
        rows = []
        for bundle in plan.bundles:
            slots = [slot for _, slot in slots_of(session.target, session.layout, bundle)]
            present = sum(slot.verdict() is not None for slot in slots)
            claimed = sum(slot.verdict() is None and slot.claim.exists() for slot in slots)
            rows.append((bundle.point.key, bundle.purpose, len(slots) - present - claimed, present, claimed))
        print(table(("point", "for", "new runs", "present", "claimed"), rows, right=(2, 3, 4)))
    return 0
