"""Symbols that identify regions, whichever compiler named them and whatever the command line was.

The linker symbol identifies a function; names are for people. Three things in symbols differ between compilers, or
between builds of one program, and are made alike here: constructors and destructors (a compiler emits several of one),
suffixes of clones and of Fortran's contained procedures, and lambda functions, which gcc numbers by function and
arguments and clang by file: they are distinguished by the line they begin in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buran.profiles.profile import Region

PROGRAM = "the program"
"""Identity of the region that stands for the whole program: its name is that of the executable, its symbol, in
Score-P's profiles, the whole command line."""
_OTHER_ROOTS = frozenset({"THREADS", "TASKS", "TRACE BUFFER FLUSH", "MEASUREMENT OFF", "PARAMETER"})
"""Artificial regions of Score-P that do not stand for the program."""
_CLONE = re.compile(r"(\.(constprop|isra|part|cold|llvm|lto_priv|clone|localalias)?\.?\d*)+$")
_LAMBDA = re.compile(r"[34]\$_\d+|Ul.*?E\d*_")  # clang's, gcc's
_REFERENCE = re.compile(r"[ST]\d*_")  # to an earlier part of the symbol, whose lambda compilers spell differently
_IDENTIFIER = re.compile(r"\d+")
_NO_NAME = re.compile(r"S[0-9A-Z]*_|S[a-z]|T[0-9]*_|L[a-z]n?\d+E")  # references, abbreviations, literals


def is_program(region: Region) -> bool:
    """Tell whether a region stands for the whole program."""
    return region.paradigm == "measurement" and region.name not in _OTHER_ROOTS


def identities(regions: Sequence[Region], program: int | None = None) -> tuple[str, ...]:
    """Return what identifies each region, the same for all compilers; empty where there is only a name.

    A lambda function whose line is not known, or that shares its line with another one of the same function, keeps the
    symbol of its compiler: then it is found again under this compiler alone.

    Parameters
    ----------
    regions
        Of one call tree.
    program
        Number of the region that stands for the program, if one does.
    """
    lines = _lambda_lines(regions)
    symbols = [_neutral(region.mangled, lines) for region in regions]
    if program is not None:
        symbols[program] = PROGRAM
    return tuple(symbols)


def symbols_alike(symbols: Iterable[str]) -> tuple[str, ...]:
    """Return symbols with what differs between compilers made alike, as far as they tell by themselves: no lambdas."""
    return tuple(_neutral(symbol, {}) for symbol in symbols)


def _neutral(symbol: str, lines: Mapping[tuple[str, str], str]) -> str:
    plain = _CLONE.sub("", symbol)
    if not plain.startswith("_Z"):
        return plain
    if _LAMBDA.search(plain):
        plain = _with_lines(plain, lines)
    return _one_constructor(plain)


def variants(symbol: str) -> tuple[str, ...]:
    """Return the symbols that compilers emit for one function: several for constructors and destructors."""
    position = _constructor(symbol) if symbol.startswith("_Z") else None
    if position is None:
        return (symbol,)
    kinds = "12" if symbol[position] == "C" else "012"
    return tuple(f"{symbol[: position + 1]}{kind}{symbol[position + 2 :]}" for kind in kinds)


def _one_constructor(symbol: str) -> str:
    position = _constructor(symbol)
    return symbol if position is None else f"{symbol[: position + 1]}1{symbol[position + 2 :]}"


@lru_cache(maxsize=65536)
def _constructor(symbol: str) -> int | None:
    """Return where ``C1``, ``D0`` and their like stand in a symbol, outside of names."""
    at, after_name = 2, False
    while at < len(symbol):
        number = _IDENTIFIER.match(symbol, at)
        if number:
            at, after_name = number.end() + int(number[0]), True
            continue
        if other := _NO_NAME.match(symbol, at):
            at, after_name = other.end(), True
            continue
        if after_name and symbol[at] in "CD" and symbol[at + 1 : at + 2].isdigit():
            return at
        after_name = symbol[at] == "E" or symbol[at] == "B"
        at += 1
    return None


def _lambda_lines(regions: Sequence[Region]) -> dict[tuple[str, str], str]:
    """Return file and line of lambda functions by the function that they are in and their compiler's name for them."""
    lines: dict[tuple[str, str], str] = {}
    for region in regions:
        last = next(reversed(list(_LAMBDA.finditer(region.mangled))), None)
        if last is not None and region.line > 0 and region.mangled.startswith("cl", last.end()):
            source = f"{region.file.rpartition('/')[2]}:{region.line}"
            lines[_around(region.mangled[: last.start()]).lstrip("_Z"), last[0]] = source
    owners: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for key, source in lines.items():
        owners.setdefault((key[0], source), []).append(key)
    return {key: source for key, source in lines.items() if len(owners[key[0], source]) == 1}


def _around(text: str) -> str:
    """Return the function around a lambda, from the symbol up to it: without the mark of its class being constant."""
    return text.removesuffix("K").removesuffix("N")


def _with_lines(symbol: str, lines: Mapping[tuple[str, str], str]) -> str:
    parts, start = [], 0
    for match in _LAMBDA.finditer(symbol):
        before = _around(symbol[: match.start()])
        starts = (z.end() for z in re.finditer("Z+", before))  # where the name of a function may begin
        line = next((lines[key] for begin in starts if (key := (before[begin:], match[0])) in lines), None)
        if line is None:
            return symbol
        parts += [symbol[start : match.start()], f"{{{line}}}"]
        start = match.end()
    return "".join([*parts, _REFERENCE.sub("_", symbol[start:])])
