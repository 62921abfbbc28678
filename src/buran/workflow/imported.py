"""Measurements that exist already: which of them can be imported, and the plan that does it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.document import below
from buran.campaign.layout import Layout
from buran.campaign.mistakes import CampaignError, Mistake, listed
from buran.campaign.plan import SCHEMA, BuildSpec, Bundle, Mode, Plan, Purpose, Run
from buran.campaign.point import Point, Value
from buran.campaign.records import read_run
from buran.campaign.sections import MeasurementsKeys
from buran.errors import BuranError
from buran.files import Stored, digest, write_json
from buran.instrumentation import filter_file
from buran.measurement.store.store import finished
from buran.profiles.experiment.extrap_tree import RunFile, list_runs_like
from buran.profiles.experiment.formats import READERS
from buran.profiles.experiment.read import detect_format, read_experiment
from buran.profiles.experiment.table import Experiment
from buran.profiles.extrap_names import extrap_names


@dataclass(frozen=True)
class NotImported(Stored):
    """Something that cannot be imported.

    Attributes
    ----------
    where
        File or folder.
    """

    what: str
    reason: str
    where: str


@dataclass(frozen=True)
class ImportOutcome(Stored):
    """What became of the measurements that a plan imports, beside runs that are settled as failed."""

    kind_of_file = "outcome of an import"

    problems: tuple[NotImported, ...]

    def write(self, path: Path) -> None:
        """Write the file that the workflow waits for."""
        write_json(path, {"schema": SCHEMA, "problems": [vars(problem) for problem in self.problems]})


@dataclass(frozen=True)
class ImportedRun:
    """Where an imported run is from.

    Attributes
    ----------
    path
        File with the profile, or with a table of all runs; None if it is gone and the store has the run.
    row
        Where the table has the run's point; None for profiles.
    """

    point: Point
    repetition: int
    path: Path | None
    row: int | None = None


@dataclass(frozen=True)
class Import:
    """An entry of the campaign's `measurements`, looked up on the disk.

    Attributes
    ----------
    spec
        Its identity, in the place of a build's.
    runs
        What can be imported, by point and repetition.
    table
        The content of a file with a table; None for a folder of profiles.
    """

    number: int
    entry: MeasurementsKeys
    path: Path
    spec: BuildSpec
    runs: tuple[ImportedRun, ...]
    problems: tuple[NotImported, ...]
    table: Experiment | None = None


def check_measurements(campaign: Campaign, layout: Layout) -> None:
    """Look at the measurements that a campaign names.

    Raises
    ------
    CampaignError
        One is not there, has no run that fits the campaign, or parameters that nothing is said of.
    """
    for number, entry in enumerate(campaign.config.measurements):
        _looked_up(campaign, layout, number, entry)


def imports_of(campaign: Campaign, layout: Layout) -> tuple[Import, ...]:
    """Look up all measurements that a campaign names; see `check_measurements`."""
    return tuple(
        _looked_up(campaign, layout, number, entry) for number, entry in enumerate(campaign.config.measurements)
    )


def _looked_up(campaign: Campaign, layout: Layout, number: int, entry: MeasurementsKeys) -> Import:
    path = below(campaign.folder, entry.path)
    key = ("measurements", number, "path")
    spec = _spec(campaign, number, entry)
    stored = tuple(_stored_runs(layout, spec))
    listing = _Listing(campaign, number, entry, path)
    if path.exists():
        listing.read()
    elif not stored:
        hint = "paths are relative to the campaign file"
        raise _mistake(campaign, key, f"the measurements {entry.path!r} are missing", f"there is no {path}", hint)
    runs = {(run.point, run.repetition): run for run in (*stored, *listing.runs)}
    if not runs:
        why = "\n".join(f"{problem.where}: {problem.reason}" for problem in listing.problems[:5])
        hint = "give the campaign points that were measured, or take the entry out"
        if entry.pattern is None and path.is_dir():
            hint += "; folders that are not named for Extra-P need the key `pattern`"
        raise _mistake(campaign, key, f"nothing in {entry.path!r} can be imported", why or None, hint)
    importable = tuple(runs[key] for key in sorted(runs))
    return Import(number, entry, path, spec, importable, tuple(listing.problems), listing.table)


def _mistake(
    campaign: Campaign, key: tuple[str | int, ...], what: str, why: str | None, hint: str | None
) -> CampaignError:
    return CampaignError([Mistake(key, what, why, hint, campaign.path)])


def _spec(campaign: Campaign, number: int, entry: MeasurementsKeys) -> BuildSpec:
    """Return what stands for the build of imported measurements; nothing of this campaign's target is in it."""
    text = ""
    if entry.filter is not None:
        path = below(campaign.folder, entry.filter)
        try:
            text = filter_file.format_filter(filter_file.parse(path.read_text(encoding="utf-8"), path))
        except (OSError, UnicodeDecodeError, BuranError) as error:
            key = ("measurements", number, "filter")
            raise _mistake(campaign, key, f"the filter {entry.filter!r} cannot be read", str(error), None) from error
    keys = [entry.path, sorted(entry.names.items()), sorted(entry.fixed.items()), entry.core_hours]
    keys += [] if entry.pattern is None else [entry.pattern]
    return BuildSpec(digest([Mode.IMPORTED, *keys]), Mode.IMPORTED, text, origin=entry.path, pooled=entry.pool)


def _stored_runs(layout: Layout, spec: BuildSpec) -> Iterator[ImportedRun]:
    """Yield the runs that were imported before: they stay, whatever becomes of their files."""
    for folder in finished(layout.store, spec.hash):
        record = read_run(folder)
        yield ImportedRun(record.point, record.repetition, None)


@dataclass
class _Listing:
    """What there is under a path, sorted into runs and problems."""

    campaign: Campaign
    number: int
    entry: MeasurementsKeys
    path: Path
    runs: list[ImportedRun] = field(default_factory=list)
    problems: list[NotImported] = field(default_factory=list)
    table: Experiment | None = None

    @cached_property
    def points(self) -> frozenset[Point]:
        return frozenset(self.campaign.points)

    def read(self) -> None:
        errors: list[BuranError] = []
        try:
            pattern = self.entry.pattern
            format = "" if pattern is not None else detect_format(self.path)
            if pattern is not None:
                files: Sequence[RunFile] = list_runs_like(self.path, re.compile(pattern), errors)
                candidates: list[_Candidate] = [(run.point, run.repetition, run.path, None) for run in files]
            elif (list_runs := READERS.load(format).list_runs) is not None:
                files = list_runs(self.path, errors)
                candidates = [(run.point, run.repetition, run.path, None) for run in files]
            else:
                self.table = read_experiment(self.path, format)
                candidates = list(_runs_of(self.table, self.path))
        except (OSError, BuranError) as error:
            key = ("measurements", self.number, "path")
            what = f"the measurements {self.entry.path!r} cannot be read"
            hint = error.hint if isinstance(error, BuranError) else None
            why = error.why or error.what if isinstance(error, BuranError) else str(error)
            raise _mistake(self.campaign, key, what, why, hint) from error
        for problem in errors:
            reason = ": ".join(filter(None, (problem.what, problem.why)))
            self.problems.append(NotImported("imported profile", reason, problem.where or str(self.path)))
        if candidates:
            names = self.parameters([point for point, *_ in candidates])
            for values, repetition, path, row in candidates:
                self.take({name: values[theirs] for theirs, name in names.items()}, repetition, path, row)

    def parameters(self, points: Sequence[Mapping[str, float]]) -> dict[str, str]:
        """Return the campaign's name of each parameter of the runs."""
        campaign, entry = self.campaign, self.entry
        usual = {theirs: name for name, theirs in extrap_names(campaign.parameters).items()}
        usual |= {name: name for name in campaign.parameters}
        translation = {**usual, **entry.names}
        theirs = list(points[0])
        names = {
            name: translation[name] for name in theirs if name in translation and translation[name] not in entry.fixed
        }
        varied = [name for name in theirs if name not in translation and len({point[name] for point in points}) > 1]
        key = ("measurements", self.number)
        why = f"the runs have {listed(theirs)}; the campaign's parameters are {listed(campaign.parameters)}"
        missing = [name for name in campaign.parameters if name not in (*names.values(), *entry.fixed)]
        if missing:
            what = f"the measurements in {entry.path!r} do not say the value of {' and '.join(missing)}"
            hint = f"write `fixed: {{{missing[0]}: VALUE}}`, or `names: {{THEIR_NAME: {missing[0]}}}` in the entry"
            raise _mistake(campaign, key, what, why, hint)
        if varied:
            what = f"the measurements in {entry.path!r} vary {' and '.join(varied)}, which is no parameter"
            hint = f"write `names: {{{varied[0]}: PARAMETER}}` in the entry, or keep runs with one value only"
            raise _mistake(campaign, key, what, why, hint)
        if len(set(names.values())) < len(names):
            raise _mistake(campaign, (*key, "names"), "two names stand for one parameter", why, None)
        return names

    def take(self, values: Mapping[str, Value], repetition: int, path: Path, row: int | None) -> None:
        point = Point.of({**values, **self.entry.fixed})
        where = str(path if row is not None else path.parent)
        if point in self.points:
            self.runs.append(ImportedRun(point, repetition, path, row))
        elif point in self.campaign.evaluation_points:
            why = "it is an evaluation point: those are measured by the campaign itself, without instrumentation"
            self.problems.append(NotImported(f"imported run at {point.key}", why, where))
        else:
            why = "it is no point of the campaign; give the parameters such values, or move the run away"
            self.problems.append(NotImported(f"imported run at {point.key}", why, where))


_Candidate = tuple[Mapping[str, float], int, Path, int | None]


def _runs_of(table: Experiment, path: Path) -> Iterator[_Candidate]:
    """Yield the runs of a table: repetitions of points with at least one value."""
    present = np.any([np.isfinite(values).any(axis=(0, 3)) for values in table.values.values()], axis=0)
    for point, repetition in np.argwhere(present).tolist():
        yield dict(zip(table.parameters, table.points[point].tolist(), strict=True)), repetition, path, point


def import_plan(campaign: Campaign, layout: Layout) -> Plan:
    """Return the plan that makes imported measurements finished runs: the first one of the campaign."""
    sources = imports_of(campaign, layout)
    bundles = []
    for source in sources:
        for point, runs in groupby(source.runs, key=lambda run: run.point):
            repetitions = tuple(Run(source.spec.hash, Mode.IMPORTED, run.repetition) for run in runs)
            bundles.append(Bundle(point, Purpose.MODEL, repetitions))
    number = sum(len(bundle.runs) for bundle in bundles)
    points = len({bundle.point for bundle in bundles})
    names = listed((source.entry.path for source in sources), 4)
    return Plan(
        iteration=0,
        done=False,
        reason=f"{number} runs at {points} points were measured before and are imported from {names}",
        builds=tuple(source.spec for source in sources),
        bundles=tuple(bundles),
        filter_text=_widest(sources).spec.filter_text,
        predicted_core_hours=0.0,
        budget_core_hours=campaign.config.budget.in_force(None),
    )


def _widest(sources: Sequence[Import]) -> Import:
    """Return the measurements that tell most: those that may be mixed with the campaign's own before others."""
    return max(
        sources, key=lambda source: (source.spec.pooled, len({run.point for run in source.runs}), -source.number)
    )
