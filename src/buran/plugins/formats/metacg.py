"""MetaCG's call graph files, versions 2 and 4.

Version 2 knows functions by their symbols alone; version 4 has numbers, so that functions of one name stay apart.
Both name for a call of a virtual function only the one that is named in the source. The functions that may run in its
place are added on reading, from what overrides what, directly or by way of others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from buran.errors import FormatError
from buran.files import JsonObject
from buran.instrumentation.callgraph import CalledFunction, CallGraph

_HEAD = "_MetaCG"
_META_KEYS = {"statements": "numStatements", "branches": "numConditionalBranches", "loop_depth": "loopDepth"}
_HINT = "make it again with MetaCG"


def read_metacg(path: Path) -> CallGraph:
    """Read a file of version 2 or 4.

    Raises
    ------
    FormatError
        It cannot be read, is no such file or of another version, or names functions it does not have.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FormatError("the call graph cannot be read", where=path, why=error.strerror) from error
    except (ValueError, RecursionError) as error:
        raise FormatError("this is no call graph of MetaCG", where=path, why=str(error), hint=_HINT) from error
    try:
        version, _ = str(data[_HEAD]["version"]), data["_CG"]
    except (KeyError, TypeError) as error:
        raise FormatError(
            "this is no call graph of MetaCG", where=path, why=f"it has no {error}", hint=_HINT
        ) from error
    try:
        if version.split(".")[0] in ("2", "4"):
            return _read(data, is_fourth=version.startswith("4"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"missing {error}" if isinstance(error, KeyError) else str(error)
        raise FormatError("the call graph is damaged", where=path, why=why, hint=_HINT) from error
    raise FormatError(
        f"call graphs of MetaCG's version {version} are not known", where=path, hint="write version 2 or 4"
    )


@dataclass(frozen=True)
class _Node:
    """A function in a file of either version.

    Attributes
    ----------
    key
        How others of the file name it.
    callees
        Their keys.
    features
        By name, -1 where the file does not say.
    overrides, overridden_by
        Keys of functions, directly.
    """

    key: str
    symbol: str
    file: str
    has_body: bool
    is_inline: bool
    is_system: bool
    features: Mapping[str, int]
    callees: Sequence[str]
    overrides: Sequence[str]
    overridden_by: Sequence[str]

    @classmethod
    def from_json(cls, key: str, entry: JsonObject, *, is_fourth: bool) -> _Node:
        """Read what the file holds of it."""
        meta = entry.get("meta") or {}
        origin = meta.get("fileProperties") or {}
        overriding = (meta.get("overrideMD") or {}) if is_fourth else entry
        return cls(
            key,
            symbol=entry["functionName"] if is_fourth else key,
            file=(entry["origin"] or "") if is_fourth else str(origin.get("origin") or ""),
            has_body=bool(entry["hasBody"]),
            is_inline=bool((meta.get("inlineInfo") or {}).get("markedInline")),
            is_system=bool(origin.get("systemInclude")),
            features={name: int(meta.get(key, -1)) for name, key in _META_KEYS.items()},
            callees=list(entry["callees"]),
            overrides=[str(other) for other in overriding.get("overrides") or ()],
            overridden_by=[str(other) for other in overriding.get("overriddenBy") or ()],
        )


def _read(data: JsonObject, *, is_fourth: bool) -> CallGraph:
    graph = data["_CG"]
    entries = graph["nodes"] if is_fourth else graph
    nodes = [_Node.from_json(key, entry, is_fourth=is_fourth) for key, entry in entries.items()]
    number = {node.key: i for i, node in enumerate(nodes)}
    calls: list[tuple[int, int]] = []
    overrides: list[tuple[int, int]] = []
    for i, node in enumerate(nodes):
        calls += [(i, _number(number, callee, node.key)) for callee in node.callees]
        overrides += [(_number(number, other, node.key), i) for other in node.overridden_by]
        overrides += [(i, _number(number, other, node.key)) for other in node.overrides]
    functions = [
        CalledFunction(
            node.symbol,
            file=node.file,
            has_body=node.has_body,
            inline=node.is_inline,
            system=node.is_system,
            features={
                **node.features,
                "loops": -1 if node.features["loop_depth"] < 0 else int(node.features["loop_depth"] > 0),
            },
        )
        for node in nodes
    ]
    entry = (graph.get("meta") or {}).get("entryFunction") if is_fourth else None
    made = CallGraph.of(functions, calls, None if entry is None else _number(number, str(entry), "entryFunction"))
    return _with_overriders(made, overrides)


def _number(number: Mapping[str, int], name: str, where: str) -> int:
    if name not in number:
        raise ValueError(f"{where!r} names {name!r}, which is not in the file")
    return number[name]


def _with_overriders(graph: CallGraph, overrides: Iterable[tuple[int, int]]) -> CallGraph:
    """Add calls of everything that overrides a called function, directly or by way of others."""
    above: dict[int, list[int]] = {}
    for function, other in sorted(set(overrides)):
        above.setdefault(other, []).append(function)
    reach: dict[int, list[int]] = {}
    extra: list[tuple[int, int]] = []
    for caller, callee in zip(graph.caller.tolist(), graph.callee.tolist(), strict=True):
        if callee in above:
            if callee not in reach:
                reach[callee] = _closure(above, callee)
            extra += [(caller, other) for other in reach[callee]]
    return graph.extended((), extra)


def _closure(above: Mapping[int, list[int]], start: int) -> list[int]:
    seen, waiting = {start}, [start]
    while waiting:
        for other in above.get(waiting.pop(), ()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return sorted(seen - {start})


@dataclass(frozen=True)
class MetaCG:
    """MetaCG's files as a format of call graphs."""

    name: str = "metacg"

    def recognises(self, path: Path) -> bool:
        """Look for what only such files have."""
        return f'"{_HEAD}"' in path.read_text(encoding="utf-8", errors="replace")

    def read(self, path: Path) -> CallGraph:
        """Read version 2 or 4."""
        return read_metacg(path)


METACG = MetaCG()
