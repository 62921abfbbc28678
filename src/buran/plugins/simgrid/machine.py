"""A machine that SimGrid simulates: programs really run, all ranks in one process of this machine."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from buran.campaign.launcher import Placement
from buran.campaign.point import Point
from buran.errors import RunError
from buran.files import digest, write_text
from buran.measurement.machine.machine import Clock, Machine, RunJob, free_marker
from buran.measurement.machine.process import Outcome
from buran.measurement.machine.provenance import machine_state
from buran.measurement.merge_dumps import read_dumps
from buran.plugins.simgrid.platform import Platform, host_file

if TYPE_CHECKING:
    from buran.plugins.simgrid.simulator import SimGrid

# SimGrid's own words: who says it and when, where in its source, how grave it is. Without a rank, it is SimGrid itself.
_SAID = re.compile(r"^\[(?P<rank>\S+ )?[\d.]+\] \S+ \[\w+/(?:CRITICAL|ERROR)\] (?P<words>.*)$", re.MULTILINE)
# A rank's copy of the runtime: 0.23 MB for 1024 ranks of a small program, with SimGrid 3.32.
_RANK_BYTES = 230_000


@dataclass(frozen=True)
class SimulatedMachine(Machine):
    """The simulated machine of a campaign's environment.

    Attributes
    ----------
    folder
        For the descriptions that SimGrid reads.
    node_groups
        Library without which SimGrid sorts ranks by nodes at a first broadcast, which takes time.
    """

    simgrid: SimGrid
    folder: Path
    node_groups: Path

    @property
    def clock(self) -> Clock:
        """The simulator's."""
        return "virtual"

    def reserved(self) -> AbstractContextManager[None]:
        """Nobody disturbs what is simulated."""
        return nullcontext()

    def state(self) -> dict[str, Any]:
        """Nothing of the host matters."""
        return {}

    def disturbances(self) -> tuple[str, ...]:
        """None."""
        return ()

    def launch_options(self, point: Point) -> tuple[str, ...]:
        """Return what the launcher gets: the machine, where ranks go, and how time passes."""
        platform, placement = self.simgrid.at(point), self.simgrid.campaign.placement(point)
        keys = platform.keys
        options = {"smpi/simulate-computation": "no", "surf/precision": "1e-12"}
        options["smpi/send-is-detached-thresh"] = str(keys.eager_limit_bytes)
        if placement.ranks > 1:  # of one rank, SimGrid 3.32 cannot reduce as Open MPI does
            options["smpi/coll-selector"] = keys.collectives
        if keys.factors == "none":  # a plain 1 ends SimGrid 3.32
            options |= {"smpi/bw-factor": "0:1", "smpi/lat-factor": "0:1"}
        description, hosts = self._files(platform, placement)
        files = ("-platform", str(description), "-hostfile", str(hosts))
        return (*files, "--log=root.thres:warning", *(f"--cfg={name}:{value}" for name, value in options.items()))

    def _files(self, platform: Platform, placement: Placement) -> tuple[Path, Path]:
        """Return where SimGrid finds the machine, and the places of ranks on it."""
        described = self.folder / f"machine-{digest(platform.text)}.xml"
        return described, described.with_suffix(f".{placement.ranks_per_node}.hosts")

    def run(self, job: RunJob) -> Outcome:
        """Simulate the program; its times are those of the simulated machine.

        Raises
        ------
        RunError
            It cannot be simulated here, or its ranks did not come to their end: SimGrid's exit code does not say.
        """
        _check_words(job)
        self._check_memory(job)
        platform, placement = self.simgrid.at(job.point), self.simgrid.campaign.placement(job.point)
        texts = (platform.text, host_file(platform, placement.ranks_per_node))
        for path, text in zip(self._files(platform, placement), texts, strict=True):
            if not path.is_file():
                write_text(path, text)
        keys = platform.keys
        costs = platform.costs(job.point)
        of_costs = self.folder / f"costs-{digest(costs)}.txt"
        if not of_costs.is_file():
            write_text(of_costs, costs)
        environment = {**job.environment, "BURAN_COSTS": str(of_costs)}
        if keys.collectives == "ompi":  # the others' algorithms need the groups
            loaded_too = environment.get("LD_PRELOAD", "")
            environment["LD_PRELOAD"] = f"{self.node_groups} {loaded_too}".strip()
        limited = replace(job, time_limit_s=keys.run_limit, environment=environment)
        outcome = self._start(limited, free_marker(), job.beat)
        if outcome.timed_out:
            raise RunError(
                f"simulating the run took longer than {keys.run_limit:g} s",
                where=f"environments.{self.simgrid.campaign.environment}.machine.run_limit",
                why="while a rank waits without calling MPI, as for a variable, a simulated machine stands still",
                hint="raise the limit, or let the program wait in MPI",
            )
        said = _SAID.search(job.stderr.read_text(errors="replace"))
        if outcome.failure and said:
            where = f"environments.{self.simgrid.campaign.environment}.machine"
            if said["rank"]:
                raise RunError("the program cannot be simulated", why=f"SimGrid says: {said['words']}")
            raise RunError("SimGrid refuses the machine", where=where, why=f"it says: {said['words']}")
        if outcome.failure:
            return replace(outcome, wall_s=0.0, user_s=0.0, system_s=0.0)  # those of this machine mean nothing
        try:
            profile = read_dumps(job.raw, job.ranks)
        except RunError as error:
            if said is None:
                raise
            why = "; ".join(filter(None, (error.why, f"SimGrid says: {said['words']}")))
            raise RunError(error.what, where=error.where, why=why) from None
        wall_s = float(profile.values["time"][0].max())
        is_late = wall_s > job.time_limit_s
        wall_s = min(wall_s, job.time_limit_s)
        return replace(outcome, timed_out=is_late, wall_s=wall_s, user_s=wall_s * job.ranks, system_s=0.0)

    def _check_memory(self, job: RunJob) -> None:
        """Refuse a run whose ranks together need more memory than this machine has free."""
        campaign = self.simgrid.campaign
        of_node = campaign.memory_mb(job.point)
        least = job.ranks * (_RANK_BYTES + job.binary.stat().st_size)
        need = least if of_node is None else max(least, 10**6 * of_node * campaign.placement(job.point).nodes)
        free = (machine_state()["memory_available_kib"] or 0) * 1024
        if need > free > 0:
            by = "at least, for copies of the program" if of_node is None else "by resources.memory_mb"
            raise RunError(
                f"{job.ranks} ranks need {need / 1e9:.3g} GB of memory ({by}), and {free / 1e9:.3g} GB are free here",
                why="all ranks of a simulated machine run in one process",
                hint="take fewer ranks, or a machine with more memory",
            )


def _check_words(job: RunJob) -> None:
    cut = next((word for word in job.argv if re.search(r"\s", word)), None)
    if cut is not None:
        raise RunError(f"SimGrid's launcher cuts words at spaces, as in {cut!r}", hint="use arguments without spaces")
