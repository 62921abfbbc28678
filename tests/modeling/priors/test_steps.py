"""Whether counts prove that work repeats with a number of steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.point import FEWEST, step_values
from buran.modeling.functions.powers import full_spaces
from buran.modeling.priors.effort import effort_of
from buran.modeling.priors.steps import Repeats, repeats, that_repeat

FULL = 600
STEPS = np.array(step_values(FULL), dtype=np.float64)
SIZES = np.array([8.0, 16.0])
POINTS = np.array([[n, s] for n in SIZES for s in STEPS])


def judged(law, points=POINTS, repetitions=1):
    counts = np.stack([np.array([[law(n, s)] for n, s in points.tolist()])] * repetitions, axis=-1)[:, 0]
    return repeats(points, [counts[None]], 1, FULL)[0]


@given(st.integers(0, 10**12), st.integers(1, 10**12))
def test_what_each_step_repeats_is_proven(fixed, each):
    assert judged(lambda n, s: fixed * n + each * n * s) is Repeats.PROVEN


@pytest.mark.parametrize(
    "law",
    [
        lambda n, s: n * s**2,
        lambda n, s: n * s + 50 * n * (s // 100),
        lambda n, s: n * min(s, 400),
        lambda n, s: n * (s + 3 * np.floor(np.log2(s))),
        lambda n, s: n * s + 100 * n * (s == FULL),
        lambda n, s: n * s * (1 + 3e-4 * s),
    ],
    ids=["a step costs more", "rare output", "ends early", "adapts", "only at the end", "drifts"],
)
def test_what_does_not_repeat_is_refuted(law):
    assert judged(law) is Repeats.REFUTED


@pytest.mark.parametrize(
    "law",
    [
        lambda n, s: n * s + s // 100,
        lambda n, s: n * s + s // 7,
        lambda n, s: n * s + (s == FULL),
        lambda n, s: n * s * (1 + 1e-5 * s),
    ],
    ids=["rare output", "output", "only at the end", "drifts"],
)
def test_what_changes_by_less_than_a_hundredth_is_nearly_linear(law):
    assert judged(law) is Repeats.NEARLY


@given(st.floats(1e-6, 1e-3), st.floats(0.0, 10.0))
def test_the_full_number_is_never_farther_from_the_line_than_the_verdict_says(drift, fixed):
    few, more, full = ((fixed + s + drift * s**2) for s in STEPS)
    line = few + (more - few) * (FULL - STEPS[0]) / (STEPS[1] - STEPS[0])
    off = abs(full - line) / max(full, line)
    verdict = judged(lambda n, s: 1e6 * (fixed + s + drift * s**2))
    assert verdict.is_repeated == (off <= 0.01)


@pytest.mark.parametrize("every", range(2, FULL // 2 + 1))
def test_output_every_so_many_steps_is_proven_only_where_few_steps_tell_the_full_number(every):
    few, more, full = (STEPS // every).tolist()
    told = few + (FULL - STEPS[0]) * (more - few) / (STEPS[1] - STEPS[0])
    verdict = judged(lambda n, s: n * s + 7 * (s // every))
    assert (verdict is Repeats.PROVEN) == (told == full)
    assert verdict is Repeats.PROVEN or STEPS[0] % every


def test_two_numbers_of_steps_prove_nothing():
    assert judged(lambda n, s: n * s, POINTS[POINTS[:, 1] != STEPS[1]]) is Repeats.OPEN


def test_without_the_full_number_nothing_is_proven():
    points = np.array([[8.0, s] for s in (60.0, 120.0, 67.0)])
    assert judged(lambda n, s: n * s, points) is Repeats.OPEN


def test_numbers_at_different_sizes_are_not_compared():
    points = np.array([[8.0, STEPS[0]], [16.0, STEPS[1]], [8.0, STEPS[2]]])
    assert judged(lambda n, s: n * s, points) is Repeats.OPEN


def test_counts_that_differ_between_runs_are_not_linear():
    counts = np.array([[[n * s, n * s + 1] for n, s in POINTS.tolist()]])
    assert repeats(POINTS, [counts], 1, FULL) == (Repeats.NEARLY,)
    counts = np.array([[[n * s, 1.05 * n * s] for n, s in POINTS.tolist()]])
    assert repeats(POINTS, [counts], 1, FULL) == (Repeats.REFUTED,)


def test_all_counts_must_be_linear():
    linear = np.array([[[n * s] for n, s in POINTS.tolist()]])
    assert repeats(POINTS, [linear, linear**2], 1, FULL) == (Repeats.REFUTED,)
    assert repeats(POINTS, [linear, np.full(linear.shape, np.nan)], 1, FULL) == (Repeats.PROVEN,)


def test_what_never_ran_is_not_proven():
    assert judged(lambda n, s: 0.0) is Repeats.OPEN
    assert repeats(POINTS, [], 1, FULL) == ()


@given(st.integers(FEWEST, 10**9))
def test_few_numbers_of_steps_are_small_and_different(full):
    few, more, last = step_values(full)
    assert 2 <= few < more < last == full
    assert more <= max(3, 0.2 * full + 1)


def test_kinds_of_operations_that_drift_with_the_data_refute_nothing():
    assert that_repeat(
        ("visits", "basic_blocks", "flops", "stores", "time", "bytes_sent", "communicator_size_max")
    ) == (
        "visits",
        "basic_blocks",
        "bytes_sent",
    )


def test_work_that_drifts_a_little_is_still_a_line_of_steps():
    # eamForce of CoMD, whose counts no formula gives exactly: n^4 s^(4/3) comes near, too
    one, two = [[1, 8, 2], [1, 8, 6], [1, 8, 30], [1, 10, 2], [1, 12, 30]], [[2, 8, 2], [2, 8, 6], [2, 32, 2]]
    points = np.array([*one, *two], dtype=np.float64)
    counts = np.array([7878380.0, 23635100, 118187000, 11061700, 311303000, 7878380, 23635100, 291347000])
    spaces = full_spaces(("p", "n", "s"), "p", ("s",))
    (function,) = effort_of(points, counts[None], space=spaces).functions
    at = function.evaluate(np.array([[2.0, 32, 2], [2.0, 32, 30]]))
    assert at[1] / at[0] == pytest.approx(15, rel=0.05)
