"""PBS, Grid Engine, LSF and Flux: their commands are played by scripts that print what they are given.

What PBS and Grid Engine print here is like what OpenPBS 23.06 and Debian's Grid Engine 8.1.9 printed; what LSF and
Flux print was written after their manuals.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.errors import ConfigError, RunError, ToolError
from buran.measurement.schedulers.base import SCHEDULERS, Partition, current_scheduler
from buran.measurement.schedulers.jobs import Job, JobRequest, JobState, NotSubmitted, Refusal, Submission
from buran.plugins.schedulers import flux, grid_engine, lsf, pbs
from buran.plugins.schedulers.flux import FLUX
from buran.plugins.schedulers.grid_engine import GRID_ENGINE
from buran.plugins.schedulers.lsf import LSF
from buran.plugins.schedulers.pbs import PBS
from buran.plugins.schedulers.tabled import TabledScheduler, megabytes_of, seconds_of

REQUEST = JobRequest(
    nodes=1, tasks=2, cpus_per_task=1, ranks_per_node=2, minutes=5, tasks_per_node=None, memory_mb=None,
    partition=None, account=None, constraint=None, qos=None, exclusive=False, reservation=None, extra=None,
)  # fmt: skip
ALL: list[TabledScheduler] = [PBS, GRID_ENGINE, LSF, FLUX]
Play = Callable[..., None]


@pytest.fixture
def play(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Put a command on PATH that notes its arguments, prints, complains and ends."""
    folder = tmp_path / "commands"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{folder}")
    for variable in ("PBS_JOBID", "JOB_ID", "LSB_JOBID", "FLUX_ENCLOSING_ID", "SLURM_JOB_ID"):
        monkeypatch.delenv(variable, raising=False)

    def make(name: str, prints: str = "", complains: str = "", code: int = 0, when: str = "*") -> None:
        """Play a command, for arguments that fit a pattern; what was said last counts first."""
        path, number = folder / name, len(list(folder.glob(f"{name}.*")))
        (folder / f"{name}.{number}.out").write_text(prints)
        (folder / f"{name}.{number}.err").write_text(complains)
        answer = f"/bin/cat {folder}/{name}.{number}.out; /bin/cat {folder}/{name}.{number}.err >&2; exit {code}"
        before = path.read_text().partition("case")[2] if path.exists() else ' "$*" in\nesac\n'
        cases = before.partition("in\n")[2]
        words = "for word; do printf '%s\\0' \"$word\"; done"
        note = f"#!/bin/sh\n{{ {words}; echo; }} >> {folder}/{name}.said\n"
        path.write_text(f'{note}case "$*" in\n{when}) {answer};;\n{cases}')
        path.chmod(0o755)

    return make


def said(name: str) -> list[list[str]]:
    """Return the arguments of each call of a played command."""
    text = (Path(os.environ["PATH"].partition(os.pathsep)[0]) / f"{name}.said").read_text()
    return [line.split("\0")[:-1] for line in text.splitlines()]


# -- PBS ------------------------------------------------------------------------------------------------


def pbs_table(**jobs: dict[str, object]) -> str:
    """Return what ``qstat -f`` prints, with long lines as it breaks them."""
    text = ""
    for number, fields in jobs.items():
        text += f"Job Id: {number}\n"
        for key, value in fields.items():
            if key == "Variable_List" and isinstance(value, dict):
                variables = ",".join(f"{name}={word}" for name, word in value.items())
                text += f"    Variable_List = PBS_O_HOME=/root,A=b\\,c,\n\t{variables[:20]}\n\t{variables[20:]}\n"
            elif isinstance(value, dict):
                text += "".join(f"    {key}.{name} = {word}\n" for name, word in value.items())
            else:
                text += f"    {key} = {value}\n"
        text += "\n"
    return text


def pbs_job(folder: Path, **changes: object) -> dict[str, object]:
    job: dict[str, object] = {
        "Job_Name": "buran_abc",
        "job_state": "R",
        "queue": "workq",
        "substate": 42,
        "exec_host": "n1/0*2+n2/1",
        "comment": "Job run at Mon Nov 23 at 10:40 on (n1:ncpus=2)",
        "run_count": 1,
        "stime": time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(time.time() - 30)),
        "qtime": time.strftime("%a %b %d %H:%M:%S %Y", time.localtime(time.time() - 40)),
        "Resource_List": {"mpiprocs": 3, "ncpus": 3, "nodect": 2, "place": "scatter:excl", "walltime": "00:05:00"},
        "Variable_List": {"PBS_O_WORKDIR": str(folder)},
    }
    return {**job, **changes}


@pytest.mark.parametrize(
    ("fields", "state", "words"),
    [
        ({"job_state": "Q"}, "PENDING", ""),
        ({"job_state": "H"}, "PENDING", ""),
        ({"job_state": "E"}, "COMPLETING", ""),
        ({"job_state": "S"}, "SUSPENDED", ""),
        ({"job_state": "F", "Exit_status": 0, "substate": 92}, "COMPLETED", ""),
        ({"job_state": "X", "Exit_status": 0}, "COMPLETED", ""),
        ({"job_state": "F", "Exit_status": 3, "substate": 93}, "FAILED", "exit code 3"),
        ({"job_state": "F", "Exit_status": -29, "substate": 93}, "TIMEOUT", "ran out of time"),
        ({"job_state": "F", "Exit_status": -27, "substate": 93}, "OUT_OF_MEMORY", "resources.memory_mb"),
        ({"job_state": "F", "Exit_status": 0, "substate": 91}, "CANCELLED", "was cancelled"),
        ({"job_state": "F", "Exit_status": 271, "substate": 91}, "CANCELLED", "was cancelled"),
        ({"job_state": "F", "substate": 91}, "CANCELLED", "was cancelled"),
        ({"job_state": "F", "Exit_status": -1, "substate": 93}, "NODE_FAIL", "lost its node"),
    ],
)
def test_states_of_pbs_have_their_words(fields: dict[str, object], state: str, words: str, tmp_path: Path) -> None:
    row = pbs.PbsJob.from_json("1.pbsnode", pbs_job(tmp_path, **fields)).row
    assert row.state == state and words in row.report.words
    assert row.report.may_resume is (state in ("TIMEOUT", "NODE_FAIL"))


def test_jobs_of_pbs_are_asked_about_at_once_with_their_arrays(play: Play, tmp_path: Path) -> None:
    tasks = {f"3[{task}].pbsnode": pbs_job(tmp_path, job_state="X", Exit_status=task) for task in range(3)}
    play(
        "qstat", pbs_table(**{"3[].pbsnode": pbs_job(tmp_path, job_state="B"), **tasks, "5.pbsnode": pbs_job(tmp_path)})
    )
    reports = PBS.reports(["3[0].pbsnode", "3[2].pbsnode", "5.pbsnode.domain.org"])
    assert reports is not None and list(reports) == ["3[0].pbsnode", "3[2].pbsnode", "5.pbsnode"]
    assert reports["3[0].pbsnode"].succeeded and reports["3[2].pbsnode"].words == "failed (exit code 2)"
    assert said("qstat") == [["-x", "-t", "-f", "3[].pbsnode", "5.pbsnode.domain.org"]]


def test_without_history_a_job_that_pbs_does_not_know_has_ended(play: Play, tmp_path: Path) -> None:
    no_history = "qstat: PBS is not configured to maintain job history 5.pbsnode\n"
    play("qstat", pbs_table(), "qstat: Unknown Job Id 5.pbsnode\n", 153)
    play("qstat", "", no_history, when="-x*")
    assert PBS.reports(["5.pbsnode"]) == {} and PBS.job_state("5.pbsnode", 0) is JobState.ENDED
    logs = tmp_path / "logs" / "pbs"
    logs.mkdir(parents=True)
    assert not PBS.forgotten("5.pbsnode", tmp_path).may_resume, "what was cancelled is not measured again unasked"
    (logs / "5.pbsnode.OU").write_text("=>> PBS: job killed: walltime 10 exceeded limit 5\n")
    (logs / "7[1].pbsnode.OU").write_text("=>> PBS: job killed: mem 10kb exceeded limit 5kb\n")
    assert PBS.forgotten("5.pbsnode", tmp_path).state == "TIMEOUT" and PBS.forgotten("5.pbsnode", tmp_path).may_resume
    assert PBS.forgotten("7[1].pbsnode", tmp_path).state == "OUT_OF_MEMORY"


@pytest.mark.parametrize(
    ("prints", "complains", "code"),
    [
        ("", "qstat: cannot connect to server pbsnode (errno=15010)", 255),
        ("", "", 0),
        ("Keine Verbindung", "", 0),
    ],
)
def test_no_answer_of_pbs_is_not_an_empty_queue(play: Play, prints: str, complains: str, code: int) -> None:
    play("qselect", "5.pbsnode\n")
    play("qstat", prints, complains, code)
    assert PBS.reports(["5.pbsnode"]) is None and PBS.campaign_jobs(Path()) is None
    assert PBS.job_state("5.pbsnode", 0) is JobState.UNKNOWN


def test_what_pbs_does_not_escape_is_read_all_the_same() -> None:
    assert pbs.section('{"Queue":{"a":{"comment":"b\\c\x01"}}}', "Queue") == {"a": {"comment": "b\\c\x01"}}
    text = "Job Id: 1.s\n    Job_Name = a\n    Variable_List = A=b\\\\c\\,d,\n\tPBS_O_WORKDIR=/x/\n\ty z\n"
    assert pbs.jobs_in(text) == {"1.s": {"Job_Name": "a", "Variable_List": {"A": "b\\c,d", "PBS_O_WORKDIR": "/x/y z"}}}


def test_jobs_of_others_with_the_same_name_are_not_the_campaigns(play: Play, tmp_path: Path) -> None:
    play("qselect", "1.s\n2.s\n3.s\n")
    elsewhere = pbs_job(tmp_path / "other")
    mine = pbs_job(tmp_path, job_state="Q", comment="Not Running: No available resources on nodes")
    play("qstat", pbs_table(**{"1.s": elsewhere, "2.s": mine, "3.s": pbs_job(tmp_path, Job_Name="STDIN")}))
    assert PBS.campaign_jobs(tmp_path) == [Job("2.s", "PENDING", "buran_abc", str(mine["comment"]), waits=True)]


def test_a_job_of_pbs_knows_what_it_was_given(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PBS_JOBID", "3[1].pbsnode")
    monkeypatch.setenv("PBS_ARRAY_INDEX", "1")
    play("qstat", pbs_table(**{"3[1].pbsnode": pbs_job(tmp_path, run_count=2)}))
    nodes = {name: {"resources_available": {"ncpus": 4}} for name in ("n1", "n2")}
    play("pbsnodes", json.dumps({"nodes": nodes}))
    assert current_scheduler() is PBS and PBS.array_task() == 1
    given_to = PBS.allocation()
    assert given_to is not None and given_to.nodes == ("n1", "n2") and given_to.tasks == 3 and given_to.restarts == 1
    assert given_to.cpus == 8 and given_to.exclusive, "whole nodes are charged whole"
    assert given_to.left_s is not None and 200 < given_to.left_s < 275 and given_to.time_limit_s == 300.0
    assert given_to.waited_s is not None and 5 < given_to.waited_s < 15
    assert PBS.why_ended(given_to) is None
    play("qstat", pbs_table(**{"3[1].pbsnode": pbs_job(tmp_path, job_state="E")}))
    assert "COMPLETING" in str(PBS.why_ended(given_to))


def test_pbs_is_asked_for_chunks_and_all_that_the_file_says(play: Play, tmp_path: Path) -> None:
    play("qsub", "warning of the site\n12[].pbsnode\n")
    request = replace(
        REQUEST, nodes=2, tasks=3, ranks_per_node=2, cpus_per_task=4, memory_mb=500, partition="long", account="a",
        constraint="arch=linux", qos="high", exclusive=True, extra="-m n",
    )  # fmt: skip
    number = PBS.submit(tmp_path, request, Submission("abc", ("x", "y")), tmp_path / "job.sh")
    assert number == "12[].pbsnode" and PBS.task_numbers(number, 2) == ["12[0].pbsnode", "12[1].pbsnode"]
    words = " ".join(said("qsub")[0])
    part = "mpiprocs={}:ompthreads=4:mem=500mb:arch=linux"
    assert f"-l select=1:ncpus=8:{part.format(2)}+1:ncpus=4:{part.format(1)} -l place=scatter:excl" in words
    assert "-N buran_abc -j oe -o logs/pbs/ -q long -A a -J 0-1 " in words and "-l qos=high -m n" in words
    assert "-l walltime=300" in words and words.endswith("/job.sh") and "-r n" not in words
    PBS.submit(tmp_path, REQUEST, Submission("x", ("x",)), tmp_path / "job.sh")
    assert "-r n -l select=1:ncpus=2:mpiprocs=2 -l place=pack -l walltime=300" in " ".join(said("qsub")[1])
    with pytest.raises(NotSubmitted, match=r"resources\.partition"):
        PBS.submit(tmp_path, replace(REQUEST, partition="a", reservation="R1"), Submission("x", ("x",)), Path("x"))


PBS_QUEUES = {"workq": {"resources_max": {"walltime": "01:00:00", "nodect": 3}}, "other": {}}
PBS_NODES = {
    "n1": {"state": "free", "resources_available": {"ncpus": 8, "mem": "1024kb", "arch": "linux"}},
    "n2": {"state": "job-busy", "resources_available": {"ncpus": 4, "mem": "8gb", "arch": "linux,x86"}},
    "n3": {"state": "offline,down", "resources_available": {"ncpus": 2, "mem": "8gb"}},
    "n4": {"state": "free", "queue": "other", "resources_available": {"ncpus": 1}},
}


def test_a_queue_of_pbs_is_a_partition(play: Play) -> None:
    play("qstat", json.dumps({"Queue": PBS_QUEUES}))
    play("qstat", json.dumps({"Server": {"s": {"default_queue": "workq", "max_array_size": 7}}}), when="-B*")
    play("pbsnodes", json.dumps({"nodes": PBS_NODES}))
    assert PBS.partition(None, None) == Partition("workq", 2, 4, 4, 1, 3600.0) and PBS.largest_array() == 7
    assert PBS.partition("workq", "arch=x86") == Partition("workq", 1, 4, 4, 8192, 3600.0)
    with pytest.raises(ConfigError, match="no queue 'fast'"):
        PBS.partition("fast", None)
    with pytest.raises(ConfigError, match="no node"):
        PBS.partition("workq", "arch=arm")
    play("pbsnodes", "", "cannot connect", 1)
    with pytest.raises(ToolError, match="does not answer"):
        PBS.partition(None, None)


def test_a_route_of_pbs_has_the_nodes_of_its_ends(play: Play) -> None:
    route = {"queue_type": "Route", "resources_max": {"walltime": "50:00:00"}}
    queues = {
        "front": {**route, "route_destinations": "small,inner@pbs"},
        "inner": {**route, "route_destinations": "large, front,gone"},
        "small": {"queue_type": "Execution", "resources_max": {"walltime": "1:00:00", "nodect": 2}},
        "large": {"queue_type": "Execution"},
        "other": {"queue_type": "Execution"},
        "abroad": {**route, "route_destinations": "q@elsewhere"},
    }
    of = {"s1": "small", "s2": "small", "s3": "small", "l1": "large", "o1": "other", "o2": "other"}
    cpus = {"l1": 8, "o1": 2}
    nodes = {
        name: {"state": "free", "queue": queue, "resources_available": {"ncpus": cpus.get(name, 4)}}
        for name, queue in of.items()
    }
    play("qstat", json.dumps({"Queue": queues}))
    play("qstat", json.dumps({"Server": {"s": {"default_queue": "front"}}}), when="-B*")
    play("pbsnodes", json.dumps({"nodes": nodes}))
    assert PBS.partition(None, None) == Partition("front", 2, 4, 4, None, 180_000.0)
    assert PBS.partition("small", None) == Partition("small", 2, 4, 4, None, 3600.0)
    assert PBS.partition("other", None) == Partition("other", 2, 2, 2, None, None)
    nodes["anyone"] = {"state": "free", "resources_available": {"ncpus": 16}}
    play("pbsnodes", json.dumps({"nodes": nodes}))
    assert PBS.partition("large", None) == Partition("large", 2, 8, 8, None, None)
    with pytest.raises(ConfigError, match="route") as refused:
        PBS.partition("abroad", None)
    assert refused.value.hint == "choose one of: small, large, other"


# -- Grid Engine ----------------------------------------------------------------------------------------


def ge_jobs(*jobs: tuple[str, str, str, str]) -> str:
    """Return what ``qstat -xml`` prints, of numbers, tasks, states and names."""
    rows = "".join(
        f"<job_list><JB_job_number>{number}</JB_job_number><JB_name>{name}</JB_name><state>{state}</state>"
        f"<queue_name>{'all.q@vm' if 'r' in state else ''}</queue_name><slots>2</slots>"
        f"{f'<tasks>{task}</tasks>' if task else ''}</job_list>"
        for number, task, state, name in jobs
    )
    return f"<?xml version='1.0'?>\n<job_info><queue_info>{rows}</queue_info><job_info></job_info></job_info>"


def ge_end(number: int, task: str, failed: str, code: int) -> str:
    return (
        f"{'=' * 62}\nqname        all.q\njobname      buran_x\njobnumber    {number}\ntaskid       {task}\n"
        f"qsub_time    Mon Nov 23 10:38:11 2026\nfailed       {failed}\nexit_status  {code}\n"
    )


def test_jobs_of_grid_engine_are_in_the_queue_or_in_the_accounting(play: Play) -> None:
    play(
        "qstat", ge_jobs(("10", "1", "r", "n"), ("10", "3", "hqw", "n"), ("11", "", "Eqw", "n"), ("12", "", "dr", "n"))
    )
    play("qacct", "", "error: job id 99 not found\n", 1)
    ended = ge_end(10, "2", "0", 3) + ge_end(10, "4", "37  : qmaster enforced h_rt", 137) + ge_end(10, "5", "0", 0)
    play("qacct", ended + ge_end(10, "6", "100 : assumedly after job", 137), when="-j?10")
    rows = GRID_ENGINE.rows([*(f"10.{task}" for task in range(1, 7)), "11", "12", "99"])
    assert rows is not None and [row.state for row in rows] == [
        *("RUNNING", "FAILED", "PENDING", "TIMEOUT", "COMPLETED", "CANCELLED", "PENDING", "COMPLETING"),
    ]
    assert [row.task for row in rows] == [0, 1, 2, 3, 4, 5, None, None]
    assert GRID_ENGINE.job_state("99", 0) is JobState.ENDED
    held, broken = (Job("1", "PENDING", "", reason, waits=True) for reason in ("held", "error"))
    assert "qrls" in str(GRID_ENGINE.never_starts(held)) and "qmod -cj" in str(GRID_ENGINE.never_starts(broken))
    assert not GRID_ENGINE.forgotten("99", Path()).may_resume


def test_a_job_that_grid_engine_started_anew_is_lost_to_whoever_had_it(play: Play) -> None:
    play("qstat", ge_jobs(("10", "", "Rr", "n")))
    assert GRID_ENGINE.restarts("10") == 1
    assert GRID_ENGINE.job_state("10", 0) is JobState.LOST and GRID_ENGINE.job_state("10", 1) is JobState.LIVE


@pytest.mark.parametrize(("prints", "code"), [("", 1), ("", 0), ("<job_info>", 0), ("error: commlib error", 0)])
def test_no_answer_of_grid_engine_is_not_an_empty_queue(play: Play, prints: str, code: int) -> None:
    play("qstat", prints, "", code)
    assert GRID_ENGINE.reports(["1"]) is None and GRID_ENGINE.campaign_jobs(Path()) is None


ENVIRONMENTS = {"two": "2", "smp": "$pe_slots", "mpi4": "4", "fill": "$fill_up"}
"""Of them the first is in no queue's list, so that a job which asks for it would wait for ever."""


def ge_site(play: Play, complexes: str = "") -> None:
    play("qsub", "12.1-2:1\n")
    play("qconf", "", "denied", 1)
    play("qconf", "\n".join(ENVIRONMENTS), when="-spl")
    for name, rule in ENVIRONMENTS.items():
        play("qconf", f"pe_name {name}\nallocation_rule    {rule}\n", when=f"-sp?{name}")
    play("qconf", "all.q\n", when="-sql")
    play("qconf", "qname all.q\npe_list               smp mpi4\nh_rt                  2:00:00\n", when="-sq?all.q")
    play("qconf", f"arch a RESTRING == YES NO NONE 0\n{complexes}", when="-sc")
    play("qconf", "max_aj_tasks                 75000\n", when="-sconf")


def test_grid_engine_is_asked_for_slots_that_are_spread_as_wanted(play: Play, tmp_path: Path) -> None:
    ge_site(play, "exclusive excl BOOL EXCL YES YES 0 1000\n")
    request = replace(
        REQUEST, partition="all.q", account="p", memory_mb=500, constraint="arch=lx-amd64", exclusive=True
    )
    number = GRID_ENGINE.submit(tmp_path, request, Submission("abc", ("x", "y")), tmp_path / "job.sh")
    assert number == "12" and GRID_ENGINE.task_numbers(number, 2) == ["12.1", "12.2"]
    words = " ".join(said("qsub")[0])
    for part in (
        "-t 1-2 -q all.q -P p",
        "-pe smp 2",
        "-l h_rt=300 -l mem_free=500M -l arch=lx-amd64 -l exclusive=true",
    ):
        assert part in words
    assert f"-wd {tmp_path} " in words and "-o logs/grid-engine/$JOB_ID.$TASK_ID.log" in words
    name = said("qsub")[0][said("qsub")[0].index("-N") + 1]
    play("qstat", ge_jobs(("7", "", "qw", name), ("8", "", "qw", "buran_abc"), ("9", "", "qw", name.replace("_", "x"))))
    assert [job.id for job in GRID_ENGINE.campaign_jobs(tmp_path) or ()] == ["7"], "names tell the folder"
    assert GRID_ENGINE.campaign_jobs(tmp_path / "other") == [] and GRID_ENGINE.largest_array() == 75000
    two = replace(REQUEST, nodes=2, tasks=4, cpus_per_task=2, ranks_per_node=2)
    GRID_ENGINE.submit(tmp_path, two, Submission("x", ("x",)), Path("job.sh"))
    assert "-pe mpi4 8" in " ".join(said("qsub")[1])
    GRID_ENGINE.submit(tmp_path, replace(REQUEST, tasks=1, ranks_per_node=1), Submission("x", ("x",)), Path("job.sh"))
    assert "-pe" not in said("qsub")[2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"exclusive": True}, "resources.exclusive: false"),
        ({"nodes": 2, "tasks": 3}, "no parallel environment puts 2 slots on each of 2 nodes"),
        ({"qos": "high"}, "resources.qos"),
    ],
)
def test_what_grid_engine_cannot_give_is_refused_in_words(
    play: Play, tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    ge_site(play)
    with pytest.raises(NotSubmitted, match=words) as refused:
        GRID_ENGINE.submit(tmp_path, replace(REQUEST, **changes), Submission("x", ("x",)), Path("job.sh"))  # type: ignore[arg-type]
    assert refused.value.refusal is Refusal.FINAL


def test_a_job_of_grid_engine_knows_what_it_was_given(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("n1 4 all.q@n1 UNDEFINED\nn2 4 all.q@n2 UNDEFINED\n")
    for name, value in {"JOB_ID": "5", "SGE_TASK_ID": "2", "PE_HOSTFILE": str(hosts), "BURAN_TASKS": "4"}.items():
        monkeypatch.setenv(name, value)
    now = int(time.time())
    started = f"<JAT_task_number>2</JAT_task_number><JAT_start_time>{now - 30}</JAT_start_time>"
    limit = "<CE_name>h_rt</CE_name><CE_doubleval>300.0</CE_doubleval><CE_relop>0</CE_relop>"
    whole = "<CE_name>exclusive</CE_name><CE_relop>7</CE_relop>"
    asked = "".join(f"<qstat_l_requests>{item}</qstat_l_requests>" for item in (limit, whole))
    shown = f"<d><JB_submission_time>{now - 40}</JB_submission_time>{asked}<ulong_sublist>{started}</ulong_sublist></d>"
    play("qstat", ge_jobs(("5", "2", "r", "buran_f_abc")))
    play("qstat", shown, when="-j*")
    play("qhost", "<q><host name='n1'><hostvalue name='num_proc'>16</hostvalue></host></q>")
    assert current_scheduler() is GRID_ENGINE and GRID_ENGINE.array_task() == 1
    given_to = GRID_ENGINE.allocation()
    assert given_to is not None and given_to.nodes == ("n1", "n2") and (given_to.tasks, given_to.cpus) == (4, 16)
    assert given_to.waited_s == 10.0 and given_to.time_limit_s == 300.0 and given_to.exclusive
    assert given_to.left_s is not None and 200 < given_to.left_s < 275 and given_to.is_for("abc")


def test_queues_of_grid_engine_are_partitions(play: Play) -> None:
    ge_site(play)
    queues = "".join(
        f"<Queue-List><name>{name}</name><slots_total>{slots}</slots_total><state>{state}</state></Queue-List>"
        for name, slots, state in (
            ("all.q@n1", 8, ""),
            ("all.q@n2", 4, ""),
            ("all.q@n3", 1, "au"),
            ("big.q@n1", 16, ""),
        )
    )
    play("qstat", f"<job_info><queue_info>{queues}</queue_info></job_info>")
    play("qhost", "<qhost><host name='n1'><hostvalue name='mem_total'>23.5G</hostvalue></host></qhost>")
    assert GRID_ENGINE.partition("all.q", None) == Partition("all.q", 2, 4, 4, 24064, 7200.0)
    assert GRID_ENGINE.partition(None, None) == Partition("any", 2, 4, 4, 24064, None)
    with pytest.raises(ConfigError, match="no queue 'fast'"):
        GRID_ENGINE.partition("fast", None)


# -- LSF ------------------------------------------------------------------------------------------------


def lsf_table(*records: dict[str, str]) -> str:
    return "Cannot connect to LSF. Please wait ...\n" + json.dumps(
        {"COMMAND": "bjobs", "JOBS": len(records), "RECORDS": list(records)}
    )


def lsf_job(folder: Path, **changes: str) -> dict[str, str]:
    job = {
        "JOBID": "123", "JOBINDEX": "0", "STAT": "RUN", "JOB_NAME": "buran_abc", "SUB_CWD": str(folder),
        "PEND_REASON": "", "EXIT_CODE": "", "EXIT_REASON": "",
        "RUN_TIME": "30 second(s)", "RUNTIMELIMIT": "5.0", "EXEC_HOST": "4*n1:n2",
        "QUEUE": "normal", "PROJ_NAME": "default", "PEND_TIME": "10",
    }  # fmt: skip
    return {**job, **changes}


@pytest.mark.parametrize(
    ("stat", "reason", "state"),
    [
        ("PEND", "", "PENDING"),
        ("PSUSP", "", "PENDING"),
        ("SSUSP", "", "SUSPENDED"),
        ("UNKWN", "", ""),
        ("DONE", "", "COMPLETED"),
        ("EXIT", "", "FAILED"),
        ("EXIT", "TERM_RUNLIMIT: job killed after reaching LSF run time limit", "TIMEOUT"),
        ("EXIT", "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit", "OUT_OF_MEMORY"),
        ("EXIT", "TERM_OWNER: job killed by owner", "CANCELLED"),
        ("EXIT", "TERM_PREEMPT: job killed after preemption", "PREEMPTED"),
    ],
)
def test_states_of_lsf(stat: str, reason: str, state: str, tmp_path: Path) -> None:
    row = lsf.row_of(lsf_job(tmp_path, STAT=stat, EXIT_REASON=reason, EXIT_CODE="130" if stat == "EXIT" else ""))
    assert row.state == state and row.is_over is (stat in ("DONE", "EXIT"))


def test_numbers_of_lsf_are_cut_rightly(play: Play, tmp_path: Path) -> None:
    play("bsub", "Der Auftrag <123> wurde an die Warteschlange <normal4> übergeben.\n")
    request = replace(
        REQUEST, nodes=2, tasks=4, cpus_per_task=3, memory_mb=500, partition="normal", account="p", qos="s"
    )
    number = LSF.submit(tmp_path, request, Submission("abc", ("x", "y")), tmp_path / "job.sh")
    assert number == "123" and LSF.task_numbers(number, 2) == ["123[1]", "123[2]"]
    words = said("bsub")[0]
    assert words[words.index("-R") + 1] == "span[ptile=2] affinity[core(3)] rusage[mem=500MB/host]"
    assert "-J buran_abc[1-2]" in " ".join(words) and "-q normal -P p -sla s" in " ".join(words)
    play("bjobs", lsf_table(*(lsf_job(tmp_path, JOBINDEX=str(task), STAT="DONE") for task in range(1, 5))))
    assert list(LSF.reports(["123[2]", "123[4]"]) or ()) == ["123[2]", "123[4]"]
    assert [row.task for row in LSF.rows(["123[4]"]) or ()] == [3]
    assert said("bjobs")[0][-2:] == ["-a", "123"]


@pytest.mark.parametrize(
    ("prints", "complains", "code", "known"),
    [
        ("", "No unfinished job found\n", 255, []),
        ("", "batch system daemon not responding ... still trying", 255, None),
        ("", "", 0, None),
        ('{"COMMAND":"bjobs","JOBS":1,"RECORDS":[{"JOBID":"9","ERROR":"Job <9> is not found"}]}', "", 255, []),
        ('{"COMMAND":"bjobs","RECORDS":', "", 0, None),
    ],
)
def test_silence_of_lsf_is_not_an_empty_queue(
    play: Play, prints: str, complains: str, code: int, known: list[Job] | None
) -> None:
    play("bjobs", prints, complains, code)
    assert LSF.campaign_jobs(Path()) == known
    assert LSF.job_state("9", 0) is (JobState.UNKNOWN if known is None else JobState.ENDED)


def test_a_job_of_lsf_knows_what_it_was_given(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LSB_JOBID", "123")
    monkeypatch.setenv("LSB_JOBINDEX", "2")
    play("bjobs", lsf_table(lsf_job(tmp_path, JOBINDEX="2")))
    assert current_scheduler() is LSF and LSF.array_task() == 1
    given_to = LSF.allocation()
    assert given_to is not None and given_to.nodes == ("n1", "n2") and given_to.tasks == 5
    assert (given_to.time_limit_s, given_to.left_s, given_to.elapsed_s, given_to.waited_s) == (300.0, 270.0, 30.0, 10.0)


def test_queues_of_lsf_are_partitions(play: Play) -> None:
    play(
        "bqueues",
        json.dumps({"RECORDS": [{"QUEUE_NAME": "normal", "HOSTS": "all"}, {"QUEUE_NAME": "x", "HOSTS": "n2"}]}),
    )
    hosts = [("n1", "ok", "8"), ("n2", "closed_Full", "4"), ("n3", "unavail", "2"), ("login", "ok", "-")]
    play("bhosts", json.dumps({"RECORDS": [{"HOST_NAME": a, "STATUS": b, "MAX": c} for a, b, c in hosts]}))
    play("lshosts", json.dumps({"RECORDS": [{"HOST_NAME": "n2", "maxmem": "16G"}]}))
    assert LSF.partition("normal", None) == Partition("normal", 2, 4, 4, 16384)
    assert LSF.partition("x", None) == Partition("x", 1, 4, 4, 16384) and LSF.partition(None, None) is None
    with pytest.raises(ConfigError, match="no queue 'fast'"):
        LSF.partition("fast", None)


# -- Flux -----------------------------------------------------------------------------------------------


def flux_line(folder: Path, status: str = "RUN", number: str = "ƒ2Nkbg2UX", **changes: str) -> str:
    fields = {
        "id.f58": number, "status": status, "name": "buran_abc", "exception.type": "", "exception.note": "",
        "returncode": "", "urgency": "16", "t_submit": f"{time.time() - 40}", "t_run": f"{time.time() - 30}",
        "duration": "300.0", "nnodes": "2", "ntasks": "2", "ncores": "8", "nodelist": "n[1-2]", "queue": "batch",
        "cwd": str(folder),
    }  # fmt: skip
    return "|".join((fields | {name.replace("__", "."): value for name, value in changes.items()}).values()) + "\n"


@pytest.mark.parametrize(
    ("status", "changes", "state"),
    [
        ("SCHED", {}, "PENDING"),
        ("CLEANUP", {}, "COMPLETING"),
        ("COMPLETED", {"returncode": "0"}, "COMPLETED"),
        ("FAILED", {"returncode": "3"}, "FAILED"),
        ("CANCELED", {"exception__type": "cancel"}, "CANCELLED"),
        ("TIMEOUT", {"exception__type": "timeout"}, "TIMEOUT"),
        ("FAILED", {"exception__type": "exec", "exception__note": "node failure on n1"}, "NODE_FAIL"),
        ("NEU", {}, ""),
    ],
)
def test_states_of_flux(status: str, changes: dict[str, str], state: str, tmp_path: Path) -> None:
    (fields,) = flux.lines_in("warning: old\n" + flux_line(tmp_path, status, **changes))
    row = flux.row_of(fields)
    assert (row.state, row.id, row.folder) == (state, "f2Nkbg2UX", str(tmp_path))


def test_flux_is_asked_for_slots_and_answers_in_f58(play: Play, tmp_path: Path) -> None:
    play("flux", "ƒ2Nkbg2UX\n", when="batch*")
    play("flux", flux_line(tmp_path) + flux_line(tmp_path / "other", number="fABC"), when="jobs*")
    request = replace(
        REQUEST, nodes=2, cpus_per_task=2, partition="batch", account="b", constraint="big", exclusive=True
    )
    assert FLUX.submit(tmp_path, request, Submission("abc", ("x",)), tmp_path / "job.sh") == "f2Nkbg2UX"
    words = " ".join(said("flux")[0])
    assert "--nodes=2 --nslots=2 --cores-per-slot=2 --time-limit=5m --queue=batch --bank=b --requires=big" in words
    assert "--exclusive" in words and "--output=logs/flux/{{id}}.log" in words
    assert [job.id for job in FLUX.campaign_jobs(tmp_path) or ()] == ["f2Nkbg2UX"]
    play("flux", "", "", 0, when="cancel*")
    FLUX.cancel([Job("f2Nkbg2UX", "RUNNING", "", "", waits=False)])
    assert said("flux")[-1] == ["cancel", "f2Nkbg2UX"] and FLUX.largest_array() == 1
    assert "urgency" in str(FLUX.never_starts(Job("f1", "PENDING", "", "held", waits=True)))


def test_a_job_of_flux_asks_the_instance_around_it(play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUX_ENCLOSING_ID", "ƒ2Nkbg2UX")
    monkeypatch.setenv("BURAN_TASKS", "4")
    play("flux", flux_line(tmp_path), when="--parent*")
    assert current_scheduler() is FLUX
    given_to = FLUX.allocation()
    assert given_to is not None and given_to.nodes == ("n1", "n2") and (given_to.tasks, given_to.cpus) == (4, 8)
    assert given_to.cpus_per_task == 2 and given_to.time_limit_s == 300.0


def test_queues_of_flux_are_partitions(play: Play) -> None:
    play("flux", "batch\ndebug\n", when="queue*")
    play("flux", "3 24\n1 8\n", when="resource*")
    assert FLUX.partition("batch", None) == Partition("batch", 4, 8, 8)
    with pytest.raises(ConfigError, match="no queue 'fast'"):
        FLUX.partition("fast", None)


# -- All ------------------------------------------------------------------------------------------------

COMMANDS = {"pbs": "qsub", "grid-engine": "qsub", "lsf": "bsub", "flux": "flux"}


@pytest.mark.parametrize("scheduler", ALL, ids=lambda scheduler: scheduler.name)
def test_each_serves_its_profile_and_is_missing_where_it_is_not(scheduler: TabledScheduler, play: Play) -> None:
    assert SCHEDULERS.load(scheduler.name) is scheduler
    assert scheduler.serves({"executor": "buran", "buran-scheduler": scheduler.name})
    assert scheduler.finding() is None and not scheduler.is_available() and scheduler.this_job() is None
    with pytest.raises(ToolError, match=f"there is no {scheduler.title} here"):
        scheduler.check_submission()
    assert scheduler.rows(None) is None and scheduler.campaign_jobs(Path()) is None, "no answer is not an empty queue"


@pytest.mark.parametrize("scheduler", ALL, ids=lambda scheduler: scheduler.name)
def test_a_command_that_is_missing_for_a_while_is_waited_for(
    scheduler: TabledScheduler, play: Play, tmp_path: Path
) -> None:
    if scheduler is GRID_ENGINE:
        ge_site(play)
        Path(os.environ["PATH"].partition(os.pathsep)[0], "qsub").unlink()
    with pytest.raises(NotSubmitted, match="missing") as missing:
        scheduler.submit(tmp_path, REQUEST, Submission("x", ("x",)), Path("job.sh"))
    assert missing.value.refusal is Refusal.PASSING


@pytest.mark.parametrize(
    ("scheduler", "complaint", "refusal", "step"),
    [
        (PBS, "qsub: Unknown queue", Refusal.FINAL, "resources.partition"),
        (PBS, "qsub: Unknown resource: qos", Refusal.FINAL, "resources.constraint, qos"),
        (PBS, "qsub: Job violates queue and/or server resource limits (walltime)", Refusal.FINAL, "time_limit"),
        (PBS, "qsub: would exceed queue generic's per-user limit", Refusal.FULL, ""),
        (PBS, "qsub: cannot connect to server pbsnode (errno=15010)", Refusal.PASSING, ""),
        (PBS, "Connection refused", Refusal.PASSING, ""),
        (GRID_ENGINE, 'job rejected: the requested project "n" does not exist', Refusal.FINAL, "account"),
        (GRID_ENGINE, 'Job was rejected because job requests unknown queue "n"', Refusal.FINAL, "qconf -sql"),
        (GRID_ENGINE, "Unable to run job: error: no suitable queues", Refusal.FINAL, "resources.nodes"),
        (GRID_ENGINE, 'error: commlib error: got select error (Connection refused)', Refusal.PASSING, ""),
        (GRID_ENGINE, "job rejected: Only allow 5 jobs per user", Refusal.FULL, ""),
        (LSF, "nope: No such queue. Job not submitted.", Refusal.FINAL, "resources.partition"),
        (LSF, "LSF is down. Please wait ...", Refusal.PASSING, ""),
        (LSF, "Pending job threshold reached. Retrying in 60 seconds...", Refusal.FULL, ""),
        (FLUX, "flux-batch: ERROR: [Errno 22] Invalid queue specified: nope", Refusal.FINAL, "resources.partition"),
        (FLUX, "flux-batch: ERROR: Unable to connect to Flux: broker socket", Refusal.PASSING, ""),
    ],
)  # fmt: skip
def test_refusals_pass_or_not_and_name_the_key(
    scheduler: TabledScheduler, complaint: str, refusal: Refusal, step: str, play: Play, tmp_path: Path
) -> None:
    if scheduler is GRID_ENGINE:
        ge_site(play)
    play(COMMANDS[scheduler.name], "", complaint, 1)
    with pytest.raises(NotSubmitted) as refused:
        scheduler.submit(tmp_path, REQUEST, Submission("x", ("x",)), Path("job.sh"))
    assert refused.value.refusal is refusal and step in str(refused.value)


@pytest.mark.parametrize("key", ["qos", "memory_mb", "reservation"])
def test_what_flux_has_nothing_for_is_refused_in_words(key: str, play: Play, tmp_path: Path) -> None:
    with pytest.raises(NotSubmitted, match=rf"resources\.{key}") as refused:
        FLUX.submit(tmp_path, replace(REQUEST, **{key: 5}), Submission("x", ("x",)), Path("job.sh"))  # type: ignore[arg-type]
    assert refused.value.refusal is Refusal.FINAL


@pytest.mark.parametrize("scheduler", ALL, ids=lambda scheduler: scheduler.name)
def test_an_empty_answer_to_a_submission_may_have_been_taken(
    scheduler: TabledScheduler, play: Play, tmp_path: Path
) -> None:
    """It is looked for in the queue before it is submitted again."""
    if scheduler is GRID_ENGINE:
        ge_site(play)
    play(COMMANDS[scheduler.name], "\n")
    with pytest.raises(NotSubmitted) as refused:
        scheduler.submit(tmp_path, REQUEST, Submission("x", ("x",)), Path("job.sh"))
    assert refused.value.refusal is Refusal.PASSING


def test_a_job_that_ended_meanwhile_is_no_failure_of_cancelling(play: Play, tmp_path: Path) -> None:
    job = Job("5.s", "RUNNING", "", "", waits=False)
    play("qdel", "", "qdel: Job has finished 5.s", 35)
    play("qstat", pbs_table(**{"5.s": pbs_job(tmp_path, job_state="F", Exit_status=0)}))
    PBS.cancel([job])
    PBS.cancel([])
    play("qstat", pbs_table(**{"5.s": pbs_job(tmp_path)}))
    with pytest.raises(ToolError, match="cancelled"):
        PBS.cancel([job])


def test_a_scheduler_that_never_tells_a_job_what_it_has_is_not_waited_for_for_ever(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("buran.plugins.schedulers.tabled._PATIENCE_S", 0.0)
    monkeypatch.setenv("PBS_JOBID", "5.s")
    with pytest.raises(RunError, match="does not report"):
        PBS.allocation()


def test_variables_of_an_outer_job_and_functions_of_the_shell_are_not_inherited(
    play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PBS_O_WORKDIR", "PBS_NODEFILE", "BASH_FUNC_module%%"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("PBS_CONF_FILE", "/etc/mine")
    play("qsub", "5.s\n")
    path = Path(os.environ["PATH"].partition(os.pathsep)[0], "qsub")
    path.write_text(path.read_text().replace("case", f"/usr/bin/env > {shlex.quote(str(tmp_path / 'env'))}\ncase", 1))
    PBS.submit(tmp_path, REQUEST, Submission("x", ("x",)), Path("job.sh"))
    names = {line.partition("=")[0] for line in (tmp_path / "env").read_text().splitlines()}
    assert "PBS_CONF_FILE" in names and not {"PBS_O_WORKDIR", "PBS_NODEFILE", "BASH_FUNC_module%%"} & names


@pytest.mark.parametrize(
    ("text", "megabytes"),
    [("1024kb", 1), ("24684084kb", 24105), ("8gb", 8192), ("23.5G", 24064), ("", None), ("x", None)],
)
def test_memory_is_read(text: str, megabytes: int | None) -> None:
    assert megabytes_of(text) == megabytes


@given(st.integers(0, 400_000))
def test_times_are_read(seconds: int) -> None:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    assert seconds_of(f"{hours}:{minutes:02}:{rest:02}") == seconds_of(str(seconds)) == seconds
    assert seconds_of("INFINITY") is None


@given(st.text())
def test_any_text_is_a_table_or_none(text: str) -> None:
    for parse in (pbs.jobs_in, lsf.records_in, grid_engine.jobs_in, flux.lines_in):
        found = parse(text)
        assert found is None or isinstance(found, (dict, list))
    assert isinstance(list(grid_engine.ended_in(text)), list)
