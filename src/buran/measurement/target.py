"""A campaign made concrete on this machine: its source, its backend and the identity they give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from buran.campaign.config import Campaign
from buran.campaign.layout import Layout
from buran.campaign.plan import SCHEMA, BuildSpec, Mode
from buran.campaign.point import Point, Value
from buran.files import digest, read_document
from buran.measurement.backends.base import SYSTEMS, Backend
from buran.measurement.source import SourceTree, local_source


@dataclass(frozen=True)
class Target:
    """What is built and measured, with everything that identifies it.

    Attributes
    ----------
    skipped
        Files and folders inside the source folder that do not belong to it.
    backends
        By the names of environments, where a parameter chooses them.
    stands_for
        Identity of the measured target whose runs count as its own, if there is one: the same program, or so declared.
    """

    campaign: Campaign
    source: SourceTree
    backend: Backend
    skipped: tuple[Path, ...]
    stands_for: str | None = None
    backends: Mapping[str, Backend] = field(default_factory=dict)

    def at(self, values: Mapping[str, Value]) -> Target:
        """Return the same as it is built and run at a point, of which these values may be all that builds depend on."""
        campaign = self.campaign.at(values)
        if campaign is self.campaign:
            return self
        return replace(self, campaign=campaign, backend=self.backends[campaign.environment])

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing on this machine and what that costs, as text."""
        return tuple(dict.fromkeys(note for each in (self.backend, *self.backends.values()) for note in each.notes))

    @property
    def id(self) -> str:
        """Identity of everything that all builds share, part of the paths of the store."""
        return self.stands_for or self.made_from

    @cached_property
    def made_from(self) -> str:
        """Identity of what builds are made from, as it is now."""
        campaign, program = self.campaign, self.campaign.config.program
        shared: list[Any] = [self.source.identity, program.build]
        if campaign.environment_choice is not None:  # builds tell environments apart, so that others may be added
            return digest([*shared, program.flags, campaign.binary])
        return digest([*shared, campaign.flags, campaign.binary, *self._built_with])

    @property
    def _built_with(self) -> list[Any]:
        """What builds are made with in the environment in use."""
        environment, backend = self.campaign.active_environment, self.backend
        built_with: list[Any] = [list(environment.modules), dict(environment.variables), backend.identity]
        if self.source.has_fortran:  # a compiler that the build has no use for may come and go
            built_with.append(backend.description.get("fortran"))
        return built_with

    @cached_property
    def campaign_id(self) -> str:
        """Identity of the whole question: the campaign file and the target it asks about."""
        return digest([self.id, self.campaign.digest()])

    def build_spec(self, mode: Mode, filter_text: str, point: Point) -> BuildSpec:
        """Return the build that a point needs."""
        values, variant = self.campaign.build_values(point), self.at(point)
        chosen = None
        if self.campaign.environment_choice is not None:
            chosen = digest([variant.campaign.active_environment.extra_flags, *variant._built_with], 16)
        filter_text = "" if mode is Mode.VANILLA else filter_text
        return BuildSpec(self.id, mode, filter_text, values, environment=chosen)

    def configuration(self, point: Point) -> dict[str, Any]:
        """Return everything except the build that decides how a point is run."""
        campaign = self.campaign.at(point)
        resources = campaign.resources_in(campaign.partition(point))
        placement, program = campaign.placement(point), campaign.config.program
        special = {
            "inputs": [entry for entry in campaign.input_contents if entry[0] not in campaign.filled] or None,
            "filled": {name: digest(text) for name, text in campaign.input_texts(point).items()} or None,
            "start_in": None if program.start_in == "." else program.start_in,
            "machine": None if campaign.simulator is None else campaign.simulator.at(point).configuration(point),
            "partition": resources.partition,
            "constraint": resources.constraint,
            "tasks_per_node": placement.tasks_per_node,
        }
        return {
            **{key: value for key, value in special.items() if value is not None},
            "command": campaign.run_command(point, "{binary}", "{build}"),
            "launcher": campaign.active_environment.launcher,
            "modules": list(campaign.active_environment.modules),
            "variables": dict(campaign.active_environment.variables),
            "ranks": campaign.ranks(point),
            "threads": campaign.threads(point),
            "nodes": campaign.nodes(point),
        }


def open_target(campaign: Campaign, layout: Layout, backends: Mapping[str, Backend] | None = None) -> Target:
    """Find the source and the tools of a campaign.

    Parameters
    ----------
    backends
        In the place of this machine's, by the names of environments.

    Raises
    ------
    ConfigError, ToolError, PluginError
        The source, a compiler, an MPI or the measurement system cannot be had.
    """
    system = SYSTEMS.load(campaign.config.backend)
    of_its_own = system.source(campaign, layout.root)
    source, skipped = _source_of(campaign) if of_its_own is None else (of_its_own, ())
    if backends is None:
        backends = {name: system.open(each, layout.root) for name, each in campaign.in_environments.items()}
    target = Target(campaign, source, backends[campaign.environment], skipped, backends=backends)
    decision = layout.taken_over(target.made_from)
    if not decision.is_file():
        return target
    hint = "delete it; `buran run` looks again whether the program is the same"
    measured = read_document(decision, SCHEMA, lambda data: str(data["target"]), what="decision", hint=hint)
    return replace(target, stands_for=measured)


def _source_of(campaign: Campaign) -> tuple[SourceTree, tuple[Path, ...]]:
    """Return the source that a campaign names, and what lies in its folder and does not belong to it."""
    folder, results = campaign.source, campaign.results_root
    others = (results.parent,) if folder in results.parents[1:] else ()  # results of other campaigns in the same folder
    skipped = (results, campaign.path, folder / campaign.binary, *others)
    return local_source(folder, skipped), skipped
