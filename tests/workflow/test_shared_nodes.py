"""Small runs side by side on a node: how jobs are cut, what is measured, and what is refused or said."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from buran.campaign.launcher import local_cores
from buran.campaign.load import load_campaign
from buran.campaign.plan import Bundle, Mode
from buran.errors import ConfigError
from buran.files import write_json
from buran.measurement.bundle import configuration
from buran.measurement.schedulers.base import Partition, spread
from buran.workflow.crowded import neighbours_ahead
from buran.workflow.engine.batches import division_of, together
from buran.workflow.engine.jobs import STARTUP_S, job_limit_s
from buran.workflow.plan import first_plan
from buran.workflow.session import Session, open_session
from buran.workflow.specs import plan_in_force
from workbench import Workbench

pytestmark = [pytest.mark.mpi]
PARTITION = Partition("debug", 4, 8, 16, 16_000, 86_400.0)
SIZES = {"n": {"role": "size", "values": [20, 30, 40, 50]}}


def session_on(workbench: Workbench, partition: Partition | None = PARTITION, **resources: Any) -> Session:
    parameters = {"p": {"role": "ranks", "values": [1, 2, 6, 16]}, "n": {"role": "size", "values": [20, 30, 40]}}
    workbench.write(parameters=parameters, resources={"time_limit": 900, "expected_time": 10, **resources})
    session = open_session(workbench.file)
    return session if partition is None else replace(session, campaign=spread(session.campaign, {None: partition}))


def groups_of(session: Session) -> list[list[Bundle]]:
    path = session.layout.plan(session.id, 0)
    write_json(path, first_plan(session).to_json())
    plan = plan_in_force(session.layout, session.id, 0)
    bundles = {bundle.id: bundle for bundle in plan.bundles}
    return [[bundles[name] for name in group] for group in division_of(session, plan, in_arrays=False).batches.values()]


def test_points_of_one_node_fill_it_whatever_their_shape(workbench: Workbench) -> None:
    session = session_on(workbench, share_nodes="all")
    groups = groups_of(session)
    held = [sum(bundle.point["p"] for bundle in group) for group in groups]
    assert all(bundle.point["p"] < 16 for group in groups for bundle in group), "two nodes are shared with nobody"
    assert sorted(held) == [3, 8, 8, 8], "the widest have those beside them that fill the node"
    group = max(groups, key=len)
    request, runs = together(session, group), len(group[0].runs)
    assert (request.nodes, request.tasks, request.cpus_per_task, request.exclusive) == (1, 8, 1, True)
    longest_s = max(job_limit_s(session, bundle) for bundle in group)
    assert longest_s <= 60 * request.minutes < longest_s + 60, f"{runs} runs of each at the same time"


def test_counts_alone_go_on_side_by_side_after_what_is_timed(workbench: Workbench) -> None:
    session = session_on(workbench, share_nodes="counts")
    group = max(groups_of(session), key=len)
    alone_s = sum(job_limit_s(session, bundle) - STARTUP_S for bundle in group)
    assert 60 * together(session, group).minutes > alone_s
    exclusive = session_on(workbench)
    small = exclusive.campaign.points[0]
    assert configuration(session.target, small) == configuration(exclusive.target, small), "counts are counts"
    assert session.campaign.charged_cores(small) == 16 and session.campaign.charged_cores(small, Mode.EFFORT) == 2


def test_times_beside_others_are_kept_apart_and_charged_their_part(workbench: Workbench) -> None:
    session, alone = session_on(workbench, share_nodes="all"), session_on(workbench)
    small, wide = session.campaign.points[0], session.campaign.points[-1]
    assert configuration(session.target, small) == {**configuration(alone.target, small), "shares_node": True}
    assert configuration(session.target, wide) == configuration(alone.target, wide), "two nodes of its own"
    assert [session.campaign.charged_cores(point) for point in (small, wide)] == [2.0, 32.0]
    assert [alone.campaign.charged_cores(point) for point in (small, wide)] == [16.0, 32.0]
    cost = session.campaign.minimum_core_hours([small], 3)
    assert cost == pytest.approx(3 * 10 * 2 / 3600)


def test_a_job_of_ten_minutes_holds_more_points_where_they_go_on_side_by_side(workbench: Workbench) -> None:
    def points(**keys: str) -> int:
        session = session_on(workbench, points_per_job="auto", expected_time="100 if p == 1 else 1000", **keys)
        return max((len([b for b in group if b.point["p"] == 1]) for group in groups_of(session)), default=1)

    assert points() == 1
    assert points(share_nodes="all") == 3


def test_memory_decides_how_many_fit(workbench: Workbench) -> None:
    session = session_on(workbench, share_nodes="all", memory_mb="6000 if p == 1 else 100")
    small = session.campaign.points[0]
    assert session.campaign.side_by_side(small) == 2
    (said,) = neighbours_ahead(session.campaign)
    assert "memory_mb lets fewer of them onto a node of 16000 MB" in said and "noisier" in said
    group = max(groups_of(session), key=len)
    assert together(session, group).memory_mb == sum(session.campaign.memory_mb(b.point) or 0 for b in group)
    assert neighbours_ahead(session_on(workbench).campaign) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"environments": {"here": {"launcher": "runjob -n {ranks} {command}"}}}, "a launcher that keeps runs apart"),
        ({"resources": {"share_nodes": "counts", "exclusive": False}}, "needs nodes without others"),
        ({"resources": {"share_nodes": "some"}}, "share_nodes"),
    ],
)
def test_what_cannot_go_on_side_by_side_is_refused(workbench: Workbench, changes: dict[str, Any], words: str) -> None:
    workbench.write(**{"resources": {"share_nodes": "all"}, **changes})
    with pytest.raises(ConfigError, match=words):
        load_campaign(workbench.file)


def records(workbench: Workbench) -> list[dict[str, Any]]:
    found = (workbench.results / "store").glob("*/*/*~*/rep-*/run.json")
    return [json.loads(path.read_text()) for path in found]


@pytest.mark.thorough
@pytest.mark.skipif(len(local_cores()) < 2, reason="one core: nothing goes on side by side")
@pytest.mark.parametrize("share", ["counts", "all"])
def test_a_campaign_is_measured_side_by_side_here(workbench: Workbench, share: str) -> None:
    resources = {"ranks": 1, "time_limit": 60}
    workbench.write(parameters=SIZES, resources={**resources, "share_nodes": share, "points_per_job": 4})
    workbench.buran("run", "campaign.yaml")
    beside = [record for record in records(workbench) if record.get("own_cores") == 1]
    assert len(records(workbench)) == 12
    assert {record["mode"] for record in beside} == ({"effort"} if share == "counts" else {"vanilla", "time", "effort"})
    assert len(beside) == (4 if share == "counts" else 12)
    for record in beside:
        assert "--bind-to none" in " ".join(record["argv"])
        assert all(len(place["cpus"].split(",")) == 1 for place in record.get("placement", []))
    report = (workbench.results / "latest" / "report.txt").read_text()
    assert ("beside others on their nodes" in report) == (share == "all")
    before = workbench.started()
    workbench.write(resources=resources)
    workbench.buran("run", "campaign.yaml")
    again = len(workbench.started()) - len(before)
    assert again == (0 if share == "counts" else 12), "times beside others are not mixed with others"
