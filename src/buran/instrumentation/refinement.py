"""What a refinement is asked for, and what it chose: the functions to instrument, each with the reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np

from buran.errors import UsageError
from buran.files import Stored, decode, read_document, write_json
from buran.instrumentation.prediction import FILTERABLE, MAINS, Floats, Mask, RegionPrediction, symbol_of
from buran.modeling.numerics.tuning import LARGER, MATTERS
from buran.profiles.profile import Region
from buran.profiles.symbols import variants
from buran.wording import counted

SCHEMA = "buran-verdicts/1"
_HINT = "move it away: `buran run` goes on with the filter in its folder, and tries again what was tried before"


@dataclass(frozen=True)
class FunctionVerdict(Stored):
    """What became of a function.

    Attributes
    ----------
    kept
        Whether it stays instrumented.
    reason
        Why, as half a sentence; empty if nothing is known.
    share
        Share of the predicted time; None if it was never called.
    visits
        Predicted at the target; None if unknown.
    overhead
        Predicted time in its hooks over the time of the program without any, at the target; None if unknown.
    name
        As it is shown; empty if only the symbol is known.
    """

    kept: bool
    reason: str
    share: float | None = None
    visits: float | None = None
    overhead: float | None = None
    name: str = ""

    @property
    def comment(self) -> str:
        """What is known of it, in one line; empty if that is nothing."""
        facts = [self.reason] if self.reason else []
        if self.visits is not None:
            facts.append(f"{self.visits:.3g} visits")
        if self.overhead is not None:
            facts.append(f"instrumentation {100 * self.overhead:.2g} %")
        return f"{self.name}: {', '.join(facts)}" if facts else ""


Verdicts = Mapping[str, FunctionVerdict]
"""By linker symbol."""


def write_verdicts(path: Path, verdicts: Verdicts) -> None:
    """Write what is known of functions."""
    write_json(path, {"schema": SCHEMA, "functions": {name: asdict(verdicts[name]) for name in sorted(verdicts)}})


def read_verdicts(path: Path) -> dict[str, FunctionVerdict]:
    """Read it.

    Raises
    ------
    FormatError
        The file is of another kind or damaged.
    """
    return read_document(
        path,
        SCHEMA,
        lambda data: decode(dict[str, FunctionVerdict], data["functions"]),
        what="file of verdicts",
        hint=_HINT,
    )


# Of the share that makes a kernel: what has more stays where its hooks fit, as models err. Tuned: 16 lists of eight
# programs: without it they lack up to six functions of up to 0.4 % of the time, one of 1.9 % under hooks in
# everything; with no least share up to 80 more come in, none of them above 0.05 %.
NEAR_SHARE = 0.1

CONSTANT = ", but constant"
DROPPED = "on the list of what is always dropped"
NEVER_CALLED = "never called"
KEPT = "on the list of what is always kept"
_PREDICTED = "predicted overhead:"  # how a list says it, and where it is read again


@dataclass(frozen=True)
class Wishes:
    """What the user wants of a refinement.

    Attributes
    ----------
    share
        Share of the predicted time: functions with at least this much are kernels.
    hook_share
        Of a function's own time: hooks that take more distort it. A leaf whose time without hooks is below `share`
        is then dropped.
    overhead
        Time in hooks over time without that is allowed, at the target and over all points together; None for no limit.
    coverage
        Share of the predicted time that kernels and MPI should hold together.
    constants
        Whether functions whose time does not grow are kernels too.
    closure
        Which functions lead to a kernel: those of measured call paths, or all that the call graph knows.
    keep, drop
        Patterns of names or linker symbols that stay whatever they cost, or never come in.
    """

    share: float = 0.01
    hook_share: float = LARGER
    overhead: float | None = 0.05
    coverage: float = 0.95
    constants: bool = False
    closure: Literal["measured", "static"] = "measured"
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shares = 0 <= self.share <= 1 and 0 <= self.coverage <= 1
        if not (shares and self.hook_share >= 0 and (self.overhead is None or self.overhead > 0)):
            raise UsageError(
                "thresholds of the refinement are out of range",
                why=f"share {self.share}, coverage {self.coverage}, instrumentation share {self.hook_share}, "
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
    share
        Share of the predicted time, from which on a function is a kernel.
    """

    prediction: RegionPrediction
    keep: Mask
    kernels: Mask
    reasons: tuple[str, ...]
    added: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    never_called: tuple[str, ...] = ()
    steady: Mask | None = None
    share: float = 0.01

    @property
    def regions(self) -> tuple[Region, ...]:
        """Regions of the call tree, in its order."""
        return self.prediction.tree.regions

    @property
    def total_s(self) -> float:
        """Predicted time of all call paths at the target, without starting and ending MPI."""
        return self.prediction.total_s

    @cached_property
    def unknown(self) -> tuple[str, ...]:
        """Names of the call paths that have no time model."""
        tree = self.prediction.tree
        missing = np.isnan(self.prediction.seconds)
        return tuple(name for name, value in zip(tree.names, missing, strict=True) if value)

    @property
    def hook_share(self) -> float:
        """Predicted time in the hooks of functions that go, of the total at the target; unknown ones count as 0."""
        hooks_s = self.prediction.hook_s[self.prediction.filterable & ~self.keep]
        return float(np.nansum(hooks_s)) / self.total_s if self.total_s > 0 else 0.0

    @cached_property
    def overhead(self) -> Floats:
        """Shape (1 + point,): predicted at the target and at the points; NaN where unknown."""
        return self.prediction.overhead(self.keep)

    @property
    def limited(self) -> tuple[float, float]:
        """Predicted overhead at the target, and over all points together."""
        hooks, bare = self.prediction.at_most
        cost = hooks[self.keep].sum(axis=0)
        target, points = np.divide(cost, bare, out=np.full(2, np.nan), where=bare > 0).tolist()
        return target, points

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
        return not self.added and self.hook_share < MATTERS and not self.drops_constants

    @property
    def names(self) -> tuple[str, ...]:
        """Linker symbols to instrument, sorted; ``main`` is always among them."""
        kept = {symbol_of(region) for region, keep in zip(self.regions, self.keep, strict=True) if keep}
        kept |= set(self.added)
        return tuple(sorted(kept if kept & set(MAINS) else kept | {"main"}))

    @cached_property
    def verdicts(self) -> dict[str, FunctionVerdict]:
        """What was found out of each function."""
        out = {name: FunctionVerdict(False, NEVER_CALLED) for name in self.never_called}
        predicted = self.prediction
        number = predicted.by_region(predicted.visits[:, 0])
        costs = predicted.hook_s / (predicted.bare_s[0] or np.nan)
        for i, region in enumerate(self.regions):
            if region.paradigm in FILTERABLE:
                share, visits, overhead = (
                    None if np.isnan(values[i]) else float(values[i]) for values in (predicted.share, number, costs)
                )
                verdict = FunctionVerdict(bool(self.keep[i]), self.reasons[i], share, visits, overhead, region.name)
                out[symbol_of(region)] = verdict
        return out

    def restricted(self, symbols: Collection[str]) -> Refinement:
        """Return what is known of a list that is in force already: these linker symbols, whatever would be chosen.

        What differs from the choice says so in its reason.
        """
        listed = {variant for symbol in symbols for variant in variants(symbol)}
        own = [symbol_of(region) for region in self.regions]
        keep = self.prediction.filterable & np.array([symbol in listed for symbol in own], dtype=bool)
        differs = (keep != self.keep) & ~self.prediction.main
        reasons = (
            f"{reason}{' (a new list would not have it)' if kept else ' (a new list would have it)'}"
            if differ
            else reason
            for reason, kept, differ in zip(self.reasons, keep.tolist(), differs.tolist(), strict=True)
        )
        added = {symbol: self.added.get(symbol, "not measured yet") for symbol in symbols if symbol not in own}
        return replace(self, keep=keep, reasons=tuple(reasons), added=added)

    @property
    def head(self) -> tuple[str, ...]:
        """What the choice means, in a few lines."""
        lines = [f"predicted time at the target: {self.total_s:.4g} s a rank"]
        if self.prediction.visit_cost_s > 0 and np.isfinite(self.overhead).any():  # published rules know no cost
            target, points = self.limited
            lines.append(f"{_PREDICTED} {100 * points:.2g} % over all points, {100 * target:.2g} % at the target")
        lines.append(f"kernels and MPI hold {100 * self.coverage:.3g} % of the predicted time")
        if self.unknown:
            lines.append(f"{counted(len(self.unknown), 'call path')} without a model, kept")
        return tuple(lines)


def predicted_overhead(commented: str | None) -> float | None:
    """Return the overhead over all points that a list says it was chosen with; None where it says none."""
    lines = (line.partition(_PREDICTED)[2].split() for line in (commented or "").splitlines() if line.startswith("#"))
    return next((float(words[0]) / 100 for words in lines if words), None)
