from __future__ import annotations

import shlex
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from campaign_files import WriteCampaign
from hypothesis import given
from hypothesis import strategies as st

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.campaign.point import Point
from buran.campaign.resources import NodeKind
from buran.campaign.sections import Range
from buran.campaign.space import along_axes
from buran.errors import ConfigError

TOOLS = {"cc": "gcc", "cxx": "g++", "mpicc": "/a b/mpicc", "mpicxx": "/a b/mpicxx"}
POINT = Point.of({"p": 4, "n": 20})


def test_commands(write_campaign: WriteCampaign) -> None:
    path = write_campaign(
        program__build="make MPICXX={mpicxx} SIZE={n} CXXFLAGS='{flags}' && ls ${{HOME}}",
        program__flags="-O2 -DX='\"y\"'",
        program__run="{binary} {n} --ranks={ranks} --threads={threads} {build}/input 'a b'",
    )
    campaign = load_campaign(path)
    assert campaign.build_parameters == ("n",)
    command = campaign.build_command(Point.of({"n": 20}), TOOLS)
    assert shlex.split(command)[1:4] == ["MPICXX=/a b/mpicxx", "SIZE=20", "CXXFLAGS=-O2 -DX='\"y\"'"]
    assert command.endswith("&& ls ${HOME}")
    assert campaign.run_command(POINT, "/b/x y", "/b") == [
        "/b/x y", "20", "--ranks=4", "--threads=1", "/b/input", "a b",
    ]  # fmt: skip


def test_launch(write_campaign: WriteCampaign, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    path = write_campaign(environments={"local": {"variables": {"A": 1, "OMP_NUM_THREADS": "7"}}})
    campaign = load_campaign(path)
    arguments = (POINT, path.parent / "x", path.parent, "openmpi", "/opt/mpirun")
    argv, variables = campaign.launch(*arguments, 4)
    assert argv[:3] == ["/opt/mpirun", "-n", "4"] and "--oversubscribe" not in argv
    assert argv[-2:] == [str(path.parent / "x"), "20"]
    assert variables == {"A": "1", "OMP_NUM_THREADS": "7"}
    assert "--oversubscribe" in campaign.launch(*arguments, 3)[0]


def test_launch_with_another_launcher_does_not_take_the_found_program(write_campaign: WriteCampaign) -> None:
    path = write_campaign(environments={"local": {"launcher": "srun", "modules": ["gcc"]}})
    argv, _ = load_campaign(path).launch(POINT, path, path, "openmpi", "/opt/mpirun", 4)
    assert argv[:2] == ["bash", "-c"] and "module load gcc" in argv[2]
    assert argv[4] == "srun" and "/opt/mpirun" not in argv


def test_resources(write_campaign: WriteCampaign) -> None:
    resources = {"threads": "2", "nodes": "ceil(p / 4)", "time_limit": "10 * n", "expected_time": "n / 10"}
    campaign = load_campaign(write_campaign(resources=resources))
    point = Point.of({"p": 8, "n": 20})
    assert (campaign.ranks(point), campaign.threads(point), campaign.nodes(point)) == (8, 2, 2)
    assert campaign.cores(point) == 16
    assert (campaign.time_limit_s(point), campaign.expected_s(point)) == (200.0, 2.0)
    assert campaign.ranks_parameter == "p"
    assert campaign.minimum_core_hours([point, point], 9) == pytest.approx(16 * 2 * 2 * 9 / 3600)


def test_nodes_follow_from_ranks_threads_and_the_partition(write_campaign: WriteCampaign) -> None:
    def of(cores: int) -> dict[str | None, NodeKind]:
        return {None: NodeKind(cores, cores)}

    point = Point.of({"p": 7, "n": 20})
    campaign = load_campaign(write_campaign(resources={"threads": 2}))
    assert campaign.nodes(point) == 1, "no partition"
    in_partition = replace(campaign, node_kinds=of(5))
    assert [in_partition.nodes(point), in_partition.placement(point).ranks_per_node] == [4, 2]
    assert replace(campaign, node_kinds=of(1)).nodes(point) == 7, "a rank does not leave its node"
    chosen = replace(load_campaign(write_campaign(resources={"tasks_per_node": 3})), node_kinds=of(64))
    assert [chosen.nodes(point), chosen.placement(point).ranks_per_node] == [3, 3]
    fixed = replace(load_campaign(write_campaign(resources={"nodes": 1})), node_kinds=of(2))
    assert fixed.nodes(point) == 1, "the file says so"


def test_resources_at_points_of_others_are_checked_too(write_campaign: WriteCampaign) -> None:
    campaign = load_campaign(write_campaign(resources={"nodes": "p // 1"}))
    with pytest.raises(ConfigError, match=r"gives 0\.5"):
        campaign.ranks(Point.of({"p": 0.5, "n": 1}))


def test_threads_as_a_parameter(write_campaign: WriteCampaign) -> None:
    path = write_campaign(parameters__threads={"role": "threads", "values": [1, 2]})
    campaign = load_campaign(path)
    assert {campaign.threads(point) for point in campaign.points} == {1, 2}
    argv, variables = campaign.launch(campaign.points[-1], path, path, "mpich", "mpiexec", 64)
    assert variables["OMP_NUM_THREADS"] == "2" and "core:2" in argv


def test_expected_time_is_unknown_by_default(write_campaign: WriteCampaign) -> None:
    campaign = load_campaign(write_campaign())
    assert campaign.expected_s(POINT) is None
    assert campaign.minimum_core_hours(campaign.points, 3) is None


@pytest.mark.parametrize(
    ("budget", "full", "expected"),
    [
        ({}, 10.0, None),
        ({"core_hours": 2}, 10.0, 2.0),
        ({"percent_of_full_matrix": 30}, 10.0, 3.0),
        ({"percent_of_full_matrix": 30}, None, None),
        ({"core_hours": 2, "percent_of_full_matrix": 30}, 10.0, 2.0),
        ({"core_hours": 4, "percent_of_full_matrix": 30}, 10.0, 3.0),
        ({"core_hours": 4, "percent_of_full_matrix": 30}, None, 4.0),
    ],
)
def test_budget(
    write_campaign: WriteCampaign, budget: dict[str, float], full: float | None, expected: float | None
) -> None:
    campaign = load_campaign(write_campaign(budget=budget))
    assert campaign.config.budget.in_force(full) == pytest.approx(expected)


def test_a_budget_below_the_first_plan(write_campaign: WriteCampaign) -> None:
    expected = {"expected_time": "360 * 5 / p"}  # of three points, three times each: half a core hour a run
    campaign = load_campaign(write_campaign(budget={"core_hours": 4.5}, resources=expected))
    first = along_axes(campaign.points, campaign.parameters, 2)
    assert campaign.minimum_core_hours(first, campaign.repetitions) == pytest.approx(4.5)
    with pytest.raises(CampaignError) as caught:
        load_campaign(write_campaign(budget={"core_hours": 4.4}, resources=expected))
    (mistake,) = caught.value.mistakes
    assert mistake.path == ("budget",) and "4.5" in mistake.what


def test_results_and_source_are_relative_to_the_file(write_campaign: WriteCampaign) -> None:
    path = write_campaign(results="../out")
    campaign = load_campaign(path)
    assert campaign.results_root == path.parent.parent / "out" / "demo"
    assert campaign.source == path.parent / "code"


def test_lists_are_short_for_values(write_campaign: WriteCampaign) -> None:
    lists = {"p": [1, 2, 4], "n": [8, 16], "threads": [1, 2]}
    roles = {"p": "ranks", "n": "size", "threads": "threads"}
    spelled = {name: {"role": roles[name], "values": values} for name, values in lists.items()}
    short, long = (load_campaign(write_campaign(parameters=each)) for each in (lists, spelled))
    assert short.config == long.config and short.points == long.points


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, "full"),
        ({"budget": {"charge": "program"}}, "full"),
        ({"budget": {"core_hours": 2}}, "design"),
        ({"budget": {"percent_of_full_matrix": 20}, "strategy": {"max_iterations": 3}}, "design"),
        ({"budget": {"core_hours": 2}, "strategy": {"name": "full"}}, "full"),
        ({"budget": {"core_hours": 2}, "goal": "filter"}, "full"),
        ({"budget": {"core_hours": 2}, "parameters__n": {"role": "choice", "values": [1, 2]}}, "full"),
    ],
)
def test_a_budget_lets_a_strategy_choose_the_runs(
    write_campaign: WriteCampaign, changes: dict[str, Any], name: str
) -> None:
    given = {**changes, "strategy": changes.get("strategy", {})}
    assert load_campaign(write_campaign(**given)).config.strategy.name == name


def test_few_steps_at_the_target_may_be_measured(write_campaign: WriteCampaign) -> None:
    changes = {
        "parameters__s": {"role": "steps", "value": 600}, "program__run": "{binary} {n} {s}",
        "strategy": {"name": "design"},
    }  # fmt: skip

    def beyond(**target: int | str) -> set[int]:
        campaign = load_campaign(write_campaign(**changes, target=target))
        assert campaign.target["s"] == 600 and all(point["n"] <= 80 for point in campaign.full_matrix)
        return {int(point["s"]) for point in campaign.points if point["n"] > 80}

    assert beyond(p=8, n=160) == {30, 120}
    assert beyond(p=16, n=160) == set()  # more ranks than there are
    assert beyond(p=8, n="2 * n") == set()


def test_target(write_campaign: WriteCampaign) -> None:
    campaign = load_campaign(write_campaign(evaluation_points=[{"p": 4, "n": 99}]))
    assert campaign.target == Point.of({"p": 8, "n": 99})
    campaign = load_campaign(write_campaign(target={"p": 64, "n": 512}))
    assert campaign.target == Point.of({"p": 64, "n": 512})


SAME: list[dict[str, Any]] = [
    {},
    {"name": "other"},
    {"results": "elsewhere"},
    {"parameters__n": {"role": "size", "values": [80, 40, 20, 10.0]}},
    {"constraints": ["p > 0"]},
    {"environments": {"local": {}, "far": {"launcher": "srun"}}, "environment": "local"},
    {"repetitions": 3},
    {"strategy": {"name": "full", "retry_failed": False}},
]
DIFFERENT: list[dict[str, Any]] = [
    {"program__flags": "-O3"},
    {"program__run": "{binary} {n} 1"},
    {"parameters__p__values": [1, 2, 4]},
    {"constraints": ["p > 1"]},
    {"environments": {"local": {"variables": {"A": 1}}}},
    {"repetitions": 4},
    {"seed": 2},
    {"evaluation_points": [{"p": 9, "n": 9}]},
    {"strategy": {"name": "lines"}},
    {"strategy": {"name": "design"}},
    {"strategy": {"name": "design", "batch": 2}},
    {"resources": {"nodes": "p"}},
]


def test_digest(write_campaign: WriteCampaign) -> None:
    same = {load_campaign(write_campaign(**changes)).digest() for changes in SAME}
    different = [load_campaign(write_campaign(**changes)).digest() for changes in DIFFERENT]
    assert len(same) == 1
    assert len({*same, *different}) == 1 + len(DIFFERENT)
    assert all(len(digest) == 12 and int(digest, 16) >= 0 for digest in same)


def test_ranges_are_exact() -> None:
    assert Range(start=0.1, stop=0.5, step=0.1).listed == (0.1, 0.2, 0.3, 0.4, 0.5)
    assert Range(start=8, stop=64, factor=2).listed == (8, 16, 32, 64)
    assert Range(start=8, stop=63, factor=2).listed == (8, 16, 32)
    assert Range(start=8, stop=20, factor=1.5).listed == (8, 12, 18)


@given(st.integers(1, 1000), st.integers(0, 5000), st.integers(1, 400))
def test_linear_ranges_are_those_of_python(start: int, length: int, step: int) -> None:
    stop = start + length
    assert Range(start=start, stop=stop, step=step).listed == tuple(range(start, stop + 1, step))


@given(st.decimals("0.1", 100, places=2), st.decimals("1.05", 9, places=2), st.integers(1, 12))
def test_geometric_ranges_never_pass_their_end(start: Any, factor: Any, count: int) -> None:
    stop = float(start * factor**count)
    values = Range(start=float(start), stop=stop, factor=float(factor)).listed
    assert values[0] == float(start) and values[-1] <= stop
    ratio = Fraction(str(factor))
    for i, value in enumerate(values):
        assert value == pytest.approx(float(Fraction(str(start)) * ratio**i), rel=1e-12)


def test_along_axes() -> None:
    points = [Point.of({"p": p, "n": n}) for p in (1, 2, 4) for n in (1, 2, 3)]
    chosen = along_axes(points, ("p", "n"), 2)
    assert [dict(point) for point in chosen] == [{"n": 1, "p": 1}, {"n": 1, "p": 2}, {"n": 2, "p": 1}]
    assert along_axes([], ("p",), 2) == ()
