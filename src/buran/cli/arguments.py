"""Arguments that several verbs share."""

from __future__ import annotations

import argparse
from pathlib import Path

CAMPAIGN_FILE = Path("campaign.yaml")
"""What is meant where no campaign file is named: that of the current folder."""

OF_RESULTS = ", or its results/NAME"
"""Note on the campaign file of verbs that take such a folder for it."""


def add_campaign_file(parser: argparse.ArgumentParser, note: str = "") -> None:
    """Declare the campaign file; `note` says what is special about it."""
    _add(parser, CAMPAIGN_FILE, "campaign file" + note + f" (default: {CAMPAIGN_FILE})")


def add_optional_campaign_file(parser: argparse.ArgumentParser, note: str) -> None:
    """Declare a campaign file that something else may stand for."""
    _add(parser, None, "campaign file" + note)


def _add(parser: argparse.ArgumentParser, default: Path | None, help: str) -> None:
    parser.add_argument("file", type=Path, nargs="?", default=default, metavar="FILE", help=help)


def add_aggregate(parser: argparse.ArgumentParser, note: str = "") -> None:
    """Declare how the values of locations become one; `note` says for what."""
    text = f"over ranks{note} (default: mean)"
    parser.add_argument("--aggregate", choices=("mean", "median", "min", "max", "sum"), default="mean", help=text)


SNAKEMAKE = "print Snakemake's output, too"
"""What --verbose adds where a campaign is measured."""


def add_loudness(parser: argparse.ArgumentParser, verbose: str | None = None) -> None:
    """Declare how much a verb prints; `verbose` says what more there is, None that there is no more.

    `buran.cli` hands --quiet to `buran.cli.terminal.loudness`; --verbose is the verb's.
    """
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--quiet", "-q", action="store_true", help="print errors and results, no notes, no progress")
    if verbose is not None:
        group.add_argument("--verbose", "-v", action="store_true", help=verbose)


def add_profile(parser: argparse.ArgumentParser) -> None:
    """Declare where to measure."""
    parser.add_argument("--profile", default="default", help="name or folder of the profile that says where to measure")
