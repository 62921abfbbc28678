"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class BeliefTuning:
    """Constants of what the models leave open."""

    disagreement: float = tuned(
        0.5,
        "hypotheses count as no further apart than about this, in logarithms: a miss is a miss",
        "named by evidence/point-selection.md: chosen on functions of seeds other than the reported ones",
    )
    waiting: float = tuned(
        0.1,
        "standard deviation, as a share of the run time, of what operations of MPI take at numbers of ranks far from "
        "those measured: who waits there, and which algorithm is taken, is in no count",
        JUDGED,
    )
    wild: float = tuned(
        10.0, "times what powers of the parameters say, that a call path counts for at the target at the most", JUDGED
    )
    directions: int = tuned(24, "of the belief that are kept; the others hold next to nothing", JUDGED)
    discrepancy_directions: int = tuned(12, "of these, for the discrepancy", JUDGED)
    widest: float = tuned(
        1e3, "relative standard deviation of what coefficients leave open: beyond it, nothing is known anyway", JUDGED
    )
    extreme: float = tuned(
        3.0, "logarithm; predictions further from the best one, or of another sign, count as this far", JUDGED
    )


BELIEF = BeliefTuning()


@dataclass(frozen=True)
class PlanningTuning:
    """Constants of choosing the next points: by the strategy `design`, and what comes before it."""

    steps: int = tuned(40, "of the search for the best plan", JUDGED)
    careful: float = tuned(
        1.1, "costs are taken for so much larger: a run that is stopped at the budget is lost", JUDGED
    )
    part: float = tuned(
        0.34,
        "share of what is left of the budget that one round of a plan spends",
        "named by evidence/point-selection.md: chosen on functions of seeds other than the reported ones",
    )
    rounds: int = tuned(
        12,
        "most rounds of a strategy that chooses by what was measured: a guard, the budget ends most campaigns before",
        "of all campaigns of evidence/campaigns.md",
    )
    filters: int = tuned(4, "most rounds of other strategies, under a new filter each but the first", JUDGED)
    helps: float = tuned(
        0.01, "share of the variance at the target that the whole rest of the budget must remove", JUDGED
    )
    few: float = tuned(
        40.0,
        "runs of a plan that count as few: their numbers are chosen as whole ones instead of being rounded",
        JUDGED,
    )
    beginnings: int = tuned(16, "places of such a plan that are tried as the first one, those with most cost", JUDGED)
    heaviest: int = tuned(
        64, "call paths that such plans are judged by, those with most variance at the target", JUDGED
    )
    base_share: float = tuned(1 / 8, "of what is left, that a run of the base may take", JUDGED)
    first_together: float = tuned(
        1 / 3,
        "likewise, what models cannot do without, in a round",
        JUDGED,
    )
    base_together: float = tuned(1 / 2, "likewise, all runs of a round", JUDGED)
    level: float = tuned(0.9, "of the intervals that an accuracy is asked of", JUDGED)
    counts: float = tuned(0.01, "share of the run time from which on a call path must reach the accuracy", JUDGED)
    cliff: float = tuned(
        2.0,
        "times the share of the time that misses had so far, from which on a point is called beyond a cliff",
        JUDGED,
    )
    line_length: int = tuned(
        5,
        "values along each parameter's line; with fewer, a one-parameter model cannot tell its terms apart",
        "five values tell n from n log n (tutorial/your-own-program.md)",
    )
    cover_values: int = tuned(3, "of each parameter, of a first plan", "the fewest that tell growth from a constant")
    pilot_values: int = tuned(3, "of each parameter, of a pilot", "the fewest that tell growth from a constant")
    full_repetitions: int = tuned(
        5,
        "runs of each point of the full matrix that a budget in percent refers to",
        "the unit of the budgets in evidence/point-selection.md",
    )
    first_noise: float = tuned(0.03, "relative noise of one run until repetitions and residuals say more", JUDGED)
    first_worth: float = tuned(2.0, "repetitions that this first guess is worth", JUDGED)
    least: float = tuned(1e-3, "of the largest value of a call path: smaller ones count as that for its powers", JUDGED)
    enough: int = tuned(4, "runs; models of fewer are no more than a mean", JUDGED)
    known: float = tuned(0.9, "share of the time whose growth counts show, for times not to be needed for that", JUDGED)
    compared: int = tuned(
        3,
        "points with runs beside the baseline's, which tell what the hooks of a filter cost",
        "tuning seeds of the campaigns in evidence/campaigns.md",
    )
    agreeing: float = tuned(
        0.9, "share of the time whose values of counting runs must agree, for these to replace timed runs", JUDGED
    )
    comparing: float = tuned(1 / 20, "of a budget, that these baseline runs may take beyond the first", JUDGED)
    change: float = tuned(
        0.5,
        "of what is left of the budget, that measuring again under a new filter may take",
        "tuning seeds of the campaigns in evidence/campaigns.md",
    )
    evaluation: float = tuned(0.5, "of the budget, that evaluation points may keep from models", JUDGED)
    unseen: float = tuned(0.5, "of what is left, that pilot runs may take, or a plan of unknown cost", JUDGED)
    batch: int = tuned(5, "runs a round for strategies that rate one run after the other", JUDGED)
    sampling: float = tuned(
        1 / 2,
        "of what is left of the budget, that sampling accesses to memory may take where nobody asked for points",
        JUDGED,
    )
    sampled: float = tuned(
        3.0,
        "times a plain run, that one takes that samples accesses to memory, until one was seen",
        "between the least and the most of evidence/caches.md",
    )
    farthest: float = tuned(1000.0, "factor beyond all points from which on no model is trusted", JUDGED)


PLANNING = PlanningTuning()


@dataclass(frozen=True)
class ProcessTuning:
    """Constants of strategies that are guided by processes and ensembles."""

    most_calls: int = tuned(
        20, "call paths with processes of their own: those with the largest shares of the run time", JUDGED
    )
    curious: float = tuned(2.0, "standard deviations above the mean that UCB looks at", JUDGED)
    least_points: int = tuned(8, "points from which on there is an ensemble", JUDGED)
    members: int = tuned(6, "of that ensemble", JUDGED)


PROCESSES = ProcessTuning()


@dataclass(frozen=True)
class RunTimeTuning:
    """Constants of predicting single runs."""

    shrinkage: float = tuned(0.1, "runs that the guess is worth: a second point outweighs it", JUDGED)
    newest: int = tuned(500, "runs whose ends tell what passes between two of them", JUDGED)


RUN_TIMES = RunTimeTuning()
