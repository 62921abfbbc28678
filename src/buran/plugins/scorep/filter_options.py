"""``buran filter --check FILTER --with scorep PROFILE``: Score-P's own tool judges a filter."""

from __future__ import annotations

import argparse
from pathlib import Path

from buran.errors import Exit, UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--with",
        dest="judge",
        nargs=2,
        metavar=("scorep", "PROFILE"),
        help="with --check: what scorep-score says is left of a profile.cubex",
    )


def run(arguments: argparse.Namespace) -> int | None:
    """Let Score-P judge a filter; leave the rest to `buran filter`."""
    if not arguments.judge:
        return None
    if arguments.check is None or arguments.judge[0] != "scorep":
        raise UsageError(
            "--with belongs to --check, and knows scorep alone",
            hint="buran filter --check FILTER --with scorep PROFILE",
        )
    from buran.cli.filter import put
    from buran.plugins.scorep.score import judged_by_scorep

    cost_s = None if arguments.visit_cost is None else arguments.visit_cost * 1e-9
    put(judged_by_scorep(arguments.check, Path(arguments.judge[1]), cost_s, as_json=arguments.json), arguments.output)
    return int(Exit.DONE)
