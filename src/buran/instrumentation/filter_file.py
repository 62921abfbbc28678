"""Score-P filter files: reading, writing, and what they let through.

The syntax is Score-P's own (SCOREP_FILE_NAMES and SCOREP_REGION_NAMES blocks of EXCLUDE and INCLUDE rules):
tokens separated by blanks and line ends; a comment from ``#`` to the end of the line; a backslash takes the
next character literally, so that one before a blank keeps it in the pattern. EXCLUDE and INCLUDE hold for all
patterns up to the next one; MANGLED and DEMANGLED likewise, and each rule begins demangled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Literal

from buran.errors import FormatError
from buran.instrumentation.pattern import SPECIAL, literal, matches, plain
from buran.profiles.symbols import variants

Block = Literal["file", "region"]
_BEGIN: dict[str, Block] = {"SCOREP_FILE_NAMES_BEGIN": "file", "SCOREP_REGION_NAMES_BEGIN": "region"}
_END: dict[Block, str] = {"file": "SCOREP_FILE_NAMES_END", "region": "SCOREP_REGION_NAMES_END"}

_PIECE = re.compile(r"#.*|((?:\\.|[^\\# \t\r])+)|(\\)")  # a comment, a word, or a backslash before nothing


@dataclass(frozen=True)
class Rule:
    r"""One pattern.

    Attributes
    ----------
    include
        Whether a match includes or excludes.
    pattern
        As ``fnmatch`` takes it: ``*``, ``?``, ``[...]``, a backslash before a literal character.
    mangled
        Whether linker symbols are matched rather than names as shown; never for file names.
    line
        Where it stands, 0 for a rule that was never in a file.
    """

    include: bool
    pattern: str
    mangled: bool = False
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Filter:
    """Rules in order; everything is included until a rule says otherwise, and the last match decides.

    Attributes
    ----------
    files, regions
        Rules of both kinds of blocks.
    """

    files: tuple[Rule, ...] = ()
    regions: tuple[Rule, ...] = ()

    def matches(self, name: str, mangled: str = "", file: str = "") -> bool:
        """Whether a region is measured.

        A region in an excluded file stays out whatever its name. Without a linker symbol, rules for symbols
        look at the name.
        """
        if file and self.files and not self._files.decide(file, file):
            return False
        return self._regions.decide(name, mangled or name)

    def gives_hooks(self, name: str, mangled: str = "", file: str = "", *, inline: bool = False) -> bool:
        """Whether GCC's plugin of Score-P hooks a function: one declared inline only by a rule other than ``*``."""
        return (self._for_inline if inline else self).matches(name, mangled, file)

    @cached_property
    def _for_inline(self) -> Filter:
        others = (rule for rule in self.regions if not (rule.include and rule.pattern == "*"))
        return Filter(self.files, (Rule(False, "*"), *others))

    @cached_property
    def _files(self) -> _LastMatch:
        return _LastMatch(self.files)

    @cached_property
    def _regions(self) -> _LastMatch:
        return _LastMatch(self.regions)

    @property
    def named(self) -> frozenset[str]:
        """Names and symbols that rules include one by one."""
        exact = (plain(rule.pattern) for rule in self.regions if rule.include)
        return frozenset(name for name in exact if name is not None)

    def functions(self, include: bool) -> frozenset[str]:
        """Return the patterns that are included, or excluded; of the symbols of one constructor the first."""
        return frozenset(variants(rule.pattern)[0] for rule in self.regions if rule.include is include)

    def unmatched(self, functions: Iterable[tuple[str, str, str]]) -> tuple[Rule, ...]:
        """Rules that match no function (symbol, name, file): mostly misspelt. Catch-all patterns are not reported."""
        listed = list(functions)
        symbols, names = (
            {variant for symbol, _, _ in listed for variant in variants(symbol)},
            {name for _, name, _ in listed},
        )
        files = {file for _, _, file in listed if file}
        rules = [(rule, files) for rule in self.files]
        rules += [(rule, symbols if rule.mangled else names) for rule in self.regions]
        return tuple(
            rule
            for rule, subjects in rules
            if plain(rule.pattern) not in subjects and not any(matches(rule.pattern, each) for each in subjects)
            if rule.pattern != "*"
        )


class _LastMatch:
    """What the last of some rules says that matches; exact patterns are looked up, not tried in turn."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = rules
        exact = [plain(rule.pattern) for rule in rules]
        self._exact = {(rule.mangled, name): i for i, (rule, name) in enumerate(zip(rules, exact, strict=True))}
        self._others = [i for i, name in reversed([*enumerate(exact)]) if name is None]

    def decide(self, name: str, mangled: str) -> bool:
        """Tell whether the last match includes; without one, True."""
        last = max(self._exact.get((False, name), -1), self._exact.get((True, mangled), -1))
        for i in takewhile(lambda i: i > last, self._others):
            if matches(self._rules[i].pattern, mangled if self._rules[i].mangled else name):
                return self._rules[i].include
        return last < 0 or self._rules[last].include


def parse(text: str, where: str | Path = "filter") -> Filter:
    """Read filter rules.

    Raises
    ------
    FormatError
        On a syntax error, naming file and line.
    """
    rules: dict[Block, list[Rule]] = {"file": [], "region": []}
    block: Block | None = None
    opened = 0
    include: bool | None = None
    mangled = False
    for line, token in _tokens(text, where):
        if block is None:
            if token not in _BEGIN:
                raise _mistake(where, line, f"{token!r} stands outside of a block", f"begin with {' or '.join(_BEGIN)}")
            block, opened, include, mangled = _BEGIN[token], line, None, False
        elif token == _END[block]:
            block = None
        elif token in _BEGIN or token in _END.values():
            why = f"{token!r} inside of the block begun in line {opened}"
            raise _mistake(where, line, why, f"end it with {_END[block]}")
        elif token in ("EXCLUDE", "INCLUDE"):
            include, mangled = token == "INCLUDE", False
        elif include is None:
            raise _mistake(where, line, f"{token!r} without EXCLUDE or INCLUDE", "write EXCLUDE or INCLUDE before it")
        elif token in ("MANGLED", "DEMANGLED") and block == "region":
            mangled = token == "MANGLED"
        else:
            rules[block].append(Rule(include, token, mangled, line))
    if block is not None:
        raise _mistake(where, opened, "the block is never ended", f"end it with {_END[block]}")
    return Filter(tuple(rules["file"]), tuple(rules["region"]))


def read_filter(path: Path) -> Filter:
    """Read a filter file.

    Raises
    ------
    FormatError
        If it cannot be read or has a syntax error.
    """
    try:
        return parse(path.read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FormatError(
            "the filter file cannot be read", where=path, why=why, hint="name a Score-P filter"
        ) from error


def _mistake(where: str | Path, line: int, why: str, hint: str) -> FormatError:
    return FormatError("syntax error in a Score-P filter", where=f"{where}:{line}", why=why, hint=hint)


def _tokens(text: str, where: str | Path) -> Iterator[tuple[int, str]]:
    """Split into words with their line numbers; escapes of pattern characters stay, others are resolved."""
    for number, line in enumerate(text.split("\n"), start=1):
        for word, backslash in _PIECE.findall(line):
            if backslash:
                raise _mistake(where, number, "a backslash ends the line", "write one rule a line")
            if word:
                yield number, re.sub(r"\\(.)", lambda found: found[0] if found[1] in SPECIAL else found[1], word)


def format_filter(rules: Filter, comments: Sequence[str] = ()) -> str:
    """Write filter rules, one a line, in their order; `comments` come first.

    Raises
    ------
    ValueError
        For patterns that the format cannot hold: empty ones, line ends, and the keywords.
    """
    lines = [f"# {line}".rstrip() for comment in comments for line in comment.splitlines() or [""]]
    for begin, end, block in zip(_BEGIN, _END.values(), (rules.files, rules.regions), strict=True):
        lines += [begin, *map(_line, block), end] if block else []
    return "".join(f"{line}\n" for line in lines)


def _line(rule: Rule) -> str:
    keywords = {"EXCLUDE", "INCLUDE", "MANGLED", "DEMANGLED", *_BEGIN, *_END.values()}
    if not rule.pattern or set(rule.pattern) & {"\n", "\r"} or rule.pattern in keywords:
        raise ValueError(f"a filter file cannot hold the pattern {rule.pattern!r}")
    mangled = "MANGLED " if rule.mangled else ""
    return f"{'INCLUDE' if rule.include else 'EXCLUDE'} {mangled}" + re.sub(r"([ \t#])", r"\\\1", rule.pattern)


def by_symbol(include: bool, symbols: Iterable[str]) -> tuple[Rule, ...]:
    """Return rules for functions by linker symbol, sorted; of constructors and destructors, all that there may be."""
    every = sorted({variant for symbol in symbols for variant in variants(symbol)})
    return tuple(Rule(include, literal(symbol), mangled=True) for symbol in every)


def only(symbols: Iterable[str]) -> Filter:
    """Return the filter that measures exactly the functions with these linker symbols, as `by_symbol` names them."""
    return Filter(regions=(Rule(False, "*"), *by_symbol(True, symbols)))
