"""Call graphs: sums over what is reachable, paths, sources, and the rule for the first instrumentation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.instrumentation.graph_sources import graph_of_features, graph_of_tree, with_measured
from buran.instrumentation.pira import initial_selection, threshold
from buran.measurement.toolchain.static_features import Call, Loop, StaticFeatures, StaticFunction
from buran.profiles.profile import CallTree, Region
from call_graphs import graph_of as from_columns


def graph_of(edges, sizes, names=None):
    symbols = names or [f"f{i}" for i in range(len(sizes))]
    return from_columns(symbols, edges, {"statements": sizes})


def edges_of(graph):
    return {(graph.symbols[a], graph.symbols[b]) for a, b in zip(graph.caller, graph.callee, strict=True)}


def reach_by_search(edges, n, start):
    seen, waiting = {start}, [start]
    while waiting:
        own = waiting.pop()
        for a, b in edges:
            if a == own and b not in seen:
                seen.add(b)
                waiting.append(b)
    return seen


graphs = st.integers(1, 14).flatmap(
    lambda n: st.tuples(
        st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=40),
        st.lists(st.integers(0, 9), min_size=n, max_size=n),
    )
)


@given(graphs)
@settings(max_examples=150)
def test_sums_and_paths_are_those_of_a_plain_search(graph):
    edges, sizes = graph
    n = len(sizes)
    own = graph_of(edges, sizes)
    reach = [reach_by_search(edges, n, i) for i in range(n)]
    assert own.inclusive["statements"].tolist() == [sum(sizes[j] for j in each) for each in reach]
    for i in range(n):
        assert set(np.flatnonzero(own.reached([i])).tolist()) == reach[i]
        assert set(np.flatnonzero(own.reached([i], reverse=True)).tolist()) == {j for j in range(n) if i in reach[j]}
    wanted = {j for j in reach[0] if n - 1 in reach[j]}
    assert set(np.flatnonzero(own.on_paths([0], [n - 1])).tolist()) == wanted
    both = set(np.flatnonzero(own.reached([0, n - 1])).tolist())
    assert both == reach[0] | reach[n - 1]
    component, below = own.components
    assert all(callee < caller for caller, callees in enumerate(below) for callee in callees)
    for i in range(n):
        assert {j for j in range(n) if component[j] == component[i]} == {j for j in reach[i] if i in reach[j]}


def test_more_functions_than_fit_into_one_pass(monkeypatch):
    monkeypatch.setattr("buran.instrumentation.callgraph._CHUNK", 7)
    rng = np.random.default_rng(5)
    edges = [(int(a), int(b)) for a, b in rng.integers(0, 60, (120, 2))]
    sizes = rng.integers(0, 9, 60).tolist()
    own = graph_of(edges, sizes)
    expected = [sum(sizes[j] for j in reach_by_search(edges, 60, i)) for i in range(60)]
    assert own.inclusive["statements"].tolist() == expected


@pytest.mark.slow
def test_a_chain_of_a_hundred_thousand_calls_and_one_large_cycle():
    n = 100_000
    chain = graph_of([(i, i + 1) for i in range(n - 1)], [1] * n)
    assert chain.inclusive["statements"][[0, 1, n - 1]].tolist() == [n, n - 1, 1]
    ring = graph_of([(i, (i + 1) % n) for i in range(n)], [2] * n)
    assert (ring.inclusive["statements"] == 2 * n).all()
    assert ring.on_paths([0], [5]).all()


def test_main_must_be_one():
    assert graph_of([], [1, 1], ["main", "other"]).main == 0
    assert graph_of([], [1, 1], ["MAIN__", "other"]).main == 0
    with pytest.raises(UsageError, match="no main function"):
        _ = graph_of([], [1], ["other"]).main
    two = from_columns(["main", "main"], file=["a.c", "b.c"])
    with pytest.raises(UsageError, match=r"2 functions 'main'") as caught:
        _ = two.main
    assert "a.c, b.c" in str(caught.value)
    assert from_columns(["main", "main"], has_body=[False, True]).main == 1


# -- sources ------------------------------------------------------------------------------------------


def function(name, calls=(), *, file="a.c", linkage="external", type="i32(i32)", taken=False, loops=(), **rest):
    own_id = f"{name}@{file}" if linkage == "internal" else name
    plain = {"inline": False, "hooked": True, "blocks": 3, "instructions": 9, "statements": 4, "branches": 1}
    return StaticFunction(
        id=own_id, name=name, mangled=name, file=file, line=1, unit=file, linkage=linkage,
        type=type, address_taken=taken, loops=tuple(loops), calls=tuple(calls), **{**plain, **rest},
    )  # fmt: skip


def test_calls_through_pointers_go_everywhere_they_can():
    features = StaticFeatures(
        (
            function("main", [Call("*", 1, 1, "i32(i32)"), Call("helper@a.c", 0, 1), Call("printf", 0, 2)]),
            function("right", taken=True),
            function("never_taken"),
            function("other_type", taken=True, type="void(p)"),
            function("helper", file="a.c", linkage="internal"),
            function("helper", file="b.c", linkage="internal", loops=[Loop(3, 1, 2), Loop(4, 2, 1)]),
        ),
        ("a.c", "b.c"), (), (),
    )  # fmt: skip
    graph = graph_of_features(features)
    names = [(each.symbol, each.file) for each in graph.functions]
    assert {names[i] for i in np.flatnonzero(graph.reached([graph.main]))} == {
        ("main", "a.c"), ("right", "a.c"), ("helper", "a.c"), ("printf", ""),
    }  # fmt: skip
    assert edges_of(graph) == {("main", "right"), ("main", "helper"), ("main", "printf")}
    second, outside = names.index(("helper", "b.c")), names.index(("printf", ""))
    assert graph.features["loops"][second] == 2 and graph.features["loop_depth"][second] == 2
    assert not graph.has_body[outside] and graph.features["statements"][outside] == -1
    assert graph.find("helper", file="b.c") == second


TREE = CallTree(
    (
        Region("program", paradigm="measurement"), Region("main"), Region("int right(int)", "right", "a.c"),
        Region("MPI_Send", paradigm="mpi"), Region("lost()", "_Z4lostv", "c.cpp"),
    ),
    np.array([0, 1, 2, 3, 4]),
    np.array([-1, 0, 1, 2, 1]),
)  # fmt: skip


def test_measured_calls_are_added_and_so_are_functions_the_graph_lacks():
    static = graph_of_features(
        StaticFeatures((function("main"), function("right", linkage="external")), ("a.c",), (), ())
    )
    graph = with_measured(static, TREE)
    assert edges_of(graph) == {("main", "right"), ("right", "MPI_Send"), ("main", "_Z4lostv")}
    assert graph.features["statements"].tolist() == [4, 4, -1, -1]
    assert edges_of(graph_of_tree(TREE)) == edges_of(graph)


def test_an_empty_profile_adds_nothing():
    empty = CallTree((), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert len(graph_of_tree(empty)) == 0
    assert with_measured(graph_of([(0, 1)], [1, 1]), empty).symbols == ("f0", "f1")


# -- the first instrumentation --------------------------------------------------------------------------


def test_thresholds_are_those_of_the_published_rule():
    sizes = np.array([1, 1, 1, 4, 9, 20])
    assert threshold(sizes, "unique_median") == 9  # upper median of 1, 4, 9, 20
    assert threshold(sizes, "median") == 4  # upper median of all six
    assert threshold(sizes, "half_of_largest") == 10
    assert threshold(sizes, 3) == 3
    assert threshold(np.zeros(0, dtype=np.int64), "median") == 0


def test_functions_that_reach_much_are_selected_with_their_callers():
    names = ["main", "solve", "kernel", "tiny", "unreached"]
    graph = graph_of([(0, 1), (1, 2), (0, 3)], [1, 2, 30, 1, 99], names)
    assert graph.inclusive["statements"].tolist() == [34, 32, 30, 1, 99]
    chosen = initial_selection(graph)
    assert [names[i] for i in np.flatnonzero(chosen)] == ["main", "solve"]  # of 1, 30, 32, 34 the upper median is 32
    assert [names[i] for i in np.flatnonzero(initial_selection(graph, cut=30))] == ["main", "solve", "kernel"]
    with pytest.raises(UsageError, match="has no instructions"):
        initial_selection(graph, "instructions")
