"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import JUDGED, tuned


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
    directions: int = tuned(24, "of the belief that are kept; the others hold next to nothing", JUDGED)


BELIEF = BeliefTuning()


@dataclass(frozen=True)
class PlanningTuning:
    """Constants of choosing the next points: by the strategy `design`, and what comes before it."""

    careful: float = tuned(
        1.1, "costs are taken for so much larger: a run that is stopped at the budget is lost", JUDGED
    )
    part: float = tuned(
        1 / 3,
        "share of what is left of the budget that one round of a plan spends, at most on what models cannot do without",
        "named by evidence/point-selection.md: chosen on functions of seeds other than the reported ones",
    )
    base_share: float = tuned(1 / 8, "of what is left, that a run of the base may take", JUDGED)
    line_length: int = tuned(
        5,
        "values along each parameter's line; with fewer, a one-parameter model cannot tell its terms apart",
        "five values tell n from n log n (tutorial/your-own-program.md)",
    )
    batch: int = tuned(5, "runs a round for strategies that rate one run after the other", JUDGED)
    sampled: float = tuned(
        3.0,
        "times a plain run, that one takes that samples accesses to memory, until one was seen",
        "between the least and the most of evidence/caches.md",
    )


PLANNING = PlanningTuning()
