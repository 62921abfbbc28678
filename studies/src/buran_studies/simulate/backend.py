"""The simulated backend: programs that are descriptions, built and run on a virtual clock."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.files import digest, not_synced, read_json, write_json
from buran.instrumentation.filter_file import Filter, parse
from buran.measurement.backends.base import Backend
from buran.measurement.backends.embedded import VisitCost
from buran.measurement.machine.machine import BuildJob, Clock, Machine, RunJob
from buran.measurement.machine.process import Outcome
from buran.measurement.toolchain.static_features import Call, StaticFeatures, StaticFunction, notes_on
from buran.profiles.profile import Profile
from buran_studies.simulate.program import Program, program_of
from buran_studies.simulate.run import Variant

DESCRIPTION = "program.json"
_RAW = "run.json"


def hooked_functions(program: Program, rules: Filter) -> frozenset[str]:
    """Return the functions that a filter selects; inline ones only where it names them."""
    named = rules.named
    return frozenset(
        node.name
        for node in program.nodes
        if node.kind != "mpi" and rules.matches(node.name) and (node.kind != "inline" or node.name in named)
    )


@lru_cache(maxsize=256)
def _opened(binary: Path, filter_file: Path | None) -> Variant:
    """Open a built program; its path names its content."""
    data = read_json(binary)
    program = program_of(data["program"], data["parameters"], str(binary))
    compiled = hooked_functions(program, parse(data["filter"]))
    if filter_file is None:
        return Variant(program, Mode(data["mode"]), compiled)
    kept = compiled & hooked_functions(program, parse(filter_file.read_text(), filter_file))
    return Variant(program, Mode(data["mode"]), kept, compiled - kept)


@dataclass(frozen=True)
class VirtualMachine(Machine):
    """Builds and runs descriptions in no time; nothing of it depends on the host or on the order of runs.

    Attributes
    ----------
    seed
        Of everything random.
    """

    seed: int
    parameters: tuple[str, ...]

    @property
    def clock(self) -> Clock:
        """Virtual."""
        return "virtual"

    def reserved(self) -> AbstractContextManager[None]:
        """Nobody disturbs a simulation, and what a power cut takes is simulated again."""
        return not_synced()

    def state(self) -> dict[str, Any]:
        """Nothing of the host matters."""
        return {}

    def disturbances(self) -> tuple[str, ...]:
        """None."""
        return ()

    def build(self, job: BuildJob) -> Outcome:
        """Put the description, the mode and the filter into one file; it costs nothing."""
        spec = job.spec
        text = {"program": read_json(job.cwd / DESCRIPTION), "parameters": list(self.parameters)}
        write_json(job.binary, {**text, "mode": spec.mode, "filter": spec.filter_text})
        job.binary.chmod(0o755)
        return _outcome(0.0, 0.0)

    def run(self, job: RunJob) -> Outcome:
        """Compute how long the run takes, and note what its profile follows from."""
        for log in (job.stdout, job.stderr):
            log.touch()
        key = f"{self.seed} {job.key}"
        took = _opened(job.binary, job.filter_file).took(job.point, job.ranks, key)
        if took.wall_s > job.time_limit_s:
            return _outcome(job.time_limit_s, took.cpu_s * job.time_limit_s / took.wall_s, timed_out=True)
        if took.failed:
            job.stderr.write_text("the simulated program was made to fail\n")
            return _outcome(took.wall_s, took.cpu_s, exit_code=1)
        if job.mode is not Mode.VANILLA:
            source = {"binary": str(job.binary), "filter": None if job.filter_file is None else str(job.filter_file)}
            (job.raw / _RAW).write_text(json.dumps({**source, "point": dict(job.point), "key": key}))
        return _outcome(took.wall_s, took.cpu_s)


def _outcome(wall_s: float, cpu_s: float, exit_code: int = 0, timed_out: bool = False) -> Outcome:
    return Outcome(exit_code, None, timed_out, wall_s, cpu_s, 0.0, 0)


@dataclass(frozen=True)
class SimulatedBackend(Backend):
    """A backend whose programs are descriptions.

    Attributes
    ----------
    description_file
        Of the program, as JSON.
    """

    program: Program
    description_file: Path
    parameters: tuple[str, ...]
    seed: int

    @cached_property
    def identity(self) -> str:
        """The rules of simulation and the seed; the description is the source."""
        return f"simulated-1-{digest([self.seed, self.parameters])}"

    @property
    def description(self) -> Mapping[str, str | None]:
        """No compiler, no MPI."""
        return {"kind": "simulated"}

    @property
    def mpi_flavour(self) -> str:
        """As if; nothing is launched."""
        return "openmpi"

    @property
    def mpiexec(self) -> str:
        """As if; nothing is launched."""
        return "mpirun"

    @property
    def notes(self) -> tuple[str, ...]:
        """That nothing of this was measured."""
        return ("Simulated: times, counts and costs follow from the program's description; nothing was measured.",)

    @property
    def machine(self) -> Machine:
        """A virtual one."""
        return VirtualMachine(self.seed, self.parameters)

    def visit_cost(self) -> VisitCost:
        """As described."""
        return VisitCost(self.program.instrumentation.visit_s)

    def inspect_build(
        self, binary: Path, folder: Path, filter_text: str, mode: Mode
    ) -> tuple[StaticFeatures | None, tuple[str, ...]]:
        """Return the functions and calls of the description."""
        features = _features(self.program, hooked_functions(self.program, parse(filter_text)))
        return features, notes_on(features, filter_text)

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Nothing."""
        return {}

    def collect(self, mode: Mode, folder: Path, ranks: int) -> Profile:
        """Return the profile that follows from what the run noted."""
        data = read_json(folder / _RAW)
        filter_file = None if data["filter"] is None else Path(data["filter"])
        return _opened(Path(data["binary"]), filter_file).profile(Point.of(data["point"]), ranks, data["key"])


def _features(program: Program, hooked: frozenset[str]) -> StaticFeatures:
    calls: dict[str, dict[str, None]] = {}
    kinds: dict[str, str] = {}
    for node in program.nodes:
        if node.kind != "mpi":
            kinds.setdefault(node.name, node.kind)
            calls.setdefault(node.name, {})
        if node.parent >= 0 and program.nodes[node.parent].kind != "mpi":
            calls[program.nodes[node.parent].name][node.name] = None
    functions = tuple(
        StaticFunction(
            id=name, name=name, mangled=name, file="", line=0, unit=DESCRIPTION, linkage="external",
            inline=kinds[name] == "inline", hooked=name in hooked, blocks=4, instructions=40, statements=10, branches=1,
            type="void ()", address_taken=False, loops=(), calls=tuple(Call(callee, 0, 1) for callee in calls[name]),
        )
        for name in sorted(calls)
    )  # fmt: skip
    return StaticFeatures(functions, (DESCRIPTION,), (), ())


def prepare_source(description: Any, folder: Path) -> Path:
    """Write a description as the only file of a source folder; return the folder."""
    if not (folder / DESCRIPTION).is_file():
        shutil.rmtree(folder, ignore_errors=True)
        write_json(folder / DESCRIPTION, description)
    return folder
