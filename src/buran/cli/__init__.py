"""The command line: one module a verb, each with ``HELP``, ``add_arguments`` and ``run``.

Plug-ins and other distributions add verbs, by entry points of the group ``buran.verbs``, each a module of that shape,
and options of verbs, by ``buran.options``.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import gc
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from functools import partial
from typing import Any, NoReturn, Protocol

from buran import __version__
from buran.cli.terminal import loudness, printable_output, style
from buran.crash import shown_error
from buran.errors import Exit, PluginError
from buran.extensions import ExtensionPoint


class Verb(Protocol):
    """Shape of a verb's module."""

    HELP: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the arguments."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Do it; return the exit code."""


class Options(Protocol):
    """Shape of a module that adds options to a verb; its entry point is called after verb and option, as init.from."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare them."""

    def run(self, arguments: argparse.Namespace) -> int | None:
        """Do what they ask for, instead of the verb, and return the exit code; None to leave it to the verb."""


VERBS = (
    "init", "demo", "doctor", "check", "plan", "run", "status", "verify", "model", "convert", "filter", "report",
    "correct", "suggest", "predict",
)  # fmt: skip
DAILY = {
    "prepare": ("demo", "init", "doctor", "check"),
    "measure": ("plan", "run", "status"),
    "evaluate": ("report", "model", "filter"),
}
"""The verbs that `buran --help` explains; it names the others."""
EXTENSION_POINT: ExtensionPoint[Verb] = ExtensionPoint(
    "verb",
    "buran.verbs",
    Verb,
    {verb: f"buran.cli.{verb}" for verb in VERBS},
    dict.fromkeys(("evaluate", "generate", "simulate"), "buran-studies"),
)

OPTIONS: ExtensionPoint[Options] = ExtensionPoint("option", "buran.options", Options, {})


class _VerbParser(argparse.ArgumentParser):
    """A parser that names what was probably meant, and takes no option by its first letters."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **{**options, "allow_abbrev": False})

    def format_help(self) -> str:
        """Return the help of a verb, or that of the daily verbs; `format_all` has all of them."""
        verbs = next((a for a in self._actions if isinstance(a, argparse._SubParsersAction)), None)
        if verbs is None:
            return super().format_help()
        said = {action.dest: action.help or "" for action in verbs._choices_actions}
        width = min(shutil.get_terminal_size().columns, 80) - 2
        lines = ["usage: buran VERB ...", "", *textwrap.wrap(self.description or "", width)]
        for group, names in DAILY.items():
            lines += ["", group]
            for name in (each for each in names if each in said):  # one is of a plug-in, which may be missing
                lines += textwrap.wrap(said[name], width, initial_indent=f"  {name:<9} ", subsequent_indent=" " * 12)
        daily = [name for names in DAILY.values() for name in names]
        further = ", ".join(name for name in said if name not in daily)
        lines += ["", *textwrap.wrap(f"further verbs: {further}", width, subsequent_indent="  "), ""]
        return "\n".join([*lines, "buran help VERB explains one, buran help all names all.", _FIRST_STEPS, ""])

    def format_all(self) -> str:
        """Return the help of all verbs."""
        return super().format_help()

    def error(self, message: str) -> NoReturn:
        """End with exit code 2."""
        wrong = re.match(r"argument VERB: invalid choice: '(.*?)' \(choose from", message)
        if wrong:
            near = difflib.get_close_matches(wrong[1], EXTENSION_POINT.names, n=1, cutoff=0.6)
            hint = f"did you mean `buran {near[0]}`?" if near else "`buran --help` lists what there is"
            message = f"there is no verb {wrong[1]!r}: {hint}"
        if message.endswith("required: VERB"):
            message = "there is no verb: `buran --help` lists what there is"
        super().error(message)

    def refuse(self, verb: str, words: Sequence[str]) -> NoReturn:
        """End with exit code 2 because of words that a verb does not know."""
        verbs = next(a for a in self._actions if isinstance(a, argparse._SubParsersAction))
        parser: argparse.ArgumentParser = verbs.choices[verb]
        given = [word.partition("=")[0] for word in words if word.startswith("-")]
        near = [each for word in given for each in difflib.get_close_matches(word, parser._option_string_actions, n=1)]
        hint = f"did you mean {' '.join(near)}?" if near else f"`buran help {verb}` explains it"
        if verb == "run" and given and not near:
            hint += "; options of Snakemake follow a `--`"
        parser.error(f"unrecognized arguments: {' '.join(words)}; {hint}")


_COLLECT_AFTER = 1_000_000  # objects: looking for garbage takes a quarter of the time where 100 000 runs are read
_FIRST_STEPS = "first step: buran demo"


def _epilog() -> str:
    codes = [f"  {code:<4} {code.meaning.replace('`', '')}" for code in Exit]
    return "\n".join(["exit codes:", *codes, _FIRST_STEPS])


def command_parser() -> _VerbParser:
    """Return the parser of the whole command line."""
    parser = _VerbParser(
        prog="buran",
        description="Measure how a parallel program scales, and learn where it stops.",
        epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"buran {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    for name in EXTENSION_POINT.names:
        try:
            verb = EXTENSION_POINT.load(name)
        except PluginError:  # the other verbs work
            verbs.add_parser(name, help="cannot be used: call it, and it says why")
            continue
        verb_parser = verbs.add_parser(name, help=verb.HELP, description=verb.HELP)
        verb.add_arguments(verb_parser)
        further = _options_of(name)
        for options in further:
            options.add_arguments(verb_parser)
        verb_parser.set_defaults(run=partial(_run, verb, further))
    return parser


def _options_of(verb: str) -> list[Options]:
    """Return what adds options to a verb, without what does not work: `_refuse_missing` says why, when it is called."""
    found = []
    for name in OPTIONS.names:
        with contextlib.suppress(PluginError):
            if name.startswith(f"{verb}."):
                found.append(OPTIONS.load(name))
    return found


def _run(verb: Verb, further: Sequence[Options], arguments: argparse.Namespace) -> int:
    """Do what the options ask for that were added to a verb, or else what the verb does."""
    with loudness(quiet=getattr(arguments, "quiet", False)):
        for options in further:
            if (code := options.run(arguments)) is not None:
                return code
        return verb.run(arguments)


def _refuse_missing(words: Sequence[str]) -> None:
    """Raise what is wrong with a verb or with one of its further options, whatever arguments follow."""
    if words[0] in EXTENSION_POINT.possible_names:
        EXTENSION_POINT.load(words[0])
    given = {word.partition("=")[0] for word in words}
    for name in OPTIONS.possible_names:
        verb, _, option = name.partition(".")
        if verb == words[0] and (name in OPTIONS.names or f"--{option}" in given):
            OPTIONS.load(name)


def _divided(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split at the first `--` what is for `buran run` and what it passes on; argparse would take that for the file."""
    if arguments[0] != "run" or "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code. No error passes, and all that is printed is printable."""
    gc.set_threshold(_COLLECT_AFTER)
    with printable_output():
        return _main(argv)


def _main(argv: Sequence[str] | None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parser = command_parser()
        if not arguments:
            parser.print_help(sys.stderr)
            return int(Exit.USAGE)
        if arguments[0] == "help":
            if arguments[1:] == ["all"]:
                print(parser.format_all(), end="")
                return int(Exit.DONE)
            arguments = [*arguments[1:2], "--help"]
        _refuse_missing(arguments)
        words, passed_on = _divided(arguments)
        parsed, unknown = parser.parse_known_args(words, argparse.Namespace(passed_on=passed_on))
        if unknown:
            parser.refuse(parsed.verb, unknown)
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
    except Exception as error:
        shown = shown_error(error)
        print(f"{style('error:', 'red', sys.stderr)} {shown}", file=sys.stderr)
        return int(shown.exit_code)
