"""The measurement system of finished runs as their builds recorded it: their results are read where it is missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from buran.campaign.config import Campaign
from buran.campaign.layout import Layout
from buran.campaign.plan import Mode
from buran.campaign.records import BuildRecord
from buran.errors import ToolError
from buran.measurement.backends.base import Backend
from buran.measurement.same_program import measured_targets
from buran.measurement.target import Target, open_target


@dataclass(frozen=True)
class RecordedBackend(Backend):
    """A measurement system that this machine does not have: it says what it was, and can neither build nor run.

    Attributes
    ----------
    record
        Record of a build that it made.
    missing
        What is missing on this machine.
    """

    record: BuildRecord
    missing: ToolError

    @property
    def identity(self) -> str:
        """As recorded."""
        return self.record.backend

    @property
    def description(self) -> Mapping[str, str | None]:
        """As recorded."""
        return self.record.toolchain

    @property
    def mpi_flavour(self) -> str:
        """As recorded."""
        return (self.description.get("mpi") or "").partition(" ")[0]

    @property
    def mpiexec(self) -> str:
        """Not to be had."""
        raise self.missing

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing, and that it was there."""
        return (f"{self.missing.line}; what was measured is shown as its builds recorded it, and nothing can run here",)

    def tools(self, mode: Mode) -> Mapping[str, str]:
        """Not to be had."""
        raise self.missing

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Not to be had."""
        raise self.missing


def recorded_target(campaign: Campaign, layout: Layout, missing: ToolError) -> Target:
    """Return the target with the measurement system of its finished builds, of this campaign's if it has plans.

    Raises
    ------
    ToolError
        `missing`, where nothing was measured.
    """
    choice = campaign.environment_choice
    records: dict[str, BuildRecord] = {}
    chosen: dict[str, BuildRecord] = {}
    for _, builds in measured_targets(layout):
        records.setdefault(builds[0].backend, builds[0])
        for record in builds:
            chosen.setdefault(str(dict(record.spec.values).get(choice)) if choice else "", record)
    targets = [
        open_target(
            campaign,
            layout,
            {name: RecordedBackend(chosen.get(name, record), missing) for name in campaign.in_environments},
        )
        for record in records.values()
    ]
    if not targets:
        raise missing
    return next((target for target in targets if layout.plan(target.campaign_id, 0).is_file()), targets[0])
