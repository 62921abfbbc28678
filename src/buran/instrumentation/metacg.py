"""MetaCG's call graph files: reading versions 2 and 4, and writing version 4; metadata of others kept.

Version 2 knows functions by their symbols alone; version 4 has numbers, so that functions of one name stay apart.
Both name for a call of a virtual function only the one that is named in the source. The functions that may run in its
place are added on reading, from what overrides what, directly or by way of others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from buran import __version__
from buran.errors import FormatError
from buran.files import JsonObject, write_text
from buran.instrumentation.callgraph import (
    CALL,
    MEASURED,
    OVERRIDE,
    POINTER,
    CallGraph,
    GraphFile,
    make_graph,
    with_edges,
)

_HEAD = "_MetaCG"
_META_KEYS = {"statements": "numStatements", "branches": "numConditionalBranches", "loop_depth": "loopDepth"}
_HINT = "make it again with MetaCG, or write one with: buran filter CAMPAIGN --format metacg"


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
        Their keys, each with the metadata of the call.
    features
        By name, -1 where the file does not say.
    overrides, overridden_by
        Keys of functions, directly.
    entry
        All that the file holds.
    """

    key: str
    symbol: str
    file: str
    has_body: bool
    is_inline: bool
    is_system: bool
    features: Mapping[str, int]
    callees: Mapping[str, Any]
    overrides: Sequence[str]
    overridden_by: Sequence[str]
    entry: JsonObject

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
            callees=entry["callees"] if is_fourth else dict.fromkeys(entry["callees"]),
            overrides=[str(other) for other in overriding.get("overrides") or ()],
            overridden_by=[str(other) for other in overriding.get("overriddenBy") or ()],
            entry=entry,
        )


def _read(data: JsonObject, *, is_fourth: bool) -> CallGraph:
    graph = data["_CG"]
    entries = graph["nodes"] if is_fourth else graph
    nodes = [_Node.from_json(key, entry, is_fourth=is_fourth) for key, entry in entries.items()]
    number = {node.key: i for i, node in enumerate(nodes)}
    edge_metadata: dict[tuple[int, int], Any] = {}
    overrides: list[tuple[int, int]] = []
    for i, node in enumerate(nodes):
        edge_metadata |= {(i, _number(number, callee, node.key)): meta for callee, meta in node.callees.items()}
        overrides += [(_number(number, other, node.key), i) for other in node.overridden_by]
        overrides += [(i, _number(number, other, node.key)) for other in node.overrides]
    symbols, files = [node.symbol for node in nodes], [node.file for node in nodes]
    features = {name: [node.features[name] for node in nodes] for name in _META_KEYS}
    features["loops"] = [-1 if depth < 0 else int(depth > 0) for depth in features["loop_depth"]]
    meta = (graph.get("meta") or {}) if is_fourth else {}
    entry = meta.get("entryFunction")
    rest = {key: value for key, value in data.items() if key not in ("_CG", _HEAD)}
    made = make_graph(
        _unique_ids(symbols, files),
        [(caller, callee, CALL) for caller, callee in edge_metadata],
        symbols=symbols,
        files=files,
        has_body=[node.has_body for node in nodes],
        inline=[node.is_inline for node in nodes],
        system=[node.is_system for node in nodes],
        features=features,
        entry=None if entry is None else _number(number, str(entry), "entryFunction"),
        metadata=tuple(node.entry for node in nodes),
        edge_metadata=edge_metadata,
        document=GraphFile(True, rest, meta, tuple(number)) if is_fourth else GraphFile(),
    )
    return _with_overriders(made, overrides)


def _number(number: Mapping[str, int], name: str, where: str) -> int:
    if name not in number:
        raise ValueError(f"{where!r} names {name!r}, which is not in the file")
    return number[name]


def _unique_ids(symbols: Sequence[str], files: Sequence[str]) -> list[str]:
    out: list[str] = []
    times = Counter(symbols)
    used: set[str] = set()
    for symbol, file in zip(symbols, files, strict=True):
        name = f"{symbol}@{file}" if times[symbol] > 1 else symbol
        count = 1
        while name in used:
            count += 1
            name = f"{symbol}@{file}#{count}"
        used.add(name)
        out.append(name)
    return out


def _with_overriders(graph: CallGraph, overrides: Iterable[tuple[int, int]]) -> CallGraph:
    """Add calls of everything that overrides a called function, directly or by way of others."""
    above: dict[int, list[int]] = {}
    direct = sorted(set(overrides))
    graph = replace(graph, document=replace(graph.document, overrides=tuple(direct)))
    for function, other in direct:
        above.setdefault(other, []).append(function)
    reach: dict[int, list[int]] = {}
    extra: list[tuple[int, int, int]] = []
    for caller, callee in zip(graph.caller.tolist(), graph.callee.tolist(), strict=True):
        if callee in above:
            if callee not in reach:
                reach[callee] = _closure(above, callee)
            extra += [(caller, other, OVERRIDE) for other in reach[callee]]
    return with_edges(graph, extra) if extra else graph


def _closure(above: Mapping[int, list[int]], start: int) -> list[int]:
    seen, waiting = {start}, [start]
    while waiting:
        for other in above.get(waiting.pop(), ()):
            if other not in seen:
                seen.add(other)
                waiting.append(other)
    return sorted(seen - {start})


def write_metacg(graph: CallGraph, path: Path) -> None:
    """Write a graph; what a file of the same version held next to it is written again."""
    written = (graph.kind & (CALL | POINTER | MEASURED)) != 0
    callees: list[list[int]] = [[] for _ in graph.ids]
    for a, b in zip(graph.caller[written].tolist(), graph.callee[written].tolist(), strict=True):
        callees[a].append(b)
    head = {"version": "4.0", "generator": {"name": "buran", "version": __version__, "sha": ""}}
    write_text(path, json.dumps({_HEAD: head, **graph.document.rest, "_CG": _body(graph, callees)}) + "\n")


def _own_meta(graph: CallGraph, i: int) -> dict[str, Any]:
    """Return the metadata of a function, whichever version it was read from, with what the graph knows."""
    sizes = {key: int(graph.features[name][i]) for name, key in _META_KEYS.items() if graph.features[name][i] >= 0}
    out: dict[str, Any] = {**(_entry(graph, i).get("meta") or {}), **sizes}
    out.setdefault("fileProperties", {"origin": graph.files[i], "systemInclude": bool(graph.system[i])})
    if graph.inline[i]:
        out.setdefault("inlineInfo", {"markedInline": True})
    return out


def _entry(graph: CallGraph, i: int) -> JsonObject:
    """Return what the file that it was read from held of a function."""
    return graph.metadata[i] if i < len(graph.metadata) else {}


def _overrides(graph: CallGraph) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each function what it overrides and what overrides it, directly."""
    down: list[list[int]] = [[] for _ in graph.ids]
    up: list[list[int]] = [[] for _ in graph.ids]
    for function, other in graph.document.overrides:
        down[function].append(other)
        up[other].append(function)
    return down, up


def _body(graph: CallGraph, callees: list[list[int]]) -> dict[str, Any]:
    keys = list(graph.document.keys)
    taken = set(keys)
    free = (str(i) for i in range(len(graph) + len(keys) + 1))
    while len(keys) < len(graph):
        key = next(number for number in free if number not in taken)
        taken.add(key)
        keys.append(key)
    meta = dict(graph.document.meta)
    if graph.entry is not None:
        meta["entryFunction"] = keys[graph.entry]
    down, up = _overrides(graph)
    virtual = [
        {"overrideMD": {"overrides": [keys[j] for j in down[i]], "overriddenBy": [keys[j] for j in up[i]]}}
        if down[i] or up[i]
        else {}
        for i in range(len(graph))
    ]
    nodes = {
        keys[i]: {
            **(_entry(graph, i) if graph.document.is_fourth else {}),
            "functionName": graph.symbols[i],
            "origin": graph.files[i] or None,
            "hasBody": bool(graph.has_body[i]),
            "callees": {keys[j]: graph.edge_metadata.get((i, j)) for j in callees[i]},
            "meta": {**virtual[i], **_own_meta(graph, i)},
        }
        for i in range(len(graph))
    }
    return {"nodes": nodes, "meta": meta}
