"""``buran compare``: `buran report --compare` as a verb of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from buran.cli.arguments import OF_RESULTS, add_campaign_file, add_loudness
from buran.plugins.versions import report_options

HELP = "compare two finished campaigns, such as two versions of a program"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("compare", type=Path, metavar="EARLIER", help=report_options.EARLIER)
    add_campaign_file(parser, OF_RESULTS)
    report_options.add_conditions(parser)
    for option, text in (("json", "print JSON"), ("html", "print the page's path"), ("open", "open the page")):
        parser.add_argument(f"--{option}", action="store_true", help=text)
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int | None:
    """Compare with the earlier campaign."""
    return report_options.run(arguments)
