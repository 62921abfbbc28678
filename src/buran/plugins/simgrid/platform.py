"""The simulated machine of a campaign, in SimGrid's words."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree
from xml.sax.saxutils import quoteattr

from buran.campaign.identity import Decides, decides, requested
from buran.campaign.point import Value, canonical
from buran.errors import ConfigError, FormatError, UsageError
from buran.files import digest
from buran.plugins.simgrid.calibration import Calibration, calibration_file, cost_line
from buran.plugins.simgrid.keys import MachineKeys
from buran.wording import word_of

_HEAD = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <zone id="world" routing="Full">
"""
_TAIL = """  </zone>
</platform>
"""
# SimGrid gets computation in seconds, whatever a node's speed is.
_SPEED = "1Gf"


@dataclass(frozen=True)
class Platform:
    """A machine that SimGrid can simulate.

    Attributes
    ----------
    text
        XML.
    hosts
        Names of its nodes, in the order in which ranks fill them.
    cores
        Cores of the smallest node.
    title
        The machine, as text.
    keys
        As the campaign file describes it.
    calibration
        What computing costs; None where each basic block costs the same.
    """

    keys: MachineKeys
    text: str
    hosts: tuple[str, ...]
    cores: int
    title: str
    calibration: Calibration | None = None

    @property
    def content(self) -> str:
        """Everything that is read of files."""
        return self.text if self.calibration is None else self.text + self.calibration.content

    def costs(self, point: Mapping[str, Value]) -> str:
        """Return what basic blocks cost at a point, for Buran's runtime: a call path a line."""
        if self.calibration is None:
            return cost_line(0, self.keys.seconds_per_block or 0.0, "")
        return self.calibration.costs(point)

    def configuration(self, point: Mapping[str, Value]) -> dict[str, Any]:
        """Return what decides how it runs programs."""
        fields = type(self.keys).model_fields
        keys = {name: value for name, value in requested(self.keys).items() if decides(fields[name]) is Decides.RUN}
        if keys.pop("calibrated", None):
            keys["costs"] = digest(self.costs(point))
        return {**keys, "platform": digest(self.text)}


def platform_of(machine: MachineKeys, folder: Path) -> Platform:
    """Return the machine that the keys describe.

    Parameters
    ----------
    folder
        Where the path of a platform file begins.

    Raises
    ------
    ConfigError
        The platform file or the calibration cannot be read, or there are no nodes.
    """
    text = _text_of(folder / machine.platform) if machine.platform is not None else _described(machine)
    try:
        nodes = [node for element in ElementTree.fromstring(text).iter() for node in _nodes_of(element)]
    except (ElementTree.ParseError, ValueError) as error:
        raise ConfigError("this is no platform file of SimGrid", where=machine.platform, why=str(error)) from None
    if not nodes:
        why = "it has no host and no cluster"
        raise ConfigError("this platform file has no nodes", where=machine.platform, why=why)
    cores = machine.cores_per_node or min(count for _, count in nodes)
    network = f"platform {machine.platform}"
    if machine.topology is not None:
        shape = "" if machine.topology == "crossbar" else f" of shape {' x '.join(map(str, shape_of(machine)))}"
        network = (
            f"{machine.topology.replace('_', ' ')}{shape}, links of {machine.bandwidth_gb_s:g} GB/s and "
            f"{machine.latency_us:g} us"
        )
    calibration = None if machine.calibrated is None else _calibration(machine.calibrated, folder)
    computing = f"computing costs what {machine.calibrated} measured"
    if calibration is None:
        computing = f"{machine.seconds_per_block:g} s a basic block"
    else:
        uncertainties = (
            ("between its points", calibration.uncertainty),
            ("beyond its sizes, by misses of caches", calibration.uncertainty_beyond),
        )
        shares = ((where, 100 * share) for where, share in uncertainties if share is not None)
        computing += "".join(f", {where} {share:.{2 if share < 100 else 3}g} % uncertain" for where, share in shares)
    title = (
        f"a simulated machine: {network}, {len(nodes)} nodes of {cores} {'core' if cores == 1 else 'cores'}, "
        f"collectives of {machine.collectives}, {computing}"
    )
    return Platform(machine, text, tuple(name for name, _ in nodes), cores, title, calibration)


def _calibration(name: str, folder: Path) -> Calibration:
    try:
        return Calibration.read(calibration_file(folder / name))
    except (FormatError, UsageError) as error:
        what = "what computing costs cannot be read"
        hint = "finish the measured campaign first: buran run, then buran report, with times and effort_repetitions"
        raise ConfigError(what, where=name, why=error.line, hint=hint) from None


def machine_at(machine: MachineKeys, point: Mapping[str, Value]) -> MachineKeys:
    """Return the machine that stands at a point: as described, with what its `what_if` says of the point's values."""
    changes: dict[str, object] = {}
    for parameter, described in machine.what_if.items():
        for value, description in described.items():
            if number_of(value) == point[parameter]:
                changes |= {name: getattr(description, name) for name in description.model_fields_set}
    return machine.model_copy(update={**changes, "what_if": {}})


def differences_in_words(machine: MachineKeys) -> list[str]:
    """Return what is another machine for each value of a parameter, as in ``network = 2: bandwidth_gb_s 25``."""
    return [
        f"{parameter} = {value}: {', '.join(f'{name} {getattr(keys, name)}' for name in sorted(keys.model_fields_set))}"
        for parameter, described in machine.what_if.items()
        for value, keys in described.items()
        if keys.model_fields_set
    ]


def number_of(text: str) -> Value | None:
    """Return the value of a parameter that a key of `what_if` stands for; None if it is none."""
    try:
        return canonical(float(text))
    except ValueError:
        return word_of(text)


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError("the platform file cannot be read", where=path, why=error.strerror) from None


def shape_of(machine: MachineKeys) -> tuple[int, ...]:
    """Return how the nodes are arranged: as the file says it, or nearly as long in each dimension.

    A fat tree has nodes on each leaf switch, leaf switches, and half as many switches above them as a leaf has nodes;
    a torus three lengths; a dragonfly groups, chassis, routers, and nodes on each router.
    """
    if machine.shape is not None or machine.topology == "crossbar":
        return machine.shape or ()
    nodes = machine.nodes or 1
    if machine.topology == "fat_tree":
        leaf = _root(nodes, 2)
        return leaf, -(-nodes // leaf), -(-leaf // 2)
    lengths = []
    for dimension in range({"torus": 3, "dragonfly": 4}[str(machine.topology)], 0, -1):
        lengths.append(_root(nodes, dimension))
        nodes = -(-nodes // lengths[-1])
    return tuple(lengths) if machine.topology == "torus" else tuple(reversed(lengths))


def _root(number: int, degree: int) -> int:
    """Return the smallest whole number whose power is not below `number`."""
    root: int = max(1, round(number ** (1.0 / degree)) - 1)
    while root**degree < number:
        root += 1
    return root


def _described(machine: MachineKeys) -> str:
    shape = shape_of(machine)
    match machine.topology:
        case "fat_tree":
            leaf, leaves, above = shape
            count, network = leaf * leaves, f'topology="FAT_TREE" topo_parameters="2;{leaf},{leaves};1,{above};1,1"'
        case "torus":
            count, lengths = math.prod(shape), [str(length) for length in shape if length > 1]
            network = f'topology="TORUS" topo_parameters="{",".join(lengths)}"' if lengths else ""
        case "dragonfly":
            groups, chassis, routers, nodes = shape
            count = math.prod(shape)
            network = f'topology="DRAGONFLY" topo_parameters="{groups},1;{chassis},1;{routers},1;{nodes}"'
        case _:
            count, network = machine.nodes or 1, ""
    keys = {
        "id": "machine",
        "prefix": "node",
        "suffix": "",
        "radical": f"0-{count - 1}",
        "speed": _SPEED,
        "core": str(machine.cores_per_node),
        "bw": f"{machine.bandwidth_gb_s!r}GBps",
        "lat": f"{machine.latency_us!r}us",
        "loopback_bw": f"{machine.loopback_bandwidth_gb_s!r}GBps",
        "loopback_lat": f"{machine.loopback_latency_us!r}us",
        "sharing_policy": "SPLITDUPLEX",
    }
    written = " ".join(f"{key}={quoteattr(value)}" for key, value in keys.items())
    return f"{_HEAD}    <cluster {' '.join(filter(None, (written, network)))}/>\n{_TAIL}"


def _nodes_of(element: ElementTree.Element) -> Iterator[tuple[str, int]]:
    """Yield name and cores of each node that an element of a platform file stands for."""
    cores = int(element.get("core", "1"))
    if element.tag == "host":
        yield element.attrib["id"], cores
    elif element.tag in ("cluster", "cabinet"):
        for part in element.get("radical", "").split(","):
            first, _, last = part.partition("-")
            if not re.fullmatch(r"\d+(-\d+)?", part):
                raise ValueError(f"radical {part!r} is no number and no range")
            for number in range(int(first), int(last or first) + 1):
                yield f"{element.get('prefix', '')}{number}{element.get('suffix', '')}", cores


def host_file(platform: Platform, ranks_per_node: int) -> str:
    """Return the nodes as SimGrid's launcher wants them: a line for each place of a rank."""
    return "".join(f"{host}\n" * ranks_per_node for host in platform.hosts)
