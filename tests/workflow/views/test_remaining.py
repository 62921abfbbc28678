"""Remaining time: each run by a model of those that were made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from buran.campaign.plan import BuildSpec, Bundle, Mode, Plan, Purpose, Run
from buran.campaign.point import Point
from buran.campaign.records import Status
from buran.measurement.store.ledger import Entry
from buran.workflow.views.remaining import run_times

BUILDS = {mode: BuildSpec("target", mode, "") for mode in (Mode.VANILLA, Mode.TIME, Mode.EFFORT)}
POINTS = tuple(Point.of({"p": p, "n": n}) for p in (1, 2, 4, 8) for n in (10, 20, 40, 80))
SLOWER = {Mode.VANILLA: 1.0, Mode.TIME: 1.2, Mode.EFFORT: 3.0}


def truth(point: Point, mode: Mode = Mode.VANILLA) -> float:
    return SLOWER[mode] * 1e-5 * float(point["n"]) ** 3 * float(point["p"]) ** 0.5


def cores(point: Point) -> int:
    return int(point["p"])


def plan(predicted: Callable[[Point], float | None] = lambda point: None) -> Plan:
    runs = tuple(Run(build.hash, mode, 0) for mode, build in BUILDS.items())
    bundles = tuple(Bundle(point, Purpose.MODEL, runs, predicted(point)) for point in POINTS)
    return Plan(0, False, "all", tuple(BUILDS.values()), bundles)


def entry(point: Point, mode: Mode, status: Status = Status.MEASURED) -> Entry:
    hours = truth(point, mode) * cores(point) / 3600
    return Entry(f"{BUILDS[mode].hash}/{point.key}~c/rep-00", "target", mode, status, hours)


def test_a_power_law_of_the_cheapest_points_predicts_the_dearest() -> None:
    made = [entry(point, mode) for point in POINTS if point["n"] < 80 and point["p"] < 8 for mode in BUILDS]
    times = run_times([plan()], made, cores, "p")
    assert times is not None
    last = POINTS[-1]
    for mode in BUILDS:
        assert times.seconds(last, (mode, "")) == pytest.approx(truth(last, mode), rel=0.1)
    ratio = sum(truth(point, mode) for point in POINTS for mode in BUILDS) / len(POINTS) / 3
    assert times.seconds(POINTS[0], (Mode.VANILLA, "")) == pytest.approx(truth(POINTS[0]), rel=0.1) != ratio


def test_what_was_planned_with_is_kept_up_to_what_runs_departed_from_it() -> None:
    planned = plan(lambda point: 0.5 * truth(point))
    untouched = run_times([planned], [], cores, "p")
    assert untouched is not None and untouched.seconds(POINTS[5], (Mode.TIME, "")) == 0.5 * truth(POINTS[5])
    made = [entry(point, Mode.VANILLA) for point in POINTS[:8]]
    times = run_times([planned], made, cores, "p")
    assert times is not None
    assert times.seconds(POINTS[-1], (Mode.VANILLA, "")) == pytest.approx(truth(POINTS[-1]), rel=0.05)


def test_a_new_filter_is_taken_to_cost_little_and_failed_runs_tell_nothing() -> None:
    made = [entry(point, mode) for point in POINTS for mode in (Mode.VANILLA, Mode.EFFORT)]
    made.append(entry(POINTS[0], Mode.TIME, Status.FAILED))
    times = run_times([plan()], made, cores, "p")
    assert times is not None
    assert times.seconds(POINTS[3], (Mode.TIME, "INCLUDE main")) == pytest.approx(truth(POINTS[3]), rel=0.1)


def test_nothing_is_said_where_nothing_is_known() -> None:
    assert run_times([plan()], [], cores, "p") is None
    assert run_times([], [], cores, "p") is None
