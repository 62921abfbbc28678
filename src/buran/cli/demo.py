"""``buran demo``: the bundled example, measured and reported."""

from __future__ import annotations

import argparse
from pathlib import Path

from buran.cli.arguments import CAMPAIGN_FILE, add_loudness, add_profile

HELP = "measure the bundled example and show what stops it from scaling, in two minutes"
_EXAMPLE = "bodies"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    default = Path("buran-demo")
    parser.add_argument(
        "folder", type=Path, nargs="?", default=default, metavar="DIR", help=f"folder to work in (default: {default})"
    )
    add_profile(parser)
    add_loudness(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the example unless it is there, run its campaign, and print the report."""
    from buran.cli import init, main

    folder: Path = arguments.folder
    file = folder / CAMPAIGN_FILE
    if not (file.is_file() and (folder / _EXAMPLE).is_dir()):
        init.refuse_existing(folder, [file, folder / _EXAMPLE])
        init.from_assets(folder, _EXAMPLE)
    quiet = ["-q"] if arguments.quiet else []
    return main(["run", str(file), "--profile", arguments.profile, *quiet]) or main(["report", str(file), *quiet])
