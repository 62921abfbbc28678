"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import JUDGED, MODELLER, tuned

ABLATION = "ablation, seed 4242 (evidence/models.md)"


@dataclass(frozen=True)
class SearchTuning:
    """Constants of the search for hypotheses."""

    beam: int = tuned(
        8,
        "hypotheses of one size, terms of one parameter, or corrections, that are taken further; of several parameters "
        "where there are as many points for each",
        ABLATION,
    )
    progress: float = tuned(
        0.5,
        "an error so much smaller than without a term, or a steeper power, speaks for it whatever the score says",
        "ablation: with 1, cubic counts of CoMD that are rounded become n^(5/2) log2(n)^2",
    )
    steady: float = tuned(0.15, "error up to which a model says something, and by which a time falls", MODELLER)
    belief: float = tuned(0.3, "nats of odds for a nat of the score, times the points", ABLATION)
    reach: float = tuned(
        8.0, "times the largest value of each parameter: up to there no prediction is negative", JUDGED
    )


SEARCH = SearchTuning()


@dataclass(frozen=True)
class UncertaintyTuning:
    """Constants of what is left open: intervals and noise."""

    parts: tuple[float, ...] = tuned(
        (0.01, 0.03, 0.08, 0.2, 0.5, 0.8, 0.92, 0.97, 0.99),
        "of the weight, at which the hypotheses of a call path are divided, each part with one that stands for it",
        "of 300 generated call paths the ends of 90 % intervals move by 2 % in the middle half",
    )


UNCERTAINTY = UncertaintyTuning()


@dataclass(frozen=True)
class FewValuesTuning:
    """Constants of growth along a parameter with two or three values."""

    steeper: int = tuned(1, "powers by which other functions through the same values may be steeper", JUDGED)


FEW_VALUES = FewValuesTuning()


@dataclass(frozen=True)
class ExactTuning:
    """Constants of formulas that explain exact counts.

    What a formula takes to name, and what the values that it does not need tell, are counted in bits: a chance
    formula passes a value of b bits with a probability of 2^-b.
    """

    most_bits: int = tuned(12, "bits that the terms of one parameter may cost together", JUDGED)
    margin: float = tuned(4.0, "bits that prove a formula, a further term, or one formula against another", JUDGED)


EXACT = ExactTuning()


PRICES = "ablation on drifting prices, seeds 1 to 3 (docs/evidence/price.md)"


@dataclass(frozen=True)
class DiscrepancyTuning:
    """Constants of the process on what models leave over."""

    deviations: tuple[float, ...] = tuned(
        (0.1, 0.3),
        "standard deviations of the process, in nats: the last beside counted work; beside a function found by "
        "search, which follows most, the evidence chooses",
        PRICES,
    )
    noises: tuple[float, ...] = tuned(
        (0.01, 0.03, 0.1, 0.3, 1.0), "of a value: the evidence chooses; the first one repetitions do not show", JUDGED
    )
    slope: float = tuned(0.5, "of the deviation, for each nat of a parameter: a trend", PRICES)
    length: float = tuned(0.7, "of the measured range of a parameter's logarithm: length scale", PRICES)

    @property
    def price(self) -> float:
        """Return the standard deviation beside counted work."""
        return self.deviations[-1]


DISCREPANCY = DiscrepancyTuning()


@dataclass(frozen=True)
class AllowanceTuning:
    """Constants of what counts allow a prediction to be."""

    factor: float = tuned(
        10.0,
        "times what was measured times the growth of counts, or times an analytical model and its coefficients: a "
        "larger prediction is not known, and no correction",
        "the cost of a unit of work grows less from caches to memory or with waiting for the network; the absurd "
        "predictions of AMG and miniVite were a hundred times beyond",
    )


ALLOWANCE = AllowanceTuning()
