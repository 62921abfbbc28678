"""What is wrong with a simulated machine, or with a campaign that runs on it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from buran.campaign.config import Campaign
from buran.campaign.mistakes import Mistake, listed, no_parameter
from buran.campaign.point import Value
from buran.campaign.shape import CampaignFile
from buran.errors import ConfigError
from buran.plugins.simgrid.keys import MachineKeys, keys_of
from buran.plugins.simgrid.platform import machine_at, number_of, shape_of
from buran.plugins.simgrid.simulator import SimGrid

_LENGTHS = {"fat_tree": 3, "torus": 3, "dragonfly": 4}
_OF_TOPOLOGY = ("nodes", "cores_per_node", "bandwidth_gb_s", "latency_us")


def mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Check what is said of simulated machines, and that the campaign asks nothing that the one in use cannot do."""
    for name, other in config.environments.items():
        if (machine := keys_of(other)) is not None:
            yield from _description_mistakes(("environments", name, "machine"), machine)
            yield from _what_if_mistakes(("environments", name, "machine", "what_if"), machine, config)
    used = config.environments.get(environment)
    if used is None or keys_of(used) is None:
        return
    path = ("environments", environment)
    if used.launcher != "auto":
        why = "programs on a simulated machine are started by SimGrid's launcher"
        yield Mistake((*path, "launcher"), f"the launcher {used.launcher!r} is not for a simulated machine", why)
    if config.backend != "embedded":
        why = "only Buran's own measurement system runs programs on a simulated machine"
        yield Mistake(("backend",), f"{config.backend!r} cannot be used with environments.{environment}.machine", why)
    if config.counters:
        why = "the counters of this machine say nothing about a simulated one"
        yield Mistake(("counters",), "counters cannot be read on a simulated machine", why, "leave them out")


def _description_mistakes(path: tuple[str, ...], machine: MachineKeys) -> Iterator[Mistake]:
    if (machine.seconds_per_block is None) == (machine.calibrated is None):
        what = "it is not said what computing costs"
        hint = "write what a basic block costs, as in seconds_per_block: 1e-9, or calibrated: measured.yaml"
        if machine.calibrated is not None:
            what, hint = "it is said twice what computing costs", "keep seconds_per_block or calibrated"
        yield Mistake((*path, "seconds_per_block"), what, hint=hint)
    if (machine.topology is None) == (machine.platform is None):
        what = "a simulated machine needs either topology or platform"
        yield Mistake(path, what, hint="write, for example, topology: fat_tree, or platform: cluster.xml")
    elif machine.platform is not None:
        for key in ("nodes", "shape", "bandwidth_gb_s", "latency_us"):
            if getattr(machine, key) is not None:
                yield Mistake((*path, key), f"the platform file says its {key} itself", hint="leave it out")
    else:
        missing = [key for key in _OF_TOPOLOGY if getattr(machine, key) is None]
        if missing:
            yield Mistake(path, f"a {machine.topology} needs {listed(missing)} too")
        else:
            yield from _shape_mistakes((*path, "shape"), machine)


def _what_if_mistakes(path: tuple[str, ...], machine: MachineKeys, config: CampaignFile) -> Iterator[Mistake]:
    """Check that parameters exist on which the machine depends, and that each key depends on one."""
    decided_by: dict[str, str] = {}
    for name, described in machine.what_if.items():
        parameter = config.parameters.get(name)
        if parameter is None:
            yield no_parameter((*path, name), name, tuple(config.parameters))
        elif parameter.role in ("ranks", "threads"):
            what = f"the machine cannot depend on {name!r}, the number of {parameter.role}"
            yield Mistake((*path, name), what, "all numbers of ranks run on one and the same machine")
        for value, keys in described.items():
            for key in sorted(keys.model_fields_set):
                if decided_by.setdefault(key, name) != name:
                    what = f"both {decided_by[key]!r} and {name!r} say what {key} is"
                    yield Mistake((*path, name, value, key), what, hint="let one parameter decide it")


def _machines_mistakes(
    path: tuple[str, ...], machine: MachineKeys, points: Sequence[Mapping[str, Value]]
) -> Iterator[Mistake]:
    """Check that values exist on which the machine depends, and that each machine that they lead to is whole."""
    for name, described in machine.what_if.items():
        values = sorted({point[name] for point in points})
        for value in described:
            if number_of(value) not in values:
                what = f"{value!r} is no value of {name!r}, which has {listed(values)}"
                yield Mistake((*path, name, value), what)
    combinations = {tuple(point[name] for name in machine.what_if): point for point in points}
    for numbers, point in combinations.items() if machine.what_if else ():
        at = ", ".join(f"{name} = {number}" for name, number in zip(machine.what_if, numbers, strict=True))
        for mistake in _description_mistakes(path, machine_at(machine, point)):
            yield replace(mistake, path=path, what=f"{mistake.what} at {at}")


def _shape_mistakes(path: tuple[str, ...], machine: MachineKeys) -> Iterator[Mistake]:
    shape, wanted = machine.shape, _LENGTHS.get(str(machine.topology), 0)
    if shape is not None and len(shape) != wanted:
        yield Mistake(path, f"the shape of a {machine.topology} has {wanted} numbers, not {len(shape)}")
    elif shape is not None:
        numbers = shape_of(machine)
        room = math.prod(numbers[:2] if machine.topology == "fat_tree" else numbers)
        if room != machine.nodes:
            yield Mistake(path, f"this shape has {room} nodes, not {machine.nodes}", hint="write nodes as they follow")


def misfits(campaign: Campaign) -> Iterator[Mistake]:
    """Check that there is one simulated machine for all points, and that it has room for every run."""
    for name in campaign.in_environments if campaign.environment_choice else ():
        if keys_of(campaign.config.environments[name]) is not None:
            what = f"{campaign.environment_choice!r} cannot choose a simulated machine"
            yield Mistake(("environments", name, "machine"), what, hint="describe one, and by `what_if` how it differs")
            return
    path, simgrid = ("environments", campaign.environment, "machine"), campaign.simulator
    if not isinstance(simgrid, SimGrid):
        return
    machine = simgrid.keys
    points = (*campaign.points, *campaign.evaluation_points)
    yield from (incomplete := [*_machines_mistakes((*path, "what_if"), machine, points)])
    for point in sorted(points, key=campaign.ranks, reverse=True) if not incomplete else ():
        try:
            platform = simgrid.at(point)
        except ConfigError as error:
            key = "calibrated" if machine.calibrated and error.where == machine.calibrated else "platform"
            yield Mistake((*path, key), error.what, error.why, error.hint)
            return
        if platform.calibration and (why := platform.calibration.uncovered(point, machine.what_if)):
            hint = "measure the program there too, or leave the point out"
            yield Mistake((*path, "calibrated"), f"the calibration does not cover {point}", why, hint)
            return
        placement = campaign.placement(point)
        if placement.threads > 1:
            what = f"{placement.threads} threads a rank at {point}: a simulated machine runs ranks, not threads"
            yield Mistake(("resources", "threads"), what, hint="simulate with one thread a rank")
            return
        if placement.ranks_per_node > platform.cores:
            what = f"{placement.ranks_per_node} ranks on a node at {point}, which has {platform.cores} cores"
            yield Mistake(path, what, hint="let nodes have more cores, or runs more nodes: resources.nodes")
            return
        if placement.nodes > len(platform.hosts):
            what = f"{placement.ranks} ranks at {point} need {placement.nodes} nodes, and the machine has"
            why = f"a node takes {placement.ranks_per_node} ranks"
            hint = "give the machine more nodes, or take fewer ranks"
            yield Mistake(path, f"{what} {len(platform.hosts)}", why, hint)
            return
