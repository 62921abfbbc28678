"""Noise of repetitions: levels, and drift over time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from buran.campaign.plan import Mode
from buran.reporting.call_paths import TimedRun, drift_of, levels_of
from made_up import experiment, report, runs


@pytest.fixture(scope="module")
def table():
    return experiment(6, values=3, repetitions=40)


def test_levels_are_those_of_what_was_put_in(table):
    models = report(table).models["time"]
    # 2 % of Gaussian noise: the mean absolute deviation is 0.8 of it.
    assert levels_of(models, table) == pytest.approx(np.full(6, 1.6), rel=0.1)


def test_without_noise_or_repetitions_there_is_no_level(table):
    models = report(table).models["time"]
    same = replace(table, values={"time": np.repeat(table.values["time"][:, :, :1], 3, axis=2)})
    assert levels_of(models, same) == pytest.approx(np.zeros(6))
    once = replace(table, values={"time": table.values["time"][:, :, :1]})
    assert np.isnan(levels_of(models, once)).all()


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
    assert drift_of([replace(run, started_s=None)] * 9) is None  # a simulated clock tells nothing
