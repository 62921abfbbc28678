"""One run's profile: call tree x metric x location, in memory."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buran.files import JsonObject
from buran.profiles.metrics import Metric
from buran.profiles.symbols import identities, is_program

SEPARATOR = "->"
Paradigm = Literal["compiler", "mpi", "openmp", "user", "gpu", "measurement"]


@dataclass(frozen=True)
class Region:
    """A function or another stretch of source that is visited.

    Attributes
    ----------
    name
        Demangled name, as a reader wants to see it.
    mangled
        Linker symbol; the name itself where there is none.
    file, line
        Where it begins; empty and 0 if unknown.
    paradigm
        Who owns it: ``compiler`` for functions of the program, ``mpi`` for MPI operations, ``gpu`` for kernels,
        ``measurement`` for the root.
    role
        Score-P's role name: ``function``, ``artificial``, ``point2point``, ``allreduce``, ...
    """

    name: str
    mangled: str = ""
    file: str = ""
    line: int = 0
    paradigm: Paradigm = "compiler"
    role: str = "function"


@dataclass(frozen=True, eq=False)
class CallTree:
    """Call paths as a forest in pre-order: a parent always stands before its children.

    Attributes
    ----------
    regions
        The distinct regions.
    region
        Shape (call path,): index into `regions`.
    parent
        Shape (call path,): index of the calling call path, -1 for a root.
    """

    regions: tuple[Region, ...]
    region: NDArray[np.int64]
    parent: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.region)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Full call paths, as in ``main->solve->MPI_Allreduce``."""
        out: list[str] = []
        for region, parent in zip(self.region, self.parent, strict=True):
            name = self.regions[region].name
            out.append(name if parent < 0 else out[parent] + SEPARATOR + name)
        return tuple(out)

    @cached_property
    def identities(self) -> tuple[str, ...]:
        """What tells each region from others, under any compiler; empty where there is only a name."""
        at_top = set(self.region[self.parent < 0].tolist()) - set(self.region[self.parent >= 0].tolist())
        programs = [number for number in at_top if is_program(self.regions[number])]
        return identities(self.regions, programs[0] if len(programs) == 1 else None)

    @cached_property
    def depth(self) -> NDArray[np.int64]:
        """Shape (call path,): 0 for roots."""
        out = np.zeros(len(self), dtype=np.int64)
        for i, parent in enumerate(self.parent):
            if parent >= 0:
                out[i] = out[parent] + 1
        return out

    def exclusive(self, inclusive: NDArray[np.float64]) -> NDArray[np.float64]:
        """Subtract the children's values; the first axis of `inclusive` is the call path."""
        out = np.array(inclusive, dtype=np.float64)
        has_parent = self.parent >= 0
        np.subtract.at(out, self.parent[has_parent], inclusive[has_parent])
        return out

    def inclusive(self, exclusive: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add up the values of whole subtrees; the first axis of `exclusive` is the call path."""
        out = np.array(exclusive, dtype=np.float64)
        by_depth = np.argsort(-self.depth, kind="stable")
        cuts = np.flatnonzero(np.diff(self.depth[by_depth])) + 1
        for level in np.split(by_depth, cuts):  # deepest first; one step a level
            level = level[self.parent[level] >= 0]
            np.add.at(out, self.parent[level], out[level])
        return out

    def to_json(self) -> dict[str, Any]:
        """Return plain data for `from_json`."""
        regions = [asdict(region) for region in self.regions]
        return {"regions": regions, "region": self.region.tolist(), "parent": self.parent.tolist()}

    @classmethod
    def from_json(cls, data: JsonObject) -> CallTree:
        """Read what `to_json` gives; KeyError, TypeError or ValueError where it is damaged."""
        regions = tuple(Region(**region) for region in data["regions"])
        return cls(regions, np.array(data["region"], dtype=np.int64), np.array(data["parent"], dtype=np.int64))


NO_CALL_PATHS = CallTree((), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True, order=True)
class Location:
    """Where events happen: a thread of a rank."""

    rank: int
    thread: int = 0


@dataclass(frozen=True, eq=False)
class Profile:
    """Call tree x metric x location of one run.

    Attributes
    ----------
    tree
        The call paths.
    locations
        Sorted by rank, then thread.
    metrics
        By name, in the order of writing.
    values
        By metric name, shape (call path, location), stored as the metric's `kind` says.
    attributes
        Free key-value pairs of the file: creator, compiler, completeness.
    """

    tree: CallTree
    locations: tuple[Location, ...]
    metrics: Mapping[str, Metric]
    values: Mapping[str, NDArray[np.generic]]
    attributes: Mapping[str, str]

    def without(self, names: Container[str]) -> Profile:
        """Return it without the metrics of these names."""
        values = {name: each for name, each in self.values.items() if name not in names}
        metrics = {name: metric for name, metric in self.metrics.items() if name not in names}
        return replace(self, metrics=metrics, values=values)

    def exclusive(self, metric: str) -> NDArray[np.float64]:
        """Return shape (call path, location): values without those of the children."""
        values = self.values[metric].astype(np.float64)
        return self.tree.exclusive(values) if self.metrics[metric].kind == "inclusive" else values


def computation_of(profile: Profile) -> dict[str, float] | None:
    """Return wall-clock and CPU time of computation, over the first threads of all ranks; None if one is not there."""
    if not {"time", "wall_time", "cpu_time"} <= profile.values.keys():
        return None
    computes = [profile.tree.regions[number].paradigm != "mpi" for number in profile.tree.region.tolist()]
    first = [location.thread == 0 for location in profile.locations]
    seconds = {name: profile.exclusive(name)[np.ix_(computes, first)] for name in ("time", "wall_time", "cpu_time")}
    waited_s = seconds["time"] - seconds["cpu_time"]  # for their teams
    return {
        "wall_s": float((seconds["wall_time"] - waited_s).sum()),
        "cpu_s": float(seconds["cpu_time"].sum()),
    }
