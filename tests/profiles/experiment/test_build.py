from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.table import AGGREGATES
from tables import profile_of, tree_of


def test_runs_become_a_table() -> None:
    a = tree_of("main", "main/a")
    runs = [
        ({"p": 4, "n": 10}, 2, profile_of(a, time=[[1, 3], [2, 2]], visits=[[1, 1], [5, 7]])),
        ({"n": 10, "p": 2}, 1, profile_of(tree_of("main", "main/b"), time=[[4, 4], [1, 0]])),
        ({"p": 2, "n": 10}, 2, profile_of(tree_of("main"), time=[[9, 9, 9]])),
    ]  # fmt: skip
    table = experiment_from_profiles(iter(runs))
    assert table.parameters == ("p", "n")
    assert table.points.tolist() == [[2, 10], [4, 10]]
    assert table.tree.names == ("main", "main->a", "main->b")
    assert table.units == {"time": "sec", "visits": "occ"}
    mean = table.over_locations("time")
    expected = np.full((3, 2, 2), np.nan)
    expected[:, 0, 0] = [4, 0, 0.5]
    expected[:, 0, 1] = [9, 0, 0]
    expected[:, 1, 1] = [2, 2, 0]
    assert np.array_equal(mean, expected, equal_nan=True)
    visits = table.values["visits"]
    assert np.isnan(visits[:, 0]).all(), "runs that did not measure the metric"
    assert visits[1, 1, 1].tolist() == [6, 6, 5, 7, 12]
    assert visits[2, 1, 1].tolist() == [0] * 5


@given(
    st.lists(st.lists(st.integers(0, 10**6), min_size=3, max_size=3), min_size=3, max_size=3),
    st.permutations(range(3)),
)
def test_aggregates_are_those_of_the_locations(numbers: list[list[int]], order: list[int]) -> None:
    paths = ("main", "main/a", "main/a/b")
    profile = profile_of(tree_of(*paths), time=numbers, basic_blocks=numbers)
    runs = [({"p": p + 1}, 0, profile) for p in order]
    table = experiment_from_profiles(runs)
    for metric in ("time", "basic_blocks"):
        for i, aggregate in enumerate(AGGREGATES):
            expected = getattr(np, aggregate)(np.array(numbers, dtype=float), axis=1)
            assert np.allclose(table.values[metric][:, :, 0, i], expected[:, None], rtol=1e-12)


def test_extremes_of_unvisited_call_paths_are_zero() -> None:
    profile = profile_of(tree_of("main"), communicator_size_min=[[np.inf, 4]])
    table = experiment_from_profiles([({"p": 1}, 0, profile)])
    assert table.over_locations("communicator_size_min", "min")[0, 0, 0] == 0


def test_the_same_call_path_twice_in_a_profile_is_one() -> None:
    tree = tree_of("main", "main/a")
    twice = type(tree)(tree.regions, np.append(tree.region, tree.region[1]), np.array([-1, 0, 0]))
    profile = profile_of(twice, time=[[1, 1], [2, 5], [3, 1]], communicator_size_min=[[0, 0], [4, 0], [2, 8]])
    table = experiment_from_profiles([({"p": 1}, 0, profile)])
    assert len(table.tree) == 2
    assert table.values["time"][1, 0, 0].tolist() == [5.5, 5.5, 5, 6, 11]
    assert table.values["communicator_size_min"][1, 0, 0].tolist() == [5, 5, 2, 8, 10]


def test_runs_that_do_not_belong_together_are_refused() -> None:
    profile = profile_of(tree_of("main"), time=[[1]])
    with pytest.raises(UsageError, match="twice"):
        experiment_from_profiles([({"p": 1}, 0, profile), ({"p": 1.0}, 0, profile)])
    with pytest.raises(UsageError, match="same parameters"):
        experiment_from_profiles([({"p": 1}, 0, profile), ({"n": 1}, 0, profile)])
    for runs in ([], [({}, 0, profile)]):
        with pytest.raises(UsageError, match="no runs"):
            experiment_from_profiles(runs)


def test_ranks_whose_counts_differ_between_repetitions_are_named() -> None:
    tree = tree_of("main", "main/a")

    def run(repetition: int, on_a: list[int], on_main: tuple[int, int, int, int] = (1, 1, 1, 1)) -> Run:
        return {"p": 4, "n": 8}, repetition, profile_of(tree, time=[[1, 2, 3, 4]] * 2, visits=[list(on_main), on_a])

    same = experiment_from_profiles([run(0, [5, 5, 5, 5]), run(1, [5, 5, 5, 5])])
    assert same.notes == ()
    table = experiment_from_profiles([run(0, [5, 5, 5, 5]), run(1, [5, 6, 5, 7]), run(2, [5, 5, 5, 5])])
    sentence = "visits is not the same in all repetitions, such as at p=4, n=8: it differs on ranks 1, 3 of 4"
    assert table.notes == (sentence,)
    swapped = experiment_from_profiles([run(0, [2, 1, 1, 1], (1, 1, 1, 1)), run(1, [1, 1, 1, 1], (2, 1, 1, 1))])
    assert swapped.notes[0].endswith("rank 0 of 4")
