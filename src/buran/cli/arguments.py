"""Arguments that several verbs share, and points as they are written on the command line."""

from __future__ import annotations

import argparse
import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from buran.errors import UsageError, check_coordinates
from buran.wording import Category

if TYPE_CHECKING:
    from buran.workflow.session import Session

CAMPAIGN_FILE = Path("campaign.yaml")
"""What is meant where no campaign file is named: that of the current folder."""

OF_RESULTS = ", or its results/NAME"
"""Note on the campaign file of verbs that take such a folder for it."""


def add_campaign_file(parser: argparse.ArgumentParser, note: str = "", default: Path | None = CAMPAIGN_FILE) -> None:
    """Declare the campaign file; `note` says what is special about it. No default: something else may stand for it."""
    text = f"campaign file{note}" + (f" (default: {default})" if default else "")
    parser.add_argument("file", type=Path, nargs="?", default=default, metavar="FILE", help=text)


def add_aggregate(parser: argparse.ArgumentParser, note: str = "") -> None:
    """Declare how the values of locations become one; `note` says for what."""
    text = f"over ranks{note} (default: mean)"
    parser.add_argument("--aggregate", choices=("mean", "median", "min", "max", "sum"), default="mean", help=text)


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


def _no_point(text: str, part: str, example: str, option: str = "--at") -> UsageError:
    """Return the error of a point with a part that cannot be read."""
    return UsageError(
        f"{option} {text} is no point", why=f"{part.strip()!r} is not NAME=NUMBER", hint=f"write it as {example}"
    )


def named_values(text: str, example: str, option: str = "--at") -> dict[str, str]:
    """Split ``p=4096,solver=amg`` into names and values.

    Raises
    ------
    UsageError
        A part has no name or no value, or names a parameter again.
    """
    out: dict[str, str] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if not (name and value) or name in out:
            raise _no_point(text, part, example, option)
        out[name] = value
    return out


def named_numbers(
    text: str,
    example: str,
    option: str = "--at",
    *,
    positive: bool = True,
    known: Collection[float] | None = (),
    names: Sequence[str] = (),
) -> dict[str, float]:
    """Read ``p=4096,n=48000,solver=cg``.

    Parameters
    ----------
    known
        Numbers that were measured, among them those of words that may be given; None takes every word.
    names
        Parameters that have to be given, in the order of the result; by default any.

    Raises
    ------
    UsageError
        As for `named_values`, or a value is no finite number, or not above 0 where it has to be.
    """
    out: dict[str, float] = {}
    for name, number in named_values(text, example, option).items():
        try:
            out[name] = float(number)
        except ValueError:
            word = Category(number)
            out[name] = word if known is None or word in known else math.nan
        if positive and out[name] <= 0:
            raise UsageError(
                f"{option} {text} is no point of models",
                why=f"{name} is {out[name]:g}: logarithms and negative powers have no value at 0 and below",
                hint=f"give a {name} above 0, best one that was measured or a larger one",
            )
        if not math.isfinite(out[name]):
            raise _no_point(text, f"{name}={number}", example, option)
    if names:
        check_coordinates(out, names, option)
    return {name: out[name] for name in names or out}


def check_level(level: float) -> None:
    """Raise `UsageError` where an interval cannot have such a level."""
    if not 0 < level < 1:
        raise UsageError("--level is a share between 0 and 1", why=f"it is {level:g}", hint="write --level 0.9")


def open_to_read(path: Path) -> Session:
    """Open a campaign by its file or by a folder of its results, and say what is missing here to measure it.

    Raises
    ------
    UsageError
        The folder is of no campaign, or the file has mistakes.
    """
    from buran.campaign.layout import campaign_file
    from buran.cli.terminal import note
    from buran.workflow.session import open_session

    session = open_session(campaign_file(path), to_read=True)
    for remark in session.remarks:
        note(remark)
    return session
