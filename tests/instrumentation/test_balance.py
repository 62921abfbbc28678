"""How evenly ranks share functions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from buran.instrumentation.measured import balance_of
from buran.profiles.metrics import METRICS
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran.reporting.tables import _balance

TREE = CallTree(
    (Region("main"), Region("even"), Region("uneven"), Region("alone"), Region("MPI_Init", paradigm="mpi")),
    np.array([0, 1, 2, 3, 4, 2]),
    np.array([-1, 0, 0, 0, 0, 1]),
)


def profile_of(seconds: list[list[float]]) -> Profile:
    """Return a profile of exclusive times, shape (call path, rank)."""
    exclusive = np.array(seconds)
    values = TREE.inclusive(exclusive) if METRICS["time"].kind == "inclusive" else exclusive
    places = tuple(Location(rank) for rank in range(exclusive.shape[1]))
    return Profile(TREE, places, {"time": METRICS["time"]}, {"time": values}, {})


def test_the_three_figures_of_load_imbalance() -> None:
    found = balance_of(
        profile_of([[0, 0, 0, 0], [10, 10, 10, 10], [1, 2, 3, 2], [0, 0, 0, 4], [90, 0, 0, 0], [0, 0, 2, 2]])
    )
    assert [each.name for each in found] == ["alone", "uneven"]
    alone, uneven = found
    assert (alone.mean_s, alone.most_s) == (1, 4)
    assert alone.efficiency == pytest.approx(0.25) and alone.imbalance == pytest.approx(1.0)
    assert alone.variation == pytest.approx(3**0.5)
    assert alone.lost_share == pytest.approx(3 / 14)  # of 10 + 3 + 1 s in the mean, without starting MPI
    assert (uneven.mean_s, uneven.most_s) == (3, 5)  # both of its call paths
    assert uneven.imbalance == pytest.approx((5 - 3) / 5 * 4 / 3)
    assert uneven.variation == pytest.approx((np.array([1, 2, 5, 4]).std()) / 3)


def test_what_is_even_or_alone_is_not_named() -> None:
    assert balance_of(profile_of([[1, 1]] * 6)) == ()
    assert balance_of(profile_of([[1]] * 6)) == ()
    assert balance_of(profile_of([[0, 0]] * 6)) == ()
    little = profile_of([[100, 100], [0, 1], [0, 0], [0, 0], [0, 0], [0, 0]])
    assert balance_of(little) == () and len(balance_of(little, 0.001)) == 1


def test_the_report_has_a_table() -> None:
    uneven = profile_of([[0, 0], [5, 5], [1, 3], [0, 0], [9, 0], [0, 0]])
    table = _balance(SimpleNamespace(balance=balance_of(uneven)))  # type: ignore[arg-type]
    assert table.rows[-1] == ("uneven", "14.3 %", "1.5", "66.7 %", "0.5")
