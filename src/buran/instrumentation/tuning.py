"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class FilterTuning:
    """Constants of filters: what is refined, kept and dropped."""

    visit_cost_s: float = tuned(
        60e-9,
        "seconds of enter and exit of one visit where nothing was calibrated",
        "measured: Score-P 8.4 takes 58 ns",
    )
    near_share: float = tuned(
        0.1,
        "of the share that makes a kernel: what has more stays where its hooks fit, as models err",
        "16 lists of eight programs: without it they lack up to six functions of up to 0.4 % of the time, one of "
        "1.9 % under hooks in everything; with no least share up to 80 more come in, none of them above 0.05 %",
    )
    most_expensive_visit: float = tuned(
        20.0,
        "times the calibrated cost that a visit has at most where hooks prevent inlining: what else a run with hooks "
        "takes longer is the start and end of the measurement system",
        JUDGED,
    )


FILTERS = FilterTuning()


@dataclass(frozen=True)
class PoolingTuning:
    """Constants of times under an earlier filter, corrected by the cost of hooks."""

    scatter: float = tuned(
        0.1,
        "of a single run, until several are known; a corrected time that is more uncertain is left out, one that "
        "changes by less is constant",
        "evidence/overhead.md: 2 to 15 %, on a busy machine 10 to 30 %",
    )
    loop_uncertainty: float = tuned(
        0.5, "of the cost in a loop: a program has other caches, and loses inlining", JUDGED
    )
    least_uncertainty: float = tuned(0.2, "of any cost: functions are not alike", JUDGED)
    counting: float = tuned(
        0.05,
        "of the time, that counting takes before the program itself shows it",
        "six programs: evidence/overhead.md",
    )
    counting_spread: float = tuned(0.08, "standard deviation of that between call paths", "evidence/overhead.md")


POOLING = PoolingTuning()
