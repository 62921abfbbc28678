"""The commands of shell blocks, and whether they exist."""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import shlex
from collections.abc import Iterator

from snippets import ROOT

from buran.cli import command_parser


def commands_in(text: str) -> Iterator[list[str]]:
    """Split shell commands into words; pipes and lists into their parts."""
    for line in text.replace("\\\n", " ").splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("|&;"):
                yield words
                words = []
            else:
                words.append(word)
        if words:
            yield words


def _has_target(name: str) -> bool:
    targets = re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return name in " ".join(targets).split()


def mistake_in(words: list[str]) -> str | None:
    """Say what is wrong with a command as far as it can be told without running it."""
    words = list(itertools.takewhile(lambda word: not set(word) <= set("<>"), words))  # what is redirected
    match words:
        case ["buran", *rest]:
            return mistake_of_buran(rest)
        case ["make", target, *_] if "=" not in target and not _has_target(target):
            return "the Makefile has no such target"
        case ["python", script, *options] if script.startswith("studies/benchmarks/"):
            if not (ROOT / script).is_file():
                return "there is no such script"
            source = (ROOT / script).read_text()
            unknown = [word for word in options if word.startswith("--") and f'"{word}"' not in source]
            return f"it has no {', '.join(unknown)}" if unknown else None
        case [script, *_] if script.startswith("tools/") and not (ROOT / script).is_file():
            return "there is no such script"
    return None


def mistake_of_buran(words: list[str]) -> str | None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        try:
            command_parser().parse_args(words[: words.index("--")] if "--" in words else words)
        except SystemExit as end:
            return said.getvalue() if end.code else None
    return None
