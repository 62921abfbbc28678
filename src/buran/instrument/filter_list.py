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
        facts = [self.reason] if self.reason else []
        if self.visits is not None:
            facts.append(f"{self.visits:.3g} visits")
        return f"{self.name}: {', '.join(facts)}" if facts else ""


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
        verdict = verdicts.get(symbol)
        reason = refinement.added.get(symbol) or (verdict.reason if verdict else "begin of the program")
        functions.append(
            Listed(symbol, shown.get(symbol, symbol), reason, *((verdict.share, verdict.visits) if verdict else ()))
        )
    return FilterList(tuple(functions), (*refinement.head, *refinement.notes))


def _scorep(chosen: FilterList) -> str:
    comments = [*chosen.comments, *(function.comment for function in chosen.functions if function.comment)]
    return format_filter(only(chosen.symbols), comments)


def _tau(chosen: FilterList) -> str:
    """Return a selective instrumentation file; ``#`` is TAU's wildcard, so names must not have one."""
    for function in chosen.functions:
        if "#" in function.name or "\n" in function.name:
            raise UsageError("a TAU select file cannot hold a function's name", where=function.name)
    lines = [f"# {comment}" for comment in _plain_comments(chosen)]
    return _lines([*lines, "BEGIN_INCLUDE_LIST", *(function.name for function in chosen.functions), "END_INCLUDE_LIST"])


def _plain(chosen: FilterList) -> str:
    return _lines(function.symbol for function in chosen.functions)


def _xray(chosen: FilterList) -> str:
    """Return an attribute list for ``-fxray-attr-list``: entries are globs, the section ``always`` comes first."""
    for function in chosen.functions:
        if any(char in function.symbol for char in "*?[]{}\\\n"):
            raise UsageError("an XRay attribute list cannot hold a linker symbol", where=function.symbol)
    lines = [f"# {comment}" for comment in _plain_comments(chosen)]
    entries = [f"fun:{function.symbol}" for function in chosen.functions]
    return _lines([*lines, "[always]", *entries, "[never]", "fun:*"])


def _json(chosen: FilterList) -> str:
    data = {
        "schema": SCHEMA,
        "comments": list(chosen.comments),
        "functions": [asdict(function) for function in chosen.functions],
    }
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def _plain_comments(chosen: FilterList) -> list[str]:
    return [line for comment in chosen.comments for line in comment.splitlines()]


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


WRITERS: Mapping[str, Callable[[FilterList], str]] = {
    "scorep": _scorep,
    "tau": _tau,
    "plain": _plain,
    "xray": _xray,
    "json": _json,
}
