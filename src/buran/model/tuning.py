"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buran.numerics.origin import JUDGED, MODELLER, tuned

BEAMS = "ablation: 8 for all costs 2 to 4 points on lines of three parameters, 24 for one 4 (evidence/models.md)"


@dataclass(frozen=True)
class SearchTuning:
    """Constants of the search for hypotheses."""

    progress: float = tuned(
        0.5, "an error so much smaller than with a term less lets the search go on, whatever the score says", MODELLER
    )
    narrow: int = tuned(5, "beam for a single parameter", BEAMS)
    middle: int = tuned(8, "beam where there are many points", BEAMS)
    wide: int = tuned(24, "beam elsewhere", BEAMS)
    many: int = tuned(10, "points a parameter from which on there are many", BEAMS)
    steady: float = tuned(0.15, "error up to which hypotheses within reach are taken seriously", MODELLER)
    certain: float = tuned(1e-6, "error up to which there is nothing to explain", JUDGED)
    lacking: float = tuned(1.5, "times the noise: a larger error lets the search go on", MODELLER)
    line_points: int = tuned(
        3, "points of a line, at least", "fewer cannot tell one term beside a constant from another"
    )
    products: int = tuned(200, "products of each number of parameters in a dictionary, about", JUDGED)
    short: int = tuned(8, "terms a parameter is represented by, beside the plain ones", JUDGED)
    crowd: int = tuned(8, "times as many hypotheses are looked at where many are not allowed", JUDGED)
    noise_share: float = tuned(
        0.1, "of the leave-one-out error: smaller contributions cannot be told from nothing", MODELLER
    )
    floor: float = tuned(1e-3, "of a call path's largest value: smaller values weigh no more than this one", JUDGED)
    grid_power: float = tuned(
        0.75,
        "power of the value by which a point weighs less, where half of the grid was measured",
        "reason in explanation/models.md; tuned on other seeds than the reported ones (evidence/models.md)",
    )
    belief: float = tuned(0.45, "nats of odds for a nat of the score, times the points", MODELLER)
    likely: float = tuned(0.1, "odds of hypotheses that may be chosen for predicting the median", MODELLER)
    reach: float = tuned(
        8.0, "times the largest value of each parameter: up to there no prediction is negative", JUDGED
    )
    parts: int = tuned(4, "of each gap between measured values, at whose ends it is looked at", JUDGED)
    margin: float = tuned(0.01, "of its terms: what a function keeps above 0, not to dip below it in between", JUDGED)
    probes: int = tuned(1000, "points at which a function with a negative coefficient is looked at, about", JUDGED)
    freedom: float = tuned(0.3, "points that a degree of freedom of the repetitions is worth", MODELLER)


CERTAIN = 1e-9
"""Relative error up to which the best hypothesis is the right one."""
SEARCH = SearchTuning()


@dataclass(frozen=True)
class UncertaintyTuning:
    """Constants of what is left open: intervals and noise."""

    least: float = tuned(
        1e-2, "smaller weights of hypotheses move no end of an interval", "first 0.001; no record of why it grew"
    )
    tempering: float = tuned(
        2 / 3, "power of the odds: less weight for the best hypothesis than its odds have", MODELLER
    )
    lack: float = tuned(1.2, "times the variance of the noise: what residuals have beyond is systematic", MODELLER)
    redundant: float = tuned(
        8.0, "times the points for each value of a parameter: how many share a systematic error", MODELLER
    )
    values: int = tuned(4, "of a parameter, to judge models without the largest", "fewer leave straight lines")
    parts: tuple[float, ...] = tuned(
        (0.01, 0.03, 0.08, 0.2, 0.5, 0.8, 0.92, 0.97, 0.99),
        "of the weight, at which the hypotheses of a call path are divided, each part with one that stands for it",
        "of 300 generated call paths the ends of 90 % intervals move by 2 % in the middle half",
    )
    prior: float = tuned(
        4.0, "so many repetitions' worth of belief that all points of a call path have the same relative noise", JUDGED
    )


UNCERTAINTY = UncertaintyTuning()


@dataclass(frozen=True)
class StructureTuning:
    """Constants of parameters that were never varied together."""

    prior: float = tuned(
        1 / 3,
        "plausibility of a sum, of a product, and of what the hypothesis says itself: nothing tells them apart",
        "equal parts, the distribution that claims least",
    )
    few: int = tuned(2, "points at which a pair is varied together, that noise may deceive", JUDGED)
    within: float = tuned(0.1, "of the largest weight: hypotheses with less stay as they are", JUDGED)


STRUCTURES = StructureTuning()


@dataclass(frozen=True)
class FewValuesTuning:
    """Constants of growth along a parameter with two or three values."""

    prior: float = tuned(
        0.5,
        "of the weight of a hypothesis, for all others that go through the same values",
        "two equal parts: nothing measured tells them apart",
    )
    steeper: int = tuned(1, "powers by which these others may be steeper", JUDGED)
    within: float = tuned(0.5, "of the largest weight: hypotheses with less stay as they are", JUDGED)
    nothing: float = tuned(1e-9, "share of a function's largest coefficient that is rounding", JUDGED)


FEW_VALUES = FewValuesTuning()


@dataclass(frozen=True)
class ExactTuning:
    """Constants of formulas that explain exact counts.

    What a formula takes to name, and what the values that it does not need tell, are counted in bits: a chance
    formula passes a value of b bits with a probability of 2^-b.
    """

    most_terms: int = tuned(4, "terms of one parameter in a formula", JUDGED)
    most_bits: int = tuned(12, "bits that the terms of one parameter may cost together", JUDGED)
    margin: float = tuned(4.0, "bits that must remain for a formula to be taken for proven along a parameter", JUDGED)
    same: int = tuned(3, "equal values along a parameter that prove that it does not matter", JUDGED)
    certain: float = tuned(64.0, "bits beyond which no more are counted", JUDGED)
    interpolated: int = tuned(4, "values of a parameter up to which terms may pass through all of them", JUDGED)
    worse_bits: float = tuned(8.0, "bits by which a formula may be worse than the best and still count", JUDGED)
    alternatives: int = tuned(6, "formulas of a parameter, and of a call path, that are kept", JUDGED)
    passed: int = tuned(24, "sets of terms that pass through all values of a parameter, and are tried", JUDGED)
    sets: int = tuned(8000, "sets of terms that are tried where points do not tell all products apart", JUDGED)
    monomials: int = tuned(120, "products of values that are derived from several parameters", JUDGED)
    lost: float = tuned(0.5, "error of a model of exact values that follows nothing: steeper terms are tried", JUDGED)
    near: float = tuned(1e-2, "relative misfit at any point up to which a sum of few terms explains a count", JUDGED)
    beam: int = tuned(15, "sets of terms that are extended by another one", JUDGED)
    whole: float = tuned(
        2.0,
        "units that whole numbers leave",
        "a loop leaves half a round, one around it its own two blocks; some more by the fit",
    )
    signal: float = tuned(
        15.0, "times that, which counts must differ by: exponents of fewer rounds are hidden by rounding", JUDGED
    )
    rounded: float = tuned(1e-5, "error of a model of exact values that misses them by their rounding alone", JUDGED)


EXACT = ExactTuning()


PRICES = "ablation on drifting prices, seeds 1 to 3 (docs/evidence/price.md)"


@dataclass(frozen=True)
class DiscrepancyTuning:
    """Constants of the process on what models leave over."""

    price: float = tuned(0.3, "standard deviation of the process beside counted work, in nats", PRICES)
    deviations: tuple[float, ...] = tuned(
        (0.1, 0.3), "the same beside a function found by search, which follows most: the evidence chooses", JUDGED
    )
    noises: tuple[float, ...] = tuned((0.01, 0.03, 0.1, 0.3, 1.0), "of a value, likewise: the evidence chooses", JUDGED)
    usual: float = tuned(0.03, "noise that is expected before anything is measured", PRICES)
    slope: float = tuned(0.5, "of the deviation, for each nat of a parameter: a trend", PRICES)
    length: float = tuned(0.7, "of the measured range of a parameter's logarithm: length scale", PRICES)
    range: float = tuned(float(np.log(8)), "nats that a parameter's range counts as, at least", PRICES)
    unseen: float = tuned(0.01, "noise that repetitions do not show, such as that of the place of the process", JUDGED)
    worth: float = tuned(4.0, "call paths that the default is worth beside those of a campaign", JUDGED)
    floor: float = tuned(1e-3, "of the largest value: smaller ones count as this one", JUDGED)
    most_points: int = tuned(128, "points that a process is conditioned on", "bounds the cubic cost")


DISCREPANCY = DiscrepancyTuning()


@dataclass(frozen=True)
class ComparisonTuning:
    """Constants of the comparison of two models, and of strong scaling."""

    grid: int = tuned(400, "places at which crossings are looked for", JUDGED)
    reach: float = tuned(2.0**20, "crossings are looked for up to so many times the point", JUDGED)
    clearly: float = tuned(0.8, "at the end of a line, of its beginning: a time that falls", JUDGED)


COMPARISON = ComparisonTuning()


@dataclass(frozen=True)
class AllowanceTuning:
    """Constants of what counts allow a prediction to be."""

    factor: float = tuned(
        10.0,
        "times what was measured times the growth of counts: a larger prediction is not known",
        "the cost of a unit of work grows less from caches to memory or with waiting for the network; the absurd "
        "predictions of AMG and miniVite were a hundred times beyond",
    )
    trusted: float = tuned(30.0, "% SMAPE: models that miss more have not even the size of what was measured", JUDGED)


ALLOWANCE = AllowanceTuning()
