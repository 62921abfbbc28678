"""What two campaigns differ in: values."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from buran.modeling.numerics.intervals import ROUNDING
from buran.plugins.versions.pairing import Pair

# Of a comparison's intervals, where none is asked for. Tuned: judgement.
LEVEL = 0.95


Verdict = Literal["grown", "shrunk", "same", "no difference seen", "undecided"]


@dataclass(frozen=True)
class Change:
    """A number at a point on both sides.

    Attributes
    ----------
    point
        One value for each parameter.
    before, after
        Predictions, or counts; NaN without a model.
    ratio
        ``after / before``; of what was measured, the mean over all points that both measured. NaN where nothing was
        there before.
    lower, upper
        Ends of its interval; both are the ratio where it is certain. `upper` is infinite where
        the interval has no end, both where there was nothing before; NaN where nothing can be said.
    """

    point: tuple[float, ...]
    before: float
    after: float
    ratio: float
    lower: float
    upper: float

    @property
    def verdict(self) -> Verdict:
        """What the interval says."""
        if math.isnan(self.lower):
            return "same" if self.before == self.after else "undecided"
        if self.lower > 1 + ROUNDING:
            return "grown"
        if math.isinf(self.upper):
            return "undecided"
        if self.upper < 1 - ROUNDING:
            return "shrunk"
        return "no difference seen" if self.upper > self.lower * (1 + ROUNDING) else "same"


@dataclass(frozen=True)
class Difference:
    """A call path and metric that both campaigns have.

    Attributes
    ----------
    exact
        Whether counts were compared number by number: what they say is certain.
    share_before, share_after
        Of the metric at the target; for the whole program 1.
    matters
        Whether one of the shares, there or at `measured`, reaches the wanted one, or exact counts differ.
    target
        At the target.
    measured
        At the largest point that both measured; of exact counts, the point at which they differ most. None without
        such a point.
    growth_before, growth_after
        Growth classes.
    model_before, model_after
        Models, in words.
    leading_before, leading_after
        Their terms of the growth class, with coefficients.
    faster_in
        Parameters with which it grows faster than before, for certain.
    verdict
        In all: what is said at the target, else at `measured`; exact counts decide first.
    through
        Call paths of one campaign alone, such as new callees, that an exact count differs by; the call path itself
        counts the same.
    """

    metric: str
    unit: str
    call_path: str
    exact: bool
    share_before: float
    share_after: float
    matters: bool
    target: Change
    measured: Change | None
    growth_before: str
    growth_after: str
    model_before: str
    model_after: str
    faster_in: tuple[str, ...]
    verdict: Verdict
    through: tuple[str, ...] = ()
    leading_before: str = ""
    leading_after: str = ""

    @property
    def grown_by(self) -> float:
        """The least growth that is certain, as a share of what was there before; 0 where none is."""
        if self.verdict != "grown":
            return 0.0
        changes = [self.measured] if self.exact else [self.target, self.measured]
        return max(
            (change.lower - 1.0 for change in changes if change is not None and change.verdict == "grown"), default=0.0
        )


@dataclass(frozen=True)
class OneSided:
    """A call path that only one campaign has; what it takes counts to its caller in the comparison.

    Attributes
    ----------
    at_target
        Its prediction there.
    share
        Share of its own side's metric at the target.
    """

    metric: str
    call_path: str
    at_target: float
    share: float


@dataclass(frozen=True)
class Comparison:
    """Two campaigns side by side.

    Attributes
    ----------
    level
        Probability that no call path is called different where nothing is, for all that matter together.
    share
        Call paths below it matter to nobody.
    differences
        By metric; the largest call paths first.
    gone, new
        Call paths that only the earlier, or only the later campaign has.
    notes
        What a reader must know.
    moved
        Call paths with another name or another caller than before; compared as one.
    operations
        Operations of MPI that only one campaign calls at the points that both measured.
    better
        Of the later one: ``higher`` or ``lower``, by figure of merit.
    """

    before: str
    after: str
    parameters: tuple[str, ...]
    target: tuple[float, ...]
    level: float
    share: float
    differences: tuple[Difference, ...]
    gone: tuple[OneSided, ...]
    new: tuple[OneSided, ...]
    notes: tuple[str, ...]
    moved: tuple[Pair, ...] = ()
    operations: tuple[str, ...] = ()
    better: Mapping[str, str] = field(default_factory=dict)

    def meaning(self, difference: Difference) -> Literal["better", "worse", ""]:
        """Return what a difference of a figure of merit means; empty where it means nothing."""
        wanted = {"higher": "grown", "lower": "shrunk"}.get(self.better.get(difference.metric, ""))
        if wanted is None or difference.verdict not in ("grown", "shrunk"):
            return ""
        return "better" if difference.verdict == wanted else "worse"

    def of(self, *verdicts: Verdict) -> list[Difference]:
        """Return the differences that matter and have one of these verdicts."""
        return [difference for difference in self.differences if difference.matters and difference.verdict in verdicts]
