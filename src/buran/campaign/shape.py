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
    Formula,
    MetricName,
    NamedValue,
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


def _stand_in(data: object) -> object:
    """Give a simulated campaign without a program one that uses every parameter; nothing of it is ever run."""
    if not isinstance(data, Mapping) or data.get("backend") != "simulated" or "program" in data:
        return data
    names = data.get("parameters")
    words = [f"{{{name}}}" for name in names] if isinstance(names, Mapping) else []
    run = " ".join(["{binary}", *words])
    return {**data, "program": {"source": ".", "build": "{mpicxx}", "binary": "simulated", "run": run}}


def _measured_by_command(data: object) -> object:
    """Give a campaign whose programs measure themselves what it can have: a time, and no filters."""
    if not isinstance(data, Mapping) or data.get("backend") != COMMAND:
        return data
    refinement = data.get("refinement", {})
    if isinstance(refinement, Mapping):
        refinement = {"enabled": False, **refinement}
    return {"metrics": ("time",), **data, "refinement": refinement}


_ROLES = {"p": "ranks", "ranks": "ranks", "threads": "threads"}
"""Roles of parameters that are lists of values, by their names; all others are sizes."""


def _with_roles(data: object) -> object:
    """Spell out parameters that are lists of values."""
    parameters = data.get("parameters") if isinstance(data, Mapping) else None
    if not isinstance(data, Mapping) or not isinstance(parameters, Mapping):
        return data
    spelled = {
        name: {"role": _role_of(name, keys), "values": keys} if isinstance(keys, tuple | list) else keys
        for name, keys in parameters.items()
    }
    return {**data, "parameters": spelled}


def _role_of(name: str, values: Sequence[object]) -> str:
    words = any(isinstance(value, str) for value in values)
    return "choice" if words else _ROLES.get(name, "size")


def _within_budget(data: object) -> object:
    """Let a campaign with a budget, and none of choices, choose its runs where it names no strategy."""
    if not isinstance(data, Mapping):
        return data
    budget, strategy, parameters = (data.get(key, {}) for key in ("budget", "strategy", "parameters"))
    if not all(isinstance(keys, Mapping) for keys in (strategy, parameters)) or "name" in strategy:
        return data
    if not isinstance(budget, str | Mapping):
        return data
    limited = isinstance(budget, str) or any(
        budget.get(key) is not None for key in ("core_hours", "percent_of_full_matrix")
    )
    choices = any(isinstance(keys, Mapping) and keys.get("role") == "choice" for keys in parameters.values())
    if not limited or choices or data.get("goal") == "filter":
        return data
    return {**data, "strategy": {"name": "design", **strategy}}


class CampaignFile(Keys):
    """A measurement campaign."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, data: object) -> object:
        return _measured_by_command(_stand_in(_within_budget(_with_roles(data))))

    @property
    def steps(self) -> dict[str, int]:
        """Parameters that only repeat work, with their full numbers."""
        return {name: keys.value for name, keys in self.parameters.items() if keys.value is not None}

    include: OfQueue[Text | tuple[Text, ...]] = Field(
        (),
        description="Files with keys that count unless this file has them, such as a machine's environment; sections "
        "are merged key by key. Paths in them count from this file.",
        examples=["machine.yaml"],
    )
    name: OfPlace[Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]] = Field(
        description="Name of the campaign and of its folder under `results`: at most 64 letters, digits, `-` and `_`."
    )
    results: OfPlace[Text] = Field(
        "results",
        description="Folder for results, relative to this file; the campaign's own is `results/NAME`.",
    )
    program: sections.ProgramKeys = Field(description="The program: its sources, how it is built and run.")
    environment: OfTarget[Text | None] = Field(
        None,
        description="Which of the `environments` is used, if there are several; or a parameter with the role `choice` "
        "whose words are theirs, so that each is built and run in its own: compilers or flags side by side.",
    )
    environments: Annotated[dict[Text, sections.EnvironmentKeys], Field(min_length=1)] = Field(
        default_factory=lambda: {"local": sections.EnvironmentKeys()},
        description="Machines to measure on, by name; by default one, called `local`.",
    )
    parameters: Annotated[dict[str, sections.ParameterKeys], Field(min_length=1)] = Field(
        description="What is varied, by name (letters, digits and `_`). A list stands for its values: `parameters: "
        "{p: [1, 2, 4], n: [100, 200, 400]}`; `p` and `ranks` then have the role `ranks`, `threads` has `threads`, "
        "others have `size`."
    )
    target: OfPlan[dict[str, Formula] | None] = Field(
        None,
        description="The point of interest. For each parameter: a value, `linear` (one mean step beyond the largest), "
        "`geometric` (one mean factor), or an expression in which the parameter is its largest value. By default the "
        "largest values.",
        examples=[{"p": 64, "n": 512}, {"p": "4 * p", "n": "linear"}],
    )
    values: OfRun[dict[str, NamedValue]] = Field(
        default_factory=dict,
        description="Named expressions over parameters and earlier values, for commands, constraints and resources; or "
        "numbers and words that go with the values of a parameter, in their order.",
        examples=[{"px": "isqrt_factor(p)", "py": "p // px"}, {"steps": {"n": [800, 400, 200]}}],
    )
    constraints: OfPlan[tuple[Text, ...]] = Field(
        (),
        description="Conditions that every modelling point must fulfil.",
        examples=[["is_cube(p)", "n % 10 == 0", "p * n <= 4096"]],
    )
    points: OfPlan[Annotated[tuple[PointMapping, ...], Field(min_length=1)] | None] = Field(
        None,
        description="The modelling points, instead of all combinations of values.",
        examples=[[{"p": 1, "n": 8}, {"p": 8, "n": 16}]],
    )
    points_file: OfPlan[Text | None] = Field(
        None,
        description="CSV file of modelling points, relative to this file; its first row names the parameters.",
    )
    evaluation_points: OfPlan[tuple[PointMapping, ...]] = Field(
        (),
        description="Points measured only to test predictions. Constraints do not apply to them.",
        examples=[[{"p": 16, "n": 128}]],
    )
    repetitions: OfPlan[Annotated[int, Field(ge=1, le=1000)]] = Field(3, description="Timed runs of each point.")
    effort_repetitions: OfPlan[Annotated[int, Field(ge=1, le=1000)]] = Field(
        2,
        description="Counting runs of each point (basic blocks, bytes); the second one checks that counts do not "
        "vary. `design` checks this at one point only.",
    )
    warmup: OfPlan[bool] = Field(
        True,
        description="Whether each point has a first run that is kept, but not modelled. Strategies that weigh each "
        "run omit it where a counting run goes first.",
    )
    budget: Annotated[sections.BudgetKeys, OrText()] = Field(
        default_factory=sections.BudgetKeys,
        description="Limit of the campaign's cost: `2h` of core time, `20%` of the full matrix, or the keys below; "
        "with two limits the smaller one counts.",
    )
    metrics: OfPlan[Annotated[tuple[MetricName, ...], Field(min_length=1)]] = Field(
        ("time", "visits", "basic_blocks", "bytes_sent", "bytes_received"), description="What is measured and modelled."
    )
    counters: OfTarget[tuple[CounterName, ...]] = Field(
        (),
        description="Processor and kernel counters, read at every visit of timed runs, which become slower. The "
        "report names unavailable ones.",
        examples=[["instructions", "cache_misses"]],
    )
    aggregate: OfAnalysis[Literal["mean", "median", "min", "max", "sum"]] = Field(
        "mean", description="How the values of the ranks become one value for modelling."
    )
    backend: OfTarget[BackendName] = Field(
        "embedded",
        description="Measurement system. `embedded`: Buran's own. `scorep`: Score-P, from PATH; basic blocks are "
        "counted in separate builds with Buran's plugin. `command`: see the section `command`; without filters. "
        "`simulated` (package buran-studies): see `simulated`; needs no `program`.",
    )
    simulated: OfTarget[Text | None] = Field(
        None,
        description="Description of a simulated program, relative to this file, for `backend: simulated` and `buran "
        "simulate`.",
        examples=["program.yaml"],
    )
    command: sections.CommandKeys = Field(
        default_factory=sections.CommandKeys,
        description="How programs measure themselves, or are measured by another tool, for `backend: command`; "
        "uninstrumented runs omit all of this.",
    )
    compiler: OfTarget[Literal["auto", "clang", "gcc"]] = Field(
        "auto", description="Compiler behind the wrappers. `auto`: clang if its plugin can be built, else gcc."
    )
    goal: OfPlan[Literal["both", "filter", "models"]] = Field(
        "both",
        description="`filter`: single runs at a few small points until the filter no longer changes. `models`: models "
        "under the initial instrumentation. `both`: first the one, then the other.",
    )
    instrumentation: OfTarget[Literal["auto", "all", "none"]] = Field(
        "auto",
        description="`auto`: filters are refined from the default selection. `all`: every function, without "
        "refinement; short for `goal: models, refinement: {start: everything, pilot: false}`. `none`: only times of "
        "whole runs; short for `backend: command`.",
        examples=["all"],
    )
    strategy: sections.StrategyKeys = Field(
        default_factory=sections.StrategyKeys, description="How points are chosen in each iteration."
    )
    model: sections.ModelKeys = Field(default_factory=sections.ModelKeys, description="How models are made.")
    correct: OfAnalysis[dict[Text, Text]] = Field(
        default_factory=dict,
        description="Analytical models that measurements correct: call path or region, and its base model: a YAML "
        "file, the name of a bundled one, or `model` for the campaign's own.",
        examples=[{"exchange": "exchange.yaml", "MPI_Allreduce": "allreduce", "relax": "model"}],
    )
    refinement: sections.RefinementKeys = Field(
        default_factory=sections.RefinementKeys,
        description="How the instrumentation filter is refined from the models after each iteration.",
    )
    resources: sections.ResourcesKeys = Field(default_factory=sections.ResourcesKeys, description="What one run needs.")
    seed: OfPlan[Annotated[int, Field(ge=0, le=2**31 - 1)]] = Field(
        1, description="Seed of all random choices, such as the order of runs."
    )

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
    environments = Field(
        default_factory=lambda: {"local": environment()},
        description=CampaignFile.model_fields["environments"].description,
    )
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
