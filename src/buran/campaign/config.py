"""A campaign: what its file asks for, checked and ready to be planned and run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from buran.campaign.document import below
from buran.campaign.expressions import Expression, ExpressionError, written_out
from buran.campaign.identity import requested, with_first_names
from buran.campaign.launcher import Launch, Placement, launch, resolve, under_modules, usable_cores, with_modules
from buran.campaign.point import Point, Value, has_all_steps
from buran.campaign.resources import Formulas, Input, NodeKind, count_of, seconds_of
from buran.campaign.sections import EnvironmentKeys, PartitionKeys, ResourcesKeys
from buran.campaign.shape import CampaignFile
from buran.campaign.space import extrapolated
from buran.campaign.strategies import MOST_REPETITIONS
from buran.campaign.template import Template
from buran.errors import ConfigError
from buran.features import FEATURES, SimulatedKeys, Simulator, begins_with_another, simulated
from buran.files import digest, file_sha256
from buran.profiles.metrics import sampled
from buran.wording import Category, table_html

_STAND_FOR_OTHERS = (
    *("environment", "environments", "parameters", "constraints", "points", "evaluation_points"),
    *("correct", "simulated"),
)
"""Keys that only name what is requested: a simulated program's description is in its identity."""


_NOT_DESCRIBED = PartitionKeys()


@dataclass(frozen=True, eq=False)
class Campaign:
    """A checked campaign file; `buran.campaign.load.load_campaign` makes it.

    Attributes
    ----------
    path
        The file, absolute.
    config
        Its content, with defaults.
    environment
        Name of the environment in use.
    points
        Modelling points, cheapest first: by cores, then by values.
    evaluation_points
        Measured, never used for modelling; in the same order.
    points_dropped
        How many points the constraints removed.
    points_held_out
        How many combinations of values are evaluation points.
    notes
        What is allowed but deserves a word.
    filled
        For each input that a point's values are put into, by its name, its lines.
    computed
        Placeholders of the commands and of filled inputs that are neither parameters nor tools: named values, and
        expressions with their ``=``.
    node_kinds
        Node kinds of the partitions that are measured in, by name; None for the scheduler's usual one.
    """

    path: Path
    config: CampaignFile
    environment: str
    points: tuple[Point, ...]
    evaluation_points: tuple[Point, ...]
    points_dropped: int
    points_held_out: int
    notes: tuple[str, ...]
    formulas: Formulas
    build: Template
    run: tuple[Template, ...]
    filled: Mapping[str, tuple[Template, ...]] = field(default_factory=dict)
    computed: Mapping[str, Expression] = field(default_factory=dict)
    node_kinds: Mapping[str | None, NodeKind] = field(default_factory=dict)

    # -- what is requested ------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """Name of the campaign."""
        return self.config.name

    @property
    def folder(self) -> Path:
        """Folder of the campaign file."""
        return self.path.parent

    @property
    def results_root(self) -> Path:
        """Folder of everything this campaign measures, absolute."""
        return below(self.folder, self.config.results) / self.name

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the file."""
        return tuple(self.config.parameters)

    @property
    def repetitions(self) -> int:
        """Timed runs of each point."""
        return self.config.repetitions

    @property
    def most_repetitions(self) -> int:
        """The same where the strategy decides of each run, at most."""
        return self.config.strategy.most_repetitions or (1 if self.is_simulated else MOST_REPETITIONS)

    @property
    def active_environment(self) -> EnvironmentKeys:
        """The environment in use."""
        return self.config.environments[self.environment]

    @property
    def environment_choice(self) -> str | None:
        """The parameter whose words are names of environments, if one is."""
        name = self.config.environment
        return name if name in self.config.parameters else None

    @cached_property
    def in_environments(self) -> dict[str, Campaign]:
        """The same in each environment that points are measured in, by its name."""
        name = self.environment_choice
        everywhere = (*self.points, *self.evaluation_points)
        names = [self.environment] if name is None else [str(point[name]) for point in everywhere]
        return {each: replace(self, environment=each) for each in dict.fromkeys((self.environment, *names))}

    def at(self, point: Mapping[str, Value]) -> Campaign:
        """Return the same in the environment of a point; as it is where the point tells of none."""
        name = self.environment_choice
        return self if name is None or name not in point else self.in_environments.get(str(point[name]), self)

    @property
    def compiler(self) -> str:
        """The compiler behind the wrappers, or ``auto``."""
        own = self.active_environment.compiler
        return self.config.compiler if own == "auto" else own

    @property
    def flags(self) -> str:
        """Compiler flags: the program's, and then the environment's."""
        return " ".join(filter(None, (self.config.program.flags, self.active_environment.extra_flags)))

    @property
    def is_simulated(self) -> bool:
        """Whether programs run on a simulated machine."""
        return self.simulated_keys is not None

    @cached_property
    def simulated_keys(self) -> SimulatedKeys | None:
        """What the file says of the machine of the environment in use, if that is simulated."""
        return simulated(self.active_environment)

    @cached_property
    def simulator(self) -> Simulator | None:
        """What simulates that machine; None where programs are measured."""
        found = (feature.simulator(self) for feature in FEATURES if feature.simulator is not None)
        return next((each for each in found if each is not None), None)

    @property
    def counts_with_times(self) -> bool:
        """Whether timed runs tell all, on a simulated machine where one filter is for all of them.

        There hooks cost nothing, so that these are runs of the baseline, too, and every build of a program counts.
        """
        refined = self.config.refinement.enabled and self.config.goal != "models"
        return self.is_simulated and not refined and not begins_with_another(self.config)

    @cached_property
    def memory_points(self) -> tuple[Point, ...]:
        """The modelling points at which accesses to memory are sampled."""
        if not sampled(self.config.metrics):
            return ()
        return self.points if self.requested_memory_points is None else self.requested_memory_points

    @cached_property
    def requested_memory_points(self) -> tuple[Point, ...] | None:
        """Those that the file names; None where the strategy chooses."""
        named = (feature.sampled_at(self) for feature in FEATURES if feature.sampled_at is not None)
        return next((points for points in named if points is not None), None)

    @property
    def simulated_on(self) -> str:
        """The simulated machine, as text, and what of it is another where; empty where programs are measured."""
        return "" if self.simulator is None else self.simulator.title

    @property
    def counts_tell_growth(self) -> bool:
        """Whether times grow as counts do; not along parameters that change the machine, where coefficients differ."""
        model, machine = self.config.model, self.simulated_keys
        changing = set() if machine is None else machine.changing.difference(self.choices)
        return model.priors == "auto" and not changing

    @property
    def source(self) -> Path:
        """Folder with the program's sources."""
        return below(self.folder, self.config.program.source)

    @property
    def binary(self) -> str:
        """Path of the program, relative to the build folder."""
        return str(Path(self.config.program.binary))

    @property
    def ranks_parameter(self) -> str | None:
        """The parameter that is the number of ranks, if one is."""
        text = self.formulas.ranks.text
        return text if text in self.config.parameters else None

    @property
    def parallel_parameters(self) -> tuple[str, ...]:
        """The parameters that the numbers of ranks and threads depend on."""
        used = {*self.formulas.ranks.names, *self.formulas.threads.names}
        return tuple(name for name in self.parameters if name in used)

    @cached_property
    def build_parameters(self) -> tuple[str, ...]:
        """The parameters, values and expressions that builds depend on, parameters in the order of the file."""
        used = (*self.build.names, self.environment_choice)
        return tuple(name for name in (*self.parameters, *self.computed) if name in used)

    def build_values(self, point: Mapping[str, Value]) -> tuple[tuple[str, Value], ...]:
        """Return what builds depend on of a point, with its numbers, in the order of the names."""
        return tuple((name, self._number(name, point)) for name in sorted(self.build_parameters))

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """What runs read."""
        return tuple(Input.of(written, self.folder) for written in self.config.program.inputs)

    @cached_property
    def input_contents(self) -> tuple[tuple[str, str], ...]:
        """Names and contents of what runs read."""
        return tuple((entry.name, entry.content) for entry in self.inputs)

    @cached_property
    def derived(self) -> Mapping[str, str]:
        """The named values, as expressions of parameters alone."""
        return written_out(self.config.values)

    @cached_property
    def choices(self) -> tuple[str, ...]:
        """The parameters whose values are words, or numbers that stand for choices."""
        return tuple(name for name, parameter in self.config.parameters.items() if parameter.role == "choice")

    @property
    def steps(self) -> dict[str, int]:
        """Parameters that only repeat work, with their full numbers."""
        return self.config.steps

    @cached_property
    def full_matrix(self) -> tuple[Point, ...]:
        """The modelling points with the full numbers of steps: what would be measured without Buran."""
        return tuple(point for point in self.points if has_all_steps(point, self.steps))

    @cached_property
    def target(self) -> Point:
        """Point that models are extrapolated to when filters are refined."""
        target = self.config.target
        if target is not None:
            target = {**self.steps, **target}
            values = {name: sorted({point[name] for point in self.points}) for name in self.parameters}
            try:
                return Point.of({name: extrapolated(target[name], name, values) for name in self.parameters})
            except ExpressionError as error:
                raise ConfigError(error.what, where=f"{self.path}, key target") from None
        everywhere = (*self.points, *self.evaluation_points)
        return Point.of({name: self._last(name, {point[name] for point in everywhere}) for name in self.parameters})

    def _last(self, name: str, values: set[Value]) -> Value:
        """Return the largest value; of words the first that the file has."""
        written = self.config.parameters[name].values or ()
        return next(
            (value for value in (*written, *values) if isinstance(value, Category) and value in values), max(values)
        )

    def _repr_html_(self) -> str:
        varied = {name: sorted({point[name] for point in self.points}) for name in self.parameters}
        rows = [(name, self.config.parameters[name].role, ", ".join(map(str, each))) for name, each in varied.items()]
        title = f"Campaign {self.name}: {len(self.points)} points, measured by {self.config.backend}"
        return table_html(title, ("parameter", "role", "values"), rows)

    # -- what a run needs ---------------------------------------------------------------------------

    def ranks(self, point: Mapping[str, Value]) -> int:
        """Return the number of MPI ranks."""
        return count_of(self.formulas.ranks, point, "ranks")

    def threads(self, point: Mapping[str, Value]) -> int:
        """Return the number of threads per rank."""
        return count_of(self.formulas.threads, point, "threads")

    def partition(self, point: Mapping[str, Value]) -> str | None:
        """Return the name of the partition that a point is measured in, if the file says it."""
        keys = self.config.resources
        if keys.partition is not None or not keys.partitions:
            return keys.partition
        ranks = self.ranks(point)
        return next((name for name, described in keys.partitions.items() if described.takes(ranks)), None)

    @cached_property
    def partitions(self) -> tuple[str | None, ...]:
        """Names of the partitions that points are measured in."""
        return tuple(dict.fromkeys(map(self.partition, (*self.points, *self.evaluation_points))))

    def described(self, partition: str | None) -> PartitionKeys:
        """Return what the file says of a partition."""
        return self.config.resources.partitions.get(partition or "", _NOT_DESCRIBED)

    def resources_in(self, partition: str | None) -> ResourcesKeys:
        """Return the keys of `resources` with those of a partition in their place."""
        resources, described = self.config.resources, self.described(partition)
        if not resources.partitions:
            return resources
        own = described.model_dump(exclude={"ranks", "cores_per_node", "charge_factor"}, exclude_none=True)
        return resources.model_copy(update={"partition": partition, **own})

    def nodes(self, point: Mapping[str, Value]) -> int:
        """Return the number of nodes."""
        if (nodes := self.formulas.count("nodes", point)) is not None:
            return nodes
        per_node = self.formulas.count("tasks_per_node", point)
        kind = self._node_kind(point)
        if per_node is None and kind is not None:
            per_node = max(kind.cores // self.threads(point), 1)
        return 1 if per_node is None else -(-self.ranks(point) // per_node)

    def _node_kind(self, point: Mapping[str, Value]) -> NodeKind | None:
        """Return what the nodes have that a point is measured on; None where that is not known, or simulated."""
        return None if self.is_simulated or not self.node_kinds else self.node_kinds.get(self.partition(point))

    def cores(self, point: Mapping[str, Value]) -> int:
        """Return the number of cores: ranks times threads."""
        return self.ranks(point) * self.threads(point)

    def charged_cores(self, point: Mapping[str, Value]) -> float:
        """Return the number of cores that a run is expected to be charged for: whole nodes, if jobs get them."""
        kind = self._node_kind(point)
        if self.config.budget.charge == "program" or kind is None:
            return self.cores(point)
        partition = self.partition(point)
        factor = self.described(partition).charge_factor
        if not self.resources_in(partition).exclusive:
            return self.cores(point) * factor
        return self.nodes(point) * kind.cpus * factor

    def cores_of_node(self, point: Mapping[str, Value]) -> int:
        """Return how many cores a node has: one of the partition of a point, or this machine."""
        kind = self._node_kind(point)
        return usable_cores() if kind is None else kind.cores

    def placement(self, point: Mapping[str, Value]) -> Placement:
        """Return how a run is spread over nodes; those of a simulated machine are filled one after the other."""
        per_node = self.formulas.count("tasks_per_node", point)
        ranks, nodes = self.ranks(point), self.nodes(point)
        if self.simulator is not None:
            per_node = per_node or (self.simulator.at(point).cores if nodes == 1 else -(-ranks // nodes))
            nodes = -(-ranks // per_node)
        return Placement(ranks, self.threads(point), nodes, per_node)

    def memory_mb(self, point: Mapping[str, Value]) -> int | None:
        """Return the memory that a job asks for on each node, if the file says so."""
        return self.formulas.count("memory_mb", point)

    def time_limit_s(self, point: Mapping[str, Value]) -> float:
        """Return the wall time after which a run is stopped."""
        return seconds_of(self.formulas.time_limit, point, "time_limit")

    def expected_s(self, point: Mapping[str, Value]) -> float | None:
        """Return the expected wall time of a run, if the file says so."""
        formula = self.formulas.expected_time
        return None if formula is None else seconds_of(formula, point, "expected_time")

    # -- commands -----------------------------------------------------------------------------------

    def _number(self, name: str, point: Mapping[str, Value]) -> Value:
        """Return a parameter of a point, or what is computed there."""
        return self.computed[name](point) if name in self.computed else point[name]

    def build_command(self, values: Mapping[str, Value], tools: Mapping[str, str]) -> str:
        """Return the shell command that builds the program.

        Parameters
        ----------
        values
            As `build_values` has them.
        tools
            Compilers by the placeholders ``cc``, ``cxx``, ``fc``, ``mpicc``, ``mpicxx``, ``mpifort``; and ``flags``, if
            they are not the program's.
        """
        numbers = {name: str(values[name]) for name in self.build_parameters}
        return self.build.fill_shell({"flags": self.flags, **tools, **numbers})

    def run_command(self, point: Mapping[str, Value], binary: Path | str, build_folder: Path | str) -> list[str]:
        """Return the program and its arguments; each value stays within the argument it is put into."""
        values = {**self._numbers(point), "binary": str(binary), "build": str(build_folder)}
        return [word.fill(values) for word in self.run]

    def input_texts(self, point: Mapping[str, Value]) -> dict[str, str]:
        """Return the text of each input that the values of a point are put into, by its name."""
        values = self._numbers(point)
        return {name: "".join(line.fill(values) for line in lines) for name, lines in self.filled.items()}

    def _numbers(self, point: Mapping[str, Value]) -> dict[str, str]:
        """Return what stands for a point in commands and filled inputs."""
        numbers = {name: str(self._number(name, point)) for name in (*point, *self.computed)}
        return {**numbers, "ranks": str(self.ranks(point)), "threads": str(self.threads(point))}

    def launch(
        self,
        point: Mapping[str, Value],
        binary: Path,
        build_folder: Path,
        mpi_flavour: str,
        mpiexec: str,
        machine_cores: int,
        start: Callable[[Sequence[str], Placement], Launch] | None = None,
        wrapper: Sequence[str] = (),
    ) -> tuple[list[str], dict[str, str]]:
        """Return the complete command of a run and the environment variables it needs.

        Parameters
        ----------
        mpi_flavour, mpiexec
            The MPI that was found, ``openmpi`` or ``mpich``, and its launcher program.
        machine_cores
            Cores of a node; with more ranks and threads than that, nothing is bound to cores.
        start
            Puts the launcher of the measurement system in front of a command; by default the environment's.
        wrapper
            Words of a measuring tool, before the program.
        """
        environment = self.active_environment
        kind = resolve(environment.launcher, mpi_flavour)
        placement = self.placement(point)
        start = start or partial(
            launch,
            kind,
            program=mpiexec if kind == mpi_flavour else None,
            oversubscribe=placement.ranks_per_node * placement.threads > machine_cores,
            as_root=os.geteuid() == 0,
        )
        launched = start([*wrapper, *self.run_command(point, binary, build_folder)], placement)
        variables = {"OMP_NUM_THREADS": str(placement.threads), **launched.variables, **environment.variables}
        return list(under_modules(launched.argv, environment.modules)), variables

    def with_modules(self, script: str) -> str:
        """Return a bash script that loads the environment's modules first."""
        return with_modules(script, self.active_environment.modules)

    # -- cost ---------------------------------------------------------------------------------------

    def minimum_core_hours(self, points: Sequence[Point], repetitions: int) -> float | None:
        """Return what runs are expected to cost at least, in core hours; None without `expected_time`."""
        if self.formulas.expected_time is None:
            return None
        seconds = sum(self.charged_cores(point) * (self.expected_s(point) or 0.0) for point in points)
        return seconds * repetitions / 3600.0

    # -- identity -----------------------------------------------------------------------------------

    def digest(self) -> str:
        """Return 12 hex digits over everything that is requested: the keys that decide it and are not at their default.

        Comments, the order of keys, other environments and the way the points were written down do not count. Where
        a key names a file, its content counts.
        """
        named = {feature.name: feature.identity for feature in FEATURES if feature.identity is not None}
        keys = {
            name: value for name, value in requested(self.config).items() if name not in (*_STAND_FOR_OTHERS, *named)
        }
        # Identities keep the first names of keys, so that measured campaigns are found.
        keys = with_first_names(keys)
        resolved: dict[str, object] = {
            "environment": _of_environment(self.active_environment)
            if self.environment_choice is None
            else {name: _of_environment(each.active_environment) for name, each in self.in_environments.items()},
            "parameters": [
                [name, {key: value for key, value in requested(parameter).items() if key not in ("values", "range")}]
                for name, parameter in self.config.parameters.items()
            ],
            "points": [point.items_ for point in self.points],
            "evaluation_points": [point.items_ for point in self.evaluation_points],
            "correct": {
                kernel: file_sha256(path) if path.is_file() else path.name
                for kernel, path in ((kernel, below(self.folder, base)) for kernel, base in self.config.correct.items())
            },
            "inputs": self.input_contents,
        }
        for identity in named.values():
            resolved |= identity(self)
        return digest({**keys, **{name: value for name, value in resolved.items() if value}}, 12)


def _of_environment(environment: EnvironmentKeys) -> dict[str, Any]:
    """Return what is requested in an environment, by the first names of keys."""
    keys: dict[str, Any] = with_first_names({"environments": {"": requested(environment)}})["environments"][""]
    return keys
