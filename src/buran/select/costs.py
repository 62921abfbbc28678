"""What runs will cost, as plans and strategies see it alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from buran.campaign.plan import Bundle, Mode
from buran.campaign.point import Point
from buran.select.outlook import predicted_s
from buran.select.question import Knowledge, Question
from buran.select.space import Space


@dataclass(frozen=True)
class Costs:
    """What a campaign's runs are expected to cost."""

    question: Question
    known: Knowledge

    @cached_property
    def space(self) -> Space:
        """The modelling points as the strategy sees them, with what runs were seen to cost."""
        question, known = self.question, self.known
        space = question.space
        expected = space.expected_s
        if expected is None and known.pilot_s is not None and not known.rounds:
            expected = known.pilot_s * question.work
        timed, effort = self.ratio(Mode.TIME), self.ratio(Mode.EFFORT) * question.effort_runs
        with_each, once = (1.0, 0.0) if question.paired else (0.0, 1.0)
        return replace(
            space, overhead=timed + with_each, first_runs=question.warmup + effort + once, expected_s=expected
        )

    def ratio(self, mode: Mode) -> float:
        """Return what a run costs, over the baseline's."""
        return self.known.ratios.get(mode, 1.0)

    @cached_property
    def foreseen_s(self) -> dict[Point, float]:
        """What a strategy that adapts expects of runs at its points: its plans and their budget must agree."""
        seconds = predicted_s(self.known.measured, self.space) if self.known.measured is not None else None
        return {} if seconds is None else dict(zip(self.question.points, seconds.tolist(), strict=True))

    def seconds(self, point: Point) -> float | None:
        """Return what a run of the baseline is expected to take; None where nothing is known."""
        if point in self.foreseen_s:
            return self.foreseen_s[point]
        modelled = self.known.runtime(point)
        if modelled is None and (expected := self.question.expected_s(point)) is not None:
            return expected
        if modelled is None and self.question.adaptive and not self.known.rounds and self.known.pilot_s is not None:
            return self.known.pilot_s * float(self.question.work[self.question.points.index(point)])
        return modelled

    def cost(self, bundle: Bundle) -> float | None:
        """Predicted core hours of a bundle's runs; None where nothing is known."""
        seconds = self.seconds(bundle.point)
        if seconds is None:
            return None
        baselines = sum(self.ratio(run.mode) for run in bundle.runs)
        return seconds * self.question.cores(bundle.point) * baselines / 3600.0
