"""Refinement beyond thresholds: overhead, coverage, memory, further reasons, functions never measured."""

from fractions import Fraction as F
from functools import partial

import numpy as np
import pytest
from refining import refine

from buran.errors import FormatError, UsageError
from buran.instrumentation.measured import (
    MOST_EXPENSIVE_VISIT,
    MeasuredOverhead,
    beyond_startup,
    extremes_s,
    imbalance_s,
    times_as_expensive,
)
from buran.instrumentation.pira import filter_and_expand, filter_only, hotspots
from buran.instrumentation.prediction import ModelledProgram, predict_regions
from buran.instrumentation.refinement import NEVER_CALLED, FunctionVerdict, Wishes, read_verdicts, write_verdicts
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import Model, ModelSet, Quality
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree, Region
from call_graphs import graph_of

NAMES = ("main", "solve", "kernel", "accessor", "setup", "MPI_Send")
TREE = CallTree(
    tuple(Region(name, paradigm="mpi" if name.startswith("MPI") else "compiler") for name in NAMES),
    #         main solve kernel accessor setup MPI_Send
    np.array([0, 1, 2, 3, 4, 5]),
    np.array([-1, 0, 1, 2, 0, 1]),
)
POINTS = ((10.0,), (20.0,), (40.0,))
CUBE = Term((Factor(0, PowerLog(F(3), 0)),))


def models(metric, **functions):
    """For each function a constant, or (coefficient of n^3,)."""
    own = []
    for name in NAMES:
        value = functions.get(name, 0.0)
        one = ModelFunction(0.0, value, (CUBE,)) if isinstance(value, tuple) else ModelFunction(float(value))
        own.append(Model(one, Quality(3, 0.0, 0.0, 0.0, 1.0, 0.0)))
    return ModelSet(("n",), metric, "sec", TREE.names, tuple(own), "mean", "median", POINTS)


TIME = models("time", main=1e-3, solve=1e-3, kernel=(1e-6,), accessor=(4e-7,), setup=0.05, MPI_Send=1e-3)
VISITS = models("visits", main=1, solve=1, kernel=10, accessor=(1.0,), setup=1, MPI_Send=10)


def kept(result):
    return {name for name, keep in zip(NAMES, result.keep, strict=True) if keep}


def test_the_overhead_is_kept_below_what_is_allowed():
    free = refine(TREE, TIME, VISITS, [80.0], Wishes(overhead=None, hook_share=1e9), visit_cost_s=2e-7)
    assert "accessor" in kept(free) and free.overhead.max() > 0.05
    result = refine(TREE, TIME, VISITS, [80.0], Wishes(overhead=0.05, hook_share=1e9), visit_cost_s=2e-7)
    assert kept(result) == {"main", "solve", "kernel"}
    assert result.overhead.max() <= 0.05
    assert "cost more than" in result.reasons[3]
    (note,) = [note for note in result.notes if "dropped" in note]
    assert f"{100 * free.overhead.max():.2g} %" in note and " 5 %" in note


def test_the_list_uses_the_overhead_that_is_allowed():
    """What is too large to fit leaves its room to the next, however little that informs for its hooks."""
    time = models("time", kernel=(1e-6,), accessor=(1e-7,), setup=(2e-8,), main=(1e-6,))
    visits = models("visits", kernel=1, accessor=(0.3,), setup=(0.1,), main=1)
    result = refine(TREE, time, visits, [80.0], Wishes(overhead=0.005, hook_share=1e9), visit_cost_s=1e-7)
    assert kept(result) == {"main", "solve", "kernel", "setup"}
    assert 0 < result.limited[0] <= 0.005


def test_few_visits_stay_though_what_must_stay_breaks_the_limit():
    wishes = Wishes(overhead=0.01, keep=("access*",), hook_share=1e9)
    result = refine(TREE, TIME, VISITS, [80.0], wishes, visit_cost_s=1e-7)
    assert result.limited[0] > 0.01 and {"solve", "kernel"} <= kept(result)


def test_overhead_at_points_is_that_of_whole_runs_where_these_are_known():
    few = refine(TREE, TIME, VISITS, [400.0], Wishes(hook_share=1e9), visit_cost_s=1e-7)
    assert "accessor" not in kept(few)
    plain_s = [1.0, np.nan, 10.0]
    run = refine(TREE, TIME, VISITS, [400.0], Wishes(overhead=0.1), visit_cost_s=1e-7, plain_s=plain_s)
    assert run.prediction.bare_s[[1, 3]].tolist() == [1.0, 10.0]
    assert run.prediction.bare_s[2] == few.prediction.bare_s[2]


def test_what_must_stay_stays_and_it_is_said():
    wishes = Wishes(overhead=0.01, keep=("access*",), hook_share=1e9)
    result = refine(TREE, TIME, VISITS, [80.0], wishes, visit_cost_s=1e-7)
    assert "accessor" in kept(result)
    assert any(f"{100 * max(result.limited):.2g} %" in note for note in result.notes)


def test_what_is_never_wanted_goes():
    result = refine(TREE, TIME, VISITS, [80.0], Wishes(drop=("kernel",)), visit_cost_s=1e-12)
    assert "kernel" not in kept(result) and "always dropped" in result.reasons[2]


def test_patterns_that_name_nothing_or_several_or_contradict_are_said():
    wishes = Wishes(keep=("kernel", "only_in_a_library"), drop=("ker*", "gone*"))
    result = refine(TREE, TIME, VISITS, [80.0], wishes, visit_cost_s=1e-12)
    assert "kernel" in kept(result)
    notes = [note for note in result.notes if "keep" in note or "drop" in note or "kept" in note]
    assert all(any(pattern in note for note in notes) for pattern in ("only_in_a_library", "gone*"))
    assert any("kernel" in note and "drop" in note for note in notes)


def test_constants_go_unless_asked_for():
    early = refine(TREE, TIME, VISITS, [20.0], visit_cost_s=1e-12)
    assert "setup" not in kept(early) and early.reasons[4].endswith("but constant") and early.drops_constants
    asked = refine(TREE, TIME, VISITS, [20.0], Wishes(constants=True), visit_cost_s=1e-12)
    assert "setup" in kept(asked) and not asked.drops_constants


def test_coverage_counts_callees_of_kernels():
    result = refine(TREE, TIME, VISITS, [80.0], Wishes(overhead=0.05, hook_share=1e9), visit_cost_s=1e-7)
    total = 2e-3 + 1e-3 + 0.05 + (1e-6 + 4e-7) * 80**3
    assert result.coverage == pytest.approx(((1e-6 + 4e-7) * 80**3 + 1e-3) / total)


def test_the_next_largest_fill_up_what_kernels_lack():
    many = models("time", kernel=(1e-6,), accessor=(5e-8,), setup=(5e-8,))
    assert {"accessor", "setup"} & kept(refine(TREE, many, None, [80.0], Wishes(share=0.5, coverage=0.95)))
    assert kept(refine(TREE, many, None, [80.0], Wishes(share=0.5, coverage=0.9))) == {"main", "solve", "kernel"}


def test_a_threshold_that_removes_everything_leaves_main_and_the_way_to_mpi():
    slow = models("time", kernel=1e-3, MPI_Send=(1e-3,))
    result = refine(TREE, slow, VISITS, [80.0], Wishes(share=0.9))
    assert kept(result) == {"main", "solve"}
    assert any("threshold" in note for note in result.notes)


def test_waiting_is_a_reason():
    lost = np.zeros(len(TREE))
    lost[4] = 0.5
    little = models("time", kernel=(1e-6,), setup=1e-3)
    result = refine(TREE, little, VISITS, [80.0], visit_cost_s=1e-12, imbalance=lost)
    assert "setup" in kept(result) and "ranks wait" in result.reasons[4]


def test_growing_work_is_a_reason_whatever_the_times_say():
    work = models("basic_blocks", kernel=(10.0,), setup=(5.0,))
    noisy = models("time", kernel=(1e-6,), setup=1e-3)
    result = refine(TREE, noisy, VISITS, [80.0], visit_cost_s=1e-12, work=[work])
    assert "setup" in kept(result) and "basic_blocks grow" in result.reasons[4]


def test_growing_bytes_keep_the_way_to_the_messages():
    quiet = models("time", kernel=1e-3)
    assert kept(refine(TREE, quiet, VISITS, [80.0], visit_cost_s=1e-12)) == {"main"}
    sent = models("bytes_sent", MPI_Send=(8.0,))
    assert kept(refine(TREE, quiet, VISITS, [80.0], visit_cost_s=1e-12, work=[sent])) == {"main", "solve"}
    same = models("bytes_sent", MPI_Send=8.0)
    assert kept(refine(TREE, quiet, VISITS, [80.0], visit_cost_s=1e-12, work=[same])) == {"main"}


def test_measured_times_save_a_kernel_whose_model_is_wrong():
    wrong = models("time", kernel=(1e-6,), setup=1e-3)
    seen = np.zeros((len(TREE), 2))
    seen[2], seen[4] = (1e-3, 6.4e-2), (1e-3, 2e-2)
    assert "setup" in kept(refine(TREE, wrong, VISITS, [80.0], visit_cost_s=1e-12, extremes_s=seen))


def test_measured_times_count_without_their_hooks():
    """A model that misses a leaf's growth makes it all hooks; the measured time says otherwise, and is its worth."""
    wrong = models("time", kernel=(1e-6,), setup=1e-5)
    calls = models("visits", kernel=1, setup=(0.1,))
    seen = np.zeros((len(TREE), 2))
    seen[2], seen[4] = (1e-3, 6.4e-2), (1e-3, 2e-3)
    choose = partial(refine, TREE, wrong, calls, [80.0], visit_cost_s=1e-7)
    assert "setup" in kept(choose(extremes_s=seen))  # 6400 visits: 0.64 ms of 2 ms
    seen[4, 1] = 1e-3
    assert "setup" not in kept(choose(extremes_s=seen))


def test_what_was_kept_stays_down_to_half_the_threshold():
    near = models("time", kernel=(1e-6,), setup=(6e-9,))
    assert "setup" not in kept(refine(TREE, near, None, [80.0]))
    assert "setup" in kept(refine(TREE, near, None, [80.0], known={"setup": FunctionVerdict(True, "before")}))


GRAPH = graph_of(
    (*NAMES, "inner", "deep", "flat", "library"),
    [(0, 1), (1, 2), (2, 3), (0, 4), (2, 8), (8, 6), (6, 7), (4, 9)],
    has_body=(*[True] * 5, False, *[True] * 4),
    features={"loops": (0, 0, 1, 0, 1, -1, 2, 1, 0, 3), "statements": (9, 9, 9, 1, 9, -1, 30, 20, 2, 50)},
)


def test_loops_below_kernels_are_tried_once():
    result = refine(TREE, TIME, VISITS, [80.0], visit_cost_s=1e-12, graph=GRAPH)
    assert set(result.added) == {"inner", "deep"}  # below the kernel; `library` is below what does not matter
    assert {"inner", "deep"} <= set(result.names)
    known = {"inner": FunctionVerdict(False, "0.1 % of the time")}
    again = refine(TREE, TIME, VISITS, [80.0], visit_cost_s=1e-12, graph=GRAPH, known=known, hooked=["deep"])
    assert not again.added
    assert again.never_called == ("deep",) and again.verdicts["deep"].reason == NEVER_CALLED
    dropped = refine(TREE, TIME, VISITS, [80.0], Wishes(drop=("inner",)), visit_cost_s=1e-12, graph=GRAPH)
    assert set(dropped.added) == {"deep"}


def test_what_counts_know_nothing_of_is_not_tried():
    result = refine(TREE, TIME, VISITS, [80.0], visit_cost_s=1e-12, graph=GRAPH, uncounted={"inner"})
    assert set(result.added) == {"deep"}  # though only `inner` leads there


def test_refining_again_changes_nothing():
    first = refine(TREE, TIME, VISITS, [80.0], graph=GRAPH)
    second = refine(TREE, TIME, VISITS, [80.0], graph=GRAPH, known=first.verdicts, hooked=first.names)
    assert not second.added
    assert set(second.names) == set(first.names) - set(first.added)
    third = refine(TREE, TIME, VISITS, [80.0], graph=GRAPH, known=second.verdicts, hooked=second.names)
    assert third.names == second.names


def test_the_static_closure_needs_a_graph():
    wishes = Wishes(closure="static")
    with pytest.raises(UsageError, match="no call graph"):
        refine(TREE, TIME, VISITS, [80.0], wishes)
    assert {"main", "solve", "kernel"} <= kept(refine(TREE, TIME, VISITS, [80.0], wishes, graph=GRAPH))


def test_an_empty_profile():
    tree = CallTree((), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    none = ModelSet(("n",), "time", "sec", (), (), "mean", "median", POINTS)
    assert refine(tree, none, none, [80.0]).names == ("main",)


# -- the published refinements ------------------------------------------------------------------------


PUBLISHED = predict_regions(ModelledProgram(TREE, TIME, VISITS, 0.0), [80.0])


def test_filter_only_keeps_all_static_paths():
    result = filter_only(PUBLISHED, GRAPH, 0.3)
    assert kept(result) == {"main", "solve", "kernel"} and not result.added
    assert {name for name, kernel in zip(NAMES, result.kernels, strict=True) if kernel} == {"kernel"}
    assert len(set(result.reasons)) == 4  # relevant, the begin, on the way, neither
    assert kept(filter_only(PUBLISHED, GRAPH, 0.04)) >= {"setup", "accessor"}  # constants too
    assert not any("overhead" in line for line in result.head)  # its rules know none


def test_filter_and_expand_adds_large_children_without_models():
    result = filter_and_expand(PUBLISHED, GRAPH, 0.3)
    assert set(result.added) == {"flat"}  # reaches 52 statements; the only child of the kernel without a model


def test_hotspots_are_those_of_one_run():
    result = hotspots(PUBLISHED, GRAPH, np.array([0.1, 0.1, 5.0, 0.2, 0.3, 0.1]))
    assert {"main", "solve", "kernel"} <= kept(result)
    assert "setup" not in kept(result)


def test_a_published_rule_has_settled_when_it_drops_nothing():
    """It knows no cost of hooks, so that what it drops cannot be too cheap to be worth a new filter."""
    first = filter_only(PUBLISHED, GRAPH, 0.3)
    assert not first.added and len(kept(first)) < 5 and not first.settled
    assert filter_only(PUBLISHED, GRAPH, 0.0).settled


# -- what measurements say ----------------------------------------------------------------------------


def test_measured_extremes_and_lost_time():
    values = np.zeros((len(TREE), 2, 2, 5))
    values[2, 0], values[2, 1] = (1.0, 1.0, 0.5, 1.5, 2.0), (3.0, 3.0, 2.0, 5.0, 6.0)
    values[2, 1, 1] = np.nan
    table = Experiment(("n",), np.array([[10.0], [20.0]]), TREE, {"time": values}, {"time": "sec"})
    assert extremes_s(table)[2].tolist() == [1.0, 3.0]
    assert imbalance_s(table)[2] == 2.0 and imbalance_s(table)[0] == 0


# -- memory -------------------------------------------------------------------------------------------


def test_verdicts_survive_their_file(tmp_path):
    found = refine(TREE, TIME, VISITS, [80.0]).verdicts
    write_verdicts(tmp_path / "verdicts.json", found)
    assert read_verdicts(tmp_path / "verdicts.json") == found
    (tmp_path / "other.json").write_text('{"schema": "other"}')
    with pytest.raises(FormatError, match="verdicts"):
        read_verdicts(tmp_path / "other.json")


def test_hooks_are_told_apart_from_starting_and_ending_the_measurement():
    plain_s = np.array([0.1, 0.4, 1.6, 6.4])
    predicted = np.array([0.01, 0.02, 0.03, 0.04])
    assert times_as_expensive(predicted, predicted + 0.02 / plain_s, plain_s) == pytest.approx(1)
    assert times_as_expensive(predicted, 5 * predicted + 0.02 / plain_s, plain_s) == pytest.approx(5)
    assert times_as_expensive(predicted, 500 * predicted, plain_s) == MOST_EXPENSIVE_VISIT
    assert times_as_expensive(predicted, -predicted, plain_s) == 1
    assert times_as_expensive(0 * predicted, predicted, plain_s) == 1
    assert times_as_expensive(predicted[:1], 3 * predicted[:1], plain_s[:1]) == pytest.approx(3)


@pytest.mark.parametrize(
    ("ratios", "within", "above"),
    [
        ([1.2], True, False),  # one point tells nothing of the interval
        ([1.18, 1.19, 1.2], False, True),
        ([1.0, 1.2, 1.4], True, False),
        ([1.18] * 14 + [4.0], False, True),
        ([1.01] * 10 + [1.3] * 2, True, False),
    ],
)
def test_an_overhead_is_too_much_with_its_whole_interval_alone(ratios, within, above):
    measured = MeasuredOverhead.of([*ratios, None])
    assert measured.share == pytest.approx(np.median(ratios) - 1)
    assert measured.exceeds(0.05) == above != within and not measured.exceeds(None)
    assert measured.interval is None or measured.interval[0] <= measured.share <= measured.interval[1]
    assert MeasuredOverhead.of([None]) is None


def test_start_up_is_told_from_what_grows_with_the_run_time():
    plain, ranks = np.array([0.05, 0.1, 0.5, 2.0, 4.0]), np.array([1.0, 2.0, 1.0, 1.0, 2.0])
    beyond, startup = beyond_startup(0.012 * ranks / plain, plain, ranks)
    assert beyond.share == pytest.approx(0, abs=1e-9) and not beyond.exceeds(0.05)
    assert startup * plain / ranks == pytest.approx(np.full(5, 0.012))
    both, startup = beyond_startup(0.2 + 0.012 * ranks / plain, plain, ranks)
    assert both.exceeds(0.05) and startup * plain / ranks == pytest.approx(np.full(5, 0.012))
    few, _ = beyond_startup(np.array([0.2, 0.2]), plain[:2], ranks[:2])
    assert few.share == pytest.approx(0.2) and not few.exceeds(0.05)
    assert beyond_startup(np.zeros(0), np.zeros(0), np.zeros(0))[0] is None
