"""``buran remeasure``: measure points again, beside what was measured before."""

from __future__ import annotations

import argparse

from buran.cli.arguments import add_campaign_file, add_profile
from buran.cli.points import named_numbers

HELP = "measure a point again, as a new generation; the old one is kept"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser)
    parser.add_argument("--point", action="append", required=True, metavar="NAME=VALUE,...", help="may be repeated")
    add_profile(parser)
    parser.add_argument("--mark-only", action="store_true", help="leave the measuring to the next `buran run`")


def run(arguments: argparse.Namespace) -> int:
    """Open a new generation of the points and run the campaign."""
    from buran.cli.run import drive
    from buran.loop.remeasure import open_generation, point_of
    from buran.loop.session import open_session

    session = open_session(arguments.file)
    coordinates = [named_numbers(text, "p=4,n=1000", "--point", positive=False) for text in arguments.point]
    points = [point_of(session.campaign, values) for values in coordinates]
    for point in points:
        print(f"{point.key}: {open_generation(session, point)} configurations will be measured again")
    if arguments.mark_only:
        return 0
    return drive(session, profile=arguments.profile, extra=[])
