"""The partition of a cluster against the points of a campaign; the scheduler is played."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from buran.campaign.records import Status, read_run
from buran.errors import ConfigError, ToolError
from buran.measurement.build import build
from buran.measurement.bundle import Meter, measure_bundle
from buran.measurement.schedulers.base import Allocation, Partition, Scheduler, answer_of
from buran.workflow.engine.jobs import job_request
from buran.workflow.engine.partition import check_now, measured_in
from buran.workflow.plan import first_plan
from buran.workflow.session import open_session
from workbench import Workbench

pytestmark = [pytest.mark.mpi]
SMALL = Partition(
    "small", nodes=4, cores_per_node=1, cpus_per_node=1, memory_mb=1000, longest_s=600.0, accounts=("mine",), qos=()
)


class Played(Scheduler):
    name = title = "played"

    def __init__(self, *answers: Partition | None) -> None:
        self.answers = list(answers)

    def partition(self, name: str | None, constraint: str | None) -> Partition | None:
        answer = self.answers.pop(0)
        if answer is None:
            raise ToolError("played does not answer")
        return answer


def test_runs_are_spread_once_and_ever_after(workbench: Workbench) -> None:
    with pytest.raises(ToolError, match="played"):
        measured_in(open_session(workbench.file), Played(None))
    session = measured_in(open_session(workbench.file), Played(SMALL))
    bundle = first_plan(session).bundles[-1]
    assert session.campaign.ranks(bundle.point) == 2 == job_request(session, bundle).nodes
    assert open_session(workbench.file).campaign.cores_of_node(bundle.point) == 1, "jobs know it too"
    larger = measured_in(open_session(workbench.file), Played(replace(SMALL, cores_per_node=8, nodes=9)))
    assert larger.campaign.cores_of_node(bundle.point) == 1 and larger.partitions == {None: replace(SMALL, nodes=9)}


def test_a_command_that_is_missing_is_named() -> None:
    with pytest.raises(ToolError) as error:
        answer_of(["no-such-command"], lambda command: None, "Played", "")
    assert "no-such-command" in error.value.line


def test_a_run_whose_launcher_had_to_wait_is_made_again(workbench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wall time of a run without hooks is that of its launcher."""
    session = open_session(workbench.file)
    waits = iter(["step creation temporarily disabled"])
    given = Allocation(
        **dict.fromkeys(("tasks", "cpus", "cpus_per_task"), 1),
        **dict.fromkeys(("left_s", "time_limit_s", "waited_s", "account", "qos", "constraint")),
        **dict.fromkeys(("partition", "purpose", "node_list"), ""),
        **{"job": "7", "restarts": 0, "nodes": ("n1",), "queried_s": time.monotonic(), "exclusive": True},
    )

    class Busy(Played):
        def allocation(self) -> Allocation:
            return given

        def launcher_waited(self, log: Path) -> str | None:
            return next(waits, None)

    monkeypatch.setattr("buran.measurement.bundle.current_scheduler", Busy)
    plan = first_plan(session)
    bundle = next(bundle for bundle in plan.bundles if bundle.point["p"] == 1)
    bundle = replace(bundle, runs=tuple(run for run in bundle.runs if run.mode == "vanilla")[:1])
    for spec in plan.builds:
        if spec.hash == bundle.runs[0].build:
            build(session.target, session.layout, spec)
    (run,) = measure_bundle(session.target, session.layout, bundle, None).runs
    assert run.status is Status.MEASURED
    (folder,) = session.layout.store.glob("*/*/*/failed/*")
    attempt = read_run(folder)
    assert attempt.status is Status.INTERRUPTED and attempt.reason is not None
    assert "step creation" in attempt.reason


def test_a_job_asks_for_no_more_time_than_the_partition_gives(workbench: Workbench) -> None:
    workbench.write(resources={"time_limit": 3600})
    session = open_session(workbench.file)
    bundle = first_plan(session).bundles[-1]
    assert job_request(session, bundle).minutes > 60
    assert job_request(measured_in(session, Played(SMALL)), bundle).minutes == 10


@pytest.mark.parametrize(
    ("resources", "partition", "key", "why"),
    [
        ({}, {"nodes": 1}, "nodes", "2 nodes, and a job has at most 1"),
        ({"nodes": 1}, {}, "nodes", "2 cores on each of 1 nodes, which have 1"),
        ({"threads": 4}, {}, "threads", "4 threads of a rank, and a node has 1 cores"),
        ({"memory_mb": "1000 * p"}, {}, "memory_mb", "2000 MB on a node, which has 1000"),
        ({"expected_time": "400 * p"}, {}, "expected_time", "800 s and 120 s to start, and a job has 600"),
        ({"account": "theirs"}, {}, "account", "yours there: mine"),
        ({"qos": "fast"}, {}, "qos", "yours there: none"),
    ],
)
def test_what_does_not_fit_is_named_before_anything_is_submitted(
    workbench: Workbench, resources: dict[str, object], partition: dict[str, int], key: str, why: str
) -> None:
    workbench.write(resources={"time_limit": 60, **resources})
    scheduler = Played(replace(SMALL, **partition), replace(SMALL, **partition))
    session = open_session(workbench.file)
    for compare in (lambda: check_now(session.campaign, scheduler), lambda: measured_in(session, scheduler)):
        with pytest.raises(ConfigError) as error:
            compare()
        assert f"key resources.{key}" in str(error.value) and why in str(error.value)


def test_what_is_expected_to_be_charged_is_whole_nodes(workbench: Workbench) -> None:
    wide = replace(SMALL, cores_per_node=4, cpus_per_node=8)
    for resources, budget, charged in (
        ({}, {}, 8),
        ({"nodes": "p"}, {}, 16),
        ({"exclusive": False}, {}, 2),
        ({}, {"charge": "program"}, 2),
    ):
        workbench.write(resources={"time_limit": 60, **resources}, budget=budget)
        session = open_session(workbench.file)
        point = session.campaign.points[-1]
        assert session.campaign.charged_cores(point) == session.campaign.cores(point) == 2, "no partition yet"
        campaign = check_now(session.campaign, Played(wide))
        assert campaign.charged_cores(point) == charged


def test_a_job_is_charged_from_its_start_to_the_end_of_its_last_run(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    meter = Meter(charged_cores=8, charged_until=90.0)
    assert meter.core_hours() == pytest.approx(8 * 10 / 3600)
    now = 130.0
    assert meter.core_hours() == pytest.approx(8 * 30 / 3600) and meter.core_hours() == 0.0
