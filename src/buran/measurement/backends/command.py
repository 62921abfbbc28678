"""Programs that measure themselves, or that another tool measures: by what they print, and the file that they leave."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.identity import requested
from buran.campaign.plan import Mode
from buran.campaign.point import Point
from buran.campaign.sections import CommandKeys
from buran.errors import FormatError, RunError, ToolError
from buran.files import digest
from buran.measurement.backends.base import Backend, MeasurementSystem
from buran.measurement.machine.machine import RunJob, free_marker
from buran.measurement.machine.process import run_limited
from buran.measurement.toolchain.installed import Mpi, find_mpi, find_tool, run_tool
from buran.profiles.experiment.read import read_single_run
from buran.profiles.metrics import metric_of
from buran.profiles.profile import CallTree, Location, Profile, Region

_ROOT = Region("program", paradigm="measurement", role="artificial")
_AFTERWARDS_LIMIT_S = 600.0


@dataclass(frozen=True)
class CommandBackend(Backend):
    """A measuring program, as the section `command` of a campaign file describes it.

    Attributes
    ----------
    mpi
        None where there is no MPI, which programs without need not have.
    """

    campaign: Campaign
    mpi: Mpi | None

    @property
    def keys(self) -> CommandKeys:
        """The section of the campaign file."""
        return self.campaign.config.command

    @cached_property
    def compiler(self) -> str:
        """The C compiler of PATH, as text; empty if there is none."""
        cc = find_tool("cc")
        return run_tool([cc, "--version"], what="the C compiler does not work").splitlines()[0] if cc else ""

    @cached_property
    def identity(self) -> str:
        """The section, and versions of compiler and MPI."""
        mpi = self.mpi.version if self.mpi else ""
        return f"command-1-{digest([requested(self.keys), self.compiler, self.mpi_flavour, mpi])}"

    @property
    def description(self) -> Mapping[str, str | None]:
        """As found on PATH."""
        mpi = self.mpi
        return {
            "kind": "command",
            "compiler": self.compiler,
            "mpi": None if mpi is None else f"{mpi.flavour} {mpi.version}",
            "mpicc": None if mpi is None else mpi.mpicc,
        }

    @property
    def mpi_flavour(self) -> str:
        """As found; without an MPI nothing is launched."""
        return self.mpi.flavour if self.mpi else "none"

    @property
    def mpiexec(self) -> str:
        """As found."""
        return self.mpi.mpiexec if self.mpi else "mpiexec"

    def command(
        self, campaign: Campaign, point: Point, tree: Path, cores: int, mode: Mode
    ) -> tuple[list[str], dict[str, str]]:
        """Put the wrapper into the command of measured runs."""
        wrapper = shlex.split(self.keys.wrapper or "") if mode is Mode.TIME else []
        binary = tree / campaign.binary
        return campaign.launch(point, binary, tree, self.mpi_flavour, self.mpiexec, cores, wrapper=wrapper)

    def tools(self, mode: Mode) -> Mapping[str, str]:
        """Return compilers of PATH, and the flags of measured builds."""
        mpi = {} if self.mpi is None else {"mpicc": self.mpi.mpicc, "mpicxx": self.mpi.mpicxx}
        if self.mpi is not None and self.mpi.mpifort:
            mpi["mpifort"] = self.mpi.mpifort
        flags = f"{self.campaign.flags} {self.keys.extra_flags}" if mode is Mode.TIME else None
        return {**super().tools(mode), **mpi, **({} if flags is None else {"flags": flags.strip()})}

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Set the variables that the section names."""
        return dict(self.keys.variables) if mode is Mode.TIME else {}

    def profile_of(self, job: RunJob, wall_s: float) -> Profile:
        """Read the profile that a run has left, and what it printed; a run's time is its wall-clock time by default."""
        keys = self.keys
        if keys.afterwards is not None:
            self._go_on(keys.afterwards, job)
        profile = _whole_program() if keys.profile is None else self._profile(keys.profile, job)
        if keys.clock is not None:
            profile = at_root(profile, {"time": printed_time(keys.clock, job.stdout)})
        elif "time" not in profile.values:
            profile = at_root(profile, {"time": wall_s})
        config = self.campaign.config
        for name in (*config.metrics, *config.extra_metrics):
            if name not in profile.values:
                raise RunError(
                    f"the profile has no metric {name}",
                    where=job.cwd / (keys.profile or ""),
                    why=f"it has {', '.join(profile.values)}",
                    hint="correct metrics or command.further_metrics, or let the tool measure it",
                )
            if not np.isfinite(profile.values[name]).all():
                raise RunError(f"{name} is no number everywhere", where=job.cwd / (keys.profile or ""))
        return profile

    def _go_on(self, afterwards: str, job: RunJob) -> None:
        """Run the command that makes a profile."""
        log = job.raw / "afterwards.log"
        outcome = run_limited(
            ["bash", "-c", self.campaign.with_modules(f"exec 2>&1\n{afterwards}")],
            cwd=job.cwd,
            marker=free_marker(),
            environment={**job.environment, "BURAN_BINARY": str(job.binary), "BURAN_RANKS": str(job.ranks)},
            stdout=log,
            stderr=job.raw / "afterwards.err",
            time_limit_s=_AFTERWARDS_LIMIT_S,
        )
        if outcome.failure:
            last = log.read_text(errors="replace", encoding="utf-8").strip().splitlines()[-1:]
            why = ": ".join([outcome.failure, *last])
            raise RunError("command.afterwards failed", where=log, why=why, hint="correct it")

    def _profile(self, pattern: str, job: RunJob) -> Profile:
        found = sorted(job.cwd.glob(pattern))
        if len(found) != 1:
            there = ", ".join(sorted(path.name for path in job.cwd.iterdir())[:8]) or "nothing"
            what = f"{len(found)} files are named {pattern}" if found else f"the run left no file {pattern}"
            hint = "command.profile must name one; for one file of many, use command.afterwards"
            raise RunError(what, where=job.cwd, why=f"in its folder is {there}", hint=hint)
        try:
            return read_single_run(found[0], self.keys.format)
        except FormatError as error:
            why = ": ".join(filter(None, (error.what, error.why)))
            raise RunError("the profile cannot be read", where=error.where, why=why, hint=error.hint) from error


def printed_time(pattern: str, output: Path) -> float:
    """Return the number that a program has printed once, at the group of a regular expression; else `RunError`."""
    text = output.read_text(errors="replace", encoding="utf-8")
    matches = list(re.finditer(pattern, text, re.MULTILINE))
    if len(matches) != 1:
        lines = ", ".join(str(_line(text, match)) for match in matches[:8])
        what = f"the program's clock is in the output {len(matches)} times" if matches else "the program shows no clock"
        why = f"{pattern!r} matches " + (f"in the lines {lines}" if matches else "nowhere")
        raise RunError(what, where=output, why=why, hint="correct command.clock, so that it matches once")
    try:
        seconds = float(matches[0][1])
    except (TypeError, ValueError):
        seconds = np.nan
    if not np.isfinite(seconds):
        where = f"{output}, line {_line(text, matches[0])}"
        raise RunError("the program's clock shows no number", where=where, why=f"it is {matches[0][1]!r}")
    return seconds


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1


def _whole_program() -> Profile:
    tree = CallTree((_ROOT,), region=np.zeros(1, dtype=np.int64), parent=np.array([-1], dtype=np.int64))
    return Profile(tree, (Location(0),), {}, {}, {})


def at_root(profile: Profile, figures: Mapping[str, float]) -> Profile:
    """Add numbers of the whole program to a profile, at its root; several roots get one above them."""
    tree = profile.tree
    values = dict(profile.values)
    if figures and np.count_nonzero(tree.parent < 0) != 1:
        first = len(tree.regions)
        region, parent = np.concatenate([[first], tree.region]), np.concatenate([[-1], tree.parent + 1])
        tree = CallTree((*tree.regions, _ROOT), region=region, parent=parent)
        for name, stored in values.items():
            inclusive = profile.metrics[name].kind == "inclusive"
            top = stored[profile.tree.parent < 0].sum(axis=0) if inclusive else np.zeros_like(stored[0])
            values[name] = np.concatenate([top[None], stored])
    metrics = dict(profile.metrics)
    for name, number in figures.items():
        metrics[name] = replace(metric_of(name), dtype="DOUBLE")
        values[name] = np.zeros((len(tree), len(profile.locations)))
        values[name][0] = number  # at each location: the table takes their mean
    return replace(profile, tree=tree, metrics=metrics, values=values)


class OtherTools(MeasurementSystem):
    """Any program or tool that measures."""

    name = "command"

    def open(self, campaign: Campaign, scratch: Path) -> CommandBackend:
        """Find an MPI, if the program needs one."""
        environment = campaign.active_environment
        used: Sequence[str] = campaign.build.names
        needs_mpi = environment.launcher == "auto" or {"mpicc", "mpicxx", "mpifort"} & set(used)
        try:
            return CommandBackend(campaign, find_mpi())
        except ToolError:
            if needs_mpi:
                raise
            return CommandBackend(campaign, None)


COMMAND = OtherTools()
