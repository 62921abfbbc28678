"""Descriptions of simulated programs: a tree of call paths, each with formulas over the campaign's parameters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from buran.campaign.document import read_yaml
from buran.campaign.expressions import Expression, ExpressionError, compile_expression
from buran.campaign.mistakes import did_you_mean, listed
from buran.campaign.point import Value
from buran.errors import ConfigError
from buran.profiles.metrics import METRICS, metric_of, requested_by
from buran.profiles.profile import SEPARATOR
from buran_studies.simulate.truth import TRUTH_SCHEMA, program_of_truth

SCHEMA = "buran-program/1"
DISTRIBUTIONS = ("normal", "uniform", "lognormal")
_MOST_PERCENT = {"normal": 25.0, "uniform": 57.0, "lognormal": 200.0}  # beyond it times would fall below zero
_KINDS = ("function", "inline", "mpi")
_KEYS = ("schema", "startup_s", "instrumentation", "noise", "failure_probability", "queue_s", "program")
_NODE_NUMBERS = ("imbalance", "noise_percent", "unsteady_percent")


def counts() -> tuple[str, ...]:
    """Return the metrics that a description can give formulas for, beside the time: all that campaigns ask for."""
    return tuple(name for name in requested_by("metrics") if metric_of(name).role == "exact")


@dataclass(frozen=True)
class Noise:
    """How run times scatter.

    Attributes
    ----------
    distribution
        Of the body, with mean 1.
    percent
        Standard deviation of a call path's time in one run, relative.
    tail_probability, tail_mean
        How often a call path is delayed, and by how many times its time on average (exponential).
    """

    distribution: str = "normal"
    percent: float = 2.0
    tail_probability: float = 0.0
    tail_mean: float = 0.0


@dataclass(frozen=True)
class Instrumentation:
    """What measuring costs.

    Attributes
    ----------
    visit_s
        Of a visit of a function with hooks, half of it in the function and half in its caller.
    passed_visit_s
        Of a visit whose hooks find themselves filtered while the program runs.
    block_s
        Of each basic block that is counted.
    """

    visit_s: float = 2e-7
    passed_visit_s: float = 2e-8
    block_s: float = 5e-10


@dataclass(frozen=True)
class Node:
    """A call path; everything exclusive, per rank, for a whole run.

    Attributes
    ----------
    parent
        Number of the caller; -1 for the first.
    counts
        By metric; see `counts`.
    imbalance
        The slowest rank takes 1 plus this times the mean, the fastest 1 minus this.
    waiting_s
        Time that ranks wait here on average; those that come last do not wait.
    noise_percent
        Instead of the program's.
    unsteady_percent
        Standard deviation of the counts from run to run, relative; 0 where effort does not depend on the run.
    """

    name: str
    parent: int
    kind: str
    time_s: Expression
    counts: Mapping[str, Expression]
    waiting_s: Expression
    imbalance: float = 0.0
    noise_percent: float | None = None
    unsteady_percent: float = 0.0


@dataclass(frozen=True)
class Program:
    """A simulated program.

    Attributes
    ----------
    nodes
        In pre-order.
    startup_s
        Of a run, outside of all functions.
    failure_probability
        Of a run.
    queue_s
        Mean time a job waits, exponentially distributed.
    """

    nodes: tuple[Node, ...]
    startup_s: Expression
    failure_probability: Expression
    queue_s: Expression
    noise: Noise = Noise()
    instrumentation: Instrumentation = Instrumentation()

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """Metrics that its runs count: those of plug-ins only if a function has them."""
        counts = [node.counts for node in self.nodes]
        return tuple(n for n in counts[0] if n in METRICS or any(count[n].text != "0" for count in counts))

    @property
    def paths(self) -> tuple[str, ...]:
        """Full call paths."""
        out: list[str] = []
        for node in self.nodes:
            out.append(node.name if node.parent < 0 else out[node.parent] + SEPARATOR + node.name)
        return tuple(out)


def read_program(path: Path, parameters: Sequence[str]) -> Program:
    """Read a description, or the ground truth that ``buran generate`` wrote.

    Raises
    ------
    ConfigError
        The file cannot be read or has a mistake, with the place in it.
    """
    try:
        data = read_yaml(path).data
    except ConfigError as error:
        what = "the description of the simulated program cannot be read"
        raise ConfigError(what, where=path, why=error.line, hint=error.hint) from error
    return program_of(data, parameters, str(path))


def program_of(data: Any, parameters: Sequence[str], where: str) -> Program:
    """Check a description.

    Raises
    ------
    ConfigError
        With the place of the mistake.
    """
    reader = _Reader(tuple(parameters), where)
    if isinstance(data, Mapping) and data.get("schema") == TRUTH_SCHEMA:
        data = {"schema": SCHEMA, **program_of_truth(data, parameters, where)}
    reader.keys(data, _KEYS, "")
    if data.get("schema") != SCHEMA:
        raise reader.mistake("schema", f"this is no description of a program: its schema is not {SCHEMA!r}")
    if not isinstance(data.get("program"), Mapping) or len(data["program"]) != 1:
        raise reader.mistake("program", "exactly one function is the first", "write, for example: program: {main: ...}")
    nodes = tuple(reader.nodes(data["program"], "program", -1, []))
    known = [field.name for field in fields(Instrumentation)]
    costs = reader.part(data.get("instrumentation", {}), "instrumentation", known)
    return Program(
        nodes,
        reader.formula(data, "", "startup_s", 0),
        reader.formula(data, "", "failure_probability", 0),
        reader.formula(data, "", "queue_s", 0),
        reader.noise(data.get("noise", {})),
        Instrumentation(**costs),
    )


@dataclass(frozen=True)
class _Reader:
    parameters: tuple[str, ...]
    where: str

    def mistake(self, key: str, what: str, hint: str | None = None) -> ConfigError:
        return ConfigError(what, where=f"{self.where}, key {key}" if key else self.where, hint=hint)

    def keys(self, data: Any, known: Sequence[str], place: str) -> None:
        if not isinstance(data, Mapping):
            raise self.mistake(place, "keys of its own are needed here, as in `key: value`")
        for key in data:
            if key not in known:
                what = f"unknown key {key!r}; allowed are {listed(known)}"
                raise self.mistake(f"{place}.{key}".lstrip("."), what, did_you_mean(str(key), known))

    def number(self, value: Any, place: str, most: float = float("inf")) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
            limit = "" if most == float("inf") else f" and at most {most:g}"
            raise self.mistake(place, f"{value!r} is not allowed: a number, at least 0{limit}, is needed")
        return float(value)

    def formula(self, data: Mapping[str, Any], place: str, key: str, default: Value) -> Expression:
        text = data.get(key, default)
        try:
            if isinstance(text, bool) or not isinstance(text, int | float | str):
                raise ExpressionError(f"{text!r} is no number and no expression over parameters")
            return compile_expression(text, self.parameters, "number")
        except ExpressionError as error:
            raise self.mistake(f"{place}.{key}".lstrip("."), error.what, error.hint) from None

    def part(self, data: Any, place: str, known: Sequence[str]) -> dict[str, float]:
        self.keys(data, known, place)
        return {key: self.number(value, f"{place}.{key}") for key, value in data.items()}

    def noise(self, data: Any) -> Noise:
        self.keys(data, ("distribution", "percent", "tail"), "noise")
        kind = data.get("distribution", "normal")
        if kind not in DISTRIBUTIONS:
            raise self.mistake("noise.distribution", f"{kind!r} is not allowed; allowed are {listed(DISTRIBUTIONS)}")
        percent = self.number(data.get("percent", Noise.percent), "noise.percent", _MOST_PERCENT[kind])
        tail = self.part(data.get("tail", {}), "noise.tail", ("probability", "mean"))
        probability = self.number(tail.get("probability", 0.0), "noise.tail.probability", 1.0)
        return Noise(kind, percent, probability, tail.get("mean", 0.0))

    def nodes(self, data: Mapping[str, Any], place: str, parent: int, found: list[Node]) -> Iterator[Node]:
        for name, content in data.items():
            here = f"{place}.{name}"
            own = {} if content is None else content
            if not isinstance(name, str) or not name or SEPARATOR in name:
                raise self.mistake(here, f"{name!r} cannot be the name of a function")
            self.keys(own, ("kind", "time_s", *counts(), "waiting_s", *_NODE_NUMBERS, "calls"), here)
            kind = own.get("kind", "mpi" if name.startswith("MPI_") else "function")
            if kind not in _KINDS:
                raise self.mistake(f"{here}.kind", f"{kind!r} is not allowed; allowed are {listed(_KINDS)}")
            numbers = {key: self.number(own[key], f"{here}.{key}", 100.0) for key in _NODE_NUMBERS if key in own}
            if numbers.get("imbalance", 0.0) > 1:
                raise self.mistake(f"{here}.imbalance", "the fastest rank cannot take less than no time: at most 1")
            node = Node(
                name,
                parent,
                kind,
                time_s=self.formula(own, here, "time_s", 0),
                counts={key: self.formula(own, here, key, int(key == "visits")) for key in counts()},
                waiting_s=self.formula(own, here, "waiting_s", 0),
                imbalance=numbers.get("imbalance", 0.0),
                noise_percent=numbers.get("noise_percent"),
                unsteady_percent=numbers.get("unsteady_percent", 0.0),
            )
            number = len(found)
            found.append(node)
            yield node
            calls = own.get("calls", {})
            self.keys(calls, tuple(map(str, calls)) if isinstance(calls, Mapping) else (), f"{here}.calls")
            yield from self.nodes(calls, f"{here}.calls", number, found)
