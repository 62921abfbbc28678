"""Simulated machines: what a campaign file says of them, what SimGrid is told, and what is refused."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from campaign_files import WriteCampaign

from buran.campaign.launcher import Placement
from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.campaign.point import Point
from buran.errors import ConfigError
from buran.plugins.simgrid.backend import SimulatedMachineBackend
from buran.plugins.simgrid.keys import MachineKeys
from buran.plugins.simgrid.platform import host_file, platform_of, shape_of
from buran.plugins.simgrid.simulator import SimGrid
from buran.plugins.simgrid.switches import KnownAlgorithms

KEYS: dict[str, Any] = {
    "topology": "crossbar", "nodes": 4, "cores_per_node": 2, "bandwidth_gb_s": 12.5, "latency_us": 0.5,
    "seconds_per_block": 1e-9,
}  # fmt: skip


def machine(**changes: Any) -> MachineKeys:
    return MachineKeys(**{**KEYS, **changes})


def refused(write: WriteCampaign, keys: dict[str, Any], **changes: Any) -> str:
    path = write(environments__desk={"machine": keys}, **changes)
    with pytest.raises(CampaignError) as caught:
        load_campaign(path)
    return str(caught.value)


def test_timed_runs_tell_the_counts_where_hooks_cost_nothing_and_no_filter_changes(
    write_campaign: WriteCampaign,
) -> None:
    def told(**changes: Any) -> bool:
        return load_campaign(write_campaign(**changes)).counts_with_times

    simulated = {"environments__desk": {"machine": KEYS}, "environment": "desk"}
    assert told(goal="models", **simulated) and told(refinement={"enabled": False}, **simulated)
    assert not told(goal="both", **simulated) and not told(goal="models")


def test_a_parameter_chooses_no_simulated_machine(write_campaign: WriteCampaign) -> None:
    choice = {"role": "choice", "values": ["desk", "local"]}
    build = {"environment": "where", "environments__local": {}, "parameters__where": choice}
    said = refused(write_campaign, KEYS, **build)
    assert "'where'" in said and "key environments.desk.machine" in said


# ---- what SimGrid is told


@pytest.mark.parametrize(
    ("topology", "nodes", "shape"),
    [
        ("fat_tree", 64, (8, 8, 4)),
        ("fat_tree", 5, (3, 2, 2)),
        ("torus", 64, (4, 4, 4)),
        ("torus", 100, (5, 5, 4)),
        ("dragonfly", 81, (3, 3, 3, 3)),
        ("crossbar", 7, ()),
    ],
)
def test_nodes_are_arranged_about_as_long_in_each_dimension(topology: str, nodes: int, shape: tuple[int, ...]) -> None:
    keys = machine(topology=topology, nodes=nodes)
    platform = platform_of(keys, Path())
    assert shape_of(keys) == shape
    assert len(platform.hosts) >= nodes and len(set(platform.hosts)) == len(platform.hosts)
    assert topology.replace("_", " ") in platform.title and "simulated" in platform.title


def test_one_machine_tells_its_mpi_and_the_ranks_below_a_leaf_switch(write_campaign: WriteCampaign) -> None:
    def told(machine: dict[str, Any]) -> KnownAlgorithms | None:
        simulator = load_campaign(write_campaign(environments__desk={"machine": machine})).simulator
        assert isinstance(simulator, SimGrid)
        return simulator.known_mpi

    tree = {**KEYS, "topology": "fat_tree", "nodes": 16, "collectives": "mpich"}
    assert told(tree) == KnownAlgorithms("mpich", leaf=8, crowding=1.0, ranks_per_node=2)
    assert told(KEYS) == KnownAlgorithms("ompi", leaf=None, ranks_per_node=2)
    assert told({**tree, "what_if": {"n": {"20": {"collectives": "ompi"}}}}) is None
    assert load_campaign(write_campaign()).simulator is None


def test_the_description_has_what_the_keys_say() -> None:
    (cluster,) = ElementTree.fromstring(platform_of(machine(topology="torus", shape=(2, 2, 1)), Path()).text).iter(
        "cluster"
    )
    assert cluster.attrib == {
        "id": "machine", "prefix": "node", "suffix": "", "radical": "0-3", "speed": "1Gf", "core": "2",
        "bw": "12.5GBps", "lat": "0.5us", "loopback_bw": "20.0GBps", "loopback_lat": "0.2us",
        "sharing_policy": "SPLITDUPLEX", "topology": "TORUS", "topo_parameters": "2,2",
    }  # fmt: skip


def test_ranks_fill_one_node_after_the_other() -> None:
    platform = platform_of(machine(nodes=2), Path())
    assert host_file(platform, 2) == "node0\nnode0\nnode1\nnode1\n"


def test_nodes_of_a_platform_file_are_counted(tmp_path: Path) -> None:
    (tmp_path / "own.xml").write_text(
        '<platform version="4.1"><zone id="z"><host id="front" speed="1Gf" core="8"/>'
        '<cluster prefix="a" suffix=".x" radical="0-1,5" core="4"/></zone></platform>'
    )
    platform = platform_of(MachineKeys(platform="own.xml", seconds_per_block=1e-9), tmp_path)
    assert platform.hosts == ("front", "a0.x", "a1.x", "a5.x") and platform.cores == 4


@pytest.mark.parametrize("text", ["nothing of XML", '<platform><cluster radical="all"/></platform>', "<platform/>"])
def test_what_is_no_platform_file_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "own.xml").write_text(text)
    with pytest.raises(ConfigError):
        platform_of(MachineKeys(platform="own.xml", seconds_per_block=1e-9), tmp_path)


def test_the_launcher_gets_room_for_all_ranks() -> None:
    machine = SimpleNamespace(launch_options=lambda point: ("-platform", "x.xml"))
    tools = SimpleNamespace(mpiexec="smpirun")
    backend = SimulatedMachineBackend(tools, Path(), simulated=machine)  # type: ignore[arg-type]
    started = backend.launch(Point.of({"p": 16}), ["/tree/demo", "8"], Placement(16))
    assert started.argv == ("smpirun", "-np", "16", "-platform", "x.xml", "/tree/demo", "8")
    assert started.variables["BURAN_EXECUTABLE"] == "demo"
    assert int(started.variables["GLIBC_TUNABLES"].partition("=")[2]) >= 16 * 816


# ---- what a campaign says


def test_ranks_of_a_campaign_are_spread_over_the_machine(write_campaign: WriteCampaign) -> None:
    campaign = load_campaign(write_campaign(environments__desk={"machine": KEYS}))
    placements = {p: campaign.placement({"p": p, "n": 10}) for p in (1, 2, 8)}
    assert {p: (placed.nodes, placed.ranks_per_node) for p, placed in placements.items()} == {
        1: (1, 2),
        2: (1, 2),
        8: (4, 2),
    }
    fewer = load_campaign(
        write_campaign(environments__desk={"machine": {**KEYS, "nodes": 8}}, resources={"tasks_per_node": 1})
    )
    assert fewer.placement({"p": 8, "n": 10}).nodes == 8


def test_the_content_of_a_platform_file_is_part_of_the_question(write_campaign: WriteCampaign, tmp_path: Path) -> None:
    keys = {"platform": "own.xml", "seconds_per_block": 1e-9}
    digests = []
    for bandwidth in ("1GBps", "2GBps"):
        path = write_campaign(environments__desk={"machine": keys})
        cluster = f'<cluster prefix="n" radical="0-7" bw="{bandwidth}"/>'
        (path.parent / "own.xml").write_text(f"<platform>{cluster}</platform>")
        digests.append(load_campaign(path).digest())
    assert digests[0] != digests[1]


def test_repetitions_of_simulated_runs_are_remarked(write_campaign: WriteCampaign) -> None:
    many, one = (
        load_campaign(write_campaign(environments__desk={"machine": KEYS}, repetitions=n, effort_repetitions=n))
        for n in (3, 1)
    )
    assert any("repetitions: 1" in note for note in many.notes)
    assert not any("repetitions: 1" in note for note in one.notes)


# ---- a machine that depends on a parameter

WHAT_IF: dict[str, Any] = {
    "network": {"2": {"bandwidth_gb_s": 25}, "3": {"topology": "torus", "nodes": 8}, "4": {"collectives": "mpich"}}
}
NETWORKS: dict[str, Any] = {
    "p": {"role": "ranks", "values": [1, 2, 4, 8]},
    "n": {"role": "size", "values": [10, 20, 40]},
    "network": {"role": "choice", "values": [1, 2, 3, 4]},
}


def test_a_machine_depends_on_the_values_of_a_parameter(write_campaign: WriteCampaign) -> None:
    path = write_campaign(environments__desk={"machine": {**KEYS, "what_if": WHAT_IF}}, parameters=NETWORKS)
    campaign = load_campaign(path)
    simgrid = campaign.simulator
    assert isinstance(simgrid, SimGrid)
    platforms = {network: simgrid.at({"p": 8, "n": 10, "network": network}) for network in (1, 2, 3, 4)}
    keys = {network: platform.keys for network, platform in platforms.items()}
    assert keys[1] == machine() and keys[2] == machine(bandwidth_gb_s=25)
    assert keys[3] == machine(topology="torus", nodes=8) and keys[4] == machine(collectives="mpich")
    assert platforms[1] is simgrid.at({"p": 2, "n": 20, "network": 1})
    said = campaign.simulated_on
    assert "crossbar" in said and "network = 2: bandwidth_gb_s 25.0; network = 3: nodes 8, topology torus" in said


def test_counts_do_not_tell_how_times_grow_as_the_network_becomes_slower(write_campaign: WriteCampaign) -> None:
    slower: dict[str, Any] = {**NETWORKS, "network": {"role": "size", "values": [1, 2, 3, 4]}}
    machines = {"machine": {**KEYS, "what_if": WHAT_IF}}
    assert not load_campaign(write_campaign(environments__desk=machines, parameters=slower)).counts_tell_growth
    assert load_campaign(write_campaign(environments__desk=machines, parameters=NETWORKS)).counts_tell_growth
    plain = write_campaign(environments__desk={"machine": KEYS})
    assert load_campaign(plain).counts_tell_growth
    assert not load_campaign(write_campaign(model={"priors": "off"})).counts_tell_growth


def test_what_one_value_changes_to_a_default_changes_the_question(write_campaign: WriteCampaign) -> None:
    digests = set()
    for collectives in ("ompi", "impi"):  # ompi is the default
        keys = {**KEYS, "collectives": "mpich", "what_if": {"network": {"2": {"collectives": collectives}}}}
        digests.add(load_campaign(write_campaign(environments__desk={"machine": keys}, parameters=NETWORKS)).digest())
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("what_if", "words"),
    [
        ({"net": {"2": {"nodes": 8}}}, "'net'"),
        ({"p": {"2": {"nodes": 8}}}, "cannot depend on 'p', the number of ranks"),
        ({"network": {"5": {"nodes": 8}}}, "'5' is no value of 'network', which has 1, 2, 3, 4"),
        ({"network": {"fast": {"nodes": 8}}}, "'fast' is no value of 'network'"),
        ({"network": {"2": {"platform": "own.xml"}}}, "either topology or platform at network = 2"),
        ({"network": {"2": {"nodes": 3}}}, "the machine has 3"),
        ({"network": {"2": {"nodes": 8}}, "n": {"10": {"nodes": 9}}}, "both 'network' and 'n' say what nodes is"),
        ({"network": {"2": {"run_limit": 8}}}, "run_limit"),
    ],
)
def test_a_machine_that_depends_on_nothing_that_is_is_refused(
    write_campaign: WriteCampaign, what_if: dict[str, Any], words: str
) -> None:
    assert words in refused(write_campaign, {**KEYS, "what_if": what_if}, parameters=NETWORKS)


# ---- bad input


def test_fewer_nodes_than_ranks_are_refused_with_both_numbers(write_campaign: WriteCampaign) -> None:
    said = refused(write_campaign, {**KEYS, "nodes": 3})
    assert "8 ranks at" in said and "need 4 nodes" in said and "the machine has 3" in said
    assert "environments.desk.machine" in said


def test_more_ranks_on_a_node_than_cores_are_refused(write_campaign: WriteCampaign) -> None:
    assert "8 ranks on a node" in refused(write_campaign, KEYS, resources={"tasks_per_node": 8})


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"seconds_per_block": 1e-9}, "either topology or platform"),
        ({**KEYS, "platform": "own.xml"}, "either topology or platform"),
        ({"topology": "torus", "nodes": 8, "seconds_per_block": 1e-9}, "cores_per_node, bandwidth_gb_s, latency_us"),
        ({**KEYS, "topology": "torus", "shape": [2, 2]}, "has 3 numbers, not 2"),
        ({**KEYS, "topology": "torus", "shape": [2, 2, 2]}, "8 nodes, not 4"),
        ({"platform": "none.xml", "seconds_per_block": 1e-9}, "cannot be read"),
        ({"platform": "none.xml", "nodes": 4, "seconds_per_block": 1e-9}, "says its nodes itself"),
        ({**KEYS, "topology": "ring"}, "topology"),
        ({**KEYS, "bandwidth_gb_s": 0}, "bandwidth_gb_s"),
        ({key: value for key, value in KEYS.items() if key != "seconds_per_block"}, "seconds_per_block"),
    ],
)
def test_a_wrong_machine_is_refused(write_campaign: WriteCampaign, keys: dict[str, Any], words: str) -> None:
    assert words in refused(write_campaign, keys)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resources": {"threads": 2}}, "runs ranks, not threads"),
        ({"counters": ["cycles"]}, "counters cannot be read on a simulated machine"),
        ({"backend": "scorep"}, "cannot be used with"),
        ({"environments__desk__launcher": "srun"}, "is not for a simulated machine"),
    ],
)
def test_what_a_simulated_machine_cannot_do_is_refused(
    write_campaign: WriteCampaign, changes: dict[str, Any], words: str
) -> None:
    path = write_campaign(environments__desk__machine=KEYS, **changes)
    with pytest.raises(CampaignError) as caught:
        load_campaign(path)
    assert words in str(caught.value)
