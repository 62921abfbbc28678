"""``buran adopt``: let earlier measurements count although the program, or what builds it, has changed."""

from __future__ import annotations

import argparse

from buran.cli.arguments import add_campaign_file
from buran.errors import UsageError

HELP = "let earlier runs count as today's although sources, flags or tools have changed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser)


def run(arguments: argparse.Namespace) -> int:
    """Take over the runs of the target that was measured last."""
    from buran.loop.session import open_session
    from buran.measure.same_program import measured_targets, take_over
    from buran.views.changes import differences

    session = open_session(arguments.file)
    target, layout = session.target, session.layout
    measured = measured_targets(layout)
    if not measured or any(name == target.id for name, _ in measured):
        why = "its finished runs are in use" if measured else "it has no finished runs"
        raise UsageError("there is nothing to take over", where=session.campaign.path, why=why)
    name, records = measured[0]
    changed = "; ".join(differences(records[0], target))
    take_over(target, layout, name, f"declared with buran adopt; changed: {changed}")
    print(f"from now on the runs of the earlier program count, although this has changed: {changed}")
    print(f"delete {layout.taken_over(target.made_from)} to take that back")
    return 0
