"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.numerics.origin import CORRECTIONS, JUDGED, tuned


@dataclass(frozen=True)
class CorrectionTuning:
    """Constants of corrections of analytical models."""

    powers: tuple[float, ...] = tuned((-1.0, -0.5, 0.5, 1.0), "exponents of a term's growth", CORRECTIONS)
    most_terms: int = tuned(3, "terms", CORRECTIONS)
    largest_coefficient: float = tuned(
        50.0, "of a term, in shares of the base model's value where they are equally large on average", JUDGED
    )
    polished: int = tuned(8, "candidates of each step that are fitted jointly", CORRECTIONS)
    beam: int = tuned(2, "models of each size that are extended", CORRECTIONS)
    temper: float = tuned(0.125, "power of the likelihood in the weights of an average", CORRECTIONS)
    freeze: float = tuned(2.0, "beyond this times the trained values a correction stays as it is", CORRECTIONS)
    smallest: float = tuned(0.1, "factor that may still be a correction", JUDGED)
    largest: float = tuned(10.0, "factor that may still be a correction", JUDGED)
    samples: int = tuned(2000, "places at which the factor is checked", JUDGED)
    lines: int = tuned(100, "lines along which a declared direction is checked", JUDGED)
    steps: int = tuned(40, "places on each of these lines", JUDGED)
    span: float = tuned(10.0, "a coefficient of a normal form may become this many times smaller or larger", JUDGED)
    most_points: int = tuned(
        200, "points up to which a Gaussian process is tried", "the time of a fit grows with the third power; first 400"
    )
    fewest: int = tuned(8, "points below which no correction can be judged", JUDGED)
    places: int = tuned(33, "places of a threshold that are tried", JUDGED)


CORRECTION = CorrectionTuning()
