"""``buran convert results/NAME CRATE``: a results folder becomes an RO-Crate."""

from __future__ import annotations

import argparse

from buran.cli.terminal import note
from buran.errors import Exit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing: the folders say what is meant."""


def run(arguments: argparse.Namespace) -> int | None:
    """Write a crate where a folder of results becomes a folder; leave the rest to `buran convert`."""
    from buran.plugins.crate.crate import is_results, write_crate

    if arguments.output.suffix or not is_results(arguments.input):
        return None
    for text in write_crate(arguments.input, arguments.output):
        note(text)
    print(f"RO-Crate -> {arguments.output}")
    return int(Exit.DONE)
