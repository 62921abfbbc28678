"""What happened in a campaign so far: everything that its steps have left behind, each file read once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import numpy as np

from buran.campaign.layout import Layout
from buran.campaign.plan import BuildSpec, Mode, Plan, Purpose
from buran.campaign.point import Point
from buran.campaign.records import (
    RECORD,
    BuildOutcome,
    BuildRecord,
    BundleOutcome,
    RunRecord,
    Status,
    core_hours,
    read_build,
    read_run,
)
from buran.instrumentation.filter_file import format_filter, parse
from buran.instrumentation.measured import Overhead
from buran.measurement.attempt import PROFILE
from buran.measurement.build import STATIC
from buran.measurement.toolchain.static_features import StaticFeatures
from buran.modeling.pmnf.model_set import ModelSet, read_models
from buran.profiles.experiment.build import Run
from buran.profiles.experiment.jsonl import read_jsonl
from buran.profiles.experiment.table import Experiment
from buran.workflow.findings import Findings
from buran.workflow.session import Session

Key = TypeVar("Key")
Value = TypeVar("Value")


def rules_of(filter_text: str) -> str:
    """Return a filter without its comments: what decides whether two builds are the same."""
    return format_filter(parse(filter_text)) if filter_text else ""


@dataclass(frozen=True)
class FinishedRun:
    """A run that was measured.

    Attributes
    ----------
    hooks_free
        Whether hooks cost nothing there.
    """

    iteration: int
    point: Point
    purpose: Purpose
    mode: Mode
    build: BuildSpec
    repetition: int
    folder: Path
    wall_s: float
    cpu_s: float
    hooks_free: bool = False

    @property
    def is_baseline(self) -> bool:
        """Whether it tells what the program takes without hooks."""
        return self.mode is Mode.VANILLA or (self.hooks_free and self.mode is Mode.TIME)

    @property
    def filter_text(self) -> str:
        """Filter in force."""
        return self.build.filter_text


def read_plans(layout: Layout, campaign: str, length: int | None = None) -> tuple[Plan, ...]:
    """Read the plans made so far, in order, or the first ones, which must exist."""
    plans: list[Plan] = []
    while len(plans) != length and not (plans and plans[-1].done):
        path = layout.plan(campaign, len(plans))
        if length is None and not path.is_file():
            break
        plans.append(Plan.read(path))
    return tuple(plans)


def _read_once(read: Callable[[Any, Key], Value]) -> cached_property[Callable[[Key], Value]]:
    """Make a method remember what it returned, as long as its object lives."""
    return cached_property(lambda history: cache(partial(read, history)))


@dataclass(frozen=True, eq=False)
class History:
    """The plans of a campaign and what became of them. Reading never writes.

    Attributes
    ----------
    campaign
        Identity of the campaign file's version.
    length
        Number of plans that count, which must exist; None for all that were made.
    cut_short
        Why the campaign is looked at as if it ended after these plans; None if it is not.
    """

    session: Session
    campaign: str
    length: int | None = None
    cut_short: str | None = None

    @classmethod
    def open(cls, session: Session, length: int | None = None) -> History:
        """Open what there is of this version of the campaign."""
        return cls(session, session.id, length)

    @property
    def layout(self) -> Layout:
        """Where everything lies."""
        return self.session.layout

    @cached_property
    def plans(self) -> tuple[Plan, ...]:
        """The plans, in order."""
        plans = read_plans(self.layout, self.campaign, self.length)
        if self.cut_short is None:
            return plans
        last = plans[-1]
        budget = last.budget_core_hours
        end = Plan(len(plans), True, self.cut_short, filter_text=last.filter_text, budget_core_hours=budget)
        return (*plans, end)

    @cached_property
    def read_profiles(self) -> dict[Mode, tuple[Run, ...]]:
        """Profiles of the newest builds, by mode, as far as `buran.workflow.report.newest_runs` has read them."""
        return {}

    @property
    def iteration(self) -> int:
        """Number of the next plan."""
        return len(self.plans)

    @_read_once
    def outcome(self, bundle: str) -> BundleOutcome:
        """Return what became of a bundle."""
        return BundleOutcome.read(self.layout.bundle_pointer(bundle))

    def outcomes(self, plans: Iterable[Plan]) -> list[BundleOutcome]:
        """Return what became of the bundles of some plans."""
        return [self.outcome(bundle.id) for plan in plans for bundle in plan.bundles]

    def core_hours(self, plan: Plan) -> float:
        """Return what the runs of a plan were charged; those that an earlier plan had requested are left out."""
        return core_hours(self.outcomes([plan]), self.outcomes(self.plans[: plan.iteration]))

    @cached_property
    def runs(self) -> list[FinishedRun]:
        """The finished runs of all plans."""
        return self.runs_of(self.plans)

    def runs_of(self, plans: Sequence[Plan]) -> list[FinishedRun]:
        """Return the finished runs of some plans, warm-ups left out; a run that plans share counts once."""
        builds = {build.hash: build for plan in plans for build in plan.builds}
        runs: dict[Path, FinishedRun] = {}
        for plan in plans:
            for outcome in self.outcomes([plan]):
                for run in outcome.runs:
                    if run.status is not Status.MEASURED or run.repetition < 0 or run.folder is None:
                        continue
                    folder = self.layout.root / run.folder
                    runs[folder] = FinishedRun(
                        plan.iteration,
                        outcome.point,
                        outcome.purpose,
                        run.mode,
                        builds[run.build],
                        run.repetition,
                        folder,
                        run.wall_s or 0.0,
                        run.cpu_s or 0.0,
                        self.session.campaign.counts_with_times,
                    )
        return list(runs.values())

    @_read_once
    def run_record(self, folder: Path) -> RunRecord:
        """Return the record of a run, by its folder."""
        return read_run(folder)

    @_read_once
    def build_record(self, build: str) -> BuildRecord | None:
        """Return the record of a build that succeeded; None if it did not, or is not made yet."""
        folder = self.layout.build(build)
        return read_build(folder) if (folder / RECORD).is_file() else None

    @cached_property
    def build_records(self) -> list[BuildRecord]:
        """The records of all builds of the plans that succeeded, in the order of planning."""
        builds = dict.fromkeys(build.hash for plan in self.plans for build in plan.builds)
        return [record for build in builds if (record := self.build_record(build)) is not None]

    @_read_once
    def build_outcome(self, build: str) -> BuildOutcome:
        """Return what became of a build."""
        return BuildOutcome.read(self.layout.build_pointer(build))

    @_read_once
    def features(self, build: str) -> StaticFeatures | None:
        """Return what a build says of the program; None where its backend knows nothing."""
        path = self.layout.build(build) / STATIC
        return StaticFeatures.from_jsonl(path.read_text(encoding="utf-8"), path) if path.is_file() else None

    @_read_once
    def findings(self, iteration: int) -> Findings:
        """Return what an iteration found out in addition to its models."""
        return Findings.read(self.layout.findings(self.campaign, iteration))

    @property
    def newest_findings(self) -> Iterator[Findings]:
        """Those of all iterations that have some, the last one first."""
        for plan in reversed(self.plans):
            if self.layout.findings(self.campaign, plan.iteration).is_file():
                yield self.findings(plan.iteration)

    @_read_once
    def models(self, iteration: int) -> Mapping[str, ModelSet]:
        """Return the models after an iteration, by metric."""
        return {models.metric: models for models in read_models(self.layout.models(self.campaign, iteration))}

    @_read_once
    def table(self, iteration: int) -> Experiment | None:
        """Return what was measured up to an iteration; None if nothing was."""
        path = self.layout.table(self.campaign, iteration)
        return read_jsonl(path) if path.stat().st_size else None

    @_read_once
    def filter(self, iteration: int) -> str | None:
        """Return the filter that an iteration is built with, with its comments; None where none was decided."""
        path = self.layout.filter(self.campaign, iteration)
        return path.read_text(encoding="utf-8") if path.is_file() else None


def lost(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Return the runs that were measured, but are gone from the store: their record, or the profile they had."""
    return [run for run in runs if not _is_whole(run)]


def in_store(runs: Iterable[FinishedRun]) -> list[FinishedRun]:
    """Return the runs whose record and profile are in the store; what others cost and took is still known."""
    return [run for run in runs if _is_whole(run)]


def _is_whole(run: FinishedRun) -> bool:
    files = (RECORD,) if run.mode is Mode.VANILLA else (RECORD, PROFILE)
    return all((run.folder / name).is_file() for name in files)


Taken = Callable[[FinishedRun], float]
"""What of a run is looked at."""


def wall_s(run: FinishedRun) -> float:
    """Return the wall time in seconds."""
    return run.wall_s


def walls_by_point(runs: Iterable[FinishedRun], taken: Taken = wall_s) -> dict[Point, list[float]]:
    """Return the wall times of runs in seconds."""
    walls: dict[Point, list[float]] = {}
    for run in runs:
        walls.setdefault(run.point, []).append(taken(run))
    return walls


def baseline(runs: Iterable[FinishedRun], purpose: Purpose, taken: Taken = wall_s) -> dict[Point, list[float]]:
    """Return the baseline's wall times in seconds by point."""
    return walls_by_point((run for run in runs if run.is_baseline and run.purpose is purpose), taken)


OF_THE_PROGRAM = (Mode.VANILLA, Mode.TIME)
"""Runs whose totals are those of the program; builds that count do other work as well."""


def run_times(
    runs: Sequence[FinishedRun], purpose: Purpose, taken: Taken = wall_s, least: float = 1.0
) -> dict[Point, list[float]]:
    """Return wall times of the whole program in seconds by point: the baseline's, elsewhere estimated ones.

    Parameters
    ----------
    taken
        What runs have taken; seconds by default.
    least
        See `estimated_times`.
    """
    return estimated_times(runs, purpose, taken, least) | baseline(runs, purpose, taken)


def estimated_times(
    runs: Sequence[FinishedRun], purpose: Purpose, taken: Taken = wall_s, least: float = 1.0
) -> dict[Point, list[float]]:
    """Return what the whole program takes in seconds at the points where the baseline did not run.

    That are the times of runs with hooks, divided by what these take longer under the same filter at the points that
    have both. Hooks make no program faster: what looks like that is noise.

    Parameters
    ----------
    least
        By which factor hooks change what is `taken`, at least; 0 for what may become less.
    """
    times = baseline(runs, purpose, taken)
    timed = [run for run in runs if run.mode is Mode.TIME and run.purpose is purpose]
    estimated: dict[Point, list[float]] = {}
    for filter_text in timed_filters(timed):  # later filters have fewer hooks: theirs are taken
        hooked = walls_by_point((run for run in timed if run.filter_text == filter_text), taken)
        both = [point for point in hooked if point in times]  # in order: sums of floats depend on it
        if not both:
            continue
        without = sum(median(times[point]) for point in both)
        slower = sum(median(hooked[point]) for point in both) / without if without else 1.0
        factor = max(slower, least) or 1.0
        estimated |= {point: [wall / factor for wall in walls] for point, walls in hooked.items()}
    return {point: walls for point, walls in estimated.items() if point not in times}


def overhead(runs: Sequence[FinishedRun]) -> tuple[Overhead, ...]:
    """Compare the CPU time of instrumented runs with that of the baseline runs next to them: of an iteration and point.

    This is what overhead means wherever it is shown. Warm-ups are no part of it: they are no finished runs.
    """
    numbers = {text: number for number, text in enumerate(timed_filters(runs))}
    groups: dict[tuple[int, Point], list[FinishedRun]] = {}
    for run in runs:
        groups.setdefault((run.iteration, run.point), []).append(run)
    overheads = []
    for (_, point), members in sorted(groups.items(), key=lambda item: item[0]):
        cpu_s = {mode: [run.cpu_s for run in members if run.mode is mode] for mode in Mode}
        timed = [run for run in members if run.mode is Mode.TIME]
        if not cpu_s[Mode.VANILLA] or not timed:
            continue
        base = median(cpu_s[Mode.VANILLA])
        ratios = {mode: median(values) / base if values and base > 0 else None for mode, values in cpu_s.items()}
        number = numbers[timed[0].filter_text]
        overheads.append(Overhead(dict(point), number, base, ratios[Mode.TIME], ratios[Mode.EFFORT]))
    return tuple(overheads)


def timed_filters(runs: Iterable[FinishedRun]) -> list[str]:
    """Return the filters that runs were timed under, in order: what the numbers of filters count."""
    return list(dict.fromkeys(run.filter_text for run in runs if run.mode is Mode.TIME))


def as_array(points: Iterable[Point], parameters: Sequence[str]) -> Any:
    """Return shape (point, parameter)."""
    return np.array([[point[name] for name in parameters] for point in points], dtype=np.float64)
