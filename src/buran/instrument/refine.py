"""Refinement of the instrumentation: keep what will matter, and the way to it, within a given overhead."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from buran.errors import UsageError
from buran.instrument.callgraph import CallGraph
from buran.instrument.control import within_overhead
from buran.instrument.expansion import unexplored_kernels
from buran.instrument.pattern import glob
from buran.instrument.prediction import FILTERABLE, MAINS, Floats, Mask, RegionPrediction, predict_regions, symbol_of
from buran.instrument.tuning import FILTERS
from buran.instrument.verdicts import FunctionVerdict, Verdicts
from buran.model import ModelSet
from buran.profile.cubex_read import PARAMETRIZED
from buran.profile.profile import CallTree, Region
from buran.wording import counted

CONSTANT = ", but constant"
_PREDICTED = "predicted overhead: at most"  # how a list says it, and where it is read again


@dataclass(frozen=True)
class Wishes:
    """What the user wants of a refinement.

    Attributes
    ----------
    share
        Of the predicted time: functions with at least this much are kernels.
    hook_share
        Of a function's own time: hooks that take more distort it. A leaf whose time without hooks is below `share`
        is then dropped.
    overhead
        Time in hooks over time without that is allowed at every measured point; None for no limit.
    coverage
        Share of the predicted time that kernels and MPI should hold together.
    constants
        Whether functions whose time does not grow are kernels too.
    harmless
        Share of the predicted time that the hooks of a function take; with less it stays, whatever it matters: to drop
        it gains nothing, and may lose what early models underrate. 0 to keep nothing for that.
    closure
        Which functions lead to a kernel: those of measured call paths, or all that the call graph knows.
    keep, drop
        Patterns of names or linker symbols that stay whatever they cost, or never come in.
    """

    share: float = 0.01
    hook_share: float = 0.5
    overhead: float | None = 0.05
    coverage: float = 0.95
    constants: bool = False
    harmless: float = 0.0
    closure: Literal["measured", "static"] = "measured"
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shares = 0 <= self.share <= 1 and 0 <= self.coverage <= 1
        if not (shares and self.hook_share >= 0 and (self.overhead is None or self.overhead > 0)):
            raise UsageError(
                "thresholds of the refinement are out of range",
                why=f"share {self.share}, coverage {self.coverage}, hook share {self.hook_share}, "
                f"overhead {self.overhead}",
                hint="shares lie between 0 and 1; the overhead is above 0",
            )


@dataclass(frozen=True, eq=False)
class Refinement:
    """Which functions stay instrumented.

    Attributes
    ----------
    prediction
        What the choice was made from.
    keep
        Shape (region,): True for functions to instrument; False for MPI and others that no filter reaches.
    kernels
        Shape (region,): those that are kept for themselves, not for leading to others.
    reasons
        One sentence part for each region.
    added
        Linker symbols to try that were never measured, with the reason.
    notes
        What deserves a word, in sentences.
    never_called
        Functions that had hooks and were not visited.
    steady
        Shape (region,): whose time and work are the same at the smallest point and at the target; None if unknown.
    """

    prediction: RegionPrediction
    keep: Mask
    kernels: Mask
    reasons: tuple[str, ...]
    added: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    never_called: tuple[str, ...] = ()
    steady: Mask | None = None

    @property
    def regions(self) -> tuple[Region, ...]:
        """Of the call tree, in its order."""
        return self.prediction.tree.regions

    @property
    def total_s(self) -> float:
        """Predicted time of all call paths at the target, without starting and ending MPI."""
        return self.prediction.total_s

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """Names of the call paths that have no time model."""
        tree = self.prediction.tree
        lacking = np.isnan(self.prediction.seconds)
        return tuple(name for name, value in zip(tree.names, lacking, strict=True) if value)

    @property
    def hook_share(self) -> float:
        """Predicted time in the hooks that a filter reaches, of the total at the target; unknown ones count as 0."""
        hooks_s = self.prediction.hook_s[self.prediction.filterable]
        return float(np.nansum(hooks_s)) / self.total_s if self.total_s > 0 else 0.0

    @cached_property
    def overhead(self) -> Floats:
        """Shape (point,): predicted at the measured points; NaN where unknown."""
        return self.prediction.overhead(self.keep)

    @cached_property
    def coverage(self) -> float:
        """Share of the predicted time inside of kernels and MPI."""
        return self.prediction.coverage(self.kernels, self.keep)

    @property
    def drops_constants(self) -> bool:
        """Whether something goes because its time does not grow."""
        return any(reason.endswith(CONSTANT) for reason in self.reasons)

    @property
    def settled(self) -> bool:
        """Whether a new filter would gain nothing: nothing to try, and what it drops costs and says little.

        Published rules know no cost of hooks: theirs has settled when it drops nothing.
        """
        if self.prediction.visit_cost_s == 0:
            return not self.added and bool((self.keep | ~self.prediction.filterable).all())
        return not self.added and self.hook_share < FILTERS.settled_hook_share and not self.drops_constants

    @property
    def names(self) -> tuple[str, ...]:
        """Linker symbols to instrument, sorted; ``main`` is always among them."""
        kept = {symbol_of(region) for region, keep in zip(self.regions, self.keep, strict=True) if keep}
        kept |= set(self.added)
        return tuple(sorted(kept if kept & set(MAINS) else kept | {"main"}))

    @cached_property
    def verdicts(self) -> dict[str, FunctionVerdict]:
        """What was found out of each function."""
        out = {name: FunctionVerdict(False, "never recorded") for name in self.never_called}
        number = self.prediction.by_region(self.prediction.visits[:, 0])
        for i, region in enumerate(self.regions):
            if region.paradigm in FILTERABLE:
                share, visits = (
                    None if np.isnan(values[i]) else float(values[i]) for values in (self.prediction.share, number)
                )
                out[symbol_of(region)] = FunctionVerdict(bool(self.keep[i]), self.reasons[i], share, visits)
        return out

    @property
    def head(self) -> tuple[str, ...]:
        """What the choice means, in a few lines."""
        lines = [f"predicted time at the target: {self.total_s:.4g} s a rank"]
        if self.prediction.visit_cost_s > 0 and np.isfinite(self.overhead).any():  # published rules know no cost
            lines.append(f"{_PREDICTED} {100 * np.nanmax(self.overhead):.2g} % at a measured point")
        lines.append(f"kernels and MPI hold {100 * self.coverage:.3g} % of the predicted time")
        if self.unknown:
            lines.append(f"{counted(len(self.unknown), 'call path')} without a model, kept")
        return tuple(lines)


def predicted_overhead(commented: str | None) -> float | None:
    """Return the largest overhead at a measured point that a list says it was chosen with; None where it says none."""
    lines = (line.partition(_PREDICTED)[2].split() for line in (commented or "").splitlines() if line.startswith("#"))
    return next((float(words[0]) / 100 for words in lines if words), None)


def refine(
    tree: CallTree,
    time: ModelSet,
    visits: ModelSet | None,
    target: ArrayLike,
    wishes: Wishes | None = None,
    *,
    visit_cost_s: float = FILTERS.visit_cost_s,
    work: Sequence[ModelSet] = (),
    imbalance: Floats | None = None,
    ends_s: Floats | None = None,
    threads: Floats | None = None,
    graph: CallGraph | None = None,
    known: Verdicts | None = None,
    hooked: Collection[str] = (),
    uncounted: Collection[str] = (),
) -> Refinement:
    """Choose the functions to instrument in the next iteration, by what they will matter at the target.

    Kernels are functions with a share of the predicted time, as far as the doubt of their models goes, that changes
    between the smallest point and the target; functions one of whose call paths has no model; functions whose
    further metrics (basic blocks, bytes) grow to such a share; and functions in which ranks wait for each other as
    long. If they hold too little of the time, the next largest join them. Kept is what leads to kernels and to MPI
    operations with such a share. What then costs too much goes: the least time per visit first.

    Parameters
    ----------
    tree, time, visits, target, work, threads
        See `predict_regions`.
    visit_cost_s
        What one visit costs in hooks.
    imbalance
        Shape (call path,): by how much the slowest rank's time exceeds the mean, in seconds, at the largest point.
    ends_s
        Shape (call path, 2): measured times at the points with the least and the most time. A model of few noisy
        values may miss a kernel: a function that has the share at the largest point is one too, and none is constant
        whose measured time grew by more than half.
    graph
        Call graph of the program, for functions that were never measured and for the static closure.
    known
        What earlier iterations found out. A kernel of theirs stays down to half of `share`, so that noise
        does not change filters back and forth; a function they dropped is not tried again.
    hooked
        Linker symbols that had hooks in what was measured.
    uncounted
        Those that are not tried, as counts know nothing of them.

    Raises
    ------
    UsageError
        If models and tree do not belong together, the target does not fit the parameters, or the static closure is
        wanted without a call graph.
    """
    wishes = wishes or Wishes()
    memory = known or {}
    prediction = predict_regions(tree, time, visits, target, visit_cost_s, work, threads)
    regions = tree.regions
    symbols = [symbol_of(region) for region in regions]
    unknown = np.isnan(prediction.share)
    before = np.array([name in memory and memory[name].kept for name in symbols], dtype=bool)
    least = np.where(before, wishes.share / 2, wishes.share)
    distorted = prediction.mostly_hooks(wishes.hook_share)
    seen, grew = _measured(prediction, ends_s)
    positive = prediction.total_s > 0
    with np.errstate(invalid="ignore"):
        share: Floats = np.where(distorted, prediction.bare_share, prediction.upper_share)
        large: Mask = ((share >= least) | (~distorted & (seen >= least))) & ~unknown & positive
    busy: Mask = np.any([growing >= wishes.share for _, growing in prediction.work] or [np.zeros_like(large)], axis=0)
    steady = prediction.constant & prediction.filterable & ~grew & ~busy
    waiting = _waiting(prediction, imbalance, wishes.share) & prediction.filterable
    # Score-P ends a program that records a parameter outside of a function with hooks.
    always = _matching(regions, wishes.keep) | np.array([region.role == PARAMETRIZED for region in regions], dtype=bool)
    dropped = _matching(regions, wishes.drop) & ~always
    if wishes.constants:
        steady = np.zeros_like(steady)
    kernels = ((large & ~steady) | unknown | (busy & ~distorted) | waiting | always) & ~dropped
    no_kernel = steady | dropped | distorted | unknown | prediction.main
    kernels = _enough(prediction, kernels, ~no_kernel, wishes.coverage)
    keep = prediction.filterable & (prediction.leading_to(kernels) | prediction.main) & ~dropped
    if wishes.closure == "static":
        keep |= prediction.filterable & _static_closure(graph, regions, kernels & keep) & ~dropped
    harmless = prediction.filterable & (prediction.hook_s < wishes.harmless * prediction.total_s) & ~(dropped | keep)
    keep |= harmless
    kept = within_overhead(prediction, keep, kernels, prediction.main | always, wishes.overhead)
    costly = keep & ~kept
    added: dict[str, str] = {}
    if graph is not None:
        added = unexplored_kernels(graph, symbols, kernels & kept, memory, hooked, uncounted)
        added = {name: why for name, why in added.items() if not any(glob(drop).match(name) for drop in wishes.drop)}
    never = tuple(sorted(set(hooked) - set(symbols) - {name for name in memory if memory[name].share is not None}))
    reasons = tuple(
        _reason(prediction, i, wishes, kernels, kept, costly, steady, harmless, distorted, waiting, always, dropped)
        for i in range(len(regions))
    )
    result = Refinement(prediction, kept, kernels & (kept | ~prediction.filterable), reasons, added, (), never)
    notes = _notes(result, wishes, costly)
    return Refinement(prediction, kept, result.kernels, reasons, added, notes, never, steady)


def _matching(regions: Sequence[Region], patterns: Sequence[str]) -> Mask:
    compiled = [glob(pattern) for pattern in patterns]
    return np.array(
        [any(regex.match(symbol_of(region)) or regex.match(region.name) for regex in compiled) for region in regions],
        dtype=bool,
    )


def _measured(prediction: RegionPrediction, ends_s: Floats | None) -> tuple[Floats, Mask]:
    """Return the share of each region in the time of the largest point, and whether its time grew clearly."""
    if ends_s is None:
        return np.zeros(len(prediction.tree.regions)), np.zeros(len(prediction.tree.regions), dtype=bool)
    startup = prediction.seconds == 0  # starting and ending MPI, or nothing
    by_region = prediction.by_region(np.where(startup[:, None], 0.0, ends_s))
    total = float(by_region[:, 1].sum())
    return by_region[:, 1] / (total or 1.0), by_region[:, 1] > FILTERS.grown * by_region[:, 0]


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
    held = float(share[kernels | ~prediction.filterable].sum())
    out = kernels.copy()
    for i in np.flatnonzero(more)[np.argsort(-share[more], kind="stable")].tolist():
        if held >= coverage * float(share.sum()):
            break
        out[i] = True
        held += share[i]
    return out


def _static_closure(graph: CallGraph | None, regions: Sequence[Region], kernels: Mask) -> Mask:
    if graph is None:
        raise UsageError("paths of the call graph are wanted, but there is no call graph", hint="closure: measured")
    numbers = [graph.find(symbol_of(region), region.name, region.file) for region in regions]
    ends = [at for at, kernel in zip(numbers, kernels, strict=True) if kernel and at is not None]
    leading = graph.on_paths([graph.main], ends)
    return np.array([at is not None and bool(leading[at]) for at in numbers], dtype=bool)


def _reason(
    prediction: RegionPrediction,
    i: int,
    wishes: Wishes,
    kernels: Mask,
    kept: Mask,
    costly: Mask,
    steady: Mask,
    harmless: Mask,
    distorted: Mask,
    waiting: Mask,
    always: Mask,
    dropped: Mask,
) -> str:
    region, share = prediction.tree.regions[i], prediction.share[i]
    percent = f"{100 * share:.3g} % of the time"
    if region.paradigm not in FILTERABLE:
        return f"always measured, {region.paradigm} is not filtered"
    if dropped[i]:
        return "on the list of what is always dropped"
    if costly[i]:
        return f"its visits cost more than {percent} is worth"
    if np.isnan(share):
        return "no model yet"
    if kernels[i]:
        if share >= wishes.share or not (always[i] or waiting[i]):
            grown = [metric for metric, growing in prediction.work if growing[i] >= wishes.share]
            return percent + (f", {' and '.join(grown)} grow" if grown and share < wishes.share else "")
        if region.role == PARAMETRIZED:
            return "the program records a parameter in it"
        return "on the list of what is always kept" if always[i] else f"ranks wait for each other, {percent}"
    if prediction.main[i]:
        return "begin of the program"
    if kept[i] and not harmless[i]:
        return f"on the way to such a function, {100 * share:.2g} % itself"
    if kept[i]:
        return f"its hooks cost next to nothing, {100 * share:.2g} % of the time"
    if steady[i] and share >= wishes.share:
        return f"{percent}{CONSTANT}"
    if distorted[i] and prediction.own_s[i] > 0:
        return f"hooks would take {100 * min(prediction.hook_s[i] / prediction.own_s[i], 1):.0f} % of its {percent}"
    return f"{100 * share:.2g} % of the time, below {100 * wishes.share:.3g} %"


def _notes(result: Refinement, wishes: Wishes, costly: Mask) -> tuple[str, ...]:
    notes = []
    prediction = result.prediction
    if not (result.kernels & prediction.filterable).any() and len(prediction.tree):
        notes.append("no function reaches the threshold: main and the ways to MPI stay")
    if costly.any():
        lost = float(np.nansum(prediction.share[costly]))
        with_them = float(np.nanmax(prediction.overhead(result.keep | costly)))
        notes.append(
            f"{int(costly.sum())} functions with {100 * lost:.2g} % of the time were dropped: with them the overhead "
            f"would be {100 * with_them:.2g} %, and {100 * (wishes.overhead or 0):.3g} % is allowed"
        )
    worst = float(np.nanmax(result.overhead)) if np.isfinite(result.overhead).any() else 0.0
    if wishes.overhead is not None and worst > wishes.overhead:
        notes.append(f"the overhead stays at {100 * worst:.2g} %: what is left must stay")
    if result.coverage < wishes.coverage:
        notes.append(f"kernels hold {100 * result.coverage:.3g} % of the time: the rest is constant or too costly")
    return tuple(notes)
