"""Explain a key of the campaign file: what it takes, what it means, what a change of it causes."""

from __future__ import annotations

import argparse

HELP = "explain a key of the campaign file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("key", metavar="KEY", help="its path, such as parameters.n.role, or its last word")


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    from buran.campaign.describe import explained  # takes longer to load than most verbs to run

    print(explained(arguments.key))
    return 0
