"""``buran predict --machine``: what a campaign's program and its call paths take on another machine."""

from __future__ import annotations

import argparse
from pathlib import Path

from buran.cli.arguments import check_level
from buran.cli.predict import given_points


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--machine",
        metavar="FILE",
        type=Path,
        help="predict for the machine that `buran doctor --calibrate` wrote FILE on; MODEL is the campaign file then",
    )


def run(arguments: argparse.Namespace) -> int | None:
    """Predict for a machine that is named; without one, leave the rest to `buran predict`."""
    if arguments.machine is None:
        return None
    check_level(arguments.level)
    from buran.plugins.memory.printed import predict

    return predict(arguments, given_points(arguments))
