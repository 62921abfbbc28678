"""Lists of functions to instrument, in the formats of several tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass

from buran.errors import UsageError
from buran.instrument.filter_file import format_filter, only
from buran.instrument.refine import Refinement

SCHEMA = "buran-filter/1"


@dataclass(frozen=True)
class Listed:
    """A function to instrument.

    Attributes
    ----------
    symbol, name
        For the linker, and as shown.
    reason
        Why it is listed; empty if nothing is known.
    share
        Of the predicted time; None if unknown.
    visits
        Predicted at the target, on each rank; None if unknown.
    """

    symbol: str
    name: str
    reason: str = ""
    share: float | None = None
    visits: float | None = None

    @property
    def comment(self) -> str:
        """What is known of it, in one line."""
        known = [self.reason] if self.reason else []
        if self.visits is not None:
            known.append(f"{self.visits:.3g} visits")
        return f"{self.name}: {', '.join(known)}" if known else ""


@dataclass(frozen=True)
class FilterList:
    """Functions to instrument, and what is to be said of the whole."""

    functions: tuple[Listed, ...]
    comments: tuple[str, ...] = ()

    @property
    def symbols(self) -> frozenset[str]:
        """Linker symbols."""
        return frozenset(function.symbol for function in self.functions)


def list_of(refinement: Refinement) -> FilterList:
    """Return what a refinement chose."""
    verdicts = refinement.verdicts
    shown = {region.mangled or region.name: region.name for region in refinement.regions}
    functions = []
    for symbol in refinement.names:
        own = verdicts.get(symbol)
        reason = refinement.added.get(symbol) or (own.reason if own else "begin of the program")
        functions.append(
            Listed(symbol, shown.get(symbol, symbol), reason, own.share if own else None, own.visits if own else None)
        )
    return FilterList(tuple(functions), (*refinement.head, *refinement.notes))


def _scorep(own: FilterList) -> str:
    comments = [*own.comments, *(function.comment for function in own.functions if function.comment)]
    return format_filter(only(own.symbols), comments)


def _tau(own: FilterList) -> str:
    """Return a selective instrumentation file; ``#`` is TAU's wildcard, so names must not have one."""
    for function in own.functions:
        if "#" in function.name or "\n" in function.name:
            raise UsageError("a TAU select file cannot hold a function's name", where=function.name)
    lines = [f"# {comment}" for comment in _plain_comments(own)]
    return _lines([*lines, "BEGIN_INCLUDE_LIST", *(function.name for function in own.functions), "END_INCLUDE_LIST"])


def _plain(own: FilterList) -> str:
    return _lines(function.symbol for function in own.functions)


def _xray(own: FilterList) -> str:
    """Return an attribute list for ``-fxray-attr-list``: entries are globs, the section ``always`` comes first."""
    for function in own.functions:
        if any(char in function.symbol for char in "*?[]{}\\\n"):
            raise UsageError("an XRay attribute list cannot hold a linker symbol", where=function.symbol)
    lines = [f"# {comment}" for comment in _plain_comments(own)]
    entries = [f"fun:{function.symbol}" for function in own.functions]
    return _lines([*lines, "[always]", *entries, "[never]", "fun:*"])


def _json(own: FilterList) -> str:
    data = {
        "schema": SCHEMA,
        "comments": list(own.comments),
        "functions": [asdict(function) for function in own.functions],
    }
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def _plain_comments(own: FilterList) -> list[str]:
    return [line for comment in own.comments for line in comment.splitlines()]


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


WRITERS: Mapping[str, Callable[[FilterList], str]] = {
    "scorep": _scorep,
    "tau": _tau,
    "plain": _plain,
    "xray": _xray,
    "json": _json,
}
