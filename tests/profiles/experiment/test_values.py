"""Call paths by name."""

from __future__ import annotations

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.experiments import added, row_of

NAMES = (
    "main",
    "main->solve(std::vector<double> const&, int)->update(int, double*)",
    "main->solve(std::vector<double> const&, int)->apply(decltype ((a)->b))",
    "main->check()->apply(decltype ((a)->b))",
)


@pytest.mark.parametrize(
    ("call_path", "place"),
    [
        (NAMES[1], 1),
        ("update(int, double*)", 1),
        ("update", 1),
        ("solve->update", 1),
        ("check->apply", 3),
        ("main->solve->apply", 2),
        ("main", 0),
    ],
)
def test_a_call_path_is_found_by_its_end(call_path: str, place: int) -> None:
    assert row_of(NAMES, call_path) == place


@pytest.mark.parametrize(
    ("call_path", "what"), [("apply", "2 call paths end in"), ("updat", "no call path"), ("other->update", "no call")]
)
def test_what_is_no_single_call_path_is_named(call_path: str, what: str) -> None:
    with pytest.raises(UsageError, match=what):
        row_of(NAMES, call_path)


def test_call_paths_that_were_only_counted_do_not_spoil_the_sum() -> None:
    nan = np.nan
    timed = np.array([[[1.0, 2.0], [3.0, nan]], [[10.0, 20.0], [nan, nan]], [[nan, nan], [nan, nan]]])
    np.testing.assert_array_equal(added(timed), [[11.0, 22.0], [nan, nan]])  # the second lacks a point that it has
    np.testing.assert_array_equal(added(timed[2:]), np.full((2, 2), nan))
