"""What Slurm says, as text; the real one is asked in tests/slurm."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.campaign.launcher import Placement
from buran.errors import ConfigError, ToolError
from buran.measurement.schedulers import jobs, slurm, slurm_words
from buran.measurement.schedulers.base import Allocation, Partition, mismatch, misplaced
from buran.measurement.schedulers.jobs import Job, JobRequest, JobState, NotSubmitted, Refusal, Submission
from buran.measurement.schedulers.slurm import SLURM
from buran.workflow.engine.controller import StuckJobs

LINE = (
    "JobId=12 JobName=a b=c UserId=u(1) GroupId=g(1) Priority=1 Account=(null) QOS=normal JobState=RUNNING "
    "Reason=None Requeue=0 Restarts=1 BatchFlag=1 RunTime=00:00:03 TimeLimit=1-00:02:00 TimeMin=N/A "
    "EndTime=2026-01-02T03:04:05 Partition=debug NodeList=n[1-2] BatchHost=n1 NumNodes=2 NumCPUs=4 NumTasks=4 "
    "CPUs/Task=1 ReqB:S:C:T=0:0:*:* OverSubscribe=NO Features=(null) Nodes=n1 CPU_IDs=0-1"
)


def an_allocation() -> Allocation:
    return slurm.allocation_of(slurm.parse_job(LINE))


def test_an_allocation_is_read() -> None:
    given = an_allocation()
    assert given.job == "12" and given.nodes == ("n1", "n2") and given.tasks == 4 and given.cpus == 4
    assert given.restarts == 1 and given.exclusive and given.account is None and given.qos == "normal"
    assert given.time_limit_s == 86520.0


@pytest.mark.parametrize(
    ("text", "nodes"),
    [
        ("", ()),
        ("login", ("login",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("n[08-10,12],gpu1", ("n08", "n09", "n10", "n12", "gpu1")),
        ("r[1-2]n[3,5]x", ("r1n3x", "r1n5x", "r2n3x", "r2n5x")),
    ],
)
def test_node_lists_are_written_out(text: str, nodes: tuple[str, ...]) -> None:
    assert jobs.expand_nodes(text) == nodes


@given(st.lists(st.integers(0, 9999), min_size=1, unique=True))
@settings(max_examples=50)
def test_any_list_of_numbers_is_written_out(numbers: list[int]) -> None:
    assert jobs.expand_nodes(f"n[{','.join(map(str, numbers))}]") == tuple(f"n{number}" for number in numbers)


@pytest.mark.parametrize(
    ("limit", "seconds"), [("00:01:00", 60.0), ("2-03:00:01", 183601.0), ("UNLIMITED", None), ("Partition_Limit", None)]
)
def test_time_limits_are_read(limit: str, seconds: float | None) -> None:
    assert slurm_words.seconds(limit) == seconds


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        (Placement(4, 1, 2), None),
        (Placement(4, 1, 1), "2 nodes instead of 1"),
        (Placement(2, 1, 2), "4 tasks instead of 2"),
        (Placement(4, 2, 2), "1 CPUs a task instead of 2, 4 CPUs instead of 8"),
    ],
)
def test_an_allocation_that_was_not_asked_for_is_named(wanted: Placement, complaint: str | None) -> None:
    found = mismatch(SLURM, an_allocation(), wanted, exact=True)
    assert found is None if complaint is None else complaint in str(found)


def test_ranks_on_another_number_of_nodes_are_named() -> None:
    assert misplaced(["n1", "n2", "n1"], Placement(3, 1, 2)) is None
    assert misplaced(["n1", "n1"], Placement(2, 1, 2)).endswith("1 nodes instead of 2: n1")


def test_the_task_that_failed_first_is_found(tmp_path: Path) -> None:
    log, first = tmp_path / "stderr.log", "n3: task 1: Exited with exit code 7"
    log.write_text(
        "slurmstepd-n3: error: *** STEP 5.2 ON n3 CANCELLED AT 2026-11-20T14:08:00 ***\n"
        "srun: error: n3: task 0: Terminated\nsrun: error: n4: tasks 2-3: Terminated\n"
        f"srun: error: {first}\nsrun: Force Terminated StepId=5.2\n"
    )
    assert SLURM.first_failure(log) == first
    oom = "Detected 1 oom-kill event(s) in StepId=7.0. Some of your processes may have been killed by the OOM handler."
    for line in (oom, "StepId=7.0 exceeded memory limit (1547304960 > 734003200), being killed"):
        log.write_text(f"slurmstepd: error: {line}\nsrun: error: n3: task 1: Out Of Memory\n")
        failure = str(SLURM.first_failure(log))
        assert failure.startswith(line) and failure.endswith("resources.memory_mb")
    log.write_text("anything else\n")
    assert SLURM.first_failure(log) is None


def test_a_users_own_job_may_be_larger_than_a_run_needs() -> None:
    assert mismatch(SLURM, an_allocation(), Placement(2, 1, 1), exact=False) is None
    assert "2 nodes instead of 3" in str(mismatch(SLURM, an_allocation(), Placement(3, 1, 3), exact=False))
    assert "4 CPUs instead of 8" in str(mismatch(SLURM, an_allocation(), Placement(8, 1, 2), exact=False))
    assert not an_allocation().is_for("0123")
    assert replace(an_allocation(), purpose="buran_0123").is_for("0123")


def test_the_end_of_a_jobs_time_is_known() -> None:
    given = an_allocation()
    assert given.left_s == given.time_limit_s - 3 and not given.time_is_over()
    assert not replace(given, left_s=None).time_is_over()
    assert replace(given, left_s=1.0).time_is_over()
    assert replace(given, queried_s=given.queried_s - given.left_s).time_is_over()


def test_the_end_of_a_jobs_time_does_not_depend_on_the_nodes_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    for skew in (-7200, 7200):
        monkeypatch.setattr(time, "time", lambda skew=skew: now + skew)
        assert not an_allocation().time_is_over()


def script(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for commands that stand in for Slurm's."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ("echo JobId=12 JobState=RUNNING Restarts=0", JobState.LIVE),
        ("echo JobId=12 JobState=PENDING Restarts=0", JobState.LIVE),
        ("echo JobId=12 JobState=RUNNING Restarts=1", JobState.LOST),
        ("echo JobId=12 JobState=NODE_FAIL Restarts=0", JobState.LOST),
        ("echo JobId=12 JobState=CANCELLED Restarts=0", JobState.ENDED),
        ("echo JobId=12 JobState=PREEMPTED Restarts=0", JobState.ENDED),
        ("echo JobId=12 JobState=DEADLINE Restarts=0", JobState.ENDED),
        ("echo JobId=12 JobState=BOOT_FAIL Restarts=0", JobState.LOST),
        ("echo JobId=12 JobState=REQUEUE_HOLD Restarts=0", JobState.LIVE),
        ("echo JobId=12 ArrayJobId=11 ArrayTaskId=3 JobState=RUNNING Restarts=0", JobState.LIVE),
        ("echo JobId=12 JobState=NEW_IN_SLURM_99 Restarts=0", JobState.UNKNOWN),
        ("echo 'Auftrag 12 laeuft'", JobState.UNKNOWN),
        ("exit 0", JobState.UNKNOWN),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", JobState.ENDED),
        ("echo 'Unable to contact slurm controller (connect failure)' >&2; exit 1", JobState.UNKNOWN),
    ],
)
def test_the_state_of_a_job(fake: Path, body: str, state: JobState) -> None:
    script(fake, "scontrol", body)
    assert SLURM.job_state("12", 0) is state


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("echo JobId=12 JobState=RUNNING Restarts=1", None),
        ("echo JobId=12 JobState=RUNNING Restarts=2", "Slurm ended its job 12 (RUNNING)"),
        ("echo JobId=12 JobState=NODE_FAIL Restarts=1", "Slurm ended its job 12 (NODE_FAIL)"),
        ("echo JobId=12 JobState=COMPLETING Restarts=1", "Slurm ended its job 12 (COMPLETING)"),
        ("exit 1", "Slurm did not report what became of its job 12"),
    ],
)
def test_a_failure_counts_only_while_the_job_goes_on(
    fake: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str | None
) -> None:
    monkeypatch.setattr(slurm, "_PATIENCE_S", 0.0)
    script(fake, "scontrol", body)
    assert SLURM.why_ended(an_allocation()) == why


def test_an_answer_is_waited_for(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slurm, "_ASK_AGAIN_S", 0.0)
    script(fake, "scontrol", f"mkdir {fake}/asked 2>/dev/null && exit 1\necho JobId=12 JobState=RUNNING Restarts=1")
    assert SLURM.why_ended(an_allocation()) is None
    assert (fake / "asked").is_dir()


def test_outages_are_noticed(fake: Path) -> None:
    script(fake, "scontrol", "echo BOOT_TIME = 1")
    one_since = slurm.SLURM.outages()
    assert [one_since(), one_since()] == [False, False]
    script(fake, "scontrol", "echo BOOT_TIME = 2")
    assert [one_since(), one_since()] == [True, False], "it was started anew"
    script(fake, "scontrol", "exit 1")
    assert [one_since(), one_since()] == [True, True], "nobody knows"


def test_a_launcher_that_had_to_wait_is_told_from_the_program(tmp_path: Path) -> None:
    log = tmp_path / "stderr.log"
    assert SLURM.launcher_waited(log) is None
    waits = "Job 5 step creation temporarily disabled, retrying (Requested nodes are busy)"
    log.write_text(f"srun: lua: hello\nsrun: {waits}\n")
    assert SLURM.launcher_waited(log) == waits
    log.write_text("the program says: srun: step creation temporarily disabled\nsrun: error: n1: task 0: Exited\n")
    assert SLURM.launcher_waited(log) is None


def test_a_missing_command_is_named_and_not_waited_for(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(fake))
    script(fake, "squeue", "exit 0")
    with pytest.raises(ToolError, match="scontrol") as error:
        SLURM.partition(None, None)
    assert "load its module" in str(error.value) and error.value.exit_code == 3


def test_a_campaigns_jobs_are_told_from_others(fake: Path) -> None:
    script(fake, "squeue", f"echo '1|RUNNING|buran_a|n1|{fake}'; echo '2|PENDING||(Priority)|/elsewhere'")
    assert SLURM.campaign_jobs(fake) == [Job("1", "RUNNING", "buran_a", "n1", waits=False)]
    script(fake, "squeue", "exit 1")
    assert SLURM.campaign_jobs(fake) is None


@pytest.mark.parametrize(
    ("kind", "answers", "used"),
    [
        ("accounting_storage/slurmdbd", "exit 0", True),
        ("accounting_storage/slurmdbd", "exit 1", False),
        ("accounting_storage/none", "exit 0", False),
        ("(null)", "exit 0", False),
    ],
)
def test_sacct_is_used_only_where_it_knows_something(fake: Path, kind: str, answers: str, used: bool) -> None:
    script(fake, "scontrol", f"echo 'AccountingStorageType   = {kind}'")
    script(fake, "sacct", answers)
    assert slurm.has_accounting() is used


def test_no_slurm_is_a_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ToolError, match="no Slurm"):
        SLURM.check_submission()


@pytest.mark.parametrize(
    ("why", "step"),
    [
        ("Invalid account or account/partition combination specified", "resources.account"),
        ("Invalid qos specification", "resources.qos"),
        ("Invalid feature specification", "resources.constraint"),
        ("Memory specification can not be satisfied", "resources.memory_mb"),
        ("Requested node configuration is not available", "resources.nodes"),
        ("Node count specification invalid", "resources.nodes"),
        ("Requested time limit is invalid (missing or exceeds some limit)", "resources.time_limit"),
        ("Requested reservation is invalid", "resources.reservation"),
        ("Invalid authentication credential", "clocks"),
        ("Something new", ""),
    ],
)
def test_refusals_come_with_the_next_step(why: str, step: str) -> None:
    found = slurm_words.next_step(why)
    assert step in found and bool(found) == bool(step)


def test_jobs_that_will_never_start_are_told_once() -> None:
    said: list[str] = []
    stuck = StuckJobs(SLURM, said.append)
    waiting = [Job(str(i), "PENDING", "", reason, waits=True) for i, reason in enumerate(("(Priority)", "(Resources)"))]
    stuck.look([*waiting, Job("9", "RUNNING", "", "n1", waits=False)])
    assert not said
    hopeless = [Job(str(i), "PENDING", "", "(PartitionTimeLimit)", waits=True) for i in range(3)]
    for _ in range(2):
        stuck.look([*waiting, *hopeless])
    (text,) = said
    assert "3 jobs" in text and "PartitionTimeLimit" in text and "resources.time_limit" in text


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 1000", "CANCELLED"),
        ("cancelled", "CANCELLED"),
        (" TIMEOUT ", "TIMEOUT"),
        ("", ""),
    ],
)
def test_states_are_one_word_in_whatever_form_they_come(text: str, state: str) -> None:
    assert jobs.state_in_full(text) == state


@pytest.mark.parametrize(
    ("reason", "key"),
    [
        ("AccountNotAllowed", "resources.account"),
        ("InvalidAccount", "resources.account"),
        ("QOSNotAllowed", "resources.qos"),
        ("InvalidQOS", "resources.qos"),
        ("MaxMemPerLimit", "resources.memory_mb"),
        ("QOSMaxMemoryPerJob", "resources.memory_mb"),
        ("AssocMaxMemPerJobLimit", "resources.memory_mb"),
        ("AssocMaxNodePerJobLimit", "resources.nodes"),
        ("QOSMaxNodePerJobLimit", "resources.nodes"),
        ("AssocMaxCpuPerJobLimit", "resources.nodes"),
        ("QOSMinCpuNotSatisfied", "resources.nodes"),
        ("QOSMinNode", "resources.nodes"),
        ("AssocMaxWallDurationPerJobLimit", "resources.time_limit"),
        ("QOSMaxWallDurationPerJobLimit", "resources.time_limit"),
        ("AssocGrpCPUMinutesLimit", "resources.account"),
        ("QOSGrpBillingMinutes", "resources.account"),
        ("PartitionTimeLimit", "resources.time_limit"),
        ("PartitionNodeLimit", "resources.nodes"),
        ("PartitionConfig", "resources.nodes"),
        ("PartitionInactive", "resources.partition"),
        ("BadConstraints", "resources.constraint"),
        ("ReservationDeleted", "resources.reservation"),
        ("JobHeldUser", "scontrol release"),
        ("JobHeldAdmin", "scontrol release"),
        ("launch failed requeued held", "scontrol release"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "sinfo -R"),
        ("DependencyNeverSatisfied", "resources.extra"),
        ("Priority", None),
        ("Resources", None),
        ("None", None),
        ("Licenses", None),
        ("BeginTime", None),
        ("JobArrayTaskLimit", None),
        ("AssocMaxJobsLimit", None),
        ("QOSMaxJobsPerUserLimit", None),
        ("QOSMaxCpuPerUserLimit", None),
        ("QOSMaxMemoryPerUser", None),
        ("AssocGrpCpuLimit", None),
        ("AssocGrpNodeLimit", None),
        ("QOSGrpMemLimit", None),
    ],
)
def test_reasons_that_waiting_does_not_cure_name_the_key(reason: str, key: str | None) -> None:
    step = slurm_words.step_to_start(reason)
    assert step is None if key is None else key in str(step)


@pytest.mark.parametrize(
    ("complaint", "passes"),
    [
        ("Unable to contact slurm controller (connect failure)", True),
        ("Batch job submission failed: Socket timed out on send/recv operation", True),
        ("Batch job submission failed: Resource temporarily unavailable", True),
        ("Slurm temporarily unable to accept job, sleeping and retrying", True),
        ("Batch job submission failed: Protocol authentication error", True),
        ("Munge encode failed: Failed to access /run/munge/munge.socket.2", True),
        ("Zero Bytes were transmitted or received", True),
        ("slurm_msg_sendto: address:port=127.0.0.1:6817 msg_type=4003: Unexpected missing socket error", True),
        ("Invalid account or account/partition combination specified", False),
        ("Invalid qos specification", False),
        ("Requested node configuration is not available", False),
        ("", False),
    ],
)
def test_complaints_that_pass_are_told_from_those_that_stay(complaint: str, passes: bool) -> None:
    assert (slurm_words.refusal_of(complaint) is not Refusal.FINAL) is passes


def test_a_queue_of_several_clusters_and_of_other_settings_is_read(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SQUEUE_FORMAT", "%i")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    script(
        fake,
        "squeue",
        f'test -z "$SQUEUE_FORMAT" && test $LC_ALL = C || exit 1\n'
        f"echo 'CLUSTER: one'; echo '7_3|RUNNING|buran_a|n1|{fake}'; echo; echo 'CLUSTER: two'\n"
        f"echo '8_[4-9]|PENDING|buran_a|(Priority)|{fake}'",
    )
    running, waiting = SLURM.campaign_jobs(fake) or ()
    assert (running.id, running.waits) == ("7_3", False)
    assert (waiting.id, waiting.state, waiting.waits) == ("8_[4-9]", "PENDING", True)


@pytest.mark.parametrize(
    ("queue", "accounts", "states"),
    [
        ("echo '7|RUNNING'", "echo 'sacct: error: Access denied' >&2; exit 1", {"7": "RUNNING"}),
        ("echo '7_3|RUNNING'; echo '7_4|CANCELLED'", "exit 1", {"7_3": "RUNNING", "7_4": "CANCELLED"}),
        ("echo '70|FAILED'; echo '7_30|FAILED'", "exit 1", {}),
        ("echo 'CLUSTER: one'; echo; echo 'CLUSTER: two'; echo '7|PENDING'", "exit 1", {"7": "PENDING"}),
        ("echo 'CLUSTER: one'", "exit 1", {}),
        ("exit 0", "echo '7|CANCELLED by 0'; echo '7_3|NODE_FAIL'", {"7": "CANCELLED", "7_3": "NODE_FAIL"}),
        ("exit 0", "echo '7|RUNNING'", {}),
        ("echo 'Die Warteschlange ist leer'", "exit 1", None),
        ("echo 'Die Warteschlange ist leer'", "echo '7|COMPLETED'", {"7": "COMPLETED"}),
        ("exit 1", "exit 1", None),
        ("exit 1", "exit 0", None),
    ],
)
def test_what_became_of_jobs_is_asked_of_the_queue_and_then_of_the_accounting(
    fake: Path, queue: str, accounts: str, states: dict[str, str] | None
) -> None:
    script(fake, "squeue", queue)
    script(fake, "sacct", accounts)
    reports = SLURM.reports(["7", "7_3", "7_4"])
    assert (None if reports is None else {job: report.state for job, report in reports.items()}) == states


def test_a_notice_instead_of_a_queue_is_no_empty_queue(fake: Path) -> None:
    script(fake, "squeue", "echo 'Wartung bis 12 Uhr'")
    assert SLURM.campaign_jobs(fake) is None
    script(fake, "squeue", "echo 'CLUSTER: one'")
    assert SLURM.campaign_jobs(fake) == []


def test_jobs_of_the_same_name_in_another_folder_are_not_ours(fake: Path) -> None:
    script(fake, "squeue", "echo '1|RUNNING|buran_abc|n1|/elsewhere'; echo '2|RUNNING|a|b|c|/elsewhere'")
    assert SLURM.campaign_jobs(fake) == []


@pytest.mark.parametrize("printed", ["12", "12;cluster", "Submitted to: one\n12;one"])
def test_the_number_of_a_job_is_read_with_and_without_a_cluster(fake: Path, printed: str) -> None:
    script(fake, "sbatch", f"printf '{printed}\\n'")
    request = JobRequest(1, 1, 1, 1, 5, None, None, None, None, None, None, False, None, None)
    assert SLURM.submit(fake, request, Submission("a", ("a",)), fake / "a.sh") == "12"
    script(fake, "sbatch", "echo 'Auftrag angenommen'")
    with pytest.raises(NotSubmitted) as refused:
        SLURM.submit(fake, request, Submission("a", ("a",)), fake / "a.sh")
    assert "Auftrag angenommen" in str(refused.value)


@pytest.mark.parametrize(
    "complaint",
    [
        "sbatch: Slurm temporarily unable to accept job, sleeping and retrying",
        "sbatch: Slurm job queue full, sleeping and retrying.",
    ],
)
def test_a_full_cluster_is_told_although_sbatch_tries_again_by_itself(
    fake: Path, monkeypatch: pytest.MonkeyPatch, complaint: str
) -> None:
    """By MaxJobCount; an array that is larger than that must become smaller."""
    monkeypatch.setattr(slurm, "_TIMEOUT_S", 0.5)
    script(fake, "sbatch", f"echo '{complaint}' >&2\nexec sleep 30")
    request = JobRequest(1, 1, 1, 1, 5, None, None, None, None, None, None, False, None, None)
    with pytest.raises(NotSubmitted, match="MaxJobCount") as refused:
        SLURM.submit(fake, request, Submission("a", ("a",)), fake / "a.sh")
    assert refused.value.refusal is Refusal.FULL


def test_a_wrong_configuration_is_named_at_once(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(fake, "squeue", "exit 1")
    monkeypatch.setenv("SLURM_CONF", str(fake / "nowhere.conf"))
    with pytest.raises(ToolError, match="no such file") as error:
        SLURM.check_submission()
    assert "SLURM_CONF" in str(error.value)


PARTITIONS = (
    "PartitionName=debug AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=YES MaxNodes=UNLIMITED "
    "MaxTime=1-00:00:00 State=UP TotalCPUs=24 TotalNodes=6 MaxMemPerNode=UNLIMITED\n"
    "PartitionName=fast AllowAccounts=mine,yours DenyQos=slow Default=NO MaxNodes=2 MaxTime=00:30:00 "
    "MaxMemPerNode=500\n"
)
NODES = "4|1:4:2|2000|(null)\n2|2:4:1|1000+|big,gpu\n"


def playing(fake: Path) -> None:
    (fake / "partitions").write_text(PARTITIONS)
    (fake / "nodes").write_text(NODES)
    script(
        fake,
        "scontrol",
        f"case $2 in partition) cat {fake}/partitions;; config) echo 'AccountingStorageType = x/slurmdbd';; esac",
    )
    script(fake, "sinfo", f"cat {fake}/nodes")
    script(fake, "sacct", "exit 0")
    script(fake, "sacctmgr", "echo 'mine|normal,slow'; echo 'other|normal'")


def test_a_partition_is_what_its_smallest_node_and_the_users_accounts_allow(fake: Path) -> None:
    playing(fake)
    usual = SLURM.partition(None, None)
    assert usual == Partition("debug", 6, 4, 8, 1000, 86400.0, ("mine", "other"), ("normal", "slow"))
    assert SLURM.partition("fast", "big&gpu") == Partition("fast", 2, 8, 8, 500, 1800.0, ("mine",), ("normal",))
    with pytest.raises(ConfigError, match="'slow'") as error:
        SLURM.partition("slow", None)
    assert "debug, fast" in error.value.hint
    with pytest.raises(ConfigError, match="partition debug"):
        SLURM.partition(None, "quick")


@pytest.mark.parametrize("silent", ["scontrol", "sinfo"])
def test_a_slurm_that_does_not_answer_has_no_empty_partition(fake: Path, silent: str) -> None:
    playing(fake)
    script(fake, silent, "echo 'Unable to contact slurm controller' >&2; exit 1")
    with pytest.raises(ToolError, match="not answer"):
        SLURM.partition(None, None)
