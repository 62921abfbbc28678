"""What a step of a Slurm job consumed, where Slurm gathers that (AcctGatherEnergyType) and keeps accounts."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass

from buran.measurement.schedulers.base import Ask, Scheduler
from buran.measurement.schedulers.slurm import CONFIG, ask, has_accounting
from buran.plugins.energy.consumption import Consumption

_TYPE = re.compile(r"^AcctGatherEnergyType\s*=\s*(\S+)", re.MULTILINE)
_NONE = ("(null)", "acct_gather_energy/none", "")
_SRUN = re.compile(r"\bsrun\b")
_PATIENCE_S = 30.0  # with accounts that are behind: steps are booked some seconds after their end
_ASK_AGAIN_S = 0.5
_UNDER_WAY = ("RUNNING", "PENDING", "COMPLETING", "SUSPENDED")
_NO_VALUE = 2**63  # Slurm's words for nothing are the largest numbers there are


def why_nothing_is_gathered(config: str) -> str:
    """Return why Slurm does not know what steps consume; empty if it does.

    Parameters
    ----------
    config
        What ``scontrol show config`` prints.
    """
    kind = _TYPE.search(config)
    if kind is None or kind[1] in _NONE:
        return "Slurm gathers no energy (AcctGatherEnergyType)"
    return ""


@dataclass(frozen=True)
class BookedStep:
    """What Slurm has booked of a step."""

    is_over: bool
    nodes: int
    consumed: str


def parse_steps(text: str) -> dict[str, BookedStep]:
    """Return the numbered steps of lines of ``sacct`` with JobIDRaw, State, NNodes and ConsumedEnergyRaw."""
    steps = {}
    for line in text.splitlines():
        words = line.strip().split("|")
        if len(words) == 4 and re.fullmatch(r"[\d_]+\.\d+", words[0]) and words[2].isdecimal():
            steps[words[0]] = BookedStep(not words[1].startswith(_UNDER_WAY), int(words[2]), words[3])
    return steps


def why_not_a_step(command: str) -> str:
    """Return why the energy of what a command starts would not be booked; empty if it would."""
    why = "only what srun starts is a step with energy of its own (environments.NAME.launcher: srun)"
    return "" if _SRUN.search(command) else why


def why_no_step_energy(scheduler: Scheduler, launcher: str) -> str:
    """Return why a scheduler does not know what programs in its jobs consume with a launcher; empty if it does."""
    if scheduler.name != "slurm":
        return f"{scheduler.title} is not asked for energy"
    shown = ask(CONFIG)
    if shown is None or shown.returncode != 0:
        return "Slurm does not answer"
    why = why_nothing_is_gathered(shown.stdout) or ("" if has_accounting() else "Slurm keeps no accounting")
    return why or why_not_a_step(launcher)


class StepMeter:
    """Adds up what the steps of a job consumed that start from its making on.

    Parameters
    ----------
    nodes
        That the steps must have had, as another node's energy would be missing.
    runs
        Runs one of Slurm's commands; None if it does not answer.
    """

    def __init__(self, job: str, nodes: int, runs: Ask = ask) -> None:
        self._job, self._nodes, self._ask = job, nodes, runs
        before = self._steps()
        # Steps of earlier runs could not be told from those of this one where they are not known.
        self._why, self._before = (before, frozenset[str]()) if isinstance(before, str) else ("", frozenset(before))

    def sample(self) -> None:
        """Leave it to Slurm."""

    def read(self) -> Consumption:
        """Wait until the steps are booked."""
        if self._why:
            return _unknown(self._why)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            steps = self._steps()
            new = {} if isinstance(steps, str) else {n: step for n, step in steps.items() if n not in self._before}
            if new and all(step.is_over for step in new.values()):
                return self._sum(new)
            if time.monotonic() > deadline:
                return _unknown(steps if isinstance(steps, str) else "sacct has not booked the run's step")
            time.sleep(_ASK_AGAIN_S)

    def _steps(self) -> dict[str, BookedStep] | str:
        """Return the steps of the job, or why they are not known."""
        fields = "--format=JobIDRaw,State,NNodes,ConsumedEnergyRaw"
        done = self._ask(["sacct", "--noheader", "--parsable2", f"--jobs={self._job}", fields])
        if done is None:
            return "sacct is missing or does not answer"
        if done.returncode != 0:
            return f"sacct does not report it: {' '.join(done.stderr.split())[:200] or f'exit code {done.returncode}'}"
        # The number of an array, which its last task has too, brings the steps of all its tasks.
        return {name: step for name, step in parse_steps(done.stdout).items() if name.startswith(f"{self._job}.")}

    def _sum(self, steps: Mapping[str, BookedStep]) -> Consumption:
        most = max(step.nodes for step in steps.values())
        if most != self._nodes:
            return _unknown(f"the run's step had {most} of its {self._nodes} nodes")
        for name, step in steps.items():
            if not (step.consumed.isascii() and step.consumed.isdecimal() and int(step.consumed) < _NO_VALUE):
                return _unknown(f"sacct shows {step.consumed!r} as the energy of step {name}")
        joules = sum(int(step.consumed) for step in steps.values())
        if joules == 0:
            return _unknown("Slurm counted 0 J: its counters were not read while the run went on (AcctGatherNodeFreq)")
        return Consumption(float(joules), "slurm")


def _unknown(why: str) -> Consumption:
    return Consumption(source="slurm", why_unknown=why)
