"""Runs side by side on a node: which start, and how long all take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.packing import Need, NodeRoom, WaitingNeeds, makespan_s, side_by_side, within

needs = st.lists(
    st.builds(Need, st.integers(1, 12), st.one_of(st.none(), st.integers(1, 900)), st.floats(0.5, 100.0)), max_size=12
)


@pytest.mark.parametrize(
    ("need", "room", "fit"),
    [
        (Need(1), NodeRoom(8), 8),
        (Need(3), NodeRoom(8), 2),
        (Need(8), NodeRoom(8), 1),
        (Need(16), NodeRoom(8), 1),
        (Need(1, 300), NodeRoom(8, 1000), 3),
        (Need(1, 3000), NodeRoom(8, 1000), 1),
        (Need(1, 300), NodeRoom(8), 8),
        (Need(4, 1), NodeRoom(8, 1000), 2),
    ],
)
def test_as_many_fit_as_there_are_cores_and_memory(need: Need, room: NodeRoom, fit: int) -> None:
    assert side_by_side(need, room) == fit


def test_the_widest_begin_and_small_ones_fill_the_gaps() -> None:
    room, waiting = NodeRoom(8), WaitingNeeds([Need(1), Need(4, seconds=1.0), Need(4, seconds=9.0), Need(6)])
    order = []
    while (number := waiting.pop(room)) is not None:
        room.take(waiting.needs[number])
        order.append(number)
    assert order == [3, 0] and room.cores == 1
    room.take(Need(6), -1)
    assert waiting.pop(room) == 2 and bool(waiting)


def test_runs_that_fit_take_as_long_as_the_longest() -> None:
    assert makespan_s([Need(2, seconds=3.0), Need(2, seconds=5.0)], NodeRoom(4)) == 5.0
    assert makespan_s([Need(2, 600, 3.0), Need(2, 600, 5.0)], NodeRoom(4, 1000)) == 8.0
    assert makespan_s([Need(9, seconds=2.0)] * 3, NodeRoom(4)) == 6.0
    assert makespan_s([], NodeRoom(4)) == 0.0


@given(needs, st.integers(1, 8), st.one_of(st.none(), st.integers(1, 1000)))
def test_no_order_beats_the_cores(asked: list[Need], cores: int, memory_mb: int | None) -> None:
    room = NodeRoom(cores, memory_mb)
    met = [within(need, room) for need in asked]
    took_s = makespan_s(asked, room)
    assert room == NodeRoom(cores, memory_mb)
    assert took_s <= sum(need.seconds for need in asked) * (1 + 1e-9)
    assert took_s * cores >= sum(need.cores * need.seconds for need in met) * (1 - 1e-9)
    assert took_s >= max((need.seconds for need in asked), default=0.0)
