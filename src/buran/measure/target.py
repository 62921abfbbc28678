"""A campaign made concrete on this machine: its source, its backend and the identity they give."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from buran.campaign.config import Campaign
from buran.campaign.layout import Layout
from buran.campaign.plan import SCHEMA, BuildSpec, Mode
from buran.campaign.point import Point
from buran.campaign.sections import GitSource
from buran.files import digest, read_document
from buran.measure.backends.base import Backend
from buran.measure.backends.registry import SYSTEMS
from buran.measure.source import SourceTree, git_source, local_source


@dataclass(frozen=True)
class Target:
    """What is built and measured, with everything that identifies it.

    Attributes
    ----------
    skipped
        Files and folders inside the source folder that do not belong to it.
    stands_for
        Identity of the measured target whose runs count as its own, if there is one: the same program, or so declared.
    """

    campaign: Campaign
    source: SourceTree
    backend: Backend
    skipped: tuple[Path, ...]
    stands_for: str | None = None

    @property
    def id(self) -> str:
        """Identity of everything that all builds share, part of the paths of the store."""
        return self.stands_for or self.made_from

    @cached_property
    def made_from(self) -> str:
        """Identity of what builds are made from, as it is now."""
        campaign = self.campaign
        environment = campaign.active_environment
        shared: list[Any] = [
            self.source.identity,
            campaign.config.program.build,
            campaign.config.program.flags,
            campaign.binary,
            list(environment.modules),
            dict(environment.variables),
            self.backend.identity,
        ]
        if self.source.has_fortran:  # a compiler that the build has no use for may come and go
            shared.append(self.backend.description.get("fortran"))
        return digest(shared)

    @cached_property
    def campaign_id(self) -> str:
        """Identity of the whole question: the campaign file and the target it asks about."""
        return digest([self.id, self.campaign.digest()])

    def build_spec(self, mode: Mode, filter_text: str, point: Point, hooks: str | None = None) -> BuildSpec:
        """Return the build that a point needs; `hooks` as in `BuildSpec`, for timed runs."""
        values = self.campaign.build_values(point)
        return BuildSpec(self.id, mode, "" if mode is Mode.VANILLA else filter_text, values, hooks)


def open_target(campaign: Campaign, layout: Layout, backend: Backend | None = None) -> Target:
    """Find the source and the tools of a campaign.

    Parameters
    ----------
    backend
        In the place of this machine's.

    Raises
    ------
    ConfigError, ToolError, PluginError
        The source, a compiler, an MPI or the measurement system cannot be had.
    """
    system = SYSTEMS.load(campaign.config.backend)
    of_its_own = system.source(campaign, layout.root)
    source, skipped = _source_of(campaign, layout) if of_its_own is None else (of_its_own, ())
    target = Target(campaign, source, backend or system.open(campaign, layout.root), skipped)
    decision = layout.taken_over(target.made_from)
    if not decision.is_file():
        return target
    hint = "delete it; `buran run` looks again whether the program is the same"
    measured = read_document(decision, SCHEMA, lambda data: str(data["target"]), what="decision", hint=hint)
    return replace(target, stands_for=measured)


def _source_of(campaign: Campaign, layout: Layout) -> tuple[SourceTree, tuple[Path, ...]]:
    """Return the source that a campaign names, and what lies in its folder and does not belong to it."""
    skipped: tuple[Path, ...] = (campaign.results_root, campaign.path)
    folder = campaign.source
    if isinstance(folder, GitSource):
        return git_source(folder.git, folder.revision, layout.root / "sources"), skipped
    skipped = (*skipped, folder / campaign.binary)
    if folder in campaign.results_root.parents[1:]:  # results of other campaigns in the same folder
        skipped = (*skipped, campaign.results_root.parent)
    return local_source(folder, skipped), skipped
