"""``buran verify``: compare everything that was measured with its checksums."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from buran.cli.arguments import add_campaign_file
from buran.errors import Exit

HELP = "check every pointer and checksum of a campaign's results"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    add_campaign_file(parser)
    parser.add_argument("--json", action="store_true", help="for programs")


def run(arguments: argparse.Namespace) -> int:
    """Verify pointers and store; exit code 1 if anything is damaged."""
    from buran.loop.import_runs import changed_sources
    from buran.loop.session import open_session
    from buran.measure.store import store
    from buran.views.status import pointer_problems

    layout = open_session(arguments.file).layout
    folders = [*store.run_folders(layout.store), *store.build_folders(layout.store)]
    problems = pointer_problems(layout)
    for folder in folders:
        problems += [str(Path(path)) for path in store.damage(folder)]
    problems += changed_sources(layout)
    if arguments.json:
        print(json.dumps({"folders": len(folders), "problems": problems}, indent=2))
    else:
        for problem in problems:
            print(problem)
        print(f"{len(folders)} builds and runs checked, {len(problems)} problems")
    return Exit.SOME_RUNS_FAILED if problems else Exit.DONE
