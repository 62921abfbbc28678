"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class ElsewhereTuning:
    """Of times on another machine."""

    probabilities: tuple[float, ...] = tuned(
        (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975), "at which ratios of speed stand for all of them", JUDGED
    )
    weights: tuple[float, ...] = tuned(
        (0.05, 0.1, 0.2, 0.3, 0.2, 0.1, 0.05), "of these", "what lies between the middles of neighbours"
    )
    one: float = tuned(0.683, "level of an interval of one standard deviation", "the normal distribution")
    busy: float = tuned(0.2, "spread of a calibration that is worth a word", JUDGED)
    fewest: int = tuned(3, "kinds of code that both machines were timed with", "of fewer, they do not scatter")


ELSEWHERE = ElsewhereTuning()
