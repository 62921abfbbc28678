"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import CORRECTIONS, JUDGED, tuned


@dataclass(frozen=True)
class CorrectionTuning:
    """Constants of corrections of analytical models."""

    powers: tuple[float, ...] = tuned((-1.0, -0.5, 0.5, 1.0), "exponents of a term's growth", CORRECTIONS)
    most_terms: int = tuned(3, "terms", CORRECTIONS)
    freeze: float = tuned(2.0, "beyond this times the trained values a correction stays as it is", CORRECTIONS)
    fewest: int = tuned(8, "points below which no correction can be judged", JUDGED)


CORRECTION = CorrectionTuning()
