"""Tables as graph frames of Hatchet, and back."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.errors import FormatError, ToolError, UsageError
from buran.plugins.formats.graph_frames import from_graphframes, to_graphframe
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree, Region
from tables import PLAIN_NAMES, experiments, same, tree_of

hatchet = pytest.importorskip("hatchet")
pytestmark = pytest.mark.filterwarnings("ignore")  # of their packages


def table(points: list[list[float]], repetitions: int = 1, metrics: tuple[str, ...] = ("time", "visits")) -> Experiment:
    tree = tree_of("main", "main/solve", "main/solve/solve", "main/solve/MPI_Send", "main/MPI_Send")
    tree = CallTree(tuple(Region(r.name, r.mangled) for r in tree.regions), tree.region, tree.parent)
    shape = (5, len(points), repetitions)
    values = {}
    for number, name in enumerate(metrics):
        mean = np.arange(np.prod(shape), dtype=float).reshape(shape) + number
        values[name] = np.stack([mean, mean, mean, mean, np.full(shape, np.nan)], axis=-1)
    units = {"time": "sec", "visits": "occ"}
    return Experiment(("p", "n"), np.array(points), tree, values, {name: units[name] for name in metrics})


def test_a_graph_frame_has_exclusive_and_inclusive_metrics() -> None:
    measured = table([[1, 10], [2, 10]])
    frame = to_graphframe(measured, {"p": 2, "n": 10})
    assert frame.exc_metrics == ["time", "visits"]
    assert frame.inc_metrics == ["time (inc)", "visits (inc)"]
    assert frame.metadata["p"] == 2
    rows = frame.dataframe.reset_index(drop=True).set_index("name")
    own = measured.over_locations("time")[:, 1, 0]
    assert rows.loc["main", "time (inc)"] == own.sum()
    assert rows.loc["main", "time"] == own[0]
    assert "MPI_Send" in frame.tree(metric_column="time (inc)")


def test_graph_frames_give_the_table_back() -> None:
    measured = table([[1, 10], [2, 10], [2, 20]], repetitions=2)
    runs = [
        (dict(zip(measured.parameters, point, strict=True)), repetition)
        for point in measured.points.tolist()
        for repetition in range(2)
    ]
    same(measured, from_graphframes((point, to_graphframe(measured, point, repetition)) for point, repetition in runs))


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), points=st.integers(1, 4), repetitions=st.integers(1, 3))
def test_any_values_come_back_from_graph_frames(seed: int, points: int, repetitions: int) -> None:
    measured = table([[2.0**k, 10 * (k + 1)] for k in range(points)], repetitions)
    random = np.random.default_rng(seed)
    values = {}
    for name, stored in measured.values.items():
        drawn = random.lognormal(0, 8, stored.shape[:3]) * random.integers(0, 2, stored.shape[:3])  # half of them 0
        values[name] = np.stack([drawn, drawn, drawn, drawn, np.full(drawn.shape, np.nan)], axis=-1)
    measured = replace(measured, values=values)
    runs = [
        (dict(zip(measured.parameters, point, strict=True)), repetition)
        for point in measured.points.tolist()
        for repetition in range(repetitions)
    ]
    same(measured, from_graphframes((point, to_graphframe(measured, point, repetition)) for point, repetition in runs))


@settings(max_examples=25, deadline=None)
@given(measured=experiments(located=False, names=PLAIN_NAMES))
def test_any_tree_comes_back_from_graph_frames(measured: Experiment) -> None:
    # A graph frame has no value that is missing, no repetition without values, and names its functions once.
    regions = tuple(Region(f"{region.name}{n}", region.mangled) for n, region in enumerate(measured.tree.regions))
    tree = replace(measured.tree, regions=regions)
    values = {name: np.where(np.isnan(v), 0.0, v) for name, v in measured.values.items()}
    for stored in values.values():
        stored[..., 4] = np.nan
    measured = replace(measured, tree=tree, values=values)
    runs = [
        (dict(zip(measured.parameters, point, strict=True)), repetition)
        for point in measured.points.tolist()
        for repetition in range(next(iter(values.values())).shape[2])
    ]
    same(measured, from_graphframes((point, to_graphframe(measured, point, repetition)) for point, repetition in runs))


def test_inclusive_metrics_alone_lose_their_callees() -> None:
    measured = table([[1, 10]], metrics=("time",))
    frame = to_graphframe(measured, {"p": 1, "n": 10})
    frame.dataframe = frame.dataframe.drop(columns="time")
    frame.exc_metrics = []
    same(measured, from_graphframes([({"p": 1, "n": 10}, frame)]))


def test_call_paths_that_a_run_lacks_are_0() -> None:
    measured = table([[1, 10], [2, 10]], metrics=("time",))
    first = to_graphframe(measured, {"p": 1, "n": 10})
    small = hatchet.GraphFrame.from_literal([{"frame": {"name": "main"}, "metrics": {"time": 3.0, "time (inc)": 3.0}}])
    both = from_graphframes([({"p": 1}, first), ({"p": 2}, small)])
    assert len(both.tree) == 6, "this main has no mangled name"
    assert np.nansum(both.over_locations("time")[:, 1]) == 3


def test_what_is_no_table_is_refused() -> None:
    measured = table([[1, 10]], metrics=("time",))
    frame = to_graphframe(measured, {"p": 1, "n": 10})
    with pytest.raises(FormatError, match="no graph frames"):
        from_graphframes([])
    with pytest.raises(FormatError, match="same parameters"):
        from_graphframes([({"p": 1}, frame), ({"n": 1}, frame)])
    with pytest.raises(UsageError, match="no such point"):
        to_graphframe(measured, {"p": 7, "n": 10})
    frame.exc_metrics, frame.inc_metrics = [], []
    with pytest.raises(FormatError, match="no metric"):
        from_graphframes([({"p": 1}, frame)])


def test_without_the_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hatchet", None)
    with pytest.raises(ToolError) as caught:
        to_graphframe(table([[1, 10]]), {"p": 1, "n": 10})
    assert caught.value.hint == "pip install 'buran[hatchet]'"


def test_inclusive_columns_of_caliper_lose_their_callees() -> None:
    measured = table([[1, 10]], metrics=("time",))
    frame = to_graphframe(measured, {"p": 1, "n": 10})
    rows = frame.dataframe
    inclusive = dict.fromkeys(("Avg time/rank", "Min time/rank"), rows["time (inc)"])
    frame.dataframe = rows.assign(**inclusive).drop(columns=["time", "time (inc)"])
    frame.exc_metrics, frame.inc_metrics = [*inclusive], []
    back = from_graphframes([({"p": 1, "n": 10}, frame)])
    order = [back.tree.names.index(name) for name in measured.tree.names]
    np.testing.assert_allclose(back.over_locations("time")[order], measured.over_locations("time"))
