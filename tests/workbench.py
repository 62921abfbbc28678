"""Small real campaigns: a real compiler, a real MPI, the real workflow."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from buran.cli import main
from buran.errors import Exit
from buran.files import not_synced
from buran.workflow.engine.controller import make_eligible
from buran.workflow.history import History
from buran.workflow.report import link_latest, write_results
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out

PROGRAM = Path(__file__).parent / "workflow" / "program"


@dataclass
class Workbench:
    """A folder with a program and a campaign file, and the commands a user would type there."""

    folder: Path
    config: dict[str, Any] = field(default_factory=dict)
    results_name: str = "small"

    @classmethod
    def at(cls, folder: Path) -> Workbench:
        """A campaign that is there."""
        bench = cls(folder)
        bench.config = yaml.safe_load(bench.file.read_text())
        return bench

    @property
    def file(self) -> Path:
        return self.folder / "campaign.yaml"

    @property
    def results(self) -> Path:
        return self.folder / "results" / self.results_name

    @property
    def environment(self) -> dict[str, str]:
        # A lock of its own: other campaigns on this machine neither wait for tests nor disturb them.
        return {**os.environ, "BURAN_LOCK_FOLDER": str(self.folder / "lock"), "NO_COLOR": "1"}

    def write(self, **changes: Any) -> None:
        self.config = {**self.config, **changes}
        self.file.write_text(yaml.safe_dump(self.config, sort_keys=False))

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "buran.cli", *words]

    def buran(self, *words: str, expect: int | None = 0) -> str:
        """Say what a command says. What starts the workflow's engine has a process of its own, all else this one."""
        starts_engine = words[0] == "run" and expect != Exit.USAGE and "--mark-only" not in words
        code, said = self._in_a_process(words) if starts_engine else self._in_this_process(words)
        if expect is not None:
            log = self.results / "logs" / "snakemake.log"
            tail = log.read_text()[-3000:] if log.is_file() and code != expect else ""
            assert code == expect, f"{said}\n{tail}"
        assert "Traceback" not in said
        return said

    def _in_a_process(self, words: Sequence[str]) -> tuple[int, str]:
        done = subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        return done.returncode, done.stdout + done.stderr

    def _in_this_process(self, words: Sequence[str]) -> tuple[int, str]:
        out, err = io.StringIO(), io.StringIO()
        with self._as_the_user(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = main(list(words))
        return code, out.getvalue() + err.getvalue()

    @contextlib.contextmanager
    def _as_the_user(self) -> Iterator[None]:
        with contextlib.chdir(self.folder), mock.patch.dict(os.environ, self.environment):
            yield

    def carry_out(self) -> None:
        """Go on to the campaign's end as `buran run` does, in this process and without the workflow's engine."""
        with self._as_the_user(), not_synced():
            session = open_session(self.file)
            make_eligible(session.layout, session.id, retry_failed=False)
            carry_out(session)
            write_results(History.open(session), session.layout.results(session.id))
            link_latest(session)

    def started(self) -> list[str]:
        """Folders of all runs that were ever started, finished or not."""
        store = self.results / "store"
        found = [*store.glob("*/*/*~*/rep-*/run.json"), *store.glob("*/*/*~*/warmup*/run.json")]
        found += store.glob("*/*/*~*/failed/*/run.json")
        return sorted(str(path.parent.relative_to(store)) for path in found)


def new_workbench(folder: Path) -> Workbench:
    shutil.copytree(PROGRAM, folder / "source")
    bench = Workbench(folder)
    bench.write(
        name="small",
        program={
            "source": "source",
            "build": "make MPICC={mpicc} CFLAGS='{flags}'",
            "flags": "-O2",
            "binary": "program",
            "run": "{binary} {n}",
        },
        parameters={
            "p": {"role": "ranks", "values": [1, 2]},
            "n": {"role": "size", "values": [20, 40]},
        },
        repetitions=1,
        effort_repetitions=1,
        warmup=False,
        refinement={"enabled": False},
        resources={"time_limit": 120},
    )
    return bench
