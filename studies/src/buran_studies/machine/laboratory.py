"""The bundled examples, built and run outside of a campaign: under a real MPI, or on a simulated machine."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from buran.campaign.config import Campaign
from buran.campaign.launcher import usable_cores
from buran.campaign.load import load_campaign
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.errors import ToolError, UsageError
from buran.measure.backends.base import Backend
from buran.measure.backends.registry import SYSTEMS
from buran.measure.machine.machine import RunJob
from buran.profile.profile import Profile

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
RUNS = {"stencil": "{binary} {n} 3", "sweep": "{binary} {n} 8", "treesort": "{binary} {n}"}
_TIME_LIMIT_S = 3600


@dataclass(frozen=True)
class Bench:
    """An example that is built.

    Attributes
    ----------
    tree
        Where it was built.
    """

    campaign: Campaign
    backend: Backend
    tree: Path

    def run(self, ranks: int, n: int) -> tuple[Profile, float]:
        """Run it; return its profile and the CPU seconds that this took here."""
        point, raw = Point.of({"p": ranks, "n": n}), self.tree.with_name(f"p{ranks}n{n}")
        shutil.rmtree(raw, ignore_errors=True)
        raw.mkdir()
        campaign, backend, binary = self.campaign, self.backend, self.tree / self.campaign.binary
        options = backend.launch_options(campaign.placement(point))
        argv, variables = campaign.launch(
            point, binary, self.tree, backend.mpi_flavour, backend.mpiexec, usable_cores(), options
        )
        job = RunJob(
            argv=argv,
            cwd=raw,
            environment={**os.environ, **variables, **backend.run_environment(Mode.EFFORT, raw)},
            stdout=raw / "stdout.log",
            stderr=raw / "stderr.log",
            time_limit_s=_TIME_LIMIT_S,
            binary=binary,
            mode=Mode.EFFORT,
            point=point,
            ranks=ranks,
            raw=raw,
            filter_file=None,
            key="",
            beat=lambda: None,
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        outcome = backend.machine.run(job)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if outcome.failure:
            raise ToolError(f"{campaign.binary} failed: {outcome.failure}", where=job.stderr)
        cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return backend.collect(Mode.EFFORT, raw, ranks), cpu_s


def bench_of(
    example: str, machine: Mapping[str, Any] | None, ranks: Sequence[int], sizes: Sequence[int], folder: Path
) -> Bench:
    """Build an example in a folder, for a simulated machine or for the MPI that is here.

    Raises
    ------
    UsageError
        The examples are not there.
    ToolError
        There is no compiler, no MPI or no SimGrid, or the example does not build.
    """
    source = EXAMPLES / example
    if not source.is_dir():
        raise UsageError("the study machine needs the examples of the repository", where=EXAMPLES)
    folder.mkdir(parents=True)
    keys = {
        "name": example,
        "target": {
            "source": str(source),
            "build": "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS='{flags}' CXXFLAGS='{flags}'",
            "binary": example,
            "run": RUNS[example],
        },
        "environments": {"here": {} if machine is None else {"machine": dict(machine)}},
        "parameters": {
            "p": {"role": "ranks", "values": sorted({1, 2, *ranks})},
            "n": {"role": "size", "values": [*sizes]},
        },
    }
    (folder / "campaign.yaml").write_text(yaml.safe_dump(keys), encoding="utf-8")
    campaign = load_campaign(folder / "campaign.yaml")
    backend: Backend = SYSTEMS.load("embedded").open(campaign, folder)
    shutil.copytree(source, folder / "tree")
    environment = {**os.environ, **backend.build_environment(Mode.EFFORT, None)}
    command = campaign.build_command({}, backend.tools(Mode.EFFORT))
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder / "tree", env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ToolError(f"{example} does not build", where=folder, why=done.stderr[-2000:])
    return Bench(campaign, backend, folder / "tree")
