"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class CountTuning:
    """Constants of effort models that go through counts."""

    mostly: float = tuned(
        2 / 3, "of the points, at which a count is exactly what is said of it: the others are exceptions", JUDGED
    )
    close: float = tuned(30.0, "a function with more terms must be so many times as exact", JUDGED)
    mixed: float = tuned(2.0, "factor between counts of one point beyond which runs did different things", JUDGED)


COUNTS = CountTuning()


@dataclass(frozen=True)
class CoefficientTuning:
    """Constants of coefficients from noisy times."""

    cost_spread: float = tuned(
        1.0, "by what share the cost of a unit is expected to differ between the terms of a call path", JUDGED
    )
    outliers: float = tuned(
        2.0,
        "standard deviations from which on a point pulls no harder",
        "the loss of Huber (1964); no record of why at 2",
    )
    slowest_s: float = tuned(
        1e-5,
        "seconds of one counted unit of effort, and of what a call takes beside: what takes longer is not done by the "
        "code that was counted",
        JUDGED,
    )
    gain: float = tuned(
        4.0,
        "by which terms of other algorithms must lower the Bayesian information criterion",
        "of 0, 4, 8 and 14: with 4, 2 of 100 models without these terms get them at 75 % noise",
    )
    draws: int = tuned(999, "draws of noise alone, which waiting is compared with", JUDGED)


COEFFICIENTS = CoefficientTuning()
