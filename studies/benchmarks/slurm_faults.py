"""What faults of a cluster do to a campaign: a table, each fault on a Slurm with and without accounting.

    python studies/benchmarks/slurm_faults.py [FAULT ...] [--list] [--json FILE] [--table FILE]

Needs root and Linux namespaces, and leaves nothing behind: both Slurms (tools/slurm-sandbox) run side by side, with
mounts, a network and processes of their own. The campaign is an ordinary user's, in a home with umlauts and spaces in
its path; its profile and its watchdog are those that users have. Results of earlier calls stay in FILE beside new ones.

Runs lost: finished before the fault and not there any more, or changed. Measured twice: starts of the program that
are neither a measured run nor the record of an attempt that failed or was interrupted. Noticed: seconds from the fault
to the words; where the fault needs none, there are none.
"""

from __future__ import annotations

import argparse
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "slurm"), str(ROOT / "tests" / "workflow")]

import yaml  # noqa: E402

import patience  # noqa: E402

patience.PATIENCE_S = 120.0  # what takes longer here is a row with a problem

from cluster import STATE, Cluster, SlurmBench, call, wait_until  # noqa: E402

TOOL = ROOT / "tools" / "slurm-sandbox"
USER = "pruefer"
LONGEST_S = 500.0  # of one campaign
POINTS = 6
_LONGEST_WORDS = 110  # letters in the table
_PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_there(const char *name) { return access(name, F_OK) == 0; }

__attribute__((noinline)) static void work(int seconds) { sleep((unsigned)seconds); }

int main(int argc, char **argv) {
    if (argc < 2 || chdir(getenv("NOTES")) != 0)
        return 2;
    FILE *notes = fopen("starts", "a");
    fprintf(notes, "n=%s %s\n", argv[1], argv[0]);
    fclose(notes);
    if (is_there("hungry") && rmdir("hungry") == 0) {
        size_t much = (size_t)1500 << 20;
        volatile char *all = malloc(much);
        for (size_t i = 0; i < much; i += 4096)
            all[i] = 1;
        sleep(600);
    }
    if (is_there("slow") && rmdir("slow") == 0)
        sleep(600);
    while (is_there("hold"))
        usleep(100000);
    work(2);
    return 0;
}
"""
_LINES = """JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=2
JobAcctGatherParams=OverMemoryKill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=brief Nodes=ALL MaxTime=1 State=UP OverSubscribe=YES
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10
"""


class Operator(Cluster):
    """The sandbox's operator, who may also break it."""

    def __init__(self, *, accounting: bool) -> None:
        super().__init__(USER)
        self.accounting = accounting

    def heal(self) -> None:
        if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode != 0:
            self.start_munge()
        call("scancel", "--user=root")
        super().heal()

    def configure(self, *lines: str) -> None:
        """Start the controller anew with further lines in its configuration."""
        conf = Path("/etc/slurm/slurm.conf")
        before = conf.read_text().partition("# for one fault\n")[0]
        mark = ["# for one fault"] if lines else []
        conf.write_text("\n".join([before.rstrip(), *mark, *lines, ""]))
        self.stop_controller()
        self.start_controller()

    def restore(self) -> None:
        """Heal, or start a Slurm anew."""
        try:
            if "# for one fault" in Path("/etc/slurm/slurm.conf").read_text():
                self.configure()
            self.heal()
        except (AssertionError, subprocess.SubprocessError, OSError) as error:
            print(f"Slurm is started anew: {error}", flush=True)
            start_sandbox(accounting=self.accounting)

    def stop_munge(self) -> None:
        os.kill(int(Path("/run/munge/munged.pid").read_text()), signal.SIGTERM)

    def start_munge(self) -> None:
        who = ["setpriv", "--reuid", "munge", "--regid", "munge", "--init-groups"]
        subprocess.run([*who, "munged", "--force"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def kill_node(self, name: str) -> None:
        """Kill a node's daemon with all that runs on it."""
        jobs = [pid for pid in _processes() if f"SLURMD_NODENAME={name}\0" in _environment(pid)]
        parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in jobs}
        steps = [pid for pid in parents if Path(f"/proc/{pid}/comm").read_text().startswith("slurmstepd")]
        for pid in (int((STATE / f"slurmd-{name}.pid").read_text()), *steps, *jobs):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def start_node(self, name: str) -> None:
        subprocess.run(
            [
                "unshare",
                "--uts",
                "sh",
                "-c",
                f"hostname {name} && exec slurmd -f {STATE}/etc-{name}/slurm.conf -N {name}",
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @contextmanager
    def command_lost(self, name: str, instead: str | None = None) -> Iterator[None]:
        """Hide a command of Slurm, or put a script in its place."""
        path = str(Path(shutil.which(name) or "").resolve())
        cover = STATE / f"instead-of-{name}"
        cover.write_text(instead or "")
        cover.chmod(0o755 if instead else 0o644)
        subprocess.run(["mount", "--bind", str(cover), path], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", path], check=True)


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


@dataclass
class Said:
    """A line that the controller printed, and when, on the monotonic clock."""

    line: str
    at_s: float


@dataclass
class Trial(SlurmBench):
    """A user's campaign that meets a fault."""

    operator: Operator | None = None
    said: list[Said] = field(default_factory=list)
    struck_s: float = 0.0
    before: dict[str, str] = field(default_factory=dict)
    codes: list[int] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    waits: bool = True

    @property
    def environment(self) -> dict[str, str]:
        home = pwd.getpwnam(USER).pw_dir
        path = os.pathsep.join([str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"])
        own = {"HOME": home, "USER": USER, "LOGNAME": USER, "LANG": "C.UTF-8", "PATH": path, "NO_COLOR": "1"}
        own["BURAN_LOCK_FOLDER"] = home  # nodes of both Slurms have the same names
        own |= {"PYTHONPATH": os.environ["PYTHONPATH"]} if "PYTHONPATH" in os.environ else {}
        return {**own, **self.variables}

    def command(self, *words: str) -> list[str]:
        user = ["setpriv", "--reuid", USER, "--regid", USER, "--init-groups"]
        return [*user, str(Path(sys.executable).parent / "buran"), *words]

    @property
    def cluster(self) -> Operator:
        assert self.operator is not None
        return self.operator

    def write(self, **changes: Any) -> None:
        super().write(**changes)
        shutil.chown(self.file, USER, USER)

    def flag(self, name: str) -> Path:
        """Tell the program to hold, or once to be slow or hungry."""
        path = self.folder / name
        path.mkdir()
        shutil.chown(path, USER, USER)
        return path

    def starts_of_runs(self) -> Counter[str]:
        """Starts of the program by build and point, as folders of the store are called."""
        text = self.starts_file.read_text() if self.starts_file.is_file() else ""
        lines = (line.partition(" ") for line in text.splitlines())
        builds = sorted({path.name for path in (self.results / "store").iterdir()})
        return Counter(f"{next(name for name in builds if name in program)}/{point}" for point, _, program in lines)

    @property
    def program_starts(self) -> int:
        return len(self.starts_file.read_text().splitlines()) if self.starts_file.is_file() else 0

    def launch(self, *words: str, campaign: str = "campaign.yaml") -> subprocess.Popen[bytes]:
        """Start a controller whose lines are taken down with their times."""
        controller = subprocess.Popen(
            self.command("run", campaign, "--profile", "slurm", *words),
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.controllers.append(controller)
        threading.Thread(target=self._listen, args=(controller,), daemon=True).start()
        return controller

    def _listen(self, controller: subprocess.Popen[bytes]) -> None:
        assert controller.stdout is not None
        for line in controller.stdout:
            self.said.append(Said(line.decode(errors="replace").rstrip(), time.monotonic()))

    def until(self, condition: Callable[[], Any], what: str, timeout_s: float = 300.0) -> None:
        """Wait; a controller that has ended meanwhile brings nothing any more."""
        wait_until(lambda: condition() or self.controllers[-1].poll() is not None, what, timeout_s)
        assert condition(), f"waited in vain for {what}: {[each.line for each in self.said[-12:]]}"

    def until_busy(self) -> None:
        """Wait until something is measured and something else runs."""
        self.until(lambda: self.finished() and self.cluster.running(), "a finished run and running jobs")

    def strike(self) -> None:
        """Note that the fault comes now, and what was finished before."""
        self.before, self.struck_s = self.finished(), time.monotonic()

    def end(self, controller: subprocess.Popen[bytes] | None = None) -> int:
        """Wait for the end of a controller."""
        code = (controller or self.controllers[-1]).wait(LONGEST_S)
        self.codes.append(code)
        time.sleep(0.2)
        return code


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes
    ----------
    says
        What the words look like; None where none are needed.
    codes
        Exit codes of `buran run`, one after the other until the campaign is done.
    only
        Whether it can be with accounting alone (True), without alone (False) or both.
    """

    name: str
    what: str
    says: str | None
    codes: tuple[int, ...]
    happen: Callable[[Trial], None]
    only: bool | None = None


@dataclass
class Row:
    """A row of the table."""

    fault: str
    what: str
    accounting: bool
    expected: list[int]
    codes: list[int] = field(default_factory=list)
    lost: int = -1
    twice: int = -1
    anew: int = -1
    noticed_s: float | None = None
    words: str = ""
    needs_words: bool = True
    seconds: float = 0.0
    problem: str = ""

    @property
    def is_good(self) -> bool:
        noticed = not self.needs_words or (self.noticed_s is not None and self.noticed_s < 60.0)
        return not self.problem and self.codes == self.expected and self.lost == self.twice == 0 and noticed


FAULTS: dict[str, Fault] = {}


def fault(
    name: str, what: str, says: str | None = None, codes: tuple[int, ...] = (0,), only: bool | None = None
) -> Callable[[Callable[[Trial], None]], Callable[[Trial], None]]:
    def keep(happen: Callable[[Trial], None]) -> Callable[[Trial], None]:
        FAULTS[name] = Fault(name, what, says, codes, happen, only)
        return happen

    return keep


# -- the faults -----------------------------------------------------------------------------------------------

_SILENT = r"does not answer since"
_NO_SUBMISSION = r"cannot take jobs since|does not answer"


@fault("none", "nothing happens")
def _(trial: Trial) -> None:
    trial.launch()
    trial.until_busy()
    trial.strike()


def _away(trial: Trial, seconds: float) -> None:
    trial.launch()
    trial.until_busy()
    trial.strike()
    trial.cluster.stop_controller(signal.SIGKILL)
    time.sleep(seconds)
    trial.cluster.start_controller()


@fault("slurmctld-30s", "slurmctld killed, back after 30 s", _SILENT)
def _(trial: Trial) -> None:
    _away(trial, 30.0)


@fault("slurmctld-5min", "slurmctld killed, back after 5 min", _SILENT)
def _(trial: Trial) -> None:
    _away(trial, 300.0)


@fault("slurmctld-submission", "slurmctld killed while jobs are submitted, back after 30 s", _NO_SUBMISSION)
def _(trial: Trial) -> None:
    trial.launch()
    trial.until(lambda: [*(trial.results / "jobs").glob("*.sh")], "a job's script")
    trial.strike()
    trial.cluster.stop_controller(signal.SIGKILL)
    time.sleep(30.0)
    trial.cluster.start_controller()


@fault("munged", "munged down for 2 min", _SILENT)
def _(trial: Trial) -> None:
    trial.launch()
    trial.until_busy()
    trial.strike()
    trial.cluster.stop_munge()
    time.sleep(120.0)
    trial.cluster.start_munge()


@fault("node-down", "a node is set DOWN", r"lost its node")
def _(trial: Trial) -> None:
    trial.launch()
    trial.until_busy()
    node = trial.cluster.node_of(trial.cluster.running()[-1])
    trial.strike()
    call("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=test")
    time.sleep(10.0)
    call("scontrol", "update", f"NodeName={node}", "State=RESUME")


@fault("node-drain", "a node is drained: its job goes on")
def _(trial: Trial) -> None:
    trial.launch()
    trial.until_busy()
    node = trial.cluster.node_of(trial.cluster.running()[-1])
    trial.strike()
    call("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")


@fault("node-dies", "a node dies with all that runs there, and comes back", r"lost its node|was requeued")
def _(trial: Trial) -> None:
    trial.launch()
    trial.until_busy()
    node = trial.cluster.node_of(trial.cluster.running()[-1])
    trial.strike()
    trial.cluster.kill_node(node)
    time.sleep(50.0)
    trial.cluster.start_node(node)


@fault("scancel", "half of the jobs are cancelled", r"was cancelled", (3, 0))
def _(trial: Trial) -> None:
    trial.launch()
    trial.until_busy()
    jobs = trial.cluster.running()
    trial.strike()
    call("scancel", *jobs[: len(jobs) // 2 or 1])


def _requeue(trial: Trial, word: str) -> str:
    trial.launch()
    trial.until_busy()
    job = trial.cluster.running()[-1]
    call("scontrol", "update", f"JobId={job}", "Requeue=1")
    trial.strike()
    call("scontrol", word, job)
    return job


@fault("requeue", "a job is requeued", r"was requeued")
def _(trial: Trial) -> None:
    _requeue(trial, "requeue")


@fault("requeuehold", "a job is requeued and held, released after 60 s", r"may never start .*Held|was requeued")
def _(trial: Trial) -> None:
    job = _requeue(trial, "requeuehold")
    time.sleep(60.0)
    call("scontrol", "release", job)


@fault("preemption", "jobs are preempted", r"was preempted|was requeued")
def _(trial: Trial) -> None:
    trial.launch()
    trial.until_busy()
    trial.strike()
    call("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap", "sleep 10")


@fault("memory", "a program needs more memory than its job has", r"(?i)memory", (1, 0))
def _(trial: Trial) -> None:
    trial.write(resources={**trial.config["resources"], "memory_mb": 700})
    trial.flag("hungry")
    trial.launch()
    trial.until(lambda: not (trial.folder / "hungry").exists(), "a hungry program")
    trial.strike()
    trial.end()
    trial.launch("--retry-failed")
    trial.end()


@fault("time-limit", "a job runs out of time", r"ran out of time")
def _(trial: Trial) -> None:
    trial.flag("slow")
    trial.flag("hold")
    trial.launch()
    trial.until(lambda: trial.cluster.running(), "running jobs")
    for job in trial.cluster.jobs():
        call("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    trial.until(lambda: not (trial.folder / "slow").exists(), "a slow program")
    (trial.folder / "hold").rmdir()
    job = trial.cluster.running()[0]
    trial.until(
        lambda: "TIMEOUT" in call("scontrol", "show", "job", "-o", *trial.cluster.jobs("TIMEOUT")[:1] or [job]), job
    )
    trial.strike()


@fault("max-submit", "MaxSubmitJobs is 3", r"takes no more jobs for now", only=True)
def _(trial: Trial) -> None:
    call("sacctmgr", "-i", "modify", "user", USER, "set", "MaxSubmitJobs=3")
    trial.strike()
    trial.launch()
    trial.until(lambda: trial.cluster.jobs(), "jobs")
    trial.struck_s = time.monotonic()
    trial.end()
    call("sacctmgr", "-i", "modify", "user", USER, "set", "MaxSubmitJobs=-1")


@fault("max-job-count", "MaxJobCount is 3", r"takes no more jobs for now|cannot take jobs since")
def _(trial: Trial) -> None:
    trial.cluster.configure("MaxJobCount=3", "MinJobAge=5")
    trial.launch()
    trial.until(lambda: trial.cluster.jobs(), "jobs")
    trial.strike()
    trial.end()


@fault("no-arrays", "the site forbids arrays of jobs")
def _(trial: Trial) -> None:
    trial.cluster.configure("MaxArraySize=0")
    trial.launch()
    trial.until_busy()
    trial.strike()
    trial.end()


@fault("max-time", "the partition gives less time than the limit of a run")
def _(trial: Trial) -> None:
    trial.write(resources={"ranks": 1, "time_limit": 3600, "partition": "brief"})
    trial.launch()
    trial.until_busy()
    trial.strike()


@fault("account", "the account does not exist", r"account 'nowhere' cannot be used", (2, 0), only=True)
def _(trial: Trial) -> None:
    trial.write(resources={**trial.config["resources"], "account": "nowhere"})
    trial.strike()
    trial.launch()
    trial.end()
    trial.write(resources={key: value for key, value in trial.config["resources"].items() if key != "account"})


@fault("slurm-conf", "SLURM_CONF names no file", r"SLURM_CONF|unset", (3, 0))
def _(trial: Trial) -> None:
    trial.variables["SLURM_CONF"] = "/nowhere/slurm.conf"
    trial.strike()
    trial.launch()
    trial.end()
    del trial.variables["SLURM_CONF"]


@fault("wrong-cluster", "SLURM_CONF is that of a cluster that does not answer", r"does not answer", (3, 0))
def _(trial: Trial) -> None:
    conf = trial.folder / "slurm.conf"
    conf.write_text(Path("/etc/slurm/slurm.conf").read_text().replace("SlurmctldPort=16817", "SlurmctldPort=16999"))
    conf.chmod(0o644)
    trial.variables["SLURM_CONF"] = str(conf)
    trial.strike()
    trial.launch()
    trial.end()
    del trial.variables["SLURM_CONF"]


@fault("sbatch", "sbatch is missing for 3 min", r"sbatch is missing")
def _(trial: Trial) -> None:
    with trial.cluster.command_lost("sbatch"):
        trial.launch()
        trial.until(lambda: [*(trial.results / "jobs").glob("*.sh")], "a job's script")
        trial.strike()
        time.sleep(180.0)


@fault("sacct", "sacct is forbidden; slurmctld forgets jobs after 5 s")
def _(trial: Trial) -> None:
    trial.cluster.configure("MinJobAge=5")
    refusal = "#!/bin/sh\necho 'sacct: error: you may not' >&2\nexit 1\n"
    with trial.cluster.command_lost("sacct", refusal):
        trial.launch()
        trial.until_busy()
        trial.strike()
        trial.end()


def _kill_and_go_on(trial: Trial) -> None:
    trial.strike()
    trial.controllers[-1].send_signal(signal.SIGKILL)
    trial.end()
    trial.launch()
    trial.end()


@fault("kill-submission", "the controller is killed while it submits", codes=(-9, 0))
def _(trial: Trial) -> None:
    trial.launch()
    trial.until(lambda: [*(trial.results / "jobs").glob("*.sh")], "a job's script")
    _kill_and_go_on(trial)


@fault("kill-running", "the controller is killed while jobs run", codes=(-9, 0))
def _(trial: Trial) -> None:
    trial.launch()
    trial.until_busy()
    _kill_and_go_on(trial)


@fault("kill-checkpoint", "the controller is killed while the engine updates its plan", codes=(-9, 0))
def _(trial: Trial) -> None:
    trial.launch()
    log = trial.results / "logs" / "snakemake.log"
    trial.until(lambda: log.is_file() and "pdating checkpoint" in log.read_text(), "a checkpoint")
    _kill_and_go_on(trial)


def _in_a_job(trial: Trial, *options: str) -> str:
    buran = shlex.join([str(Path(sys.executable).parent / "buran"), "run", "campaign.yaml", "--profile", "slurm"])
    code = trial.folder / "code"
    script = trial.folder / "controller.sh"
    script.write_text(f"#!/bin/sh\n{buran}\necho $? > code\n")
    code.unlink(missing_ok=True)
    words = [
        "sbatch",
        "--parsable",
        "--ntasks=1",
        "--mem=500",
        "--open-mode=append",
        "--output=controller.log",
        *options,
    ]
    user = trial.command()[:-1]
    done = subprocess.run(
        [*user, *words, str(script)],
        cwd=trial.folder,
        env=trial.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _until_busy_in_a_job(trial: Trial, job: str) -> None:
    wait_until(lambda: trial.finished() and len(trial.cluster.running()) > 1, "a finished run and running jobs", 300.0)


def _take_code(trial: Trial, job: str) -> None:
    wait_until(lambda: job not in trial.cluster.jobs(), "the controller's end", LONGEST_S)
    code = trial.folder / "code"
    trial.codes.append(int(code.read_text()) if code.is_file() else -15)
    trial.said += [Said(line, time.monotonic()) for line in (trial.folder / "controller.log").read_text().splitlines()]


@fault("controller-limit", "a controller in a job reaches the job's limit", codes=(-15, 0))
def _(trial: Trial) -> None:
    trial.flag("hold")
    job = _in_a_job(trial, "--time=30")
    wait_until(lambda: trial.program_starts > 0, "a running program", 300.0)
    call("scontrol", "update", f"JobId={job}", "TimeLimit=1")
    trial.strike()
    _take_code(trial, job)
    (trial.folder / "hold").rmdir()
    _take_code(trial, _in_a_job(trial, "--time=30"))


@fault("controller-requeue", "a controller in a job is requeued: it goes on", codes=(0,))
def _(trial: Trial) -> None:
    job = _in_a_job(trial, "--time=30", "--requeue")
    _until_busy_in_a_job(trial, job)
    trial.strike()
    call("scontrol", "requeue", job)
    time.sleep(5.0)
    call("scontrol", "release", job)
    _take_code(trial, job)


@fault("two-campaigns", "two campaigns at once that share points", r"another controller drives", (0, 0))
def _(trial: Trial) -> None:
    other = trial.folder / "other.yaml"
    values = list(range(POINTS // 2 + 1, POINTS + 3))
    other.write_text(yaml.safe_dump({**trial.config, "parameters": {"n": {"role": "size", "values": values}}}))
    first = trial.launch()
    trial.until(lambda: (trial.results / "logs" / "snakemake.log").is_file(), "an engine")
    trial.strike()
    second = trial.launch(campaign="other.yaml")
    trial.end(first)
    trial.end(second)


def mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


@contextmanager
def _own_store(trial: Trial) -> Iterator[Path]:
    store = trial.results / "store"
    store.mkdir(parents=True)
    uid = pwd.getpwnam(USER).pw_uid
    for folder in (trial.results.parent, trial.results, store):
        shutil.chown(folder, USER, USER)
    mount("-t", "tmpfs", "-o", f"size=64m,uid={uid},mode=755", "tmpfs", str(store))
    yield store


@fault("full", "the disk of the store is full", r"No space left on device", (3, 0))
def _(trial: Trial) -> None:
    with _own_store(trial) as store:
        trial.launch()
        trial.until_busy()
        trial.strike()
        filler = store / "filler"
        subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=64k"], check=False, capture_output=True)
        trial.end()
        filler.unlink()


@fault("read-only", "the store is mounted read-only", r"Read-only file system", (3, 0))
def _(trial: Trial) -> None:
    with _own_store(trial) as store:
        trial.launch()
        trial.until_busy()
        trial.strike()
        mount("--bind", str(store), str(store))
        mount("-o", "remount,ro,bind", str(store))
        trial.end()
        subprocess.run(["umount", "-l", str(store)], check=True)


# -- one fault ------------------------------------------------------------------------------------------------


def new_trial(operator: Operator, name: str) -> Trial:
    """Write a campaign of a few points, each a job with runs of some seconds."""
    folder = Path(pwd.getpwnam(USER).pw_dir) / f"Versuch {name}"
    source = folder / "Quellen"
    source.mkdir(parents=True)
    (source / "program.c").write_text(_PROGRAM)
    (source / "Makefile").write_text("program: program.c\n\t$(CC) $(CFLAGS) -o $@ $<\n")
    for path in (folder, source, *source.iterdir()):
        shutil.chown(path, USER, USER)
    trial = Trial(folder, {}, "faults", operator=operator)
    trial.write(
        name="faults",
        program={
            "source": "Quellen",
            "build": "make CC={mpicc} CFLAGS='{flags}'",
            "binary": "program",
            "run": "{binary} {n}",
        },
        environments={"sandbox": {"launcher": "srun", "variables": {"NOTES": str(folder)}}},
        parameters={"n": {"role": "size", "values": list(range(1, POINTS + 1))}},
        repetitions=2,
        metrics=["time"],
        warmup=False,
        refinement={"enabled": False},
        resources={"ranks": 1, "time_limit": 120},
    )
    return trial


def meet(operator: Operator, fault: Fault) -> Row:
    """Let a fault happen to a campaign of its own; return its row."""
    row = Row(fault.name, fault.what, operator.accounting, [*fault.codes], needs_words=fault.says is not None)
    began = time.monotonic()
    trial = new_trial(operator, fault.name)
    try:
        operator.heal()
        fault.happen(trial)
        while len(trial.codes) < len(fault.codes):
            if trial.codes:
                trial.launch()
            trial.end()
        judge(row, fault, trial)
    except (AssertionError, subprocess.SubprocessError, OSError, ValueError, LookupError) as error:
        row.problem = f"{type(error).__name__}: {error}"[:600]
    finally:
        row.codes = trial.codes
        trial.stop()
        (trial.folder / "said").write_text(
            "\n".join(f"{each.at_s - trial.struck_s:8.1f} {each.line}" for each in trial.said)
        )
        operator.restore()
    row.seconds = round(time.monotonic() - began, 1)
    return row


def judge(row: Row, fault: Fault, trial: Trial) -> None:
    """Count what became of the runs, and look for the words."""
    after = trial.finished()
    row.lost = sum(after.get(run) != sums for run, sums in trial.before.items())
    attempts = trial.attempts()
    row.anew = len(attempts)
    accounted = Counter(f"{run.partition('~')[0]}" for run in after)
    accounted += Counter(f"{each['build']}/n={each['point']['n']}" for each in attempts if "build" in each)
    row.twice = (trial.starts_of_runs() - accounted).total()
    checked = trial.buran("verify", "campaign.yaml", expect=None)
    if "0 problems" not in checked:
        row.problem = f"buran verify: {checked[-300:]}"
    state = trial.status()
    if not (state["done"] and state["failed"] == 0):
        row.problem = f"not done: {state['measured']} measured, {state['failed']} failed"
    if any("Traceback" in each.line for each in trial.said):
        row.problem = "a traceback"
    if fault.says is not None:
        heard = [each for each in trial.said if each.at_s >= trial.struck_s and re.search(fault.says, each.line)]
        if heard:
            row.noticed_s, row.words = round(heard[0].at_s - trial.struck_s, 1), heard[0].line.strip()


# -- a Slurm of its own ---------------------------------------------------------------------------------------


def inside(accounting: bool, names: Sequence[str], rows_file: Path, folder: Path) -> None:
    """Run faults in namespaces of their own: nothing of this is seen outside, or outlives them."""
    for words in (["link", "set", "lo", "up"], ["address", "add", "192.0.2.1/32", "dev", "lo"]):
        subprocess.run(["ip", *words], check=True)  # names are looked up only where there is more than 127.0.0.1
    mount("-t", "tmpfs", "tmpfs", "/run")
    open_for_all(Path(sys.base_prefix))
    Path("/etc/slurm").mkdir(exist_ok=True)
    mount("-t", "tmpfs", "tmpfs", "/etc/slurm")
    home = folder / ("mit Buchführung" if accounting else "ohne Buchführung") / "Häuser für alle" / "Jörg Prüfer"
    home.mkdir(parents=True)
    for name, line in (("passwd", f"{USER}:x:31415:31415::{home}:/bin/sh"), ("group", f"{USER}:x:31415:")):
        copy = Path("/run") / name
        copy.write_text(Path("/etc", name).read_text().rstrip("\n") + f"\n{line}\n")
        mount("--bind", str(copy), f"/etc/{name}")
    shutil.chown(home, USER, USER)
    lines = Path("/run/lines")
    lines.write_text(_LINES)
    start_sandbox(accounting=accounting)
    operator = Operator(accounting=accounting)
    for name in names:
        fault = FAULTS[name]
        if fault.only is not None and fault.only != accounting:
            continue
        row = meet(operator, fault)
        with rows_file.open("a") as file:
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
        print(line_of(row), flush=True)


def start_sandbox(*, accounting: bool) -> None:
    """Start a Slurm that knows the user."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    words = [str(TOOL), "start", *(["--accounting"] if accounting else [])]
    environment = {**os.environ, "BURAN_SANDBOX_LINES": "/run/lines", "TMPDIR": "/tmp"}
    subprocess.run(words, check=True, env=environment, **quiet)
    if accounting:
        call("sacctmgr", "-i", "add", "user", USER, "account=sandbox")


def open_for_all(folder: Path) -> None:
    """Let other users read a folder below one that is closed to them, in this namespace alone."""
    closed = next((parent for parent in reversed(folder.parents) if not parent.stat().st_mode & 0o001), None)
    if closed is None:
        return
    aside = Path("/run/aside")
    aside.mkdir()
    mount("--bind", str(folder), str(aside))
    mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", str(closed))
    folder.mkdir(parents=True)
    mount("--bind", str(aside), str(folder))


def line_of(row: Row) -> str:
    noticed = "" if row.noticed_s is None else f"{row.noticed_s:.0f} s"
    return (
        f"{'ok ' if row.is_good else 'BAD'} {row.fault:22} {'with' if row.accounting else 'without':8} exit "
        f"{row.codes} lost {row.lost} twice {row.twice} anew {row.anew} noticed {noticed or '-'} [{row.seconds:.0f} s] "
        f"{row.words} {row.problem}"
    )


def table(rows: Sequence[Row]) -> str:
    """Return the table, with what was not run."""
    lines = [
        "| fault | accounting | exit codes | lost | measured twice | begun anew | noticed | words |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    known = {(row.fault, row.accounting): row for row in rows}
    for fault in FAULTS.values():
        for accounting in (False, True):
            on = "yes" if accounting else "no"
            row = known.get((fault.name, accounting))
            if fault.only is not None and fault.only != accounting:
                continue
            if row is None:
                lines.append(f"| {fault.what} | {on} | not run | | | | | |")
                continue
            noticed = "-" if not row.needs_words else "never" if row.noticed_s is None else f"{row.noticed_s:.0f} s"
            codes = ", ".join(map(str, row.codes))
            said = textwrap.shorten((row.problem or row.words).replace("|", " "), _LONGEST_WORDS, placeholder=" ...")
            lines.append(
                f"| {fault.what} | {on} | {codes} | {row.lost} | {row.twice} | {row.anew} | {noticed} | {said} |"
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("faults", nargs="*", metavar="FAULT", help="all without")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--json", type=Path, help="keeps rows, also those of earlier calls")
    parser.add_argument("--table", type=Path, help="writes the table as Markdown")
    parser.add_argument("--accounting", choices=["yes", "no"], help="one of both alone")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--keep", type=Path, help="a new folder for the campaigns, which stay there")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if arguments.list:
        print("\n".join(f"{fault.name:22} {fault.what}" for fault in FAULTS.values()))
        return 0
    if unknown := set(arguments.faults) - FAULTS.keys():
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    names = arguments.faults or [*FAULTS]
    if arguments.inside is not None:
        inside(arguments.accounting == "yes", names, arguments.json, arguments.inside)
        return 0
    with tempfile.TemporaryDirectory(prefix="buran-faults-", ignore_cleanup_errors=True) as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        rows_file = (arguments.json or Path(temporary) / "rows.jsonl").absolute()
        rows_file.touch()
        namespaces = [
            "unshare",
            "--mount",
            "--net",
            "--uts",
            "--ipc",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        ]
        lanes = [
            subprocess.Popen(
                [
                    # A shell as the first process: it takes the exit codes of daemons that have lost their parent.
                    *(*namespaces, "bash", "-c", '"$@"; exit $?', "bash"),
                    *(sys.executable, str(Path(__file__).resolve()), *names, "--inside", str(folder)),
                    *("--accounting", accounting, "--json", str(rows_file)),
                ]
            )
            for accounting in ([arguments.accounting] if arguments.accounting else ["no", "yes"])
        ]
        try:
            ends = [lane.wait() for lane in lanes]
        finally:
            for lane in lanes:
                lane.kill()
        rows = [Row(**json.loads(line)) for line in rows_file.read_text().splitlines()]
    if arguments.table is not None:
        arguments.table.write_text(table(rows))
    latest = {(row.fault, row.accounting): row for row in rows}
    return int(any(ends) or not all(row.is_good for row in latest.values()))


if __name__ == "__main__":
    sys.exit(main())
