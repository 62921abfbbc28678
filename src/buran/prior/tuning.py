"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class CountTuning:
    """Constants of effort models that go through counts."""

    exact: float = tuned(1e-6, "relative residual up to which a count is a function of the parameters", JUDGED)
    loose: float = tuned(
        1e-2,
        "residual beyond which no function passes through the counts",
        JUDGED,
    )
    explained: float = tuned(
        0.9, "share of the counts' variance that a function which misses some must explain to say how they grow", JUDGED
    )
    mostly: float = tuned(
        2 / 3, "of the points, at which a count is exactly what is said of it: the others are exceptions", JUDGED
    )
    close: float = tuned(30.0, "a function with more terms must be so many times as exact", JUDGED)
    mixed: float = tuned(2.0, "factor between counts of one point beyond which runs did different things", JUDGED)


COUNTS = CountTuning()


@dataclass(frozen=True)
class CoefficientTuning:
    """Constants of coefficients from noisy times."""

    largest: float = tuned(
        3.0,
        "times the values: no term of a sum of positive ones is larger",
        "1 and 10 give the same predictions and intervals of heat-equation and Nekbone at 64 ranks",
    )
    rounds: int = tuned(12, "rounds in which weights and coefficients follow each other", JUDGED)
    floor: float = tuned(1e-3, "of the largest prediction: smaller ones weigh no more", JUDGED)
    cost_spread: float = tuned(
        1.0, "by what share the cost of a unit is expected to differ between the terms of a call path", JUDGED
    )
    outliers: float = tuned(
        2.0,
        "standard deviations from which on a point pulls no harder",
        "the loss of Huber (1964); no record of why at 2",
    )
    wild: float = tuned(
        1e-4,
        "relative deviation that no point is wild for: where most are met exactly, rounding makes others wild",
        "of 1e-9 and 1e-4 what solves times without noise",
    )
    pooled: float = tuned(4.0, "degrees of freedom that the noise of call paths with the same prior is worth", JUDGED)
    fewest: int = tuned(3, "call paths that share costs", JUDGED)
    closest: float = tuned(0.05, "costs of one kind of effort differ at least by this share", JUDGED)
    discrepancy: float = tuned(
        0.03, "relative standard deviation that runs of one point have in common, and repetitions do not show", JUDGED
    )
    first: float = tuned(0.03, "relative noise of one run until repetitions say more", JUDGED)
    worth: float = tuned(2.0, "repetitions that this first guess is worth", JUDGED)
    call_s: float = tuned(1e-6, "seconds that a call takes beside its counted work, about", JUDGED)
    slowest_s: float = tuned(
        1e-5,
        "seconds of one counted unit of effort; what takes longer is not done by the code that was counted",
        JUDGED,
    )
    untold: float = tuned(
        0.5, "of the deviation that was expected of a cost: with more left, the points tell little of it", JUDGED
    )


COEFFICIENTS = CoefficientTuning()


@dataclass(frozen=True)
class WaitingTuning:
    """Constants of the test for waiting."""

    draws: int = tuned(999, "draws of noise alone", JUDGED)
    same: float = tuned(1e-6, "share of a column that must remain beside the others", JUDGED)
    least_work: float = tuned(0.05, "share of the work at some point, from which on it is waited for", JUDGED)
    fewest: int = tuned(3, "degrees of freedom from which on what is left tells how large noise is", JUDGED)
    fitted: int = tuned(8, "candidates that are fitted and weighed", JUDGED)


WAITING_TEST = WaitingTuning()


@dataclass(frozen=True)
class AlgorithmTuning:
    """Constants of algorithms that an MPI operation may have."""

    points: float = tuned(2.0, "points for each column, of those of all algorithms", JUDGED)
    gain: float = tuned(
        4.0,
        "by which terms of other algorithms must lower the Bayesian information criterion",
        "of 0, 4, 8 and 14: with 4, 2 of 100 models without these terms get them at 75 % noise",
    )
    near: float = tuned(0.01, "relative misfit up to which no other algorithm is looked for", JUDGED)


ALGORITHMS = AlgorithmTuning()


@dataclass(frozen=True)
class DistanceTuning:
    """Constants of models of reuse distances."""

    parts: tuple[float, ...] = tuned(
        (0.15, 0.4),
        "second product of powers over the first one, at the largest point",
        "of 0.1 to 0.4 what places the cliffs of the stencil and the blocked product best",
    )
    lesser: tuple[float, ...] = tuned(
        (0.1, 0.25), "of a number of accesses at the largest point, which boundaries lack", "HPCCG lacks an eighth"
    )
    floor: float = tuned(1e-3, "of the accesses; fewer misses weigh no more", JUDGED)
    misfit: float = tuned(0.03, "relative, up to which a law explains a number of accesses", JUDGED)
    far: float = tuned(64.0, "lines, from which on an access may miss a cache", JUDGED)
    fewest: int = tuned(3, "points at which a distance must be told for growth to follow", "of fewer, it is a guess")
    usual: float = tuned(3.0, "largest power of a number of accesses that no law explains", JUDGED)
    slow: float = tuned(
        0.3,
        "price of a power of growth, in root mean squares of the misfit: ties go to slow growth",
        "of 0 to 1 what predicts stencil and miniFE best",
    )
    seen: float = tuned(2e-4, "of the accesses, which a cell must be able to explain at each point", JUDGED)
    candidates: int = tuned(3000, "cells that compete for a call path", "a second of CPU time")
    nearly: int = tuned(150, "further cells that compete where a part of the points is left out", JUDGED)
    wider: float = tuned(
        1.5,
        "times what the jackknife reaches: which laws take part is chosen once, from all points",
        "of 1, 1.5 and 2 what holds nine tenths of the study's programs",
    )
    folds: int = tuned(8, "parts of the points that are left out in turn", JUDGED)
    resolved: float = tuned(
        16.0, "lines of the sample; shorter distances are not told apart", "of 8 pairs, a third is seen too many or few"
    )
    crowded: float = tuned(0.01, "of a call path's accesses that miss for want of places in a set are said", JUDGED)
    crowded_misses: float = tuned(0.5, "of its misses without sets, which these must be", JUDGED)
    crowded_part: float = tuned(0.05, "of a run's misses, which these must be", JUDGED)
    apart: float = tuned(4.0, "bins without accesses, a doubling, between two modes of one law", JUDGED)
    leaving: float = tuned(
        0.1, "of a mode's accesses, which miss where a cache is left: the middle of the steep part comes later", JUDGED
    )


@dataclass(frozen=True)
class MemoryTuning:
    """Constants of misses in models of time."""

    matters: float = tuned(0.01, "of a call path's time: misses of a level that can take less are left out", JUDGED)
    least: float = tuned(0.01, "of the misses, from which on a mode of distances is in the model of time", JUDGED)
    parts: int = tuned(
        5, "parts of equal probability of a cost that no point shows, as alternatives of a model", JUDGED
    )
    draws: int = tuned(200, "costs of each part, from which its median and its deviation are computed", JUDGED)
    hidden: float = tuned(0.1, "of a line's time at full bandwidth, which it costs where other work hides it", JUDGED)
    unforeseen: float = tuned(
        1 / 8,
        "of the lines of a stream, which a program waits for at the most: the first of rows of eight",
        "of 1/16 and 1/8 what holds the times of sweep",
    )
    fault: float = tuned(
        2.0, "times as much, or as little, as in the calibration, which a page fault takes at the most", JUDGED
    )
    alone: float = tuned(
        0.5, "of a call path's time: if page faults can take so much, they are a prior without counted blocks", JUDGED
    )
    least_of_latency: float = tuned(
        0.01, "of the middle, which a miss costs at least, and of the most, which the middle is at least", JUDGED
    )


MEMORY = MemoryTuning()
DISTANCES = DistanceTuning()
