"""What a run of a simulated program takes and leaves behind."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from buran.campaign.expressions import Expression, ExpressionError
from buran.campaign.plan import Mode
from buran.campaign.point import Value
from buran.errors import RunError
from buran.measurement.toolchain.mpi_operations import ROLES
from buran.profiles.metrics import metric_of, table
from buran.profiles.profile import CallTree, Location, Profile, Region
from buran_studies.simulate.program import Noise, Program

Array = NDArray[np.float64]
MOST_LOCATIONS = 8
"""Ranks that are simulated; they stand for all, spread evenly from the fastest to the slowest."""
_EXECUTABLE = "simulated"


@dataclass(frozen=True)
class Took:
    """How long a run took.

    Attributes
    ----------
    wall_s
        Until the slowest rank had ended, or until it failed.
    cpu_s
        Of all ranks.
    """

    wall_s: float
    cpu_s: float
    failed: bool


def generator(*key: object) -> np.random.Generator:
    """Return the random numbers that belong to a key, whatever was drawn before."""
    text = "\0".join(map(str, key))
    return np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big")))


@dataclass(frozen=True, eq=False)
class Variant:
    """A program as it was built, and as its hooks are filtered when it runs.

    Attributes
    ----------
    hooked
        Functions with hooks that measure; operations of MPI are always measured, but for the baseline.
    passed
        Functions with hooks that are filtered while the program runs.
    """

    program: Program
    mode: Mode
    hooked: frozenset[str]
    passed: frozenset[str] = frozenset()

    @cached_property
    def _measured(self) -> NDArray[np.bool_]:
        nodes = self.program.nodes
        if self.mode is Mode.VANILLA:
            return np.zeros(len(nodes), dtype=bool)
        return np.array([node.kind == "mpi" or node.name in self.hooked for node in nodes], dtype=bool)

    @cached_property
    def tree(self) -> tuple[CallTree, NDArray[np.int64]]:
        """Call paths that are measured, below the executable, and for each of the program's where it is counted."""
        nodes = self.program.nodes
        regions = {_EXECUTABLE: Region(_EXECUTABLE, _EXECUTABLE, "", 0, "measurement", "artificial")}
        found: dict[tuple[int, str], int] = {(-1, _EXECUTABLE): 0}
        place = np.zeros(len(nodes), dtype=np.int64)
        for number, (node, measured) in enumerate(zip(nodes, self._measured.tolist(), strict=True)):
            above = 0 if node.parent < 0 else int(place[node.parent])
            place[number] = found.setdefault((above, node.name), len(found)) if measured else above
            if measured:
                mpi = node.kind == "mpi"
                role = ROLES.get(node.name, "function") if mpi else "function"
                regions.setdefault(node.name, Region(node.name, node.name, "", 0, "mpi" if mpi else "compiler", role))
        index = {name: number for number, name in enumerate(regions)}
        region = np.array([index[name] for _, name in found], dtype=np.int64)
        parent = np.array([above for above, _ in found], dtype=np.int64)
        return CallTree(tuple(regions.values()), region, parent), place

    def took(self, point: Mapping[str, Value], ranks: int, key: str) -> Took:
        """Return how long a run takes.

        Raises
        ------
        RunError
            A formula cannot be computed there, or gives less than nothing.
        """
        totals = self._exclusive_s(point, ranks, key).sum(axis=0) + _value(self.program.startup_s, point, "startup_s")
        share = _value(self.program.failure_probability, point, "failure_probability")
        fate = generator(key, "fate")
        failed = bool(fate.random() < share)
        part = float(fate.random()) if failed else 1.0
        return Took(float(totals.max()) * part, float(totals.mean()) * ranks * part, failed)

    def profile(self, point: Mapping[str, Value], ranks: int, key: str) -> Profile:
        """Return what a run leaves behind."""
        tree, place = self.tree
        seconds, counts = self._exclusive_s(point, ranks, key), self._counts(point, ranks, key)
        shape = (len(tree), seconds.shape[1])
        exclusive = np.zeros(shape)
        exclusive[0] = _value(self.program.startup_s, point, "startup_s")
        np.add.at(exclusive, place, seconds)
        values: dict[str, NDArray[np.generic]] = {}
        visits = np.zeros(shape)
        np.add.at(visits, place[self._measured], counts["visits"][self._measured])
        visits[0] = 1
        mpi = np.array([tree.regions[number].paradigm == "mpi" for number in tree.region])[:, None]
        values["visits"] = visits.astype(np.uint64)
        values["time"] = tree.inclusive(exclusive)
        for name in counts.keys() - {"visits"}:
            if self.mode not in metric_of(name).builds:
                continue
            own = np.zeros(shape)
            np.add.at(own, place, counts[name])
            values[name] = own.astype(np.uint64)
        values["communicator_size_sum"] = np.where(mpi, visits * ranks, 0).astype(np.uint64)
        values["communicator_size_min"] = np.where(mpi & (visits > 0), float(ranks), 0.0)
        values["communicator_size_max"] = values["communicator_size_min"]
        locations = _spread(ranks)
        placement = [{"host": "simulated", "cpus": "", "ranks": f"0-{ranks - 1}"}]
        attributes = {
            "creator": "buran simulated",
            "complete": "true",
            "ranks": str(ranks),
            "represents_locations": str(ranks),
            "placement": json.dumps(placement),
        }
        metrics = {name: metric for name, metric in table().items() if name in values}
        return Profile(tree, tuple(map(Location, locations)), metrics, {n: values[n] for n in metrics}, attributes)

    def truth_s(self, point: Mapping[str, Value], ranks: int) -> dict[str, float]:
        """Return what each measured call path takes without noise and without hooks: exclusive, mean over ranks."""
        tree, place = self.tree
        exclusive = np.zeros(len(tree))
        exclusive[0] = _value(self.program.startup_s, point, "startup_s")
        np.add.at(exclusive, place, self._work_s(point, ranks).mean(axis=1))
        return dict(zip(tree.names, exclusive.tolist(), strict=True))

    def _work_s(self, point: Mapping[str, Value], ranks: int) -> Array:
        """Return shape (call path, location), without noise and hooks."""
        slow = _slowness(ranks)
        nodes = self.program.nodes
        seconds = np.array([_value(node.time_s, point, f"{node.name}.time_s") for node in nodes])
        waiting = np.array([_value(node.waiting_s, point, f"{node.name}.waiting_s") for node in nodes])
        imbalance = np.array([node.imbalance for node in nodes])
        return np.asarray(seconds[:, None] * (1 + imbalance[:, None] * slow) + waiting[:, None] * (1 - slow))

    def _counts(self, point: Mapping[str, Value], ranks: int, key: str) -> dict[str, Array]:
        """Return shape (call path, location) of each counter, whole numbers."""
        nodes, slow = self.program.nodes, _slowness(ranks)
        unsteady = np.array([node.unsteady_percent for node in nodes]) / 100
        wobble = np.ones(len(nodes))
        if unsteady.any():
            wobble = np.maximum(1 + unsteady * generator(key, "counts").standard_normal(len(nodes)), 0.0)
        out = {}
        for name in self.program.counted:
            whole = np.array([_value(node.counts[name], point, f"{node.name}.{name}") for node in nodes])
            own = np.repeat(whole[:, None], len(slow), axis=1)
            if metric_of(name).effort == "computation":
                own = own * (1 + np.array([node.imbalance for node in nodes])[:, None] * slow)
            out[name] = np.rint(own * wobble[:, None])
        return out

    def _exclusive_s(self, point: Mapping[str, Value], ranks: int, key: str) -> Array:
        """Return shape (call path, location), with noise and what hooks cost."""
        nodes = self.program.nodes
        out = self._work_s(point, ranks) * _noise(self.program, generator(key, "noise"))[:, None]
        if self.mode is Mode.VANILLA:
            return out
        cost, counts = self.program.instrumentation, self._counts(point, ranks, key)
        passed = np.array([node.name in self.passed for node in nodes])
        hooks = counts["visits"] * np.where(self._measured, cost.visit_s / 2, 0.0)[:, None]
        above = hooks + counts["visits"] * np.where(passed, cost.passed_visit_s, 0.0)[:, None]
        out += hooks
        callers = np.array([max(node.parent, 0) for node in nodes])
        np.add.at(out, callers, above)
        if self.mode is Mode.EFFORT:
            out += counts["basic_blocks"] * cost.block_s
        return out


def _value(formula: Expression, point: Mapping[str, Value], key: str) -> float:
    try:
        value = float(formula(point))
    except ExpressionError as error:
        raise RunError(error.what, where=f"simulated program, {key}") from None
    if not value >= 0:
        at = ", ".join(f"{name}={number}" for name, number in point.items())
        raise RunError(f"{formula.text!r} gives {value:g} at {at}", where=f"simulated program, {key}", why="below 0")
    return value


def _spread(ranks: int) -> list[int]:
    """Return the ranks that are simulated."""
    chosen = np.linspace(0, ranks - 1, min(ranks, MOST_LOCATIONS)).round()
    return [int(rank) for rank in chosen]


def _slowness(ranks: int) -> Array:
    """Return shape (location,): from -1 for the fastest to 1 for the slowest; 0 for a single one."""
    count = min(ranks, MOST_LOCATIONS)
    return np.linspace(-1.0, 1.0, count) if count > 1 else np.zeros(1)


def _noise(program: Program, draw: np.random.Generator) -> Array:
    """Return shape (call path,): factors with mean 1, but for the tail, which only delays."""
    noise: Noise = program.noise
    count = len(program.nodes)
    levels = [noise.percent if node.noise_percent is None else node.noise_percent for node in program.nodes]
    level = np.array(levels) / 100
    body = draw.standard_normal(count)
    match noise.distribution:
        case "uniform":
            factors = 1 + level * np.sqrt(3.0) * (2 * draw.random(count) - 1)
        case "lognormal":
            scale = np.sqrt(np.log1p(level**2))
            factors = np.exp(scale * body - scale**2 / 2)
        case _:
            factors = 1 + level * np.clip(body, -4, 4)
    delayed = draw.random(count) < noise.tail_probability
    return np.asarray(np.maximum(factors, 0.0) + np.where(delayed, draw.exponential(1.0, count) * noise.tail_mean, 0.0))
