"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class DistanceTuning:
    """Of models of reuse distances."""

    lesser: tuple[float, ...] = tuned(
        (0.1, 0.25),
        "share of a second product of powers at the largest point: in a distance, and in accesses, without boundaries",
        "of 0.1 to 0.3 what places the cliffs of the stencil and the blocked product; an eighth is missing in HPCCG",
    )
    far: float = tuned(64.0, "lines, from which on an access may miss a cache", JUDGED)
    slow: float = tuned(
        0.3,
        "price of a power of growth, in root mean squares of the misfit: ties go to slow growth",
        "of 0 to 1 what predicts stencil and miniFE best",
    )
    seen: float = tuned(2e-4, "of the accesses, which a cell must be able to explain at each point", JUDGED)
    candidates: int = tuned(3000, "cells that compete for a call path", "a second of CPU time")
    wider: float = tuned(
        1.5,
        "times what the jackknife reaches: which laws take part is chosen once, from all points",
        "of 1, 1.5 and 2 what holds nine tenths of the study's programs",
    )
    folds: int = tuned(8, "parts of the points that are left out in turn", JUDGED)
    resolved: float = tuned(
        16.0,
        "lines of the sample; shorter ones are not distinguished",
        "of 8 pairs, a third is seen too many or few",
    )


@dataclass(frozen=True)
class MemoryTuning:
    """Of misses in models of time."""

    parts: int = tuned(
        5,
        "parts of equal probability of a cost that no point shows; ratios of two machines' speeds have its square",
        JUDGED,
    )
    hidden: float = tuned(0.1, "of a line's time at full bandwidth, which it costs where other work hides it", JUDGED)
    unforeseen: float = tuned(
        1 / 8,
        "of the lines of a stream, which a program waits for at the most: the first of rows of eight",
        "of 1/16 and 1/8 what holds the times of sweep",
    )
    fault: float = tuned(
        2.0, "times as much, or as little, as in the calibration, which a page fault takes at the most", JUDGED
    )


@dataclass(frozen=True)
class ShownTuning:
    """Of what a report shows."""

    kind: float = tuned(
        0.05, "of a call path's misses, from which on a kind of access is named, and of a run's, crowded sets", JUDGED
    )


@dataclass(frozen=True)
class SpeedTuning:
    """Of measuring a machine."""

    noise: float = tuned(
        0.2, "relative, what two times differ by at least, where it is worth a word or shows where a cache ends", JUDGED
    )
    largest_spread: float = tuned(
        1.0, "times longer than the least, which the median round may take for the test to be sure", JUDGED
    )


DISTANCES, MEMORY, SHOWN, SPEED = DistanceTuning(), MemoryTuning(), ShownTuning(), SpeedTuning()
