"""Noise of repetitions: levels, shapes of distributions, and drift over time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from buran.campaign.plan import Mode
from buran.reporting.noise import MOST_RUNS, TimedRun, drift_of, levels_of, over_time, violins_of
from made_up import experiment, report, runs


@pytest.fixture(scope="module")
def table():
    return experiment(6, values=3, repetitions=40)


def test_levels_and_shapes_are_those_of_what_was_put_in(table):
    models = report(table).models["time"]
    # 2 % of Gaussian noise: the mean absolute deviation is 0.8 of it.
    assert levels_of(models, table) == pytest.approx(np.full(6, 1.6), rel=0.1)
    for violin in violins_of(models, table):
        assert violin is not None and violin["count"] == 27 * 40
        assert -6 < violin["low"] < -4 and 4 < violin["high"] < 6
        assert violin["quantiles"][2] == pytest.approx(0, abs=0.2)
        assert violin["quantiles"][4] == pytest.approx(1.645 * 2, rel=0.15)
        assert max(violin["shape"]) == 1.0 and 10 <= np.argmax(violin["shape"]) <= 14


def test_without_noise_or_repetitions_there_is_no_shape(table):
    models = report(table).models["time"]
    same = replace(table, values={"time": np.repeat(table.values["time"][:, :, :1], 3, axis=2)})
    assert violins_of(models, same) == [None] * 6 and levels_of(models, same) == pytest.approx(np.zeros(6))
    once = replace(table, values={"time": table.values["time"][:, :, :1]})
    assert violins_of(models, once) == [None] * 6 and np.isnan(levels_of(models, once)).all()


def test_drift_is_seen_if_there_is_any(table):
    steady, slower = ([run for run in runs(table, drift) if run.mode is Mode.VANILLA] for drift in (0.0, 3.0))
    found = drift_of(steady)
    assert found is not None and not found["sure"] and abs(found["percent"]) < 4 * found["error"]
    found = drift_of(slower)
    assert found is not None and found["sure"] and found["percent"] > 0


def test_one_disturbance_is_no_drift(table):
    steady = [run for run in runs(table) if run.mode is Mode.VANILLA]
    found = drift_of([replace(steady[0], wall_s=500.0), *steady[1:]])
    assert found is not None and not found["sure"]


def test_too_few_runs_tell_nothing():
    run = TimedRun("a", (1.0,), Mode.VANILLA, 0.0, 1.0)
    assert drift_of([]) is None and drift_of([run, replace(run, started_s=60.0)]) is None
    assert over_time([run]) == {"runs": [], "left_out": 0, "drift": None}
    assert drift_of([replace(run, started_s=None)] * 9) is None  # a simulated clock tells nothing


def test_of_many_runs_some_are_shown_and_the_others_counted():
    run = TimedRun("a", (1.0,), Mode.TIME, 0.0, 1.0)
    found = over_time([replace(run, started_s=float(second)) for second in range(5000)])
    assert len(found["runs"]) <= MOST_RUNS and len(found["runs"]) + found["left_out"] == 5000
