"""Programs, built and run outside of a campaign: under a real MPI, or on a simulated machine."""

from __future__ import annotations

import os
import resource
import shutil
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
from buran.measurement.backends.base import SYSTEMS, Backend
from buran.measurement.machine.machine import RunJob, bring_inputs
from buran.profiles.profile import Profile
from buran_studies.priors.runs import Workshop

EXAMPLES = Path(__file__).resolve().parents[4] / "examples"
RUNS = {"stencil": "{binary} {n} 3", "sweep": "{binary} {n} 8", "treesort": "{binary} {n}"}
_BUILD = "make MPICC={mpicc} MPICXX={mpicxx} CFLAGS=-O2 CXXFLAGS=-O2"
_TIME_LIMIT_S = 3600


@dataclass(frozen=True)
class Spent:
    """What a run cost here.

    Attributes
    ----------
    memory_mb
        Of the largest process.
    """

    cpu_s: float
    memory_mb: float


@dataclass(frozen=True)
class Bench:
    """A program that is built.

    Attributes
    ----------
    tree
        Where it was built.
    mode
        What its builds measure.
    """

    campaign: Campaign
    backend: Backend
    tree: Path
    mode: Mode = Mode.EFFORT

    def run(self, ranks: int, n: int) -> tuple[Profile, Spent]:
        """Run an example; return its profile and what that cost here."""
        return self.run_at(Point.of({"p": ranks, "n": n}))

    def folder_at(self, point: Point) -> Path:
        """Return the folder in which a point is run."""
        return self.tree.with_name("".join(f"{name}{value}" for name, value in sorted(point.items(), reverse=True)))

    def run_at(self, point: Point) -> tuple[Profile, Spent]:
        """Run it; return its profile and what that cost here."""
        raw, ranks = self.folder_at(point), self.campaign.ranks(point)
        shutil.rmtree(raw, ignore_errors=True)
        raw.mkdir()
        bring_inputs(self.campaign.inputs, self.tree, raw, self.campaign.input_texts(point))
        campaign, backend = self.campaign, self.backend
        argv, variables = backend.command(campaign, point, self.tree, usable_cores(), Mode.EFFORT)
        job = RunJob(
            argv=argv,
            cwd=raw,
            environment={**os.environ, **variables, **backend.run_environment(self.mode, raw)},
            stdout=raw / "stdout.log",
            stderr=raw / "stderr.log",
            time_limit_s=_TIME_LIMIT_S,
            binary=self.tree / campaign.binary,
            mode=self.mode,
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
        return backend.collect(self.mode, raw, ranks), Spent(cpu_s, outcome.max_rss_kib / 1000)


def bench_of(
    example: str,
    machine: Mapping[str, Any] | None,
    ranks: Sequence[int],
    sizes: Sequence[int],
    folder: Path,
    mode: Mode = Mode.EFFORT,
) -> Bench:
    """Build an example in a folder, for a simulated machine or for the MPI that is here.

    Raises
    ------
    UsageError
        The examples are not there.
    ToolError
        There is no compiler, no MPI or no SimGrid.
    BuildError
        The example does not build.
    """
    source = EXAMPLES / example
    if not source.is_dir():
        raise UsageError("the study machine needs the examples of the repository", where=EXAMPLES)
    folder.mkdir(parents=True)
    keys = {
        "name": example,
        "program": {
            "source": str(source),
            "build": _BUILD,
            "binary": example,
            "run": RUNS[example],
        },
        "environments": {"here": {} if machine is None else {"machine": dict(machine)}},
        "parameters": {
            "p": {"role": "ranks", "values": sorted({1, 2, *ranks})},
            "n": {"role": "size", "values": [*sizes]},
        },
    }
    return bench_for(keys, folder, mode)


def bench_for(keys: Mapping[str, Any], folder: Path, mode: Mode = Mode.EFFORT) -> Bench:
    """Build the program of a campaign in a folder; its source is an absolute path. Errors are those of `bench_of`."""
    (folder / "campaign.yaml").write_text(yaml.safe_dump(dict(keys), sort_keys=False), encoding="utf-8")
    campaign = load_campaign(folder / "campaign.yaml")
    backend: Backend = SYSTEMS.load("embedded").open(campaign, folder)
    target = keys["program"]
    Workshop(backend, folder).build(target["build"], Path(target["source"]), target["binary"], mode)
    return Bench(campaign, backend, folder / str(mode) / Path(target["source"]).name, mode)
