"""A campaign whose parts are killed again and again, until it has come to its end."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from buran.campaign.layout import Layout
from buran.campaign.records import RECORD
from buran.errors import Exit
from buran.files import file_sha256
from buran.measurement.store import ledger, store
from buran.workflow.engine.controller import make_eligible
from buran.workflow.session import open_session
from buran.workflow.views.verify import differences
from buran_studies.kills import hook
from buran_studies.machine.laboratory import EXAMPLES
from buran_studies.simulate.in_process import carry_out

STUCK_S = 900.0
"""Of a `buran run` that nobody kills: after that it counts as one that does not go on. Undisturbed it takes 20 s."""

_PROGRAM: Mapping[str, Any] = {
    "schema": "buran-program/1",
    "startup_s": 0.1,
    "noise": {"percent": 2},
    "program": {
        "main": {
            "time_s": 0.01,
            "calls": {
                "solve": {
                    "time_s": "2e-7 * n**3",
                    "visits": 100,
                    "basic_blocks": "3 * n**3",
                    "calls": {"tiny": {"time_s": "1e-8 * n**3", "visits": "n**3", "basic_blocks": "n**3"}},
                }
            },
        }
    },
}
_SIMULATED: Mapping[str, Any] = {
    "backend": "simulated",
    "simulated": "program.yaml",
    "parameters": {"n": {"role": "size", "values": [20, 30, 40]}},
    "resources": {"ranks": 4},
    "target": {"n": 200},
}
_MEASURED: Mapping[str, Any] = {
    "program": {
        "source": str(EXAMPLES / "sweep"),
        "build": "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS=-O2 CXXFLAGS=-O2",
        "binary": "sweep",
        "run": "{binary} {n} 8",
    },
    "parameters": {"n": {"role": "size", "values": [4, 6, 8]}},
    "resources": {"ranks": 1, "time_limit": 600},
    "target": {"n": 16},
}


def write_campaign(folder: Path, *, measured: bool) -> Path:
    """Write a campaign of some twenty jobs and two iterations; of the example `sweep` if it is measured."""
    folder.mkdir(parents=True)
    (folder / "program.yaml").write_text(yaml.safe_dump(dict(_PROGRAM)))
    config = {"name": "kills", **(_MEASURED if measured else _SIMULATED), "repetitions": 1, "warmup": False}
    path = folder / "campaign.yaml"
    path.write_text(yaml.safe_dump(config))
    return path


def derived(layout: Layout) -> dict[str, str]:
    """Return the checksum of each plan, filter, table and model, by its path."""
    paths = [*(layout.root / "iterations").rglob("*"), *(layout.root / "latest").rglob("models.json")]
    whole = (
        path for path in sorted(paths) if path.is_file() and not path.name.startswith(".")
    )  # others were cut short
    return {str(path.relative_to(layout.root)): file_sha256(path) for path in whole}


@dataclass
class Harassed:
    """A campaign, what was killed in it, and what came of that.

    Attributes
    ----------
    kills
        As in the log of `hook.Hook`.
    finished
        Checksums of the finished builds and runs, as they were when they were first seen.
    lost
        Those that are gone, or are no longer what they were.
    doubled
        Runs that were begun although they were finished, or while somebody else made them.
    stuck
        Where `buran run` did not come to an end, or came to one that asks for the user.
    starts
        How often `buran run` was called.
    """

    folder: Path
    generator: random.Random
    kills: list[dict[str, Any]] = field(default_factory=list)
    finished: dict[str, str] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    doubled: list[str] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    starts: int = 0

    @property
    def layout(self) -> Layout:
        """Where its results are."""
        return Layout(self.folder / "results" / "kills")

    @property
    def _aims(self) -> Path:
        return self.folder / "aims"

    def run(self, aims: Sequence[Mapping[str, Any]] = (), tries: int = 1) -> int | None:
        """Call `buran run` while so many signals are aimed at it; return its exit code, None if it was stuck.

        Parameters
        ----------
        tries
            That the engine has at each job.
        """
        self._aim(aims)
        options = ["--", "--retries", str(tries - 1)] if tries > 1 else []
        with (self.folder / "output").open("ab") as output:
            process = subprocess.Popen(
                [*self._command("run"), *options], cwd=self.folder, env=self._environment(), stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            code: int | None = process.wait(STUCK_S)
        except subprocess.TimeoutExpired:
            code = None
            self._end_all()
            process.wait()
        self._look(code)
        return code

    def step(self, aim: Mapping[str, Any] | None) -> int:
        """Carry out what the campaign lacks, in a child without an engine; return how that ended."""
        self._aim([] if aim is None else [aim])
        child = os.fork()
        if child == 0:
            end = Exit.CRASHED
            try:
                hook.install(str(self._aims), "job")
                session = open_session(self.folder / "campaign.yaml")
                make_eligible(session.layout, session.id, retry_failed=False)
                carry_out(session)
                ledger.rebuild(session.layout.store)  # as `buran run` does: nobody booked attempts that vanished
                end = Exit.DONE
            finally:
                os._exit(end)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        self._look(code)
        return code

    def _aim(self, aims: Sequence[Mapping[str, Any]]) -> None:
        shutil.rmtree(self._aims, ignore_errors=True)
        self._aims.mkdir()
        for number, aim in enumerate(aims):
            (self._aims / f"{aim['role']}-{number:03}").write_text(json.dumps(aim))
        self.starts += 1

    def _command(self, verb: str) -> list[str]:
        return [sys.executable, "-m", "buran.cli", verb, "campaign.yaml"]

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            hook.VARIABLE: str(self._aims),
            "PYTHONPATH": os.pathsep.join([str(self.hooked()), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "BURAN_LOCK_FOLDER": str(self.folder / "lock"),
            "NO_COLOR": "1",
        }

    def hooked(self) -> Path:
        """Return the folder that has the hook as a module that every Python loads."""
        path = self.folder / "hook" / "sitecustomize.py"
        if not path.is_file():
            path.parent.mkdir()
            shutil.copyfile(hook.__file__, path)
        return path.parent

    def _end_all(self) -> None:
        for pid in hook.processes_of(str(self._aims)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _look(self, code: int | None) -> None:
        """Book what was killed, and compare what is finished with what was."""
        log = self._aims / hook.LOG
        killed = 0
        for line in log.read_text().splitlines() if log.is_file() else ():
            entry = json.loads(line)
            if "killed" in entry:
                killed += 1
                self.kills.append(entry)
            else:
                self.doubled.append(f"{entry['again']} beside {entry['beside']}")
        if code is None or (not killed and code != Exit.DONE):
            self.stuck.append(f"start {self.starts}: exit code {code} after {killed} kills")
        now = {str(folder): file_sha256(folder / store.SUMS) for folder in self._finished()}
        self.lost |= {path for path, before in self.finished.items() if now.get(path) != before}
        self.finished = now | self.finished

    def _finished(self) -> list[Path]:
        folders = (*store.build_folders(self.layout.store), *store.run_folders(self.layout.store))
        return [folder for folder in folders if json.loads((folder / RECORD).read_text())["status"] == "measured"]

    def verify(self) -> None:
        """Compare the results with what the store says."""
        self.stuck += map(str, differences(self.layout))


def aims_of_round(generator: random.Random) -> list[dict[str, Any]]:
    """Draw what is signalled during one `buran run`: something above the jobs, jobs at their calls, or both."""

    def aim(role: str, victim: str, at: str, most: int) -> dict[str, Any]:
        is_killed = victim == "everything" or generator.random() < 2 / 3
        return {
            "role": role,
            "victim": victim,
            "at": at,
            "number": int(most ** generator.random()) - 1,  # small numbers are more frequent: most jobs are short
            "after": generator.random() < 0.5,
            "signal": int(signal.SIGKILL if is_killed else signal.SIGTERM),
            "hold_s": generator.choice((0.0, 0.5)) if at == "checkpoint" else 0.0,
        }

    def of_job(takes: str, victim: str) -> dict[str, Any]:
        at, many = generator.choice(("rename", "rename", "call")), takes == "measure"
        return aim(takes, victim, at, {"rename": 12 if many else 4, "call": 80 if many else 12}[at])

    jobs = [of_job(takes, "job") for takes in ("job", "measure") for _ in range(generator.randrange(1, 13))]
    above = generator.choice(("controller", "engine", "supervisor", "everything"))
    kind = generator.random()
    if kind < 0.2:
        return [*jobs[:3], aim("engine", above, "checkpoint", 1)]
    if kind < 0.3:
        return [aim("controller", "controller", "call", 12)]
    if kind < 0.4:
        return [*jobs[:3], aim("engine", above, "call", 60)]
    return [*jobs, of_job("measure", above)]


def harass(campaign: Harassed, kills: int) -> None:
    """Kill parts of a campaign until there were so many kills or it is done; then let it come to its end."""
    while len(campaign.kills) < kills:
        aims, tries = aims_of_round(campaign.generator), campaign.generator.choice((1, 10, 10, 10))
        if campaign.run(aims, tries) == Exit.DONE:
            break
    campaign.run()
    campaign.verify()


def harass_steps(campaign: Harassed, kills: int) -> None:
    """Do the same to the steps of a campaign, without an engine."""
    while len(campaign.kills) < kills:
        at = campaign.generator.choice(("rename", "call"))
        number = int({"rename": 20, "call": 120}[at] ** campaign.generator.random()) - 1
        aim = {
            "role": "job",
            "victim": "self",
            "at": at,
            "number": number,
            "after": campaign.generator.random() < 0.5,
            "signal": int(campaign.generator.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))),
        }
        if campaign.step(aim) == Exit.DONE:
            break
    campaign.step(None)
    campaign.verify()
