"""Partitions by ranks, and campaigns inside a job of the user: the scheduler is played."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from buran.campaign.mistakes import CampaignError, spelled
from buran.errors import RunError
from buran.files import write_json
from buran.measurement.bundle import meter_of
from buran.measurement.schedulers import slurm
from buran.measurement.schedulers.base import Allocation, Partition, Scheduler, spread
from buran.workflow.engine.jobs import (
    division_of,
    engine_resources,
    job_request,
    request_from,
    resource_names,
    together,
)
from buran.workflow.engine.partition import check_now, local_room, measured_in, measured_locally
from buran.workflow.measure import plan_in_force
from buran.workflow.plan import first_plan
from buran.workflow.session import open_session
from workbench import Workbench

pytestmark = [pytest.mark.mpi]
KINDS = {
    "small": Partition("small", nodes=2, cores_per_node=2, cpus_per_node=4, longest_s=600.0),
    "large": Partition("large", nodes=8, cores_per_node=4, cpus_per_node=4, longest_s=7200.0),
}
BY_RANKS = {
    "small": {"ranks": "1-2", "cores_per_node": 64},
    "large": {"ranks": "3-", "account": "b", "charge_factor": 1.5, "exclusive": True},
}
GIVEN = Allocation(
    **dict.fromkeys(("left_s", "time_limit_s", "waited_s", "account", "qos", "constraint")),
    **dict.fromkeys(("purpose", "node_list"), ""),
    job="7", restarts=0, nodes=("n1", "n2"), tasks=2, cpus=8, cpus_per_task=1, partition="small",
    queried_s=time.monotonic(), exclusive=True,
)  # fmt: skip


class Played(Scheduler):
    name = title = "played"

    def __init__(self, given: Allocation | None = None) -> None:
        self.given = given

    def partition(self, name: str | None, constraint: str | None) -> Partition | None:
        return KINDS[name or "small"]

    def allocation(self) -> Allocation | None:
        return self.given


def write(workbench: Workbench, **resources: Any) -> None:
    parameters = {"p": {"role": "ranks", "values": [1, 2, 4, 8]}, "n": {"role": "size", "values": [20, 40]}}
    workbench.write(parameters=parameters, resources={"time_limit": 60, **resources})


def test_each_point_has_the_nodes_and_options_of_its_partition(workbench: Workbench) -> None:
    write(workbench, partitions=BY_RANKS, qos="normal")
    session = measured_in(open_session(workbench.file), Played())
    assert session.partitions == KINDS and open_session(workbench.file).partitions == KINDS, "jobs know them too"
    campaign = session.campaign
    for point in campaign.points:
        partition = "small" if point["p"] <= 2 else "large"
        bundle = next(each for each in first_plan(session).bundles if each.point == point)
        request = job_request(session, bundle)
        assert (request.partition, request.account) == (partition, {"small": None, "large": "b"}[partition])
        assert request.nodes == -(-point["p"] // KINDS[partition].cores_per_node)
        named = engine_resources(request)
        assert request_from({name: named.get(name, "") for name in resource_names(session)}) == request, "by the engine"
    small, large = campaign.points[0], campaign.points[-1]
    assert (campaign.charged_cores(small), campaign.charged_cores(large)) == (4, 2 * 4 * 1.5)
    write(workbench, partition="large", qos="normal")
    alone = open_session(workbench.file)
    assert session.target.configuration(large) == alone.target.configuration(large), "the same run in the store"


def test_no_job_has_points_of_two_partitions(workbench: Workbench) -> None:
    write(workbench, partitions=BY_RANKS, points_per_job=20, tasks_per_node=1, nodes="p")
    session = measured_in(open_session(workbench.file), Played())
    write_json(session.layout.plan(session.id, 0), first_plan(session).to_json())
    plan = plan_in_force(session.layout, session.id, 0)
    bundles = {bundle.id: bundle for bundle in plan.bundles}
    batches = division_of(session, plan, in_arrays=False).batches.values()
    groups = [[bundles[name] for name in names] for (names,) in batches]
    assert groups, "points share jobs"
    for group in groups:
        (partition,) = {session.campaign.partition(bundle.point) for bundle in group}
        assert together(session, group).partition == partition


def test_points_are_compared_with_their_own_partition(workbench: Workbench) -> None:
    write(workbench, partitions=BY_RANKS, nodes=1)
    with pytest.raises(CampaignError, match=r"2 of 4 points .*large") as error:
        check_now(open_session(workbench.file).campaign, Played())
    assert spelled(error.value.mistakes[0].path) == "resources.nodes" and error.value.mistakes[0].line > 0


def test_what_a_job_holds_is_charged_by_its_partition(workbench: Workbench) -> None:
    write(workbench, partitions=BY_RANKS)
    target = open_session(workbench.file).target
    meters = [
        meter_of(target, replace(GIVEN, job=name, partition=name, cpus=8)) for name in ("small", "large", "other")
    ]
    assert [meter and meter.charged_cores for meter in meters] == [8, 12, 8]


@pytest.fixture
def in_job(monkeypatch: pytest.MonkeyPatch) -> Played:
    scheduler = Played(GIVEN)
    monkeypatch.setattr("buran.workflow.engine.partition.current_scheduler", lambda: scheduler)
    return scheduler


def test_inside_a_job_points_are_spread_over_its_nodes(workbench: Workbench, in_job: Played) -> None:
    workbench.write(parameters={"p": {"role": "ranks", "values": [1, 2, 4]}, "n": {"role": "size", "values": [20, 40]}})
    said: list[str] = []
    session = measured_locally(open_session(workbench.file), said.append)
    assert len(said) == 1 and "job 7: " in said[0] and "2 nodes of 2 cores" in said[0]
    assert [session.campaign.nodes({"p": ranks, "n": 20}) for ranks in (1, 2, 4)] == [1, 1, 2]
    assert open_session(workbench.file).campaign.nodes({"p": 4, "n": 20}) == 2, "what the engine starts knows it too"
    partitions, words = local_room(open_session(workbench.file).campaign)
    assert spread(session.campaign, partitions).nodes({"p": 4, "n": 20}) == 2 and words in said[0]


def test_what_does_not_fit_into_a_job_is_named(workbench: Workbench, in_job: Played) -> None:
    write(workbench)
    with pytest.raises(CampaignError, match="2 of 8 points") as error:
        measured_locally(open_session(workbench.file), print)
    assert "4 nodes, " in str(error.value) and "at most 2" in str(error.value)
    in_job.given = replace(GIVEN, cpus=4)  # half of each node
    write(workbench, partition="small")
    with pytest.raises(CampaignError, match="2 cores on each"):
        measured_locally(open_session(workbench.file), print)


@pytest.mark.parametrize(
    ("resources", "key"),
    [({"partition": "large"}, "resources.partition"), ({"partitions": BY_RANKS}, "resources.partitions.large")],
)
def test_points_of_another_partition_are_not_measured_in_a_job(
    workbench: Workbench, in_job: Played, resources: dict[str, Any], key: str
) -> None:
    write(workbench, **resources)
    with pytest.raises(CampaignError, match=r"partition small, .* large") as error:
        measured_locally(open_session(workbench.file), print)
    assert spelled(error.value.mistakes[0].path) == key


def test_outside_of_jobs_nothing_changes(workbench: Workbench, in_job: Played) -> None:
    in_job.given = None
    session = open_session(workbench.file)
    assert measured_locally(session, pytest.fail) is session and local_room(session.campaign) == ({}, "")


def test_a_variable_of_a_job_without_its_scheduler_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RunError, match="SLURM_JOB_ID=12") as error:
        slurm.SLURM.allocation()
    assert "SLURM_JOB_ID" in str(error.value)
