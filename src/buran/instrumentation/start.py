"""The filter that a campaign starts with, and the guard of that start: hooks that cost too much everywhere.

The guard's rule is that of TAU's throttling, ``many visits, each of them short``, with the limit in terms of the whole
run: a function whose visits are short costs about the same share of the time at larger points.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from buran.instrumentation.callgraph import CallGraph
from buran.instrumentation.filter_file import Filter, Rule, by_symbol, format_filter, only, parse
from buran.instrumentation.measured import MOST_EXPENSIVE_VISIT, threads_of
from buran.instrumentation.pattern import named_by_any
from buran.instrumentation.pira import Cut, Size, initial_selection
from buran.instrumentation.prediction import MAINS, Floats, by_region, reached_by_filters, symbol_of
from buran.instrumentation.refinement import FunctionVerdict
from buran.modeling.numerics.tuning import LARGER, MATTERS, OVERHEAD
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree
from buran.wording import counted

Start = Literal["default", "everything", "statements", "instructions", "branches", "loops"]
EVERY = ("*", "?*")
EVERYTHING = format_filter(Filter(regions=tuple(Rule(True, pattern) for pattern in EVERY)))
"""Every function; the second rule is for Score-P, whose plugin skips inline functions that only ``*`` lets through."""


def start_filter(start: Start, graph: CallGraph | None, cut: Cut | int = "unique_median") -> str:
    """Return the rules of the first filter; empty for the backend's own choice.

    Parameters
    ----------
    graph
        Call graph of the program; needed for all but ``default`` and ``everything``.
    cut
        Threshold of the aggregated size, see `threshold`.
    """
    if start == "default":
        return ""
    if start == "everything":
        return EVERYTHING
    assert graph is not None
    size: Size = start
    chosen = np.flatnonzero(initial_selection(graph, size, cut) & graph.has_body)
    return format_filter(only({graph.symbols[i] for i in chosen.tolist()} | {graph.symbols[graph.main]}))


@dataclass(frozen=True)
class Throttled:
    """Functions that cost too much for the first full measurement.

    Attributes
    ----------
    verdicts
        By linker symbol, why each was throttled.
    before, after
        Predicted time in hooks over that of the functions without, with all hooks of the small run and with what is
        left.
    """

    verdicts: Mapping[str, FunctionVerdict]
    before: float
    after: float

    @property
    def sentence(self) -> str:
        """What the guard did, for a comment."""
        before, after = f"{100 * self.before:.3g} %", f"{100 * self.after:.2g} %"
        what = f"{counted(len(self.verdicts), 'function')} throttled"
        return f"{what}: instrumentation took {before} of a pilot run's time without, {after} is left"


def visit_cost_of(hooked_s: float, plain_s: float, visits: float, calibrated_s: float) -> float:
    """Return what a visit costs in this very program, in seconds: never less than in the calibrating loop.

    Hooks also keep the compiler from inlining; the difference between a run with hooks and one without holds that. It
    counts only where hooks at least double the time: else it is mostly the noise of two short runs; and up to some
    times the calibrated cost, for starting and ending Score-P would make some hundred visits expensive.

    Parameters
    ----------
    hooked_s, plain_s
        CPU time of both runs, of all ranks.
    visits
        Visits of all ranks.
    calibrated_s
        In a loop over an empty function.
    """
    if not visits > 0 or hooked_s < 2 * plain_s:
        return calibrated_s
    return max(calibrated_s, min((hooked_s - plain_s) / visits, MOST_EXPENSIVE_VISIT * calibrated_s))


def guard(
    experiment: Experiment,
    hooked_s: float,
    plain_s: float,
    calibrated_s: float,
    limit: float = OVERHEAD,
    keep: Sequence[str] = (),
) -> Throttled:
    """Throttle by the point of an experiment whose functions took longest.

    Parameters
    ----------
    hooked_s, plain_s
        CPU time of a run at that point with hooks and without, of all ranks.
    calibrated_s
        Cost of a visit in a loop over an empty function.
    limit, keep
        See `throttle`.
    """
    index = longest(experiment)
    seconds, visits = (_mean(experiment.over_locations(name))[:, index] for name in ("time", "visits"))
    every = float(_mean(experiment.over_locations("visits", "sum"))[:, index].sum())
    threads = threads_of(experiment)
    if threads is not None:  # times are those of one thread, visits of all
        visits = visits / threads[:, index]
    cost_s = visit_cost_of(hooked_s, plain_s, every, calibrated_s)
    cost_s = min(cost_s, max(calibrated_s, _most_a_visit_costs(experiment.tree, seconds, visits)))
    return throttle(experiment.tree, seconds, visits, cost_s * stretch(experiment, hooked_s, index), limit, keep)


def _most_a_visit_costs(tree: CallTree, seconds: Floats, visits: Floats) -> float:
    """Return what a visit costs at most: the own time of the shortest function that has many visits, for each of them.

    Part of a hook's time lies between its two time stamps, and so in the function itself. The difference of two runs
    holds the start-up of the measurement system too, which the visits of a small run cannot have cost.
    """
    own_s, number = (by_region(tree, np.nan_to_num(values)) for values in (seconds, visits))
    reached = reached_by_filters(tree)
    many = reached & (number > 0) & (number >= MATTERS * number[reached].sum())
    return float((own_s[many] / number[many]).min(initial=np.inf))


def stretch(experiment: Experiment, cpu_s: float, index: int | None = None) -> float:
    """Return by how much functions lasted longer than what they computed, where a machine is shared; at least 1.

    Parameters
    ----------
    cpu_s
        CPU time of the runs at the point of this place, or at all points, of all ranks, once each.
    """
    tree = experiment.tree
    seconds = _mean(experiment.over_locations("time", "sum")[reached_by_filters(tree)[tree.region]])
    lasted_s = float(seconds.sum() if index is None else seconds[:, index].sum())
    return max(lasted_s / cpu_s, 1.0) if cpu_s > 0 else 1.0


def _mean(values: Floats) -> Floats:
    """Return shape (call path, point): over repetitions; 0 where only runs with other hooks saw a call path."""
    return np.nan_to_num(over_repetitions(values, "mean"))


def longest(experiment: Experiment) -> int:
    """Return the place of the point with the most time in functions: MPI starts and connects as long in small runs."""
    seconds = np.nan_to_num(experiment.over_locations("time"))[
        reached_by_filters(experiment.tree)[experiment.tree.region]
    ]
    return int(seconds.sum(axis=(0, 2)).argmax())


def throttle(
    tree: CallTree,
    seconds: Floats,
    visits: Floats,
    visit_cost_s: float,
    limit: float = OVERHEAD,
    keep: Sequence[str] = (),
) -> Throttled:
    """Find the functions to leave out before anything larger is run: the shortest visits first.

    The limit is of the time in the program's own functions. MPI takes most of a small run, starting and connecting, and
    would hide what becomes of larger ones. Even above the limit, a function stays that is not mostly hooks, or that has
    few of the visits: what it is worth at the target, and what it costs there, is for models to say, and a larger run
    spends more time in each of its visits.

    Parameters
    ----------
    seconds, visits
        Shape (call path,): exclusive time with hooks and visits of one run, mean over ranks; NaN counts as nothing.
    limit
        Limit of the time in functions without hooks.
    keep
        Patterns of functions that stay whatever they cost.
    """
    regions = tree.regions
    own_s, number = (by_region(tree, np.nan_to_num(values)) for values in (seconds, visits))
    reached = reached_by_filters(tree)
    free = reached & np.array([symbol_of(region) not in MAINS for region in regions], dtype=bool)
    free[named_by_any(keep, [(region.name, symbol_of(region)) for region in regions])] = False
    hooks = np.where(reached, number * visit_cost_s, 0.0)
    whole = float(own_s[reached].sum())
    bare = max(whole - float(hooks.sum()), MATTERS * whole)
    if not bare > 0:
        return Throttled({}, 0.0, 0.0)
    allowed = limit * bare
    each_s = np.maximum(own_s - hooks, 0.0) / np.where(number > 0, number, 1.0)
    # the least own time of a visit goes first, until the rest of the overhead is allowed
    order = np.lexsort((-hooks, each_s))
    mostly_hooks, many = hooks > LARGER * own_s, hooks > MATTERS * hooks.sum()
    order = order[(free & mostly_hooks & many)[order]]
    left = float(hooks.sum()) - np.concatenate([[0.0], np.cumsum(hooks[order])])
    count = int(np.argmax(left <= allowed)) if left[-1] <= allowed else len(order)
    verdicts = {
        symbol_of(regions[i]): FunctionVerdict(
            False,
            f"throttled: {number[i]:.3g} visits of {1e9 * own_s[i] / number[i]:.3g} ns in a pilot run",
            visits=float(number[i]),
            name=regions[i].name,
        )
        for i in order[:count].tolist()
    }
    return Throttled(verdicts, float(hooks.sum()) / bare, float(left[count]) / bare)


def guarded(filter_text: str, throttled: Throttled) -> str:
    """Return a filter without the throttled functions; empty text is the backend's own choice."""
    if not throttled.verdicts:
        return filter_text
    rules = parse(filter_text) if filter_text else Filter()
    out = by_symbol(False, throttled.verdicts)
    why = (f"{verdict.name}: {verdict.reason}" for verdict in throttled.verdicts.values())
    return format_filter(Filter(rules.files, (*rules.regions, *out)), [throttled.sentence, "", *why])
