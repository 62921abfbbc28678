"""Commands of the sandbox's operator and of its user."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from patience import PATIENCE_S
from workbench import Workbench, new_workbench

STATE = Path(os.environ.get("BURAN_SANDBOX", "/run/buran-slurm"))


def call(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
    return done.stdout


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


class Cluster:
    """The sandbox, seen by its operator.

    Attributes
    ----------
    user
        Whose jobs there are.
    """

    def __init__(self, user: str = "root") -> None:
        self.user = user

    def jobs(self, state: str = "all") -> list[str]:
        states = "PENDING,RUNNING,COMPLETING,CONFIGURING,SUSPENDED" if state == "all" else state
        return call("squeue", "-h", "-t", states, "-o", "%i").split()

    def running(self) -> list[str]:
        return self.jobs("RUNNING")

    def node_of(self, job: str) -> str:
        return call("squeue", "-h", "-j", job, "-o", "%N").strip()

    def tasks_of(self, job: str) -> int:
        return int(call("squeue", "-h", "-j", job, "-O", "NumTasks"))

    def stop_controller(self, by: signal.Signals = signal.SIGTERM) -> None:
        path = STATE / "slurmctld.pid"
        pid = int(path.read_text())
        os.kill(pid, by)
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "slurmctld's end")

    def start_controller(self) -> None:
        subprocess.run(["slurmctld"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: "UP" in call("scontrol", "ping"), "slurmctld")

    def partition(self, state: str) -> None:
        call("scontrol", "update", "PartitionName=debug", f"State={state}")

    def heal(self) -> None:
        if "UP" not in call("scontrol", "ping"):
            self.start_controller()
        self.partition("UP")
        call("scancel", f"--user={self.user}")
        wait_until(lambda: not self.jobs(), "an empty queue")
        call("scontrol", "update", "NodeName=n[1-4]", "State=RESUME")
        wait_until(lambda: call("sinfo", "-h", "-t", "idle", "-o", "%D").strip() == "4", "idle nodes")


@dataclass
class SlurmBench(Workbench):
    """A campaign on the sandbox, seen by its user."""

    profile: Path = field(default_factory=Path)
    point: str = "{ranks}"
    controllers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @classmethod
    def make(cls, folder: Path, profile: Path) -> SlurmBench:
        plain = new_workbench(folder)
        bench = cls(folder, plain.config, profile=profile)
        bench.write(
            # Emulated nodes share the segments of their host: ranks must not talk through them.
            environments={"sandbox": {"launcher": "auto", "variables": {"OMPI_MCA_btl": "self,tcp"}}},
            parameters={"p": {"role": "ranks", "values": [1, 2]}},
            resources={"time_limit": 60},
            program={**plain.config["program"], "run": bench.script("exec {binary} 40")},
        )
        return bench

    @property
    def starts_file(self) -> Path:
        return self.folder / "starts"

    def script(self, body: str) -> str:
        """A run command whose first rank notes its start."""
        note = f"test $PMIX_RANK = 0 && echo {self.point} >> {self.starts_file}"
        return f"bash -c '{note}; {body}'"

    def program(self, body: str, **changes: Any) -> None:
        self.write(program={**self.config["program"], "run": self.script(body)}, **changes)

    def starts(self) -> Counter[str]:
        """Program starts by point."""
        return Counter(self.starts_file.read_text().splitlines()) if self.starts_file.exists() else Counter()

    def run(self, *words: str, expect: int | None = 0) -> str:
        return self.buran("run", "campaign.yaml", "--profile", str(self.profile), *words, expect=expect)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        with (self.folder / "output").open("ab") as output:
            controller = subprocess.Popen(
                self.command("run", "campaign.yaml", "--profile", str(self.profile), *words),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.controllers.append(controller)
        return controller

    def stop(self) -> None:
        """End controllers that a failed test left behind."""
        for controller in self.controllers:
            if controller.poll() is None:
                controller.kill()
                controller.wait()

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    def status(self) -> dict[str, Any]:
        state: dict[str, Any] = json.loads(self.buran("status", "campaign.yaml", "--json", expect=None))
        return state

    def finished(self) -> dict[str, str]:
        """Finished runs with the sums of their files."""
        store = self.results / "store"
        found = [*store.glob("*/*/*~*/rep-*/SHA256SUMS")]
        return {str(path.parent.relative_to(store)): path.read_text() for path in found}

    def records(self) -> list[dict[str, Any]]:
        found = sorted((self.results / "store").glob("*/*/*~*/rep-*/run.json"))
        return [json.loads(path.read_text()) for path in found]

    def warmups(self) -> list[dict[str, Any]]:
        found = sorted((self.results / "store").glob("*/*/*~*/warmup*/run.json"))
        return [json.loads(path.read_text()) for path in found]

    def plans(self) -> list[dict[str, Any]]:
        found = sorted((self.results / "iterations").glob("*/*/plan.json"))
        return [json.loads(path.read_text()) for path in found]

    def attempts(self) -> list[dict[str, Any]]:
        """Records of failed and interrupted attempts."""
        found = sorted((self.results / "store").glob("*/*/*~*/failed/*/run.json"))
        return [json.loads(path.read_text()) for path in found]

    def assert_whole(self, before: dict[str, str], interrupted: int, runs: int = 6) -> None:
        """Everything is measured once, nothing of what was there is lost, and starts beyond are accounted for."""
        after = self.finished()
        assert len(after) == runs
        assert before.items() <= after.items()
        assert "0 problems" in self.buran("verify", "campaign.yaml")
        state = self.status()
        assert state["done"] and state["measured"] == runs and state["failed"] == 0
        starts = self.starts()
        assert min(starts.values()) >= 3, "a point has a run of each build"
        assert runs <= starts.total() <= runs + interrupted, starts
