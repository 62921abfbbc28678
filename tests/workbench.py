"""Small real campaigns: a real compiler, a real MPI, the real workflow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

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
        done = subprocess.run(
            self.command(*words), cwd=self.folder, env=self.environment, capture_output=True, text=True
        )
        if expect is not None:
            log = self.results / "logs" / "snakemake.log"
            tail = log.read_text()[-3000:] if log.is_file() and done.returncode != expect else ""
            assert done.returncode == expect, f"{done.stdout}\n{done.stderr}\n{tail}"
        assert "Traceback" not in done.stdout + done.stderr
        return done.stdout + done.stderr

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
