"""The command line: one module a verb, each with ``HELP``, ``add_arguments`` and ``run``.

Other distributions add verbs: entry points of the group ``buran.verbs``, each a module of that shape.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import entry_points
from types import ModuleType

from buran import __version__
from buran.errors import BuranError, Exit, UsageError

VERBS = (
    "init", "doctor", "check", "plan", "estimate", "simulate", "run", "status", "verify", "remeasure", "model",
    "convert", "filter", "report", "correct", "suggest", "predict", "completion",
)  # fmt: skip
ELSEWHERE = {"evaluate": "buran-studies", "generate": "buran-studies"}
"""Verbs that are not here, and the distributions that bring them."""

_FIRST_STEPS = "first steps: buran init --example stencil demo; cd demo; buran run"


def _epilog() -> str:
    codes = [f"  {code:<4} {code.meaning.replace('`', '')}" for code in Exit]
    return "\n".join(["exit codes:", *codes, _FIRST_STEPS])


def command_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="buran",
        description="Measure how a parallel program scales, and learn where it stops.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"buran {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name, module in _verbs():
        own = verbs.add_parser(name, help=module.HELP, description=module.HELP)
        module.add_arguments(own)
        own.set_defaults(run=module.run)
    return parser


def _verbs() -> Iterator[tuple[str, ModuleType]]:
    for name in VERBS:
        yield name, importlib.import_module(f"buran.cli.{name}")
    for entry in sorted(entry_points(group="buran.verbs")):
        yield entry.name, entry.load()


def _refuse_unless_installed(verb: str) -> None:
    if not entry_points(group="buran.verbs", name=verb):
        raise UsageError(
            f"`buran {verb}` is not installed",
            why=f"the package {ELSEWHERE[verb]} brings it",
            hint=f"pip install {ELSEWHERE[verb]}, or in a checkout of Buran: pip install ./studies",
        )


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split at the first `--` what is for `buran run` and what it passes on; argparse would take that for the file."""
    if arguments[0] != "run" or "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments:
        command_parser().print_help(sys.stderr)
        return int(Exit.USAGE)
    own, passed_on = _divided(arguments)
    parser = command_parser()
    try:
        if own[0] in ELSEWHERE:
            _refuse_unless_installed(own[0])
        parsed = parser.parse_args(own, argparse.Namespace(passed_on=passed_on))
        return int(parsed.run(parsed))
    except SystemExit as end:
        return int(end.code or 0)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return int(Exit.INTERRUPTED)
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(Exit.DONE)
    except (BuranError, OSError) as error:
        from buran.cli.terminal import style
        from buran.files import storage_error

        shown = error if isinstance(error, BuranError) else storage_error(error)
        if shown is None:
            raise
        print(f"{style('error:', 'red', sys.stderr)} {shown}", file=sys.stderr)
        return int(shown.exit_code)
