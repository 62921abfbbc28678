"""Plans: which builds are run at which points, how often and in which order.

Everything here is content-addressed: a build or a bundle that means the same has the same identifier
in every iteration and every version of the campaign file, and is built or measured once.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainValidator

from buran.campaign.point import Point, Value, canonical, plain_value
from buran.files import JsonObject, Stored, decode, digest

SCHEMA = 1
"""Schema of plans, and of the records of what is built and run for them."""
AnyPoint = Annotated[Point, BeforeValidator(Point.of)]
_AnyValue = Annotated[Value, PlainValidator(canonical)]
"""A point in a file: a mapping of parameters to values."""
Question = tuple[str, str, str]
"""A run as plans ask for it: build, point and name."""


class Mode(StrEnum):
    """Build variants of a target."""

    VANILLA = "vanilla"  # not instrumented: the baseline of overhead and cost
    TIME = "time"  # hooks of the selected functions
    EFFORT = "effort"  # hooks and basic-block counters
    MEMORY = "memory"  # hooks, counters, and accesses to memory that are sampled


COUNTING = (Mode.EFFORT, Mode.MEMORY)
"""Builds whose runs tell counts."""
POINTS_OF_BOTH = 2
"""Points with timed and counting runs, from which on the latter tell times: the fewest that tell a scatter."""


class Purpose(StrEnum):
    """What a point is measured for."""

    PILOT = "pilot"  # to decide by few runs what is measured: functions worth their hooks, or nothing new at all
    MODEL = "model"
    EVALUATION = "evaluation"  # compared with predictions, never fitted


@dataclass(frozen=True)
class BuildSpec(Stored):
    """One way to build the target.

    Attributes
    ----------
    target
        Identity of sources, build command, flags, compiler and backend.
    mode
        Build variant.
    filter_text
        Content of the Score-P filter file in force; empty for the backend's default selection.
    values
        Parameters that the build command itself uses.
    hooks
        Filter that the program is compiled with, if the one in force is applied when it runs; None if they are one.
    environment
        Identity of what it is built with and runs in, where a parameter chooses that; None if it is the target's.
    """

    kind_of_file = "specification of a build"
    derived = frozenset(("hash",))

    target: str
    mode: Mode
    filter_text: str = ""
    values: tuple[tuple[str, _AnyValue], ...] = ()
    hooks: str | None = None
    environment: str | None = None

    @property
    def compiled(self) -> BuildSpec:
        """The build whose program runs."""
        return self if self.hooks is None else replace(self, filter_text=self.hooks, hooks=None)

    @property
    def hash(self) -> str:
        """Identity of the build, part of every path below it."""
        special = [part for part in (self.hooks, self.environment) if part is not None]
        return digest([self.target, self.mode, self.filter_text, self.values, *special], 16)

    @property
    def is_for_every_point(self) -> bool:
        """Whether no point can be measured without it, in the first iteration at least."""
        return not self.values and not self.filter_text

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `from_json`."""
        values = tuple((name, plain_value(value)) for name, value in self.values)
        plain = {**asdict(self), "values": values, "hash": self.hash}
        if self.environment is None:
            del plain["environment"]
        return plain


@dataclass(frozen=True)
class Run(Stored):
    """One execution of a build; `repetition` counts per build and point, -1 is the warm-up."""

    build: str
    mode: Mode
    repetition: int

    @cached_property
    def name(self) -> str:
        """Name of its folder in the store."""
        return "warmup" if self.repetition < 0 else f"rep-{self.repetition:02d}"

    @cached_property
    def plain(self) -> dict[str, Any]:
        """As plain data; one for all bundles that share it."""
        return {"build": self.build, "mode": self.mode, "repetition": self.repetition}


_run = cache(Run)  # bundles share their runs, which in large plans would take most of the memory


@dataclass(frozen=True)
class Bundle(Stored):
    """One point with all its runs, executed one after the other on the same machine.

    Attributes
    ----------
    runs
        In the order of execution.
    predicted_s
        Expected wall time of one run; None where nothing is known.
    conditions
        Digest of everything except the builds that decides how the point is run; empty in plans of earlier versions.
    """

    kind_of_file = "specification of a bundle"
    derived = frozenset(("id",))

    point: AnyPoint
    purpose: Purpose
    runs: tuple[Run, ...]
    predicted_s: float | None = None
    conditions: str = ""

    @cached_property
    def id(self) -> str:
        """Identity: the point, the runs in order, and how they are made."""
        conditions = [self.conditions] if self.conditions else []
        return digest([self.point.items_, [run.plain for run in self.runs], *conditions], 16)

    @classmethod
    def several(cls, data: Iterable[JsonObject]) -> tuple[Bundle, ...]:
        """Rebuild many from `to_json`; they share their runs."""
        shared: dict[str, tuple[Run, ...]] = {}
        plain = [{key: value for key, value in bundle.items() if key not in cls.derived} for bundle in data]
        for bundle in plain:
            if "runs" in bundle:
                text = str(bundle["runs"])
                if text not in shared:
                    runs = decode(tuple[Run, ...], bundle["runs"])
                    shared[text] = tuple(_run(run.build, run.mode, run.repetition) for run in runs)
                bundle["runs"] = shared[text]
        return decode(tuple[Bundle, ...], plain)

    @property
    def questions(self) -> list[Question]:
        """What it asks for, run by run."""
        point = self.point.key
        return [(run.build, point, run.name) for run in self.runs]

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `from_json`."""
        runs = [run.plain for run in self.runs]
        return {"id": self.id, **vars(self), "point": self.point.plain, "runs": runs}


def randomised_blocks(repetitions: Mapping[tuple[str, Mode], range], warmup: bool, seed: str) -> tuple[Run, ...]:
    """Order runs as complete blocks: each round visits every build once, in seeded random order.

    Parameters
    ----------
    repetitions
        For each build (hash and mode) the repetitions to run.
    warmup
        Whether a first run, of the first build, is made that only warms caches up.
    seed
        Any text; the same text gives the same order.
    """
    generator = random.Random(seed)
    runs: list[Run] = []
    if warmup:
        build, mode = next(iter(repetitions))
        runs.append(_run(build, mode, -1))
    for block in range(max((len(indices) for indices in repetitions.values()), default=0)):
        members = [
            _run(build, mode, indices[block]) for (build, mode), indices in repetitions.items() if block < len(indices)
        ]
        generator.shuffle(members)
        runs.extend(members)
    return tuple(runs)


@dataclass(frozen=True)
class Plan(Stored):
    """What one iteration of the campaign builds and measures, and why.

    Attributes
    ----------
    reason
        In words: why these runs, or why the campaign is done.
    filter_text
        Filter of the builds for time; empty for the backend's default selection.
    spent_core_hours
        Charged by the iterations before this one.
    predicted_core_hours
        Expected cost of this iteration; None where nothing is known yet.
    budget_core_hours
        The budget in force; None without one.
    limit_core_hours
        What of it may be spent until the end of this iteration: the rest is kept for what follows. None for all of it.
    ended
        Of evaluation points: why no more points are measured for models.
    budget_reached
        Whether something worth measuring was left out for lack of budget.
    """

    kind_of_file = "plan"
    derived = frozenset(("phase",))

    iteration: int
    done: bool
    reason: str
    builds: tuple[BuildSpec, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    filter_text: str = ""
    spent_core_hours: float = 0.0
    predicted_core_hours: float | None = None
    budget_core_hours: float | None = None
    limit_core_hours: float | None = None
    budget_reached: bool = False
    ended: str = ""
    schema: int = field(default=SCHEMA)

    @property
    def phase(self) -> str:
        """Part of the campaign.

        ``first look``, ``refinement``, ``times``, ``evaluation`` or ``end``.
        """
        if self.done:
            return "end"
        if self.pilot:
            return "refinement" if self.iteration else "first look"
        return "evaluation" if any(bundle.purpose is Purpose.EVALUATION for bundle in self.bundles) else "times"

    @property
    def most_core_hours(self) -> float | None:
        """What may be spent until its end; None without a limit."""
        return self.budget_core_hours if self.limit_core_hours is None else self.limit_core_hours

    @property
    def pilot(self) -> bool:
        """Whether its runs only decide what is measured."""
        return any(bundle.purpose is Purpose.PILOT for bundle in self.bundles)

    @property
    def modelled(self) -> Purpose:
        """What the runs are measured for that models after this plan are made from."""
        return Purpose.PILOT if self.pilot else Purpose.MODEL

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `from_json`."""
        plain = {"phase": self.phase, **vars(self)}
        plain["builds"] = [build.to_json() for build in self.builds]
        plain["bundles"] = [bundle.to_json() for bundle in self.bundles]
        return plain

    @classmethod
    def from_json(cls, data: JsonObject) -> Plan:
        """Rebuild from `to_json`."""
        builds = tuple(map(BuildSpec.from_json, data["builds"]))
        bundles = Bundle.several(data["bundles"])
        return super().from_json({**data, "builds": builds, "bundles": bundles})


def planned_runs(plans: Iterable[Plan]) -> Iterator[tuple[Question, Bundle, Run]]:
    """Yield every run that plans ask for, with its bundle; one that several ask for comes several times."""
    for plan in plans:
        for bundle in plan.bundles:
            for question, run in zip(bundle.questions, bundle.runs, strict=True):
                yield question, bundle, run
