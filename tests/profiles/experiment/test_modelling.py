"""From the measurement table to models."""

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.experiments import model_experiment
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.profile import CallTree, Region

POINTS = np.array([[4.0], [8.0], [16.0], [32.0]])
TREE = CallTree((Region("main"), Region("work")), np.array([0, 1]), np.array([-1, 0]))


def experiment() -> Experiment:
    """Repetitions 2x, 1x, 6x of the true value; the maximum over locations is three times the mean."""
    true = np.stack([POINTS[:, 0] ** 2, np.full(4, 5.0)])
    values = true[:, :, None, None] * np.array([2.0, 1.0, 6.0])[:, None] * np.ones(len(AGGREGATES))
    values[..., AGGREGATES.index("max")] *= 3
    return Experiment(("p",), POINTS, TREE, {"time": values, "visits": values / 2}, {"time": "sec"})


def test_all_metrics_with_median_of_repetitions_and_mean_over_locations():
    sets = model_experiment(experiment())
    assert list(sets) == ["time", "visits"]
    time = sets["time"]
    assert (time.unit, time.aggregate, time.repetition) == ("sec", "mean", "median")
    assert time.call_paths == ("main", "main->work")
    assert time.points == ((4.0,), (8.0,), (16.0,), (32.0,))
    assert time.predict(np.array([[64.0]]))[:, 0] == pytest.approx([2 * 64**2, 10])
    assert sets["visits"].unit == ""


@pytest.mark.parametrize(
    ("aggregate", "repetition", "factor"),
    [("max", "median", 6), ("mean", "mean", 3), ("mean", "min", 1), ("mean", "max", 6)],
)
def test_aggregates(aggregate, repetition, factor):
    own = model_experiment(experiment(), ["time"], aggregate, repetition)["time"]
    assert own.predict(np.array([[64.0]]))[0, 0] == pytest.approx(factor * 64**2)


def test_missing_repetitions_and_call_paths():
    table = experiment()
    table.values["time"][0, 1, 2] = np.nan
    table.values["time"][1] = np.nan
    own = model_experiment(table, ["time"], repetition="max")["time"]
    assert own.models[1] is None
    reduced = over_repetitions(table.over_locations("time"), "max")
    assert reduced[0].tolist() == [6 * 16, 2 * 64, 6 * 256, 6 * 1024]
    assert np.isnan(reduced[1]).all()


def test_an_unknown_metric_is_refused():
    with pytest.raises(UsageError, match="no metric 'tme'") as caught:
        model_experiment(experiment(), ["tme"])
    assert "time, visits" in str(caught.value)


def test_infinite_values_are_refused_by_metric():
    table = experiment()
    table.values["visits"][0, 0] = np.inf
    with pytest.raises(UsageError, match="finite"):
        model_experiment(table)


@pytest.mark.parametrize(
    ("over", "names", "expected"),
    [
        ("inclusive", ("main", "main->work"), [2 * 64**2 + 10, 10]),
        ("region", ("main", "work"), [2 * 64**2, 10]),
        ("program", ("whole program",), [2 * 64**2 + 10]),
    ],
)
def test_sums_of_models_equal_the_model_of_the_sum(over, names, expected):
    own = model_experiment(experiment(), ["time"], over=over)["time"]
    assert own.call_paths == names
    assert own.predict(np.array([[64.0]]))[:, 0] == pytest.approx(expected)
    assert all(model.quality.smape < 1e-9 for model in own.models)


def test_inclusive_models_add_up_over_a_deep_tree():
    random = np.random.default_rng(3)
    count = 40
    parent = np.array([-1, *(random.integers(0, i) for i in range(1, count))])
    order = sorted(range(count), key=lambda i: path_of(parent, i))  # pre-order
    place = {old: new for new, old in enumerate(order)}
    parents = np.array([-1 if parent[old] < 0 else place[parent[old]] for old in order])
    tree = CallTree(tuple(Region(f"f{i}") for i in range(count)), np.arange(count), parents)
    values = random.uniform(1, 9, (count, 1)) * POINTS[:, 0] ** random.integers(0, 3, (count, 1))
    values = values * random.uniform(0.95, 1.05, values.shape)
    table = Experiment(("p",), POINTS, tree, {"time": values[..., None, None] * np.ones(len(AGGREGATES))}, {})
    single = model_experiment(table)["time"].predict(POINTS)
    inclusive = model_experiment(table, over="inclusive")["time"].predict(POINTS)
    assert inclusive == pytest.approx(tree.inclusive(single), rel=1e-12)
    whole = model_experiment(table, over="program")["time"].predict(POINTS)
    assert whole[0] == pytest.approx(single.sum(axis=0), rel=1e-12)


def path_of(parent, i) -> tuple[int, ...]:
    return (i,) if parent[i] < 0 else (*path_of(parent, parent[i]), i)
