"""Calibrations are made of times and blocks of measured runs."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from buran.modeling.experiments import model_experiment
from buran.plugins.simgrid.calibrate import CostsBeyond, calibration_of, costs_beyond
from buran.plugins.simgrid.calibration import Calibration
from buran.profiles.experiment.build import Run, experiment_from_profiles
from tables import profile_of, tree_of

CAMPAIGN: Any = SimpleNamespace(threads=lambda point: 1, parallel_parameters=("p",), choices=())
POINTS = [(p, n) for p in (1, 2) for n in (10, 20, 40)]
COUNTED = tree_of("prog", "prog/main", "prog/main/solve", "prog/main/solve/small", "prog/main/MPI_Recv")
TIMED = tree_of("prog", "prog/main", "prog/main/solve", "prog/main/MPI_Recv")  # without hooks in `small`


def work_ns(p: int, n: int) -> float:
    """Of a block of `solve` and `small`: p^0.5 n^2 / 100."""
    return math.sqrt(p) * n**2 / 100


def runs() -> tuple[list[Run], list[Run]]:
    """Two repetitions, the second of which is slower; `solve` has 3 n blocks, a third of them in `small`."""
    timed: list[Run] = []
    counted: list[Run] = []
    for p, n in POINTS:
        blocks = [[0] * p, [10] * p, [2 * n] * p, [n] * p, [0] * p]
        counted.append(({"p": p, "n": n}, 0, profile_of(COUNTED, visits=blocks, basic_blocks=blocks)))
        for repetition, slower in enumerate((1.0, 1.5)):
            work_s = 3 * n * work_ns(p, n) * 1e-9 * slower
            times = [[0.0] * p, [1e-8] * p, [work_s] * p, [5.0] * p]
            timed.append(({"p": p, "n": n}, repetition, profile_of(TIMED, time=times)))
    return timed, counted


def costs(calibration: Calibration, **point: int) -> dict[str, float]:
    lines = (line.split(" ") for line in calibration.costs(point).splitlines())
    return {symbol: float(cost) for _, cost, symbol in lines}


def test_the_least_time_for_each_block_counts_and_functions_without_hooks_are_part_of_their_callers() -> None:
    calibration = calibration_of(*runs(), CAMPAIGN)
    assert calibration is not None
    assert calibration.symbols == ("", "_Zmain", "_Zsolve")  # MPI_Recv computes nothing
    for p, n in POINTS:
        found = costs(calibration, p=p, n=n)
        assert found["_Zmain"] == pytest.approx(1e-9) and found["_Zsolve"] == pytest.approx(work_ns(p, n) * 1e-9)
        mean = (10 * 1.0 + 3 * n * work_ns(p, n)) / (10 + 3 * n)
        assert found[""] == pytest.approx(mean * 1e-9)


def test_between_points_a_power_law_is_exact_and_without_doubt() -> None:
    calibration = calibration_of(*runs(), CAMPAIGN)
    assert calibration is not None
    assert costs(calibration, p=2, n=30)["_Zsolve"] == pytest.approx(work_ns(2, 30) * 1e-9)
    assert costs(calibration, p=64, n=40)["_Zsolve"] == pytest.approx(work_ns(2, 40) * 1e-9)
    assert calibration.uncertainty == pytest.approx(0, abs=1e-9)


def test_blocks_that_were_counted_at_some_points_tell_those_of_the_others() -> None:
    timed, counted = runs()
    calibration = calibration_of(timed, [run for run in counted if 10 in run[0].values() or run[0]["p"] == 1], CAMPAIGN)
    assert calibration is not None and len(calibration.points) == 6
    for p, n in POINTS:
        assert costs(calibration, p=p, n=n)["_Zsolve"] == pytest.approx(work_ns(p, n) * 1e-9)


def test_lines_of_points_are_enough() -> None:
    timed, counted = ([run for run in side if 10 in run[0].values() or run[0]["p"] == 1] for side in runs())
    calibration = calibration_of(timed, counted, CAMPAIGN)
    assert calibration is not None and len(calibration.points) == 4
    assert costs(calibration, p=2, n=40)["_Zsolve"] == pytest.approx(work_ns(2, 40) * 1e-9)


def beyond(target: dict[str, float]) -> CostsBeyond | None:
    timed, counted = runs()
    table = experiment_from_profiles(timed)
    campaign: Any = SimpleNamespace(**vars(CAMPAIGN), target=target)
    return costs_beyond(model_experiment(table, metrics=["time"])["time"], counted, table.tree, campaign)


def test_up_to_the_target_costs_grow_as_models_of_times_and_blocks_do() -> None:
    growing = beyond({"p": 64, "n": 150})
    assert growing is not None
    calibration = calibration_of(*runs(), CAMPAIGN, growing)
    assert calibration is not None and calibration.modelled == len(calibration.points) - len(POINTS) > 3
    for n in (50, 150):
        assert calibration.uncovered({"p": 64, "n": n}) is None
        assert costs(calibration, p=2, n=n)["_Zsolve"] == pytest.approx(work_ns(2, n) * 1e-9, rel=1e-3)
        assert costs(calibration, p=1, n=n)["_Zmain"] == pytest.approx(1e-9, rel=1e-3)
    assert calibration.uncovered({"p": 64, "n": 151}) == "n was 10 to 150 there"
    alone = calibration_of(*runs(), CAMPAIGN)
    assert alone is not None and calibration.uncertainty == alone.uncertainty and alone.uncertainty_beyond is None
    assert calibration.uncertainty_beyond == pytest.approx(0, abs=0.05)
    for p, n in POINTS:
        assert costs(calibration, p=p, n=n) == costs(alone, p=p, n=n)


def test_a_target_among_the_measured_sizes_adds_nothing() -> None:
    assert beyond({"p": 64, "n": 40}) is None


def test_doubt_is_what_leaving_a_value_out_shows() -> None:
    timed, counted = runs()
    slower = [(point, i, profile) for point, i, profile in timed if point["n"] != 20]
    for p in (1, 2):
        times = [[0.0] * p, [1e-8] * p, [2 * 60 * work_ns(p, 20) * 1e-9] * p, [5.0] * p]
        slower.append(({"p": p, "n": 20}, 0, profile_of(TIMED, time=times)))
    calibration = calibration_of(slower, counted, CAMPAIGN)
    assert calibration is not None and calibration.uncertainty == pytest.approx(0.5, rel=0.02)  # `solve` but for `main`


def test_runs_that_do_not_tell_make_no_calibration() -> None:
    timed, counted = runs()
    assert calibration_of(timed, [], CAMPAIGN) is None
    assert calibration_of([], counted, CAMPAIGN) is None
    threaded = SimpleNamespace(threads=lambda point: 2, parallel_parameters=("p",), choices=())
    assert calibration_of(timed, counted, threaded) is None  # type: ignore[arg-type]
