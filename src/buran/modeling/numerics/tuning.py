"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import CORRECTIONS, JUDGED, tuned


@dataclass(frozen=True)
class CommonTuning:
    """Constants that mean the same in several packages."""

    matters: float = tuned(
        0.01,
        "of a time, a variance, a weight, a count or a limit: what is less changes no conclusion",
        "judgement: `scorep-score -g` leaves what has less than 1 % of a trace in, too",
    )
    nearly: float = tuned(0.9, "of a time, a variance, a weight or accesses: so much stands for all of it", JUDGED)
    larger: float = tuned(
        0.5, "of a time or of misses: what has more explains, or distorts, all of it", "the larger part"
    )
    half: float = tuned(
        0.5,
        "of a resource, at most, that one thing takes where others need it: of a cache and of free memory; of what is "
        "left of a budget, for what comes before or beside the points that models ask for (runs of the base, pilots, a "
        "plan of unknown cost, samples of accesses to memory, the same points under a new filter, evaluation points)",
        JUDGED,
    )
    overhead: float = tuned(
        0.05, "of a time or a budget, that measuring hooks may take where nobody names a limit", JUDGED
    )
    floor: float = tuned(1e-3, "of the largest value: smaller ones count as this one", JUDGED)
    noise: float = tuned(
        0.03,
        "relative noise of one run until repetitions and residuals say more, and of what all runs of a point share",
        JUDGED,
    )
    worth: float = tuned(
        2.0,
        "repetitions that this first guess is worth, degrees of freedom that the noise of others is, and call paths "
        "that the usual noise of what models leave over is",
        JUDGED,
    )
    few: int = tuned(
        3,
        "fewest values that tell something: of a parameter, points with the baseline beside them, call paths that "
        "share costs, degrees of freedom of noise",
        "the fewest that tell growth from a constant, and scatter",
    )
    steps: int = tuned(
        12, "of an iteration or a campaign that has not settled before, or of a trial that brings nothing more", JUDGED
    )
    combinations: int = tuned(
        200,
        "products, points of a process, draws or places, that are looked at, about",
        "ablation, seed 4242 (evidence/models.md)",
    )


COMMON = CommonTuning()
OF_MEANS = 1e-6
"""Relative: a count that is this near to a function is met by it, as means over ranks are rounded."""


@dataclass(frozen=True)
class AverageTuning:
    """Constants of a Gaussian process that is averaged over its hyperparameters."""

    lengths: tuple[float, float] = tuned(
        (0.3, 12.0), "ends of the length scales, in standard deviations of a variable", CORRECTIONS
    )
    noises: tuple[float, float] = tuned((0.02, 1.0), "ends of the noise, in the signal", CORRECTIONS)


AVERAGE = AverageTuning()
