"""The shape of a campaign file: its sections, and the keys at its top."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, StringConstraints, create_model, model_validator

from buran.campaign import sections
from buran.campaign.identity import Keys
from buran.campaign.values import (
    BackendName,
    CounterName,
    Distinct,
    Formula,
    MetricName,
    OfAnalysis,
    OfPlace,
    OfPlan,
    OfQueue,
    OfRun,
    OfTarget,
    OrText,
    PointMapping,
    Text,
)
from buran.errors import PluginError
from buran.features import FEATURES, Feature

K = TypeVar("K", bound=Keys)

COMMAND = "command"
"""The measurement system of programs that measure themselves."""


_ROLES = {"p": "ranks", "ranks": "ranks", "threads": "threads"}
"""Roles of parameters that are lists of values, by their names; all others are sizes."""


def _with_roles(parameters: Mapping[str, object]) -> dict[str, object]:
    """Spell out parameters that are lists of values."""
    return {
        name: {"role": _role_of(name, keys), "values": keys} if isinstance(keys, tuple | list) else keys
        for name, keys in parameters.items()
    }


def _role_of(name: str, values: Sequence[object]) -> str:
    words = any(isinstance(value, str) for value in values)
    return "choice" if words else _ROLES.get(name, "size")


def _stand_in(parameters: Mapping[str, object]) -> dict[str, str]:
    """Return a program that uses every parameter, for a simulated campaign; nothing of it is ever run."""
    run = " ".join(["{binary}", *(f"{{{name}}}" for name in parameters)])
    return {"source": ".", "build": "{mpicxx}", "binary": "simulated", "run": run}


def _chooses_runs(data: Mapping[str, Any], parameters: Mapping[str, object]) -> bool:
    """Tell whether a campaign that names no strategy chooses its runs: with a budget, and without choices."""
    budget = data.get("budget", {})
    limits = budget.values() if isinstance(budget, Mapping) else ()
    limited = isinstance(budget, str) or any(isinstance(each, int | float) for each in limits)
    choices = any(isinstance(keys, Mapping) and keys.get("role") == "choice" for keys in parameters.values())
    return limited and not choices and data.get("goal") != "filter"


class CampaignFile(Keys):
    """A measurement campaign.

    Attributes
    ----------
    include
        Files with keys that count unless this file has them, such as a machine's environment; sections are merged key
        by key. Paths in them count from this file.
    name
        Name of the campaign and of its folder under `results`: at most 64 letters, digits, `-` and `_`.
    results
        Folder for results, relative to this file; the campaign's own is `results/NAME`.
    program
        The program: its sources, how it is built and run.
    environment
        Which of the `environments` is used, if there are several; or a parameter with the role `choice` whose words are
        theirs, so that each is built and run in its own: compilers or flags side by side.
    environments
        Machines to measure on, by name; by default one, called `local`.
    parameters
        What is varied, by name (letters, digits and `_`). A list stands for its values; `p` and `ranks` then have the
        role `ranks`, `threads` has `threads`, others have `size`.
    target
        The point of interest. For each parameter: a value, `linear` (one mean step beyond the largest), or an
        expression in which the parameter is its largest value. By default the largest values.
    values
        Named expressions over parameters and earlier values, for commands, constraints and resources.
    constraints
        Conditions that every modelling point must fulfil.
    points
        The modelling points, instead of all combinations of values.
    evaluation_points
        Points measured only to test predictions. Constraints do not apply to them.
    repetitions
        Timed runs of each point.
    effort_repetitions
        Counting runs of each point (basic blocks, bytes); the second one checks that counts do not vary. `design`
        checks this at one point only.
    warmup
        Whether each point has a first run that is kept, but not modelled. Strategies that weigh each run omit it where
        a counting run goes first.
    budget
        Limit of the campaign's cost: `2h` of core time, `20%` of the full matrix, or the keys below; with two limits
        the smaller one counts.
    metrics
        What is measured and modelled.
    counters
        Processor and kernel counters, read at every visit of timed runs, which become slower. The report names
        unavailable ones.
    aggregate
        How the values of the ranks become one value for modelling.
    backend
        Measurement system. `embedded`: Buran's own. `scorep`: Score-P, from PATH; basic blocks are counted in separate
        builds with Buran's plugin. `command`: see the section `command`; without filters. `simulated` (package
        buran-studies): see `simulated`; needs no `program`.
    simulated
        Description of a simulated program, relative to this file, for `backend: simulated` and `buran simulate`.
    command
        How programs measure themselves, or are measured by another tool, for `backend: command`; uninstrumented runs
        omit all of this.
    compiler
        Compiler behind the wrappers. `auto`: clang if its plugin can be built, else gcc.
    goal
        `filter`: single runs at a few small points until the filter no longer changes. `models`: models under the
        initial instrumentation. `both`: first the one, then the other.
    instrumentation
        `auto`: filters are refined from the default selection. `all`: every function, without refinement; short for
        `goal: models, refinement: {start: everything, pilot: false}`. `none`: only times of whole runs; short for
        `backend: command`.
    strategy
        How points are chosen in each iteration.
    model
        How models are made.
    correct
        Analytical models that measurements correct: call path or region, and its base model: a YAML file, the name of a
        bundled one, or `model` for the campaign's own.
    refinement
        How the instrumentation filter is refined from the models after each iteration.
    resources
        What one run needs.
    seed
        Seed of all random choices, such as the order of runs.
    """

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: object) -> object:
        """Write out what keys mean for others that the file does not have."""
        if not isinstance(data, Mapping):
            return data
        groups = {key: data.get(key, {}) for key in ("parameters", "strategy", "refinement")}
        groups = {key: group for key, group in groups.items() if isinstance(group, Mapping)}  # others are refused
        parameters = _with_roles(groups.get("parameters", {}))
        whole = {**data, **({"parameters": parameters} if parameters else {})}
        if "strategy" in groups and _chooses_runs(data, parameters):
            whole["strategy"] = {"name": "design", **groups["strategy"]}
        if data.get("backend") == "simulated":
            whole.setdefault("program", _stand_in(parameters))
        if data.get("backend") == COMMAND:  # a time, and no filters
            whole.setdefault("metrics", ("time",))
            whole |= {"refinement": {"enabled": False, **groups["refinement"]}} if "refinement" in groups else {}
        return whole

    @property
    def steps(self) -> dict[str, int]:
        """Parameters that only repeat work, with their full numbers."""
        return {name: keys.value for name, keys in self.parameters.items() if keys.value is not None}

    include: OfQueue[Text | tuple[Text, ...]] = Field((), examples=["machine.yaml"])
    name: OfPlace[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]] = Field(
        examples=["my-campaign"]
    )
    results: OfPlace[Text] = "results"
    program: sections.ProgramKeys = Field(
        examples=[{"source": ".", "build": "make CC={mpicc}", "binary": "program", "run": "{binary} {n}"}]
    )
    environment: OfTarget[Text | None] = None
    environments: Annotated[dict[Text, sections.EnvironmentKeys], Field(min_length=1)] = Field(
        default_factory=lambda: {"local": sections.EnvironmentKeys()}
    )
    parameters: Annotated[dict[str, sections.ParameterKeys], Field(min_length=1)] = Field(
        examples=[{"p": [1, 2, 4], "n": [100, 200, 400]}]
    )
    target: OfPlan[dict[str, Formula] | None] = Field(
        None, examples=[{"p": 64, "n": 512}, {"p": "4 * p", "n": "linear"}]
    )
    values: OfRun[dict[str, Formula]] = Field(
        default_factory=dict, examples=[{"px": "isqrt_factor(p)", "py": "p // px"}]
    )
    constraints: OfPlan[tuple[Text, ...]] = Field((), examples=[["is_cube(p)", "n % 10 == 0", "p * n <= 4096"]])
    points: OfPlan[Annotated[tuple[PointMapping, ...], Field(min_length=1)] | None] = Field(
        None, examples=[[{"p": 1, "n": 8}, {"p": 8, "n": 16}]]
    )
    evaluation_points: OfPlan[tuple[PointMapping, ...]] = Field((), examples=[[{"p": 16, "n": 128}]])
    repetitions: OfPlan[Annotated[int, Field(ge=1, le=1000)]] = 3
    effort_repetitions: OfPlan[Annotated[int, Field(ge=1, le=1000)]] = 2
    warmup: OfPlan[bool] = True
    budget: Annotated[sections.BudgetKeys, OrText()] = Field(default_factory=sections.BudgetKeys, examples=["2h"])
    metrics: OfPlan[Distinct[Annotated[tuple[MetricName, ...], Field(min_length=1)]]] = (
        "time",
        "visits",
        "basic_blocks",
        "bytes_sent",
        "bytes_received",
    )
    counters: OfTarget[Distinct[tuple[CounterName, ...]]] = Field((), examples=[["instructions", "cache_misses"]])
    aggregate: OfAnalysis[Literal["mean", "median", "min", "max", "sum"]] = "mean"
    backend: OfTarget[BackendName] = "embedded"
    simulated: OfTarget[Text | None] = Field(None, examples=["program.yaml"])
    command: sections.CommandKeys = Field(default_factory=sections.CommandKeys)
    compiler: OfTarget[Literal["auto", "clang", "gcc"]] = "auto"
    goal: OfPlan[Literal["both", "filter", "models"]] = "both"
    instrumentation: OfTarget[Literal["auto", "all", "none"]] = Field("auto", examples=["all"])
    strategy: sections.StrategyKeys = Field(default_factory=sections.StrategyKeys, examples=[{"name": "lines"}])
    model: sections.ModelKeys = Field(default_factory=sections.ModelKeys)
    correct: OfAnalysis[dict[Text, Text]] = Field(
        default_factory=dict, examples=[{"exchange": "exchange.yaml", "MPI_Allreduce": "allreduce", "relax": "model"}]
    )
    refinement: sections.RefinementKeys = Field(default_factory=sections.RefinementKeys, examples=[{"enabled": False}])
    resources: sections.ResourcesKeys = Field(default_factory=sections.ResourcesKeys)
    seed: OfPlan[Annotated[int, Field(ge=0, le=2**31 - 1)]] = 1

    @property
    def extra_metrics(self) -> tuple[str, ...]:
        """What timed runs measure in addition to `metrics`: counters, and what another tool measures."""
        named = (*self.counters, *self.command.further_metrics)
        return tuple(name for name in dict.fromkeys(named) if name not in self.metrics)


def shape_of_files() -> type[CampaignFile]:
    """Return the shape of campaign files, with the keys of features.

    Raises
    ------
    PluginError
        A feature cannot be used, or its key is one of the core's.
    """
    return _shape_with(tuple(FEATURES.names))


@cache
def _shape_with(names: tuple[str, ...]) -> type[CampaignFile]:
    features = [FEATURES.load(name) for name in names]
    environment = _extended(sections.EnvironmentKeys, [each for each in features if each.simulator is not None])
    environments = Field(default_factory=lambda: {"local": environment()})
    of_file = [each for each in features if each.simulator is None]
    kind = Annotated[dict[Text, environment], Field(min_length=1)]  # type: ignore[valid-type]
    return _extended(CampaignFile, of_file, environments=(kind, environments))


def _extended(base: type[K], features: Sequence[Feature], **further: Any) -> type[K]:
    """Return a group of keys with those of features."""
    keys = {each.name: each.key for each in features}
    if twice := base.model_fields.keys() & keys:
        raise PluginError(
            f"the feature {min(twice)!r} has the name of one of Buran's own keys",
            where=f"entry point group {FEATURES.group}",
            hint="give it another name, or uninstall its distribution",
        )
    further |= {
        name: (key.type, Field(key.default, description=key.description, examples=key.examples))
        for name, key in keys.items()
    }
    return create_model(base.__name__, __base__=base, __doc__=base.__doc__, **further)
