"""Exponents as people write them: a power of a parameter, then powers of its binary logarithm, as in ``7/2 0 1``."""

from __future__ import annotations

from fractions import Fraction

from buran.errors import UsageError

Exponents = tuple[Fraction, int]
"""Powers of a parameter, and of its logarithm."""
MOST_POWER, MOST_LOGS = 10, 5


def read_exponents(text: str) -> list[Exponents]:
    """Read a power and powers of its logarithm.

    Raises
    ------
    UsageError
        If it is something else.
    """
    words = text.split()
    try:
        power, logs = Fraction(words[0]), [int(word) for word in words[1:]]
    except (IndexError, ValueError, ZeroDivisionError):
        logs = []
    if not logs or any(log < 0 or log > MOST_LOGS for log in logs) or abs(power) > MOST_POWER:
        raise UsageError(
            "no exponents",
            why=f"{text.strip()!r} is not a power up to {MOST_POWER} and powers of the logarithm from 0 to {MOST_LOGS}",
            hint="write lines such as: 1/2 0 1 2",
        )
    return [(power, log) for log in logs]
