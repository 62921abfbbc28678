"""The simulated machine of a campaign: what it is at each point, and what is measured there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.config import Campaign
from buran.campaign.identity import requested, with_first_names
from buran.campaign.point import Value
from buran.files import digest
from buran.plugins.simgrid.keys import KEY, MachineKeys, keys_of
from buran.plugins.simgrid.platform import Platform, differences_in_words, machine_at, platform_of, shape_of
from buran.plugins.simgrid.switches import KnownAlgorithms

if TYPE_CHECKING:
    from buran.measurement.backends.base import Backend


@dataclass(frozen=True, eq=False)
class SimGrid:
    """Simulates the machine of a campaign's environment."""

    campaign: Campaign
    keys: MachineKeys
    _platforms: dict[tuple[Value, ...], Platform] = field(default_factory=dict, init=False, repr=False)

    @property
    def title(self) -> str:
        """The machine, as text, and what of it is another where."""
        described = platform_of(self.keys.model_copy(update={"what_if": {}}), self.campaign.folder).title
        return "; ".join((described, *differences_in_words(self.keys)))

    @cached_property
    def platforms(self) -> tuple[Platform, ...]:
        """The machines, one for each combination of values in `what_if`."""
        everywhere = (*self.campaign.points, *self.campaign.evaluation_points)
        return tuple({id(platform): platform for platform in map(self.at, everywhere)}.values())

    @property
    def known_mpi(self) -> KnownAlgorithms | None:
        """What is known of the MPI and the network, if the machine is the same at all points."""
        if len(self.platforms) != 1:
            return None
        keys = self.platforms[0].keys
        per_node = max(self.campaign.placement(point).ranks_per_node for point in self.campaign.points)
        if keys.topology != "fat_tree":
            return KnownAlgorithms(keys.collectives, ranks_per_node=per_node)
        nodes, _, above = shape_of(keys)
        return KnownAlgorithms(keys.collectives, nodes * per_node, max(nodes / above - 1, 0.0), per_node)

    @property
    def identity(self) -> Mapping[str, object]:
        """What counts of files, and of the machines for each combination of values."""
        files = [each.content for each in self.platforms if each.keys.platform or each.calibration]
        machines = [[_by_first_names(each.keys), digest(each.content)] for each in self.platforms]
        return {"platform": files[0] if files else None, "machines": machines if self.keys.what_if else None}

    def at(self, point: Mapping[str, Value]) -> Platform:
        """Return the machine at a point; raise `ConfigError` where a file that describes it cannot be read."""
        values = tuple(point[parameter] for parameter in self.keys.what_if)
        if values not in self._platforms:
            self._platforms[values] = platform_of(machine_at(self.keys, point), self.campaign.folder)
        return self._platforms[values]

    def open(self, scratch: Path, *, detailed: bool) -> Backend:
        """Prepare Buran's own measurement system with SimGrid's MPI; raise `ToolError` if something is missing."""
        from buran.plugins.simgrid.backend import open_simulated

        return open_simulated(self, scratch, detailed=detailed)


def simulator_of(campaign: Campaign) -> SimGrid | None:
    """Return what simulates the machine of a campaign's environment; None where programs are measured."""
    keys = keys_of(campaign.active_environment)
    return None if keys is None else SimGrid(campaign, keys)


def identity_of(campaign: Campaign) -> Mapping[str, object]:
    """Return what counts of a campaign's simulated machine in addition to its keys."""
    return campaign.simulator.identity if isinstance(campaign.simulator, SimGrid) else {}


def _by_first_names(keys: MachineKeys) -> object:
    environments = with_first_names({"environments": {"": {KEY: requested(keys)}}})["environments"]
    return environments[""][KEY]
