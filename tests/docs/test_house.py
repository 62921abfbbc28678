"""The page on where things live is about the packages that there are, and its picture about their imports."""

from __future__ import annotations

from snippets import ROOT

import house

PAGE = ROOT / "docs" / "development" / "house.md"


def test_the_picture_is_current() -> None:
    assert house.PICTURE.read_text() == house.drawing(), "python tools/reference/house.py"


def test_arrows_leave_out_nothing() -> None:
    graph = house.read_graph()
    drawn = house.arrows(graph)
    for name in graph:
        assert house.reach(graph, name) == house.reach(drawn, name), name
        assert drawn[name] <= graph[name]


def test_arrows_go_down() -> None:
    graph = house.read_graph()
    floor = house.floors(graph)
    for name in graph:
        for other in graph[name]:
            mutual = name in house.reach(graph, other)
            assert floor[name] < floor[other] or mutual, f"{name} -> {other}"


def test_a_longer_way_replaces_an_arrow() -> None:
    graph = {"a": frozenset("bc"), "b": frozenset("c"), "c": frozenset("d"), "d": frozenset("c")}
    assert house.arrows(graph) == {"a": frozenset("b"), "b": frozenset("c"), "c": frozenset("d"), "d": frozenset("c")}
    assert house.floors(graph) == {"a": 0, "b": 1, "c": 2, "d": 2}


def test_the_page_names_every_package() -> None:
    text = PAGE.read_text()
    missing = [name for name in house.packages() if f"| `{name}/`" not in text]
    assert not missing


def test_the_words_fit_into_their_boxes() -> None:
    assert all(1 <= len(house.lines_of(name)) <= house.LINES for name in house.read_graph())
