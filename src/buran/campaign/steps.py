"""Parameters that only repeat work: at which numbers of steps a program is run."""

from __future__ import annotations

from collections.abc import Mapping

from buran.campaign.point import Point, Value

FEWEST = 10
"""A full run of fewer steps is hardly more expensive than the few that would stand for it."""
_SHARES = (10, 5)
"""Shares of the full number: what happens every k steps is linear at these if it is at the full number."""


def step_values(full: int) -> tuple[Value, ...]:
    """Return the numbers of steps to run: about a tenth, a fifth, and the full number."""
    few = max(2, round(full / _SHARES[0]))
    return few, max(few + 1, round(full / _SHARES[1])), full


def has_all_steps(point: Point, full: Mapping[str, Value]) -> bool:
    """Tell whether a point has the full number of each of these parameters."""
    return all(point[name] == number for name, number in full.items())
