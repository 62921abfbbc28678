from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.profiles.experiment.build import experiment_from_profiles
from buran.profiles.experiment.merge import merge_metrics, project
from buran.profiles.experiment.table import AGGREGATES, Experiment
from buran.profiles.regroup import project as project_profile
from tables import experiments, profile_of, same, tree_of

PATHS = ("main", "main/a", "main/a/c", "main/a/MPI_Send", "main/b", "main/b/c")


def test_metrics_of_two_builds_merge() -> None:
    time = experiment_from_profiles(
        ({"p": p, "n": 5}, r, profile_of(tree_of("main", "main/a"), time=[[p], [r]])) for p in (1, 2) for r in (0, 1)
    )
    counts = experiment_from_profiles(
        ({"n": 5, "p": p}, 0, profile_of(tree_of("main", "main/b", "main/a"), basic_blocks=[[p], [7], [8]]))
        for p in (2, 4)
    )
    both = merge_metrics(time, counts)
    assert both.parameters == ("p", "n")
    assert both.points.tolist() == [[1, 5], [2, 5], [4, 5]]
    assert both.tree.names == ("main", "main->a", "main->b")
    nan = np.nan
    assert np.array_equal(
        both.over_locations("basic_blocks"),
        [
            [[nan, nan], [2, nan], [4, nan]],
            [[nan, nan], [8, nan], [8, nan]],
            [[nan, nan], [7, nan], [7, nan]],
        ],
        equal_nan=True,
    )
    assert np.array_equal(
        both.over_locations("time"),
        [[[1, 1], [2, 2], [nan, nan]], [[0, 1], [0, 1], [nan, nan]], [[nan, nan]] * 3],
        equal_nan=True,
    )
    assert both.units == {"time": "sec", "basic_blocks": "occ"}


@given(experiments())
def test_merging_one_table_changes_nothing(table: Experiment) -> None:
    if len({region.name for region in table.tree.regions}) == len(table.tree.regions):
        same(table, merge_metrics(table))


@given(experiments())
def test_splitting_and_merging_gives_the_table_back(table: Experiment) -> None:
    parts = [
        Experiment(table.parameters, table.points, table.tree, {name: values}, {name: table.units[name]})
        for name, values in table.values.items()
    ]
    same(table, merge_metrics(*parts))


def test_tables_that_do_not_fit_are_refused() -> None:
    a = experiment_from_profiles([({"p": 1}, 0, profile_of(tree_of("main"), time=[[1]]))])
    b = experiment_from_profiles([({"n": 1}, 0, profile_of(tree_of("main"), visits=[[1]]))])
    with pytest.raises(UsageError, match="same metric"):
        merge_metrics(a, a)
    with pytest.raises(UsageError, match="different parameters"):
        merge_metrics(a, b)


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=2, max_size=2), min_size=6, max_size=6),
    st.sets(st.sampled_from(["main", "a", "b", "c"])),
)
def test_projecting_the_table_or_the_profiles_is_the_same(numbers: list[list[int]], names: set[str]) -> None:
    profile = profile_of(tree_of(*PATHS), time=numbers, basic_blocks=numbers, visits=numbers,
                         communicator_size_min=numbers)  # fmt: skip

    def keep(region: object) -> bool:
        return region.name in names  # type: ignore[attr-defined]

    exact = experiment_from_profiles([({"p": 1}, 0, project_profile(profile, keep))])
    table = project(experiment_from_profiles([({"p": 1}, 0, profile)]), keep)
    assert table.tree.names == exact.tree.names
    for metric, values in table.values.items():
        known = ~np.isnan(values)
        assert np.allclose(values[known], exact.values[metric][known], rtol=1e-12)
        if metric in ("time", "basic_blocks", "visits"):
            assert known[..., [AGGREGATES.index("mean"), AGGREGATES.index("sum")]].all()
    if "c" in names and not {"a", "b"} & names:
        assert "main->c" in table.tree.names and "main->MPI_Send" in table.tree.names


def test_what_a_sum_cannot_tell_is_missing() -> None:
    profile = profile_of(tree_of("main", "main/a"), basic_blocks=[[1, 2], [10, 30]])
    table = project(experiment_from_profiles([({"p": 1}, 0, profile)]), lambda region: False)
    mean, median, low, high, total = table.values["basic_blocks"][0, 0, 0].tolist()
    assert (mean, total) == (21.5, 43)
    assert np.isnan([median, low, high]).all()
    even = profile_of(tree_of("main", "main/a"), basic_blocks=[[1, 2], [10, 10]])
    table = project(experiment_from_profiles([({"p": 1}, 0, even)]), lambda region: False)
    assert table.values["basic_blocks"][0, 0, 0].tolist() == [11.5, 11.5, 11, 12, 23]


@given(experiments(located=False))
def test_projecting_keeps_the_total(table: Experiment) -> None:
    small = project(table, np.zeros(len(table.tree.regions), dtype=bool))
    assert set(small.tree.parent.tolist()) == {-1}
    for metric, values in table.values.items():
        total, scale = small.values[metric][..., 0].sum(axis=0), np.abs(values[..., 0]).sum(axis=0)
        expected = values[..., 0].sum(axis=0)
        with np.errstate(over="ignore", invalid="ignore"):
            close = np.abs(total - expected) <= 1e-9 * scale
        assert (close | np.isnan(expected) | ~np.isfinite(scale)).all()
