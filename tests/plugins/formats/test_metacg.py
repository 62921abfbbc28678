"""MetaCG's files: both versions, virtual functions, damage."""

import json

import pytest

from buran.cli import main
from buran.errors import FormatError
from buran.plugins.formats.metacg import read_metacg


def node(callees=(), **rest):
    plain = {
        "hasBody": True, "callees": list(callees), "callers": [], "isVirtual": False, "doesOverride": False,
        "overrides": [], "overriddenBy": [], "meta": None,
    }  # fmt: skip
    return {**plain, **rest}


SECOND = {
    "_MetaCG": {"version": "2.0", "generator": {"name": "CGCollector", "version": "0.2", "sha": "0"}},
    "PointerEquivalenceData": {"kept": [1]},
    "_CG": {
        "main": node(
            ["_ZN1A1fEv"],
            meta={
                "numStatements": 7,
                "loopDepth": 2,
                "PiraTwoData": {"model": "kept"},
                "fileProperties": {"origin": "/x/main.cpp", "systemInclude": False},
            },
        ),
        "_ZN1A1fEv": node(isVirtual=True, overriddenBy=["_ZN1B1fEv"]),
        "_ZN1B1fEv": node(isVirtual=True, overrides=["_ZN1A1fEv"], overriddenBy=["_ZN1C1fEv"]),
        "_ZN1C1fEv": node(isVirtual=True, doesOverride=True),
    },
}
FOURTH = {
    "_MetaCG": {"version": "4.0", "generator": {"name": "CGCollector", "version": "0.9", "sha": "0"}},
    "_CG": {
        "nodes": {
            "17": {
                "functionName": "main", "origin": "a.c", "hasBody": True, "extra": "kept",
                "callees": {"3": {"weight": 5}, "4": None}, "meta": {"numStatements": 2, "foreign": {"kept": True}},
            },
            "3": {"functionName": "helper", "origin": "a.c", "hasBody": True, "callees": {}, "meta": {}},
            "4": {
                "functionName": "helper", "origin": "b.c", "hasBody": True, "callees": {},
                "meta": {"overrideMD": {"overrides": [], "overriddenBy": ["5"]}},
            },
            "5": {"functionName": "over", "origin": None, "hasBody": True, "callees": {}, "meta": {}},
        },
        "meta": {"entryFunction": "17"},
    },
}  # fmt: skip


def written(tmp_path, data):
    path = tmp_path / "graph.mcg"
    path.write_text(json.dumps(data))
    return path


def edges(graph):
    """A written call of what overrides a function is a call like others."""
    names = [f"{each.symbol}@{each.file}" for each in graph.functions]
    return {(names[a], names[b]) for a, b in zip(graph.caller, graph.callee, strict=True)}


def test_version_two_with_virtual_functions(tmp_path):
    graph = read_metacg(written(tmp_path, SECOND))
    assert {b for _, b in edges(graph)} == {"_ZN1A1fEv@", "_ZN1B1fEv@", "_ZN1C1fEv@"}
    assert {a for a, _ in edges(graph)} == {"main@/x/main.cpp"}
    assert graph.features["statements"].tolist() == [7, -1, -1, -1]
    assert graph.features["loop_depth"][0] == 2


def test_version_four_keeps_namesakes_apart(tmp_path):
    graph = read_metacg(written(tmp_path, FOURTH))
    assert edges(graph) == {("main@a.c", other) for other in ("helper@a.c", "helper@b.c", "over@")}
    assert graph.main == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no call graph of MetaCG"),
        ("{", "no call graph of MetaCG"),
        ("[]", "no call graph of MetaCG"),
        ('{"_CG": {}}', "no call graph of MetaCG"),
        ('{"_MetaCG": {"version": "3.0"}, "_CG": {}}', "version 3.0 are not known"),
        ('{"_MetaCG": {"version": "2.0"}, "_CG": {"main": {"hasBody": true}}}', "damaged"),
        ('{"_MetaCG": {"version": "2.0"}, "_CG": []}', "damaged"),
        ('{"_MetaCG": {"version": "4.0"}, "_CG": {"main": {}}}', "damaged"),
        ("[" * 100_000, "no call graph of MetaCG"),
    ],
)
def test_what_is_no_call_graph_is_refused(text, why, tmp_path):
    (tmp_path / "bad.mcg").write_text(text)
    with pytest.raises(FormatError, match=why):
        read_metacg(tmp_path / "bad.mcg")


def test_an_edge_to_nowhere_is_named(tmp_path):
    data = json.loads(json.dumps(SECOND))
    data["_CG"]["main"]["callees"].append("gone")
    with pytest.raises(FormatError) as caught:
        read_metacg(written(tmp_path, data))
    assert "'gone'" in str(caught.value)
    with pytest.raises(FormatError, match="cannot be read"):
        read_metacg(tmp_path / "absent.mcg")


def test_call_graphs_are_read_by_command(tmp_path, capsys):
    path, other = written(tmp_path, FOURTH), tmp_path / "other.mcg"
    assert main(["filter", "--callgraph", str(path), "--select", "main"]) == 0
    other.write_text("{}")
    assert main(["filter", "--callgraph", str(other), "--select", "main"]) == 2
    assert "no call graph" in capsys.readouterr().err
