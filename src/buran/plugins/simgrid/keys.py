"""The keys of a simulated machine in a campaign file."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from buran.campaign.identity import Keys
from buran.campaign.sections import EnvironmentKeys
from buran.campaign.values import OfPlan, OfRun, Seconds, Text

KEY = "machine"
Positive = Annotated[float, Field(gt=0, le=1e12)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class MachineVariant(Keys):
    """What of a simulated machine is another for some values of a parameter."""

    topology: OfRun[Literal["crossbar", "fat_tree", "torus", "dragonfly"] | None] = Field(
        None,
        description="Its network, with `nodes`, `cores_per_node`, `bandwidth_gb_s` and `latency_us`. `crossbar`: "
        "nodes share nothing but their own links.",
    )
    platform: OfRun[Text | None] = Field(
        None,
        description="Instead of `topology`: a SimGrid platform file, relative to this file; ranks fill its nodes in "
        "order.",
        examples=["cluster.xml"],
    )
    nodes: OfRun[Count | None] = Field(None, description="Nodes of the machine, the same for all runs.", examples=[64])
    cores_per_node: OfRun[Count | None] = Field(
        None, description="Cores of a node; with `platform`, by default as in that file.", examples=[16]
    )
    shape: OfRun[tuple[Count, ...] | None] = Field(
        None,
        description="Fat tree: nodes per leaf switch, leaf switches, switches above. Torus: its lengths. Dragonfly: "
        "groups, chassis, routers, nodes per router. By default about equal in each dimension.",
        examples=[[16, 4, 16], [4, 4, 4]],
    )
    bandwidth_gb_s: OfRun[Positive | None] = Field(
        None, description="Bandwidth of a link in each direction, in GB/s (10^9 bytes).", examples=[12.5]
    )
    latency_us: OfRun[Positive | None] = Field(
        None, description="Latency of a link, in microseconds; a message passes several links.", examples=[0.5]
    )
    loopback_bandwidth_gb_s: OfRun[Positive] = Field(
        20.0, description="Bandwidth within a node, in GB/s. Not with `platform`."
    )
    loopback_latency_us: OfRun[Positive] = Field(
        0.2, description="Latency within a node, in microseconds. Not with `platform`."
    )
    collectives: OfRun[Literal["ompi", "mpich", "mvapich2", "impi"]] = Field(
        "ompi", description="The MPI whose collective algorithms are simulated."
    )
    factors: OfRun[Literal["none", "simgrid"]] = Field(
        "none",
        description="`none`: messages get the full bandwidth and latency of the links. `simgrid`: less, by size, as "
        "SimGrid's authors measured on an Ethernet cluster.",
    )
    eager_limit_bytes: OfRun[Annotated[int, Field(ge=0, le=1_000_000_000)]] = Field(
        65_536,
        description="Smaller messages leave at once; larger ones wait in `MPI_Send` for the receiver. Open MPI has "
        "4096 within a node.",
    )
    seconds_per_block: OfRun[Annotated[float, Field(gt=0, le=1)] | None] = Field(
        None, description="Cost of computation: seconds per basic block of a rank.", examples=[1e-9]
    )
    calibrated: OfRun[Text | None] = Field(
        None,
        description="Instead of `seconds_per_block`: cost by call path and point, from a measured campaign of the "
        "same program: its file, its results folder, or `calibration.json` there.",
        examples=["measured.yaml", "calibration.json"],
    )


class MachineKeys(MachineVariant, title="SimulatedMachine"):
    """A machine that is simulated by SimGrid: real MPI programs run on it, and their times are simulated."""

    what_if: OfRun[dict[Text, dict[Text, MachineVariant]]] = Field(
        default_factory=dict,
        description="Machines to compare: for a parameter and its values, what differs. Other values mean the machine "
        "as described.",
        examples=[{"network": {"2": {"bandwidth_gb_s": 25}, "3": {"topology": "torus"}}}],
    )
    run_limit: OfPlan[Seconds] = Field(
        3600.0,
        description="Real time that simulating one run may take; `resources.time_limit` is simulated time.",
        examples=["1h"],
    )

    @property
    def changing(self) -> frozenset[str]:
        """Parameters by which the machine is another."""
        return frozenset(self.what_if)


def keys_of(environment: EnvironmentKeys | None) -> MachineKeys | None:
    """Return the keys of an environment's machine; None where programs are measured."""
    return getattr(environment, KEY, None)
