"""Parameters that only repeat work: at which numbers of steps a program is run."""

from __future__ import annotations

from buran.campaign.point import Value

FEWEST = 10
"""A full run of fewer steps is hardly more expensive than the few that would stand for it."""
_SHARES = (20, 10)
"""Of the full number, about: a run of a tenth of the steps is dominated by what every step repeats."""


def step_values(full: Value) -> tuple[Value, ...]:
    """Return the numbers of steps to run: two small ones, and the full number.

    The small ones are prime, so that what happens every so many steps is not linear in them.
    """
    few = _prime_from(max(2, round(full / _SHARES[0])))
    more = _prime_from(max(few + 1, round(full / _SHARES[1])))
    return few, more, full


def _prime_from(number: int) -> int:
    """Return the smallest prime that is not below a number."""
    while any(number % divisor == 0 for divisor in range(2, int(number**0.5) + 1)):
        number += 1
    return number
