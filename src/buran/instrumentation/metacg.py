"""MetaCG's call graph files: reading versions 2 and 4, and writing version 4; metadata of others kept.

Version 2 knows functions by their symbols alone; version 4 has numbers, so that functions of one name stay apart.
Both name for a call of a virtual function only the one that is named in the source. The functions that may run in its
place are added on reading, from what overrides what, directly or by way of others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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
        version = str(data[_HEAD]["version"])
        graph = data["_CG"]
    except (KeyError, TypeError) as error:
        raise FormatError(
            "this is no call graph of MetaCG", where=path, why=f"it has no {error}", hint=_HINT
        ) from error
    try:
        if version.split(".")[0] == "2":
            return _read_second(graph)
        if version.split(".")[0] == "4":
            return _read_fourth(data, graph)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"missing {error}" if isinstance(error, KeyError) else str(error)
        raise FormatError("the call graph is damaged", where=path, why=why, hint=_HINT) from error
    raise FormatError(
        f"call graphs of MetaCG's version {version} are not known", where=path, hint="write version 2 or 4"
    )


def _read_second(nodes: JsonObject) -> CallGraph:
    number = {name: i for i, name in enumerate(nodes)}
    edges: list[tuple[int, int, int]] = []
    overrides: list[tuple[int, int]] = []
    for name, node in nodes.items():
        i = number[name]
        edges += [(i, _number(number, callee, name), CALL) for callee in node["callees"]]
        overrides += [(_number(number, other, name), i) for other in node.get("overriddenBy") or ()]
        overrides += [(i, _number(number, other, name)) for other in node.get("overrides") or ()]
    metas = [node.get("meta") or {} for node in nodes.values()]
    graph = _graph(list(nodes), list(nodes), edges, [bool(node["hasBody"]) for node in nodes.values()], metas)
    return _with_overriders(replace(graph, metadata=tuple(nodes.values())), overrides)


def _read_fourth(data: JsonObject, graph: JsonObject) -> CallGraph:
    nodes = graph["nodes"]
    keys = list(nodes)
    number = {key: i for i, key in enumerate(keys)}
    symbols = [node["functionName"] for node in nodes.values()]
    edges, edge_metadata, overrides = [], {}, []
    for key, node in nodes.items():
        i = number[key]
        for callee, meta in node["callees"].items():
            j = _number(number, callee, key)
            edges.append((i, j, CALL))
            edge_metadata[i, j] = meta
        overriding = (node.get("meta") or {}).get("overrideMD") or {}
        overrides += [(_number(number, str(other), key), i) for other in overriding.get("overriddenBy") or ()]
        overrides += [(i, _number(number, str(other), key)) for other in overriding.get("overrides") or ()]
    files = [node["origin"] or "" for node in nodes.values()]
    made = _graph(
        _unique_ids(symbols, files),
        symbols,
        edges,
        [bool(node["hasBody"]) for node in nodes.values()],
        [node.get("meta") or {} for node in nodes.values()],
        files,
    )
    meta = graph.get("meta") or {}
    entry = meta.get("entryFunction")
    rest = {key: value for key, value in data.items() if key not in ("_CG", _HEAD)}
    return _with_overriders(
        replace(
            made,
            entry=None if entry is None else _number(number, str(entry), "entryFunction"),
            metadata=tuple(nodes.values()),
            edge_metadata=edge_metadata,
            document=GraphFile(True, rest, meta, tuple(keys)),
        ),
        overrides,
    )


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


def _graph(
    ids: Sequence[str],
    symbols: Sequence[str],
    edges: Iterable[tuple[int, int, int]],
    has_body: Sequence[bool],
    metas: Sequence[JsonObject],
    files: Sequence[str] | None = None,
) -> CallGraph:
    origins = [meta.get("fileProperties") or {} for meta in metas]
    features = {name: [int(meta.get(key, -1)) for meta in metas] for name, key in _META_KEYS.items()}
    features["loops"] = [-1 if depth < 0 else int(depth > 0) for depth in features["loop_depth"]]
    return make_graph(
        ids,
        edges,
        symbols=symbols,
        files=files or [str(origin.get("origin") or "") for origin in origins],
        has_body=has_body,
        inline=[bool((meta.get("inlineInfo") or {}).get("markedInline")) for meta in metas],
        system=[bool(origin.get("systemInclude")) for origin in origins],
        features=features,
    )


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


def _own_meta(graph: CallGraph, i: int, old: JsonObject) -> dict[str, Any]:
    sizes = {key: int(graph.features[name][i]) for name, key in _META_KEYS.items() if graph.features[name][i] >= 0}
    out: dict[str, Any] = {**old, **sizes}
    out.setdefault("fileProperties", {"origin": graph.files[i], "systemInclude": bool(graph.system[i])})
    if graph.inline[i]:
        out.setdefault("inlineInfo", {"markedInline": True})
    return out


def _kept(graph: CallGraph, i: int) -> JsonObject:
    return graph.metadata[i] if graph.document.is_fourth and i < len(graph.metadata) else {}


def _meta_of(graph: CallGraph, i: int) -> JsonObject:
    """Return the metadata of a function, whichever version it was read from."""
    return (graph.metadata[i].get("meta") or {}) if i < len(graph.metadata) else {}


def _overrides(graph: CallGraph) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each function what it overrides and what overrides it, directly."""
    down: list[list[int]] = [[] for _ in graph.ids]
    up: list[list[int]] = [[] for _ in graph.ids]
    for function, other in graph.document.overrides:
        down[function].append(other)
        up[other].append(function)
    return down, up


def _body(graph: CallGraph, callees: list[list[int]]) -> JsonObject:
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
            **_kept(graph, i),
            "functionName": graph.symbols[i],
            "origin": graph.files[i] or None,
            "hasBody": bool(graph.has_body[i]),
            "callees": {keys[j]: graph.edge_metadata.get((i, j)) for j in callees[i]},
            "meta": {**virtual[i], **_own_meta(graph, i, _meta_of(graph, i))},
        }
        for i in range(len(graph))
    }
    return {"nodes": nodes, "meta": meta}
