"""The threads of a rank as one."""

import numpy as np

from buran.profiles.experiment.build import of_ranks, working_threads
from buran.profiles.metrics import metric_of
from buran.profiles.profile import CallTree, Location, Profile, Region

LOCATIONS = (Location(0, 0), Location(0, 1), Location(0, 2), Location(3, 0), Location(3, 1))
VALUES = np.array([[5.0, 1.0, 2.0, 7.0, 0.0], [0.0, 4.0, 3.0, 0.0, 0.0]])


def test_counts_are_sums_and_times_those_of_the_thread_that_opens_regions():
    for metric, expected in (
        ("basic_blocks", [[8, 7], [7, 0]]),
        ("cpu_time", [[8, 7], [7, 0]]),
        ("time", [[5, 7], [4, 0]]),
        ("wall_time", [[5, 7], [4, 0]]),
        ("min_time", [[1, 7], [3, 0]]),
        ("max_time", [[5, 7], [4, 0]]),
    ):
        np.testing.assert_array_equal(of_ranks(VALUES, LOCATIONS, metric_of(metric)), expected)


def test_ranks_of_one_thread_stay_as_they_are():
    alone = (Location(0), Location(1))
    for metric in ("time", "visits", "communicator_size_min"):
        np.testing.assert_array_equal(of_ranks(VALUES[:, :2], alone, metric_of(metric)), VALUES[:, :2])


def test_a_dynamic_loop_is_the_whole_teams_even_if_a_thread_came_too_late():
    tree = CallTree(tuple(map(Region, ("main", "region", "dynamic", "serial"))), np.arange(4), np.array([-1, 0, 1, 1]))
    visits = np.array([[1, 0, 0], [1, 0, 0], [5, 3, 0], [2, 0, 0]], dtype=np.uint64)
    blocks = np.array([[4, 0, 0], [9, 2, 2], [50, 30, 0], [2, 0, 0]], dtype=np.uint64)
    values = {"visits": visits, "basic_blocks": blocks}
    metrics = {name: metric_of(name) for name in values}
    profile = Profile(tree, (Location(0, 0), Location(0, 1), Location(0, 2)), metrics, values, {})
    np.testing.assert_array_equal(working_threads(profile), [[1], [3], [3], [1]])
    alone = {name: array[:, :1] for name, array in values.items()}
    assert working_threads(Profile(tree, (Location(0),), metrics, alone, {})) is None
