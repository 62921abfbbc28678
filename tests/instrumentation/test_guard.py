"""The guard of a campaign's start, the filter it starts with, and the points it looks at first."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.instrumentation.filter_file import parse
from buran.instrumentation.measured import MOST_EXPENSIVE_VISIT
from buran.instrumentation.start import (
    EVERYTHING,
    guard,
    guarded,
    longest,
    start_filter,
    stretch,
    throttle,
    visit_cost_of,
)
from buran.modeling.numerics.tuning import OVERHEAD
from buran.planning.base import pilot_indices
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree, Region
from call_graphs import graph_of

COST_S = 20e-9
TREE = CallTree(
    (
        Region("main"),
        Region("kernel()", "_Z6kernelv"),
        Region("tiny()", "_Z4tinyv"),
        Region("MPI_Init", paradigm="mpi"),
    ),
    np.array([0, 1, 2, 3, 2]),
    np.array([-1, 0, 1, 0, 0]),
)


def test_many_short_visits_lose_their_hooks() -> None:
    seconds = np.array([1e-3, 0.5, 1.0, 9.0, 0.2])
    visits = np.array([1.0, 100.0, 5e7, 1.0, 1e7])
    found = throttle(TREE, seconds, visits, COST_S)
    assert set(found.verdicts) == {"_Z4tinyv"}
    assert not found.verdicts["_Z4tinyv"].kept and "6e+07 visits of 20 ns" in found.verdicts["_Z4tinyv"].reason
    assert found.before == pytest.approx(1.2 / 0.501, rel=1e-3)  # without MPI
    assert found.after < 1e-4
    assert "1 function throttled" in found.sentence


def test_cheap_hooks_stay() -> None:
    seconds, visits = np.array([1e-3, 0.5, 0.1, 9.0, 0.1]), np.array([1.0, 100.0, 1e6, 1.0, 1e3])
    assert not throttle(TREE, seconds, visits, COST_S).verdicts  # 0.02 s of 0.7 s
    assert not throttle(TREE, seconds, visits, COST_S, limit=0.01).verdicts  # a tenth of its own time
    visits[2] = 7e6
    assert not throttle(TREE, seconds, visits, COST_S, limit=0.5).verdicts  # 0.14 s of 0.56 s
    assert throttle(TREE, seconds, visits, COST_S, limit=0.01).verdicts


def test_nothing_measured_throttles_nothing() -> None:
    empty = CallTree((), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    assert not throttle(empty, np.zeros(0), np.zeros(0), COST_S).verdicts
    assert not throttle(TREE, np.full(5, np.nan), np.full(5, np.nan), COST_S).verdicts


@given(
    st.lists(st.tuples(st.floats(0, 10), st.integers(0, 10**9)), min_size=1, max_size=30),
    st.floats(1e-9, 1e-6),
    st.floats(0.01, 2),
)
@settings(max_examples=200)
def test_what_is_left_is_allowed_or_must_stay_and_no_more_goes_than_must(each, cost_s, limit) -> None:
    regions = (Region("main"), *(Region(f"f{i}") for i in range(len(each))))
    tree = CallTree(regions, np.arange(len(regions)), np.array([-1] + [0] * len(each)))
    seconds, visits = (np.array([0.1, *column], dtype=float) for column in zip(*each, strict=True))
    visits[0] = 1
    found = throttle(tree, seconds, visits, cost_s, limit)
    hooks = visits * cost_s
    whole = seconds.sum()
    bare = max(whole - hooks.sum(), 0.01 * whole)
    gone = np.array([region.name in found.verdicts for region in regions])
    may_go = (hooks > 0.5 * seconds) & (hooks > 0.01 * hooks.sum())
    assert not gone[0] and not (gone & ~may_go).any()
    left = hooks[~gone].sum()
    assert left <= limit * bare * (1 + 1e-9) or gone[1:][may_go[1:]].all()
    assert found.after == pytest.approx(left / bare, abs=1e-9)
    if gone.any():
        assert hooks.sum() > limit * bare
        assert left + max(hooks[gone]) > limit * bare - 1e-12


def test_few_visits_and_long_ones_stay_though_the_limit_is_out_of_reach() -> None:
    """A kernel of one visit a step is as short as its hooks at the smallest size, and grows with it."""
    names = ("main", "accessor", "per_cell", "step", "wrapper")
    tree = CallTree(tuple(map(Region, names)), np.arange(5), np.array([-1, 0, 0, 0, 0]))
    visits = np.array([1.0, 1e5, 3e4, 300.0, 300.0])
    seconds = np.array([1e-2, 3e-3, 15e-3, 3e-5, 1e-6])
    found = throttle(tree, seconds, visits, 100e-9)
    assert set(found.verdicts) == {"accessor"} and found.after > OVERHEAD


def test_what_is_to_be_kept_stays_whatever_it_costs() -> None:
    seconds, visits = np.array([1e-3, 0.5, 1.0, 9.0, 0.2]), np.array([1.0, 100.0, 5e7, 1.0, 1e7])
    assert not throttle(TREE, seconds, visits, COST_S, keep=("tin*",)).verdicts
    assert set(throttle(TREE, seconds, visits, COST_S, keep=("kernel",)).verdicts) == {"_Z4tinyv"}


def test_the_cost_of_a_visit_is_that_of_the_program_where_hooks_rule() -> None:
    assert visit_cost_of(35.0, 1.0, 1e9, COST_S) == pytest.approx(34e-9)
    assert visit_cost_of(1.5, 1.0, 1e4, COST_S) == COST_S  # noise of short runs
    assert visit_cost_of(3.0, 1.0, 0.0, COST_S) == COST_S
    assert visit_cost_of(3.0, 1.0, 1e12, COST_S) == COST_S
    # Starting and ending Score-P takes a tenth of a second, which some hundred visits cannot have cost.
    assert visit_cost_of(0.11, 0.01, 241, COST_S) == MOST_EXPENSIVE_VISIT * COST_S


def test_the_longest_point_decides_and_shared_machines_stretch_hooks() -> None:
    values = np.zeros((5, 2, 1, 5))
    values[:, 0, 0, :] = np.array([1e-3, 0.01, 1e-3, 19.0, 0.0])[:, None]  # MPI starts longer at the small point
    values[:, 1, 0, :] = np.array([1e-3, 2.0, 0.05, 9.0, 0.0])[:, None]
    visits = np.zeros_like(values)
    visits[:, :, 0, :] = np.array([1.0, 10.0, 3e6, 1.0, 0.0])[:, None, None]
    table = Experiment(
        ("n",), np.array([[10.0], [20.0]]), TREE, {"time": values, "visits": visits}, {"time": "sec", "visits": "occ"}
    )
    assert longest(table) == 1
    assert not guard(table, 2.1, 2.0, COST_S).verdicts  # 0.06 s of 2 s
    assert stretch(table, 1.0, 1) == pytest.approx(2.051) and stretch(table, 9.0) == 1.0
    assert set(guard(table, 1.0, 0.95, COST_S).verdicts) == {"_Z4tinyv"}  # 0.12 s of 2 s
    assert not guard(table, 0.0, 0.0, COST_S).verdicts


def test_start_up_of_the_measurement_system_is_no_cost_of_visits() -> None:
    time, visits = np.zeros((2, 5, 1, 1, 5))
    time[:, 0, 0, :] = np.array([1e-3, 0.05, 2e-3, 0.1, 0.0])[:, None]  # tiny: 60 ns a visit
    visits[:, 0, 0, :] = np.array([1.0, 1.0, 3.3e4, 1.0, 0.0])[:, None]
    table = Experiment(
        ("n",), np.array([[10.0]]), TREE, {"time": time, "visits": visits}, {"time": "sec", "visits": "occ"}
    )
    assert not guard(table, 0.12, 0.05, COST_S, limit=0.2).verdicts  # 0.07 s more, of which hooks are 4 ms at most


def test_threads_share_the_visits_of_their_rank() -> None:
    time, visits, threads = np.zeros((3, 5, 1, 1, 5))
    time[:, 0, 0, :] = np.array([1e-3, 2.0, 0.05, 9.0, 0.0])[:, None]
    visits[:, 0, 0, :] = np.array([1.0, 10.0, 6e6, 1.0, 0.0])[:, None]
    threads[:, 0, 0, :] = np.array([1.0, 1.0, 4.0, 1.0, 0.0])[:, None]
    values = {"time": time, "visits": visits}
    units = {"time": "sec", "visits": "occ", "working_threads": "occ"}
    alone = Experiment(("n",), np.array([[10.0]]), TREE, values, units)
    shared = Experiment(("n",), np.array([[10.0]]), TREE, {**values, "working_threads": threads}, units)
    assert set(guard(alone, 2.1, 2.0, COST_S).verdicts) == {"_Z4tinyv"}  # 0.12 s of 2 s
    assert not guard(shared, 2.1, 2.0, COST_S).verdicts  # four threads take 0.03 s, at once


def test_guarded_filters_let_everything_else_through() -> None:
    seconds, visits = np.array([1e-3, 0.5, 1.0, 9.0, 0.2]), np.array([1.0, 100.0, 5e7, 1.0, 1e7])
    found = throttle(TREE, seconds, visits, COST_S)
    for start in ("", EVERYTHING):
        rules = parse(guarded(start, found))
        assert not rules.matches("tiny()", "_Z4tinyv")
        assert rules.matches("kernel()", "_Z6kernelv") and rules.matches("main", "main")
    nothing = throttle(TREE, seconds, np.zeros(5), COST_S)
    assert guarded(EVERYTHING, nothing) == EVERYTHING and nothing.before == 0
    assert OVERHEAD < 1


GRAPH = graph_of(
    ("main", "solve", "kernel", "tiny", "MPI_Send"),
    [(0, 1), (1, 2), (0, 3), (1, 4)],
    has_body=(True, True, True, True, False),
    features={
        "statements": (1, 2, 30, 1, -1),
        "loops": (0, 1, 3, 0, -1),
        "instructions": (4, 9, 200, 3, -1),
        "branches": (0, 2, 5, 0, -1),
    },
)


@pytest.mark.parametrize(
    ("start", "cut", "expected"),
    [
        ("statements", "unique_median", {"main", "solve", "kernel"}),  # of 0, 1, 30, 32, 34
        ("statements", 30, {"main", "solve", "kernel"}),
        ("statements", "half_of_largest", {"main", "solve", "kernel"}),
        ("loops", "median", {"main", "solve", "kernel"}),
        ("instructions", 213, {"main"}),
        ("branches", 6, {"main", "solve"}),
        ("statements", 10**6, {"main"}),
    ],
)
def test_first_filters_by_what_functions_reach(start, cut, expected) -> None:
    rules = parse(start_filter(start, GRAPH, cut))
    assert {name for name in GRAPH.symbols if rules.matches(name, name)} == expected


def test_first_filters_without_a_graph() -> None:
    assert start_filter("default", None) == ""
    rules = parse(start_filter("everything", None))
    assert rules.matches("anything", "_Z8anythingv")
    with pytest.raises(UsageError, match="has no branches"):
        start_filter("branches", graph_of(("main",), []))


# -- pilot points ---------------------------------------------------------------------------------------


def test_pilot_points_are_small_and_along_every_parameter() -> None:
    line = np.array([[8.0], [16], [24], [32], [40]])
    assert pilot_indices(line) == [0, 1, 2]
    grid = np.array([(p, n) for p in (1.0, 2, 4, 8) for n in (10.0, 20, 30, 40)])
    assert [tuple(grid[i]) for i in pilot_indices(grid)] == [(1, 10), (1, 20), (1, 30), (2, 10), (2, 20), (4, 10)]
    assert pilot_indices(np.array([[3.0]])) == [0]


def test_scattered_points_have_pilots_too() -> None:
    scattered = np.array([(1.0, 50.0), (2, 40), (3, 30), (4, 20), (5, 10), (6, 60), (7, 70)])
    assert pilot_indices(scattered) == [0, 1, 2, 3, 4, 5]
