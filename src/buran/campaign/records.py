"""Records: what is written when builds and runs end, and the one grammar of their places in the store.

A run's ``run.json`` lies next to what it measured and is never written again. Outcomes are what the workflow points to:
each says of a build, or of all runs of a bundle, what became of it and where it lies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path, PurePath
from typing import Annotated, Any

from pydantic import BeforeValidator

from buran.campaign.plan import SCHEMA, AnyPoint, BuildSpec, Bundle, Mode, Purpose, Question
from buran.files import JsonObject, Stored, decode, digest, read_document, write_json

RECORD = "run.json"
BUILD = "build"
FAILED = "failed"
_KEEP = "move its folder away: the store is whole without it, and `buran run` makes the run again"


class Status(StrEnum):
    """What became of a run."""

    MEASURED = "measured"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # no verdict on the program: measured again without being asked
    OVER_BUDGET = "over budget"  # not started


_KEY = re.compile(
    r"(?P<build>[^/]+)/(?:(?:[0-9a-f]{2}/)?(?P<point>[^/~]*)~(?P<configuration>[^/]+)/)?(?P<failed>failed/)?"
    r"(?P<name>build|warmup|rep-\d+)(?:-g(?P<generation>\d+))?(?:\.a(?P<attempt>\d+))?"
)


_QUESTION = re.compile(r"([^/]+)/(?:([^/~]*)~[^/]+/)?(?:failed/)?(build|warmup|rep-\d+)[^/]*")
_SHARD = re.compile(r"(?<=/)[0-9a-f]{2}/")


def question_of(run: str) -> Question:
    """Return the question of a run's key that is written out, as `RunKey.question` does; many times a second."""
    match = _QUESTION.fullmatch(run)
    if match is None:
        raise ValueError(f"{run!r} is not the folder of a run or a build")
    build, point, name = match.groups("")
    return build, point, name


def key_of(path: str) -> str:
    """Return the key that is written out of a place in the store, as `RunKey.parse` would; many times a second."""
    return _SHARD.sub("", path, count=1)


@dataclass(frozen=True)
class RunKey:
    """What a run or a build is called; written as in ``build/point~configuration/failed/rep-00-g1.a0``.

    It lies in the store where its name says, with the `shard` between build and point. Earlier versions left that out.

    Attributes
    ----------
    point, configuration
        Key of the point and digest of how it is run; empty for a build.
    name
        Name of the run, or `BUILD`.
    generation
        0 before ``buran run --remeasure``.
    attempt
        Number of an attempt that failed or was interrupted; None for what is finished.
    """

    build: str
    point: str
    configuration: str
    name: str
    generation: int = 0
    attempt: int | None = None

    @classmethod
    def parse(cls, path: PurePath | str) -> RunKey:
        """Read a path relative to the store, with or without its shard.

        Raises
        ------
        ValueError
            It is not the folder of a run or a build.
        """
        path = path.as_posix() if isinstance(path, PurePath) else path  # a Windows may read it
        match = _KEY.fullmatch(path)
        if match is None or (match["attempt"] is None) != (match["failed"] is None):
            raise ValueError(f"{path!r} is not the folder of a run or a build")
        key = cls(
            match["build"],
            match["point"] or "",
            match["configuration"] or "",
            match["name"],
            int(match["generation"] or 0),
            None if match["attempt"] is None else int(match["attempt"]),
        )
        if key.is_build == bool(key.configuration):
            raise ValueError(f"{path!r} is not the folder of a run or a build")
        return key

    def __str__(self) -> str:
        return f"{self.folder}/{self.inside}"

    @property
    def inside(self) -> str:
        """Its place in the folder of its point or build."""
        return self.slot if self.attempt is None else f"{FAILED}/{self.slot}.a{self.attempt}"

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of the store that may hold the runs of the build at the point: the one that counts is first."""
        if self.is_build:
            return (self.build,)
        point = f"{self.point}~{self.configuration}"
        return self.folder, f"{self.build}/{digest(point, 2)}/{point}"

    @property
    def folder(self) -> str:
        """What all runs of the build at the point have in common."""
        return self.build if self.is_build else f"{self.build}/{self.point}~{self.configuration}"

    @property
    def slot(self) -> str:
        """Name and generation, as the finished run's folder is called."""
        return f"{self.name}-g{self.generation}" if self.generation else self.name

    @property
    def is_build(self) -> bool:
        """Whether it is a build."""
        return self.name == BUILD

    @property
    def question(self) -> Question:
        """Build, point and name: what a plan asks for, whatever the configuration, the generation and the attempt."""
        return self.build, self.point, self.name


@dataclass(frozen=True, kw_only=True)
class Record(Stored):
    """What every record says; all that is known of an attempt whose process vanished before it wrote more.

    Attributes
    ----------
    reason
        Why it failed or was interrupted.
    wall_s, cost_core_hours
        None where nothing was charged.
    """

    status: Status
    reason: str | None = None
    wall_s: float | None = None
    cost_core_hours: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data: what is not known is left out."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        return {"schema": SCHEMA, **{name: value for name, value in values.items() if value is not None}}

    def write(self, folder: Path) -> None:
        """Write it into the folder of a build or a run."""
        write_json(folder / RECORD, self.to_json())


@dataclass(frozen=True, kw_only=True)
class RunRecord(Record):
    """What is known of a run.

    Attributes
    ----------
    clock
        ``real``, ``virtual`` for simulated runs.
    machine
        The simulated machine that the program ran on, as text; None for a real one.
    clock_ahead_s
        How far it was ahead of the file system's clock when the run began.
    program_core_hours
        Cost of the program alone: its cores while it ran; None where it is the cost.
    charged_cores
        That its job holds, if all of them are charged; None where it is charged for its own.
    scheduler, job, allocation
        In whose job it ran and what that was given; None outside of jobs.
    before, after
        State of the machine.
    placement
        Host and CPUs of each rank.
    lacks_metric
        Metric that it was to count and did not, nor would another run of its build.
    lost_visits
        Visits of functions that signal handlers called while they interrupted a hook: they are in no count.
    involuntary_switches
        How often its processes lost their core to others.
    computation
        Wall-clock time (``wall_s``) and CPU time (``cpu_s``) of computation, over the first threads of all ranks.
    cpu_clock_missing
        Why times of computation are wall-clock times; None where they are CPU times.
    output_left_out
        Bytes that the run wrote and that were not kept, by file.
    energy_j
        Of the nodes' processors, or of the nodes, while the program ran, in joules; None where it was not requested or
        is not known.
    energy_from, energy_parts_j
        What counted it, and joules by counter.
    energy_unknown
        Why it is not known.
    """

    build: str
    target: str
    mode: Mode
    point: AnyPoint
    repetition: int
    clock: str
    cores: int
    purpose: Purpose | None = None
    warmup: bool | None = None
    configuration: JsonObject | None = None
    node: Any = None
    started: str | None = None
    clock_ahead_s: float | None = None
    machine: str | None = None
    disturbances: tuple[str, ...] = ()
    program_core_hours: float | None = None
    charged_cores: float | None = None
    scheduler: str | None = None
    job: str | None = None
    allocation: JsonObject | None = None
    argv: tuple[str, ...] | None = None
    environment: Mapping[str, str] | None = None
    tools: Mapping[str, str | None] | None = None
    before: JsonObject | None = None
    after: JsonObject | None = None
    placement: tuple[Any, ...] | None = None
    counters_unavailable: str | None = None
    lacks_metric: str | None = None
    lost_visits: int | None = None
    exit_code: int | None = None
    signal: int | str | None = None
    cpu_s: float | None = None
    involuntary_switches: int | None = None
    computation: Mapping[str, float] | None = None
    cpu_clock_missing: str | None = None
    max_rss_kib: int | None = None
    output_left_out: Mapping[str, int] | None = None
    energy_j: float | None = None
    energy_from: str | None = None
    energy_parts_j: Mapping[str, float] | None = None
    energy_unknown: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**super().to_json(), "point": self.point.plain}


@dataclass(frozen=True, kw_only=True)
class BuildRecord(Record):
    """What is known of a build.

    Attributes
    ----------
    source
        Identity, revision and commit of the target's source.
    filter
        Digest of the filter's text.
    filtered_at_run_time
        Whether nothing was compiled: the filter is applied to the program of another build when it runs.
    visit_cost_s
        What a visit of a function with hooks costs here.
    visit_cost_spread_s
        By how much more expensive it was in the median round of its measurement.
    binary
        Relative to the results folder.
    libraries
        Shared libraries that the program was linked with, by the names that it asks for; None if they were not read.
    """

    spec: Annotated[BuildSpec, BeforeValidator(BuildSpec.from_json)]
    command: str
    source: Mapping[str, str | None]
    backend: str
    toolchain: Mapping[str, str | None]
    flags: str
    filter: str | None = None
    notes: tuple[str, ...] = ()
    environment: Mapping[str, str]
    modules: tuple[str, ...] = ()
    tools: Mapping[str, str | None]
    node: Any = None
    visit_cost_s: float | None = None
    visit_cost_spread_s: float | None = None
    binary: str | None = None
    binary_sha256: str | None = None
    libraries: tuple[str, ...] | None = None
    filtered_at_run_time: bool | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**super().to_json(), "spec": self.spec.to_json()}


def read_record(folder: Path) -> Record:
    """Read the record of a build, of a finished run or of an attempt.

    Raises
    ------
    FormatError
        It is missing, foreign, damaged or of a newer version.
    """
    return read_document(folder / RECORD, SCHEMA, _record_of, what="record", hint=_KEEP)


def _record_of(data: dict[str, Any]) -> Record:
    if "spec" in data:
        return decode(BuildRecord, data)
    return _run_of(data) if "build" in data else decode(Record, data)


def _run_of(data: dict[str, Any]) -> RunRecord:
    return decode(RunRecord, with_scheduler(data))


def with_scheduler(data: dict[str, Any]) -> dict[str, Any]:
    """Return a record or a claim in which the scheduler is a value; version 0.1 had its name in the keys."""
    key = next((key for key in data if key.endswith("_job")), None)
    if key is None:
        return data
    name = key.removesuffix("_job")
    rest = {other: value for other, value in data.items() if other not in (key, name)}
    if name in data:
        rest["allocation"] = data[name]
    return {**rest, "scheduler": None if data[key] is None else name, "job": data[key]}


def read_run(folder: Path) -> RunRecord:
    """Read the record of a run; see `read_record`."""
    return read_document(folder / RECORD, SCHEMA, _run_of, what="run's record", hint=_KEEP)


def read_build(folder: Path) -> BuildRecord:
    """Read the record of a build; see `read_record`."""
    path = folder / RECORD
    return read_document(path, SCHEMA, lambda data: decode(BuildRecord, data), what="build's record", hint=_KEEP)


@dataclass(frozen=True)
class RunOutcome(Stored):
    """What became of a run of a bundle.

    Attributes
    ----------
    folder
        Relative to the results folder; None where there is no verdict.
    cost_core_hours
        Cost of all attempts together.
    """

    build: str
    mode: Mode
    repetition: int
    status: Status
    reason: str | None = None
    folder: str | None = None
    wall_s: float | None = None
    cpu_s: float | None = None
    cost_core_hours: float = 0.0


@dataclass(frozen=True)
class BundleOutcome(Stored):
    """What became of a bundle's runs.

    Attributes
    ----------
    complete
        Whether all runs are settled; False if one was not started because the budget is spent.
    """

    kind_of_file = "bundle's outcome"

    id: str
    point: AnyPoint
    purpose: Purpose
    runs: tuple[RunOutcome, ...]
    complete: bool
    predicted_s: float | None = None

    @classmethod
    def of(cls, bundle: Bundle, runs: Iterable[RunOutcome]) -> BundleOutcome:
        """Return what became of a bundle."""
        runs = tuple(runs)
        complete = all(run.status in (Status.MEASURED, Status.FAILED) for run in runs)
        return cls(bundle.id, bundle.point, bundle.purpose, runs, complete, bundle.predicted_s)

    def write(self, path: Path) -> None:
        """Write the pointer to the runs."""
        write_json(path, {"schema": SCHEMA, **vars(self), "point": self.point.plain, "runs": [*map(vars, self.runs)]})

    def has(self, status: Status) -> bool:
        """Tell whether a run ended so."""
        return any(run.status is status for run in self.runs)


@dataclass(frozen=True)
class BuildOutcome(Stored):
    """What became of a build.

    Attributes
    ----------
    folder, binary
        Relative to the results folder.
    """

    kind_of_file = "build's outcome"

    build: str
    mode: Mode
    status: Status
    reason: str | None
    folder: str
    binary: str | None = None
    cost_core_hours: float = 0.0

    def write(self, path: Path) -> None:
        """Write the pointer to the build."""
        write_json(path, {"schema": SCHEMA, **vars(self)})


def core_hours(outcomes: Iterable[BundleOutcome], without: Iterable[BundleOutcome] = ()) -> float:
    """Return what runs were charged; one that several bundles share counts once.

    Parameters
    ----------
    without
        Bundles whose runs are charged elsewhere.
    """
    elsewhere = dict.fromkeys(_charged(without))
    return sum(cost for run, cost in _charged(outcomes).items() if run not in elsewhere)


def _charged(outcomes: Iterable[BundleOutcome]) -> dict[tuple[str, str, int], float]:
    return {
        (run.build, outcome.point.key, run.repetition): run.cost_core_hours
        for outcome in outcomes
        for run in outcome.runs
    }
