"""Lists of functions to instrument, in the formats of several tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from buran.errors import UsageError
from buran.instrumentation.filter_file import format_filter, only
from buran.instrumentation.refinement import DROPPED, NEAR_SHARE, NEVER_CALLED, FunctionVerdict, Refinement, Verdicts
from buran.profiles.symbols import variants
from buran.wording import counted

SCHEMA = "buran-filter/1"


@dataclass(frozen=True)
class FilterList:
    """Functions to instrument, and what is to be said of the whole.

    Attributes
    ----------
    functions
        Those in the list, with what is known of them.
    comments
        Sentences on the whole.
    left_out
        Functions without hooks that are worth a word: near the threshold, throttled, or dropped on request.
    """

    functions: Verdicts
    comments: tuple[str, ...] = ()
    left_out: Verdicts = field(default_factory=dict)

    @property
    def explained(self) -> tuple[str, ...]:
        """All that a list says in comments: of the whole, of each function in it, and of those left out."""
        inside, outside = (
            [function.comment for function in functions.values() if function.comment]
            for functions in (self.functions, self.left_out)
        )
        return (*self.comments, "", *inside, *(["", "Left out:", *outside] if outside else []))

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        functions, left_out = (
            [{"symbol": symbol, **asdict(known)} for symbol, known in verdicts.items()]
            for verdicts in (self.functions, self.left_out)
        )
        for each in (*functions, *left_out):
            del each["kept"]  # which of both lists it is in says that
        return {"comments": list(self.comments), "functions": functions, "left_out": left_out}


def unknown(name: str, reason: str = "") -> FunctionVerdict:
    """Return what is said of a function in a list of which no prediction is known."""
    return FunctionVerdict(True, reason, name=name)


def list_of(
    refinement: Refinement,
    known: Verdicts | None = None,
    idle: Collection[str] = (),
    names: Mapping[str, str] | None = None,
) -> FilterList:
    """Return what a refinement chose, and what it left out.

    Parameters
    ----------
    known
        What earlier iterations found out of functions that were measured no more.
    idle
        Linker symbols with hooks that were never called; they are counted, not listed.
    names
        Of functions that were never measured, by linker symbol.
    """
    verdicts = {**(known or {}), **refinement.verdicts}
    shown = names or {}
    functions = {
        symbol: unknown(shown.get(symbol, symbol), refinement.added.get(symbol, "begin of the program"))
        if symbol in refinement.added or symbol not in verdicts
        else _named(symbol, verdicts[symbol])
        for symbol in refinement.names
    }
    out = [symbol for symbol, verdict in verdicts.items() if symbol not in functions and not verdict.kept]
    never = len({variants(symbol)[0] for symbol in (*out, *idle) if symbol in idle or _never(verdicts[symbol])})
    worth = [symbol for symbol in out if symbol not in idle and _worth_a_word(verdicts[symbol], refinement.share)]
    worth.sort(key=lambda symbol: (-(verdicts[symbol].share or 0.0), symbol))
    rest = len(out) - len(worth) - sum(_never(verdicts[symbol]) for symbol in out)
    words = [f"{counted(rest, 'further function')} left out, each below a tenth of the threshold"] if rest > 0 else []
    words += [f"{counted(never, 'function')} instrumented but never called and left out"] if never else []
    return FilterList(
        functions,
        (*refinement.head, *refinement.notes, *words),
        {symbol: _named(symbol, verdicts[symbol]) for symbol in worth},
    )


def _named(symbol: str, verdict: FunctionVerdict) -> FunctionVerdict:
    return verdict if verdict.name else replace(verdict, name=symbol)


def _never(verdict: FunctionVerdict) -> bool:
    return verdict.reason == NEVER_CALLED


def _worth_a_word(verdict: FunctionVerdict, share: float) -> bool:
    if verdict.share is None:
        return not _never(verdict)
    return verdict.share >= NEAR_SHARE * share or verdict.reason.startswith(DROPPED)


def _scorep(chosen: FilterList) -> str:
    return format_filter(only(chosen.functions), chosen.explained)


def _tau(chosen: FilterList) -> str:
    """Return a selective instrumentation file; ``#`` is TAU's wildcard, so names must not have one."""
    names = [function.name for function in chosen.functions.values()]
    _refuse(names, "#\n", "a TAU select file")
    return _commented(chosen, "BEGIN_INCLUDE_LIST", *names, "END_INCLUDE_LIST")


def _plain(chosen: FilterList) -> str:
    return "".join(f"{symbol}\n" for symbol in chosen.functions)


def _xray(chosen: FilterList) -> str:
    """Return an attribute list for ``-fxray-attr-list``: entries are globs, the section ``always`` comes first."""
    _refuse(chosen.functions, "*?[]{}\\\n", "an XRay attribute list")
    return _commented(chosen, "[always]", *(f"fun:{symbol}" for symbol in chosen.functions), "[never]", "fun:*")


def _json(chosen: FilterList) -> str:
    return json.dumps({"schema": SCHEMA, **chosen.to_json()}, indent=2, allow_nan=False) + "\n"


def _refuse(names: Iterable[str], characters: str, what: str) -> None:
    for name in names:
        if set(name) & set(characters):
            raise UsageError(f"{what} cannot hold the name of a function", where=name)


def _commented(chosen: FilterList, *lines: str) -> str:
    comments = (f"# {line}" for comment in chosen.comments for line in comment.splitlines())
    return "".join(f"{line}\n" for line in (*comments, *lines))


WRITERS: Mapping[str, Callable[[FilterList], str]] = {
    "scorep": _scorep,
    "tau": _tau,
    "plain": _plain,
    "xray": _xray,
    "json": _json,
}
