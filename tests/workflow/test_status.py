"""What `buran status` and `buran plan` say of a campaign that is under way, on a cluster and off it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from buran.campaign.plan import Bundle, Plan
from buran.campaign.records import RunRecord, Status
from buran.files import write_json
from buran.measurement.bundle import slots_of
from buran.measurement.schedulers.jobs import JobEvents
from buran.measurement.store import claims, store
from buran.workflow.engine.jobs import division_of
from buran.workflow.findings import Findings
from buran.workflow.history import History
from buran.workflow.plan import first_plan
from buran.workflow.session import Session, open_session
from buran.workflow.views.ahead import Ahead
from buran.workflow.views.summary import summarize
from workbench import Workbench

pytestmark = [pytest.mark.mpi]
EXPECTED_S = 36.0


@pytest.fixture(autouse=True)
def no_slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a Slurm whose queue is a file."""
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "squeue").write_text(f"#!/bin/sh\ncat {tmp_path}/queue 2>/dev/null\n")
    (folder / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def planned(workbench: Workbench, **resources: object) -> tuple[Session, Plan]:
    workbench.write(resources={"time_limit": 60, "expected_time": EXPECTED_S, **resources})
    session = open_session(workbench.file)
    write_json(session.layout.plan(session.id, 0), first_plan(session).to_json())
    return session, History.open(session).plans[0]


def in_queue(session: Session, folder: Path, *jobs: tuple[str, str, str]) -> None:
    """Put jobs into the queue: state, what for, reason."""
    lines = [
        f"{number}|{state}|buran_{name}|{reason}|{session.layout.root}"
        for number, (state, name, reason) in enumerate(jobs)
    ]
    (folder / "queue").write_text("".join(f"{line}\n" for line in lines))
    (session.layout.root / "logs" / "slurm").mkdir(parents=True)
    session.layout.waits.parent.mkdir(parents=True, exist_ok=True)
    session.layout.waits.write_text("7 10.0\n7 10.0\n8 20.0\n9 60.0\n")


def end(session: Session, bundle: Bundle, number: int, status: Status, reason: str | None) -> None:
    """Make up the end of one of a bundle's runs."""
    run, slot = slots_of(session.target, session.layout, bundle)[number]
    with store.reserve(slot) as folder:
        assert folder is not None
        RunRecord(
            status=status, reason=reason, cost_core_hours=1.0, build=run.build, target=session.target.id, mode=run.mode,
            point=bundle.point, repetition=run.repetition, clock="wall", cores=1,
        ).write(folder)  # fmt: skip
        (store.commit if status is Status.MEASURED else store.keep_failure)(slot, folder)


def test_before_anything_is_made_everything_is_missing(workbench: Workbench) -> None:
    session, plan = planned(workbench)
    state = summarize(History.open(session))
    assert state.runs == sum(row.missing for row in state.rows) == 12
    hours = sum(bundle.point["p"] for bundle in plan.bundles) * 3 * EXPECTED_S / 3600
    assert state.remaining_core_hours == pytest.approx(hours)
    assert state.claimed_core_hours == 0 and state.queue is None
    assert state.eta_s == pytest.approx(12 * EXPECTED_S), "here, one after the other"


def test_runs_are_told_apart_by_what_slurm_and_their_claims_say(workbench: Workbench, no_slurm: Path) -> None:
    session, plan = planned(workbench)
    first, second, third, fourth = plan.bundles
    in_queue(
        session,
        no_slurm,
        ("RUNNING", first.id, "n1"),
        ("PENDING", second.id, "(Priority)"),
        ("PENDING", third.id, "(Priority)"),
    )
    end(session, first, 0, Status.MEASURED, None)
    end(session, fourth, 0, Status.FAILED, "exit code 3")
    end(session, fourth, 1, Status.INTERRUPTED, "the job's time limit was reached")
    _, slot = slots_of(session.target, session.layout, first)[1]
    with claims.claimed(slot.claim):
        state = summarize(History.open(session))
    counts = {
        name: sum(getattr(row, name) for row in state.rows)
        for name in ("runs", "measured", "failed", "running", "queued", "missing")
    }
    assert counts == {"runs": 12, "measured": 1, "failed": 1, "running": 1, "queued": 7, "missing": 2}
    assert {(row.iteration, row.mode) for row in state.rows} == {(0, "vanilla"), (0, "time"), (0, "effort")}
    assert state.claimed_core_hours == pytest.approx(first.point["p"] * EXPECTED_S / 3600)
    assert state.queue is not None and (state.queue.running, state.queue.pending) == (1, 2)
    assert state.queue.reasons == {"Priority": 2}
    assert state.queue.median_wait_s == 20.0, "each job counts once"
    assert state.eta_s == pytest.approx(10 * EXPECTED_S + 4 * 20.0)
    (failure,), (interruption,) = state.failures, state.interruptions
    assert failure.reason == "exit code 3" and "time limit" in interruption.reason
    assert all((session.layout.root / each.log).parent.is_dir() for each in (failure, interruption))


def test_a_job_for_several_points_counts_for_all_of_them(workbench: Workbench, no_slurm: Path) -> None:
    session, plan = planned(workbench, points_per_job=2)
    (batch, (group,)), *_ = division_of(session, plan, in_arrays=False).batches.items()
    in_queue(session, no_slurm, ("PENDING", batch, "(Resources)"))
    state = summarize(History.open(session))
    assert sum(row.queued for row in state.rows) == 3 * len(group) == 6
    assert state.eta_s == pytest.approx(12 * EXPECTED_S + 2 * 20.0), "two jobs, one after the other"


def test_what_slurm_refused_is_said_until_the_campaign_is_done(workbench: Workbench, no_slurm: Path) -> None:
    session, _ = planned(workbench)
    in_queue(session, no_slurm)
    words = "Slurm refused a job: no such partition"
    JobEvents.of_engine(session.layout.engine_log).write(words, refused="no such partition")
    assert summarize(History.open(session)).problems == (words,)
    assert "no such partition" in workbench.buran("status", "campaign.yaml")


def test_a_claim_of_a_scheduler_that_is_not_known_here_is_said(workbench: Workbench) -> None:
    session, plan = planned(workbench)
    _, slot = slots_of(session.target, session.layout, plan.bundles[0])[0]
    slot.claim.parent.mkdir(parents=True)
    owner = {"host": "elsewhere", "pid": 1, "started": 1, "boot": "x", "nonce": "a", "scheduler": "moon", "job": "7"}
    slot.claim.write_text(json.dumps(owner))
    os.utime(slot.claim, (1, 1))
    state = summarize(History.open(session))
    assert sum(row.running for row in state.rows) == 1
    (problem,) = state.problems
    assert str(slot.claim.relative_to(session.layout.root)) in problem and "moon job 7" in problem


def test_an_unknown_run_time_gives_no_number(workbench: Workbench) -> None:
    session, _ = planned(workbench, expected_time=None)
    state = summarize(History.open(session))
    assert state.remaining_core_hours is None and state.eta_s is None
    found = summarize(History.open(session), Ahead.of(History.open(session))).next
    assert found is not None
    assert found.next_core_hours is None and "resources.expected_time" in found.source


@pytest.mark.slow
def test_an_estimate_uses_runs_even_of_an_earlier_version_of_the_file(copy: Workbench) -> None:
    parameters = {**copy.config["parameters"], "n": {"role": "size", "values": [20, 40, 60]}}
    before = open_session(copy.file)
    copy.write(parameters=parameters)
    found = json.loads(copy.buran("plan", "campaign.yaml", "--json"))["next"]
    assert "runs made" in found["source"]
    assert (found["points"], found["runs"]) == (2, 6), "what is measured costs nothing"
    assert 0 < found["next_core_hours"] < found["full_matrix_core_hours"]
    assert found["spent_core_hours"] > 0
    assert Findings.read(before.layout.findings(before.id, 0)).runtime is not None
