"""Points that share a job, and campaigns that nothing is left to do for."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Plan
from buran.files import write_json
from buran.workflow.engine import jobs as engine_jobs
from buran.workflow.engine.jobs import STARTUP_S, batch_request, division_of, job_limit_s, job_request, together
from buran.workflow.engine.submitter import tasks_of
from buran.workflow.measure import jobs_in, plan_in_force
from buran.workflow.plan import first_plan
from buran.workflow.session import Session, open_session
from workbench import Workbench

pytestmark = [pytest.mark.mpi]


def planned(workbench: Workbench, points_per_job: int | str, expected_s: str | None = None) -> tuple[Session, Plan]:
    workbench.write(
        parameters={"p": {"role": "ranks", "values": [1, 2]}, "n": {"role": "size", "values": [20, 30, 40]}},
        resources={"time_limit": 900, "points_per_job": points_per_job, "expected_time": expected_s},
    )
    session = open_session(workbench.file)
    path = session.layout.plan(session.id, 0)
    if not path.is_file():
        write_json(path, first_plan(session).to_json())
    return session, plan_in_force(session.layout, session.id, 0)


def batches_of(session: Session, plan: Plan) -> dict[str, tuple[str, ...]]:
    """Bundles of each job that has several."""
    return {name: job for name, (job,) in division_of(session, plan, in_arrays=False).batches.items()}


def test_points_of_the_same_shape_share_a_job(workbench: Workbench) -> None:
    session, plan = planned(workbench, 2)
    ranks = {bundle.id: bundle.point["p"] for bundle in plan.bundles}
    shared = batches_of(session, plan)
    assert sorted(len(group) for group in shared.values()) == [2, 2], "a third point of each shape stays alone"
    assert all(len({ranks[bundle] for bundle in group}) == 1 for group in shared.values())
    assert batches_of(session, plan) == shared
    bundles = [bundle for bundle in plan.bundles if bundle.point["p"] == 2]
    request = together(session, bundles)
    assert (request.nodes, request.tasks) == (1, 2)
    assert 60 * request.minutes >= STARTUP_S + sum(job_limit_s(session, bundle) - STARTUP_S for bundle in bundles)
    assert 60 * request.minutes < sum(job_limit_s(session, bundle) for bundle in bundles), "it starts only once"


def test_what_is_measured_is_in_no_job(workbench: Workbench) -> None:
    session, plan = planned(workbench, 3)
    (batch, group), *_ = batches_of(session, plan).items()
    first, *rest = group
    session.layout.bundle_pointer(first).write_text("{}")
    assert batches_of(session, plan)[batch] == group, "decided once"
    left = [Bundle.read(session.layout.bundle_spec(each)) for each in rest]
    whole = [Bundle.read(session.layout.bundle_spec(each)) for each in group]
    assert batch_request(session, [whole]) == together(session, left) != job_request(session, left[0])
    again, plan = planned(workbench, 10)
    assert session.id == again.id, "how jobs are cut is no part of the question"
    assert not any(first in group for group in batches_of(again, plan).values())
    alone, plan = planned(workbench, 1)
    assert batches_of(alone, plan) == {}


def test_as_many_points_share_a_job_as_take_ten_minutes(workbench: Workbench) -> None:
    session, plan = planned(workbench, "auto", "n + 600 * (p - 1)")
    points = {bundle.id: bundle.point for bundle in plan.bundles}
    runs = len(plan.bundles[0].runs)
    (group,) = batches_of(session, plan).values()
    shared = [points[bundle] for bundle in group]
    assert {point["p"] for point in shared} == {1}, "others take ten minutes alone"
    assert len(shared) > 1 and sum(runs * float(point["n"]) for point in shared) <= 600
    unknown, plan = planned(workbench, "auto")
    assert batches_of(unknown, plan) == {}, "nothing is known of how long they take"


@pytest.mark.parametrize(("points_per_job", "jobs"), [(1, [2, 2]), (2, [2, 2])])
def test_very_many_jobs_are_one_for_the_engine(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch, points_per_job: int, jobs: list[int]
) -> None:
    monkeypatch.setattr(engine_jobs, "_MOST_JOBS", 3)
    monkeypatch.setattr(engine_jobs, "_LONGEST_ARRAY", 2)
    session, plan = planned(workbench, points_per_job, "n")
    layout = session.layout
    apart = batches_of(session, plan)
    division = division_of(session, plan, in_arrays=True)
    assert set(apart.values()) == {job for jobs in division.batches.values() for job in jobs if len(job) > 1}
    assert list(map(len, division.batches.values())) == jobs
    points = {bundle.id: bundle.point for bundle in plan.bundles}
    for batch, of_jobs in division.batches.items():
        assert jobs_in(layout, batch) == of_jobs
        assert len({points[bundle]["p"] for group in of_jobs for bundle in group}) == 1, "they ask for the same"
        by_id = {bundle.id: bundle for bundle in plan.bundles}
        requests = [together(session, [by_id[bundle] for bundle in group]) for group in of_jobs]
        longest = max(request.minutes for request in requests)
        asked = batch_request(session, [[by_id[bundle] for bundle in group] for group in of_jobs])
        assert asked == replace(requests[0], minutes=longest)
    waited_for = division.steps(plan)
    assert len(waited_for) == len(set(waited_for)) == len(division.batches) + (2 if points_per_job == 1 else 0)
    layout.bundle_pointer(plan.bundles[0].id).write_text("{}")
    (batch,) = (batch for batch, of_jobs in division.batches.items() if plan.bundles[0].id in str(of_jobs))
    left = tasks_of(layout.root, batch, together(session, plan.bundles[:1]))
    assert len(left) == (1 if points_per_job == 1 else 2) and not any(task.is_made() for task in left)
    of_one = (len(jobs) for jobs in division_of(session, plan, in_arrays=False).batches.values())
    assert set(of_one) <= {1}, "another executor takes each job for itself"


@pytest.mark.thorough
def test_one_failing_point_does_not_stop_the_others_of_its_job(workbench: Workbench) -> None:
    run = "bash -c 'test {n} != 20 || exit 3; exec {binary} {n}'"
    workbench.write(
        program={**workbench.config["program"], "run": run}, resources={"time_limit": 120, "points_per_job": 9}
    )
    workbench.buran("run", "campaign.yaml", expect=1)
    state = json.loads(workbench.buran("status", "campaign.yaml", "--json", expect=1))
    assert (state["measured"], state["failed"]) == (6, 6)
    assert {failure["reason"] for failure in state["failures"]} == {"exit code 3"}
    log = (workbench.results / "logs" / "snakemake.log").read_text()
    assert "measure_together" in log and "rule measure:" not in log
    assert len(Layout(workbench.results).made_pointers("jobs")) == 2
    before = workbench.started()
    assert "nothing is left" in workbench.buran("run", "campaign.yaml", expect=1)
    workbench.write(program={**workbench.config["program"], "run": run}, resources={"time_limit": 120})
    workbench.buran("run", "campaign.yaml", "--retry-failed", expect=1)
    assert len(workbench.started()) == len(before) + 6


@pytest.mark.thorough
def test_nothing_is_left_to_do_until_something_changes(copy: Workbench) -> None:
    words = "nothing is left to do"
    assert words in copy.buran("run", "campaign.yaml")
    report = (copy.results / "latest" / "report.txt").resolve()
    report.unlink()
    assert words not in copy.buran("run", "campaign.yaml")
    assert report.is_file()
    assert words in copy.buran("run", "campaign.yaml")
