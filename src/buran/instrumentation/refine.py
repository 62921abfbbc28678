"""Refinement of the instrumentation: keep what will matter, and the way to it, within a given overhead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from buran.errors import UsageError
from buran.instrumentation.callgraph import CallGraph
from buran.instrumentation.pattern import named_by, named_by_any, plain
from buran.instrumentation.prediction import (
    FILTERABLE,
    SCATTER,
    Floats,
    Mask,
    ModelledProgram,
    RegionPrediction,
    predict_regions,
    symbol_of,
)
from buran.instrumentation.refinement import CONSTANT, DROPPED, KEPT, NEAR_SHARE, Refinement, Verdicts, Wishes
from buran.modeling.numerics.tuning import MATTERS
from buran.profiles.cubex_read import PARAMETRIZED
from buran.profiles.profile import Region
from buran.wording import counted


@dataclass(frozen=True)
class Explored:
    """What is known of a program's functions beyond the models of an iteration.

    Attributes
    ----------
    graph
        Call graph of the program, for functions that were never measured and for the static closure.
    known
        What earlier iterations found out. A kernel of theirs stays down to half of `Wishes.share`, so that noise
        does not change filters back and forth; a function they dropped is not tried again.
    hooked
        Linker symbols that had hooks in what was measured.
    uncounted
        Those that are not tried, as counts know nothing of them.
    """

    graph: CallGraph | None = None
    known: Verdicts = field(default_factory=dict)
    hooked: Collection[str] = ()
    uncounted: Collection[str] = ()


_UNEXPLORED = Explored()


@dataclass(frozen=True, eq=False)
class _Choice:
    """Why functions were chosen or not, shape (region,) each."""

    kernels: Mask
    kept: Mask
    costly: Mask
    steady: Mask
    near: Mask
    distorted: Mask
    waiting: Mask
    always: Mask
    dropped: Mask

    def reason(self, prediction: RegionPrediction, i: int, least: float) -> str:
        """Say why a function is instrumented, or why not; `least` is the share of a kernel."""
        region, share = prediction.tree.regions[i], prediction.share[i]
        percent = f"{100 * share:.3g} % of the time"
        if region.paradigm not in FILTERABLE:
            return f"always measured, {region.paradigm} is not filtered"
        if self.dropped[i]:
            return DROPPED
        if self.costly[i]:
            return f"its visits cost more than {percent} is worth"
        if np.isnan(share):
            return "no model yet"
        if self.kernels[i]:
            if share >= least or not (self.always[i] or self.waiting[i]):
                grown = [metric for metric, growing in prediction.work if growing[i] >= least]
                return percent + (f", {' and '.join(grown)} grow" if grown and share < least else "")
            if region.role == PARAMETRIZED:
                return "the program records a parameter in it"
            return KEPT if self.always[i] else f"ranks wait for each other, {percent}"
        if prediction.main[i]:
            return "begin of the program"
        if self.kept[i] and not self.near[i]:
            return f"on the way to such a function, {100 * share:.2g} % itself"
        if self.kept[i]:
            return f"{100 * share:.2g} % of the time, which may be more: its instrumentation fits"
        if self.steady[i] and share >= least:
            return f"{percent}{CONSTANT}"
        if self.distorted[i] and prediction.own_s[i] > 0:
            cost = 100 * min(prediction.hook_s[i] / prediction.own_s[i], 1)
            return f"instrumentation would take {cost:.0f} % of its {percent}"
        return f"{100 * share:.2g} % of the time, below {100 * least:.3g} %"


def refine(
    program: ModelledProgram, target: ArrayLike, wishes: Wishes | None = None, explored: Explored = _UNEXPLORED
) -> Refinement:
    """Choose the functions to instrument in the next iteration, by what they will matter at the target.

    Kernels are functions with a share of the predicted time that changes between the smallest point and the target;
    functions one of whose call paths has no model; functions whose further metrics (basic blocks, bytes) grow to such a
    share; and functions in which ranks wait for each other as long. If they hold too little of the time, the next
    largest join them. Kept is what leads to kernels and to MPI operations with such a share, and, as models err, what
    has a part of it. What then costs too much goes: the least time per visit first.

    A model of few noisy values may miss a kernel: a function that has the share at the largest measured point is one
    too, and none is constant whose measured time grew.

    Parameters
    ----------
    target
        See `predict_regions`.

    Raises
    ------
    UsageError
        If models and tree do not belong together, the target does not fit the parameters, or the static closure is
        wanted without a call graph.
    """
    wishes = wishes or Wishes()
    prediction = predict_regions(program, target)
    regions = program.tree.regions
    symbols = [symbol_of(region) for region in regions]
    # kernels, what leads to them, and what is kept within the allowed overhead
    choice = _choose(program, prediction, wishes, explored)
    kernels, kept = choice.kernels, choice.kept
    # functions without a measurement: those that the choice adds, and those it cannot judge
    added = _never_measured(wishes, explored, symbols, kernels & kept)
    judged = {name for name, verdict in explored.known.items() if verdict.share is not None}
    never = tuple(sorted(set(explored.hooked) - set(symbols) - judged))
    reasons = tuple(choice.reason(prediction, i, wishes.share) for i in range(len(regions)))
    result = Refinement(prediction, kept, kernels & (kept | ~prediction.filterable), reasons, added, (), never)
    known_names = dict(zip(symbols, (region.name for region in regions), strict=True))
    if explored.graph is not None:
        known_names = {**dict(zip(explored.graph.symbols, explored.graph.names, strict=True)), **known_names}
    notes = (*_notes(result, wishes, choice.costly), *_of_patterns(wishes, known_names))
    return replace(result, notes=notes, steady=choice.steady, share=wishes.share)


def _choose(program: ModelledProgram, prediction: RegionPrediction, wishes: Wishes, explored: Explored) -> _Choice:
    """Choose among the measured functions: kernels, the way to them, what is near, as far as the overhead allows."""
    regions, filterable, share = program.tree.regions, prediction.filterable, prediction.bare_share
    memory = (explored.known.get(symbol_of(region)) for region in regions)
    before = np.array([known is not None and known.kept for known in memory], dtype=bool)
    least = np.where(before, wishes.share / 2, wishes.share)
    unknown, distorted = np.isnan(prediction.share), prediction.mostly_hooks(wishes.hook_share)
    seen, grew = _measured(prediction, program.extremes_s, _visits_at_largest(program))
    # kernels: a share of the time, or of a further metric, that changes; waiting; what the user keeps
    with np.errstate(invalid="ignore"):
        large: Mask = ((share >= least) | (seen >= least)) & ~unknown & (prediction.total_s > 0)
    busy: Mask = np.any([growing >= wishes.share for _, growing in prediction.work] or [np.zeros_like(large)], axis=0)
    steady = prediction.constant & filterable & ~grew & ~busy & (not wishes.constants)
    waiting = _waiting(prediction, program.imbalance, wishes.share) & filterable
    # Score-P ends a program that records a parameter outside of a function with hooks.
    always = _matching(regions, wishes.keep) | np.array([region.role == PARAMETRIZED for region in regions], dtype=bool)
    dropped = _matching(regions, wishes.drop) & ~always
    kernels = ((large & ~steady) | unknown | (busy & ~distorted) | waiting | always) & ~dropped
    no_kernel = steady | dropped | distorted | unknown | prediction.main
    kernels = _enough(prediction, kernels, ~no_kernel, wishes.coverage)
    # kept: the way to kernels, and what has a part of the share
    keep = filterable & (prediction.leading_to(kernels) | prediction.main) & ~dropped
    if wishes.closure == "static":
        keep |= filterable & _static_closure(explored.graph, regions, kernels & keep) & ~dropped
    near = np.fmax(share, seen) >= NEAR_SHARE * wishes.share
    near &= filterable & np.isfinite(prediction.hook_s) & ~(dropped | keep | steady | distorted)
    keep |= near
    # what costs too much goes
    worth = np.where(kernels | near, np.fmax(np.nan_to_num(share), seen), 0.0)
    kept = within_overhead(prediction, keep, worth, prediction.main | always, wishes.overhead)
    return _Choice(kernels, kept, keep & ~kept, steady, near, distorted, waiting, always, dropped)


def _never_measured(wishes: Wishes, explored: Explored, symbols: Sequence[str], kernels: Mask) -> dict[str, str]:
    """Return why functions that were never measured are tried, by linker symbol; none without a call graph."""
    graph, hooked = explored.graph, explored.hooked
    if graph is None:
        return {}
    added = _unexplored_kernels(graph, explored, symbols, kernels)
    added |= dict.fromkeys(_unmeasured(graph, wishes.keep, {*symbols, *hooked}), KEPT)
    unwanted = _unmeasured(graph, wishes.drop, ()) - _unmeasured(graph, wishes.keep, ())
    return {name: why for name, why in added.items() if name not in unwanted}


def _unexplored_kernels(graph: CallGraph, explored: Explored, symbols: Sequence[str], kernels: Mask) -> dict[str, str]:
    """Return linker symbols to try, with the reason.

    These are functions with loops of their own that kernels call, directly or through functions that were not
    measured either; also those of system headers, where templates have their loops. Nothing is tried twice.

    Parameters
    ----------
    symbols, kernels
        Of the measured regions.
    """
    seen = {*symbols, *explored.known, *explored.hooked}
    new = graph.which(lambda each: each.has_body and each.symbol not in seen)
    chosen = {symbol for symbol, kernel in zip(symbols, kernels, strict=True) if kernel}
    reached = waiting = graph.which(lambda each: each.symbol in chosen)
    while waiting.any():  # one step a level of functions that were not measured
        waiting = graph.callees(waiting) & new & ~reached
        reached = reached | waiting
    loops, uncounted = graph.features["loops"], set(explored.uncounted)
    promising = reached & new & (loops > 0) & graph.which(lambda each: each.symbol not in uncounted)
    return {
        graph.symbols[i]: f"never measured, {counted(int(loops[i]), 'loop')} below a function that matters"
        for i in np.flatnonzero(promising).tolist()
    }


def _matching(regions: Sequence[Region], patterns: Sequence[str]) -> Mask:
    out = np.zeros(len(regions), dtype=bool)
    out[named_by_any(patterns, [(region.name, symbol_of(region)) for region in regions])] = True
    return out


def with_wishes(refinement: Refinement, wishes: Wishes) -> Refinement:
    """Return a published refinement with what the user wants kept or dropped, which its rules do not know."""
    kept = _matching(refinement.regions, wishes.keep) & refinement.prediction.filterable
    dropped = _matching(refinement.regions, wishes.drop) & ~kept & ~refinement.prediction.main
    reasons = (
        KEPT if keep else DROPPED if drop else reason
        for reason, keep, drop in zip(refinement.reasons, kept.tolist(), dropped.tolist(), strict=True)
    )
    return replace(refinement, keep=(refinement.keep | kept) & ~dropped, reasons=tuple(reasons))


def _unmeasured(graph: CallGraph, patterns: Sequence[str], measured: Collection[str]) -> set[str]:
    """Return the linker symbols of functions with a body that patterns name and that were not measured."""
    numbers = named_by_any(patterns, zip(graph.names, graph.symbols, strict=True))
    return {graph.symbols[i] for i in numbers if graph.has_body[i]} - set(measured)


def _visits_at_largest(program: ModelledProgram) -> Floats:
    """Return shape (call path,): visits of one thread at the measured point with the most time in all."""
    time, visits, threads = program.time, program.visits, program.threads
    points = np.array(time.points, dtype=np.float64).reshape(-1, len(time.parameters))
    if visits is None or not len(points):
        return np.zeros(len(time.call_paths))
    largest = int(np.nansum(time.predict(points), axis=0).argmax())
    number: Floats = np.nan_to_num(visits.predict(points[largest][None])[:, 0])
    return number if threads is None or threads.shape[1] <= largest else number / threads[:, largest]


def _measured(prediction: RegionPrediction, extremes_s: Floats | None, visits: Floats) -> tuple[Floats, Mask]:
    """Return the share of each region in the time of the largest point, and whether its time grew.

    Hooks are taken off a function that calls nothing measured, as they are all in its own time.

    Parameters
    ----------
    visits
        Shape (call path,): at the largest point.
    """
    if extremes_s is None:
        return np.zeros(len(prediction.tree.regions)), np.zeros(len(prediction.tree.regions), dtype=bool)
    startup = prediction.seconds == 0  # starting and ending MPI, or nothing
    by_region = prediction.by_region(np.where(startup[:, None], 0.0, extremes_s))
    hooks = (
        np.where(prediction.leaves & prediction.filterable, prediction.by_region(visits), 0) * prediction.visit_cost_s
    )
    bare = np.maximum(by_region[:, 1] - hooks, 0.0)
    total = float(by_region[:, 1].sum())
    return bare / (total or 1.0), by_region[:, 1] > (1 + SCATTER) * by_region[:, 0]


def _waiting(prediction: RegionPrediction, imbalance: Floats | None, share: float) -> Mask:
    """Mark functions in which the slowest rank loses a share of the time of the largest point."""
    if imbalance is None or not prediction.measured_s.size:
        return np.zeros(len(prediction.tree.regions), dtype=bool)
    whole = np.nansum(prediction.measured_s, axis=0).max()
    lost: Mask = prediction.by_region(np.nan_to_num(imbalance)) > share * whole
    return lost if whole > 0 else np.zeros_like(lost)


def _enough(prediction: RegionPrediction, kernels: Mask, allowed: Mask, coverage: float) -> Mask:
    """Add functions, the largest first, until kernels and MPI hold enough of the predicted time."""
    share = np.nan_to_num(prediction.bare_share)
    more = prediction.filterable & allowed & ~kernels & (share > 0)
    covered = float(share[kernels | ~prediction.filterable].sum())
    out = kernels.copy()
    for i in np.flatnonzero(more)[np.argsort(-share[more], kind="stable")].tolist():
        if covered >= coverage * float(share.sum()):
            break
        out[i] = True
        covered += share[i]
    return out


def _static_closure(graph: CallGraph | None, regions: Sequence[Region], kernels: Mask) -> Mask:
    if graph is None:
        raise UsageError("paths of the call graph are wanted, but there is no call graph", hint="closure: measured")
    numbers = graph.numbers(regions)
    leading = graph.leading_to(graph.marked(numbers[kernels]))
    return np.append(leading, False)[numbers]  # -1, of what the graph does not know, is the last


def _of_patterns(wishes: Wishes, names: Mapping[str, str]) -> list[str]:
    """Say which patterns name no function, name several with one name, or contradict each other.

    Parameters
    ----------
    names
        Names of all known functions, by linker symbol.
    """
    symbols, notes = list(names), []
    functions = [(name, symbol) for symbol, name in names.items()]
    kept, dropped = named_by(wishes.keep, functions), named_by(wishes.drop, functions)
    for key, patterns, named in (("keep", wishes.keep, kept), ("drop", wishes.drop, dropped)):
        for pattern, numbers in zip(patterns, named, strict=True):
            if not numbers:
                notes.append(f"{key}: the pattern {pattern!r} names no function")
            elif len(numbers) > 1 and plain(pattern) is not None:
                every = ", ".join(sorted(symbols[number] for number in numbers))
                notes.append(f"{key}: {pattern!r} is the name of {len(numbers)} functions: {every}")
    both = set().union(*kept) & set().union(*dropped)
    if both:
        every = ", ".join(sorted(functions[number][0] for number in both))
        notes.append(f"kept although patterns of drop name it too: {every}")
    return notes


def _notes(result: Refinement, wishes: Wishes, costly: Mask) -> tuple[str, ...]:
    notes = []
    prediction = result.prediction
    if not (result.kernels & prediction.filterable).any() and len(prediction.tree):
        notes.append("no function reaches the threshold: main and the ways to MPI stay")
    if costly.any():
        lost = float(np.nansum(prediction.share[costly]))
        with_them = max(replace(result, keep=result.keep | costly).limited)
        notes.append(
            f"{counted(int(costly.sum()), 'function')} with {100 * lost:.2g} % of the time dropped: with them the "
            f"overhead would be {100 * with_them:.2g} %, and {100 * (wishes.overhead or 0):.3g} % is allowed"
        )
    worst = max(result.limited) if np.isfinite(result.limited).all() else 0.0
    if wishes.overhead is not None and worst > wishes.overhead:
        notes.append(f"the overhead stays at {100 * worst:.2g} %: what is left must stay")
    if result.coverage < wishes.coverage:
        notes.append(f"kernels hold {100 * result.coverage:.3g} % of the time: the rest is constant or too costly")
    return tuple(notes)


def within_overhead(prediction: RegionPrediction, keep: Mask, worth: Floats, fixed: Mask, limit: float | None) -> Mask:
    """Choose functions as far as the predicted overhead is allowed, at the target and over all points together.

    Those stay first whose time without their hooks is the largest for each second of hooks; one that no longer fits
    makes room for the next. What all together costs next to nothing stays in any case.

    Parameters
    ----------
    prediction
        Predictions for all regions.
    keep, fixed
        Shape (region,): what would be kept, and what of it may not be dropped.
    worth
        Shape (region,): what is known by a function's hooks, as a share of the time; 0 where it only leads to others.
    limit
        Time in hooks over time without; None for no limit.
    """
    hooks, bare = prediction.at_most
    if limit is None:
        return keep.copy()
    costs = hooks / np.where(bare > 0, limit * bare, np.inf)[None]  # of what is allowed
    most = costs.max(axis=1)
    cheapest = np.argsort(most, kind="stable")
    few = np.zeros_like(keep)
    few[cheapest] = np.cumsum(np.where(keep & ~fixed, most, 0.0)[cheapest]) <= MATTERS
    out: Mask = keep & (fixed | few | ~prediction.filterable)
    choice = np.flatnonzero(keep & ~out)
    spent = costs[out].sum(axis=0)
    for i in choice[np.lexsort((most[choice], -worth[choice] / most[choice]))].tolist():
        if (spent + costs[i] <= 1).all():
            out[i] = True
            spent += costs[i]
    return out
