"""Measuring what runs consume: as the scheduler accounts for it, or by the counters of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from buran.campaign.config import Campaign
from buran.campaign.records import RunRecord
from buran.features import Start
from buran.measurement.finding import Finding, Health
from buran.measurement.schedulers.base import NONE, Scheduler
from buran.plugins.energy.consumption import Consumption, EnergyMeter, NoMeter, is_requested
from buran.plugins.energy.powercap import PowercapMeter, power_zones, why_no_powercap
from buran.plugins.energy.slurm_steps import StepMeter, why_no_step_energy


@dataclass(frozen=True)
class FirstOf:
    """Several meters, of which the first that knows what was consumed tells it."""

    meters: Sequence[EnergyMeter]

    def sample(self) -> None:
        """Let all look."""
        for meter in self.meters:
            meter.sample()

    def read(self) -> Consumption:
        """Return what the first one knows, or why none does."""
        reasons = list[str]()
        for meter in self.meters:
            consumed = meter.read()
            if consumed.joules is not None:
                return consumed
            reasons.append(consumed.why_unknown)
        return Consumption(why_unknown="; ".join(reasons))


@dataclass(frozen=True)
class EnergyWatch:
    """Writes what a meter has counted into the run's record."""

    meter: EnergyMeter

    def sample(self) -> None:
        """Let the meter look."""
        self.meter.sample()

    def complete(self, record: RunRecord) -> RunRecord:
        """Add joules, or why they are not known."""
        consumed = self.meter.read()
        return replace(
            record,
            energy_j=consumed.joules,
            energy_from=consumed.source or None,
            energy_parts_j=dict(consumed.parts) or None,
            energy_unknown=consumed.why_unknown or None,
        )

    def failure(self) -> str | None:
        """No run fails for its energy."""


def watch(start: Start) -> EnergyWatch | None:
    """Return what measures a run's energy from now on; None where it is not requested."""
    campaign, job, allocation = start.campaign, start.job, start.allocation
    if not is_requested(campaign.config):
        return None
    nodes = campaign.placement(job.point).nodes
    local = PowercapMeter() if nodes == 1 else NoMeter(f"powercap reads one node, and the run had {nodes}")
    if allocation is None:
        return EnergyWatch(local)
    why = why_no_step_energy(start.scheduler, " ".join(job.argv))
    steps = NoMeter(why) if why else StepMeter(allocation.job, nodes)
    return EnergyWatch(FirstOf((steps, local)))


def why_no_energy(scheduler: Scheduler, launcher: str) -> str:
    """Return why nobody can tell the energy of runs with a launcher; empty if this machine or the scheduler can.

    With a scheduler this machine may be a login node, and nothing is known of its compute nodes.
    """
    missing = why_no_step_energy(scheduler, launcher) if scheduler is not NONE else ""
    local = (why_no_powercap() or "") if missing or scheduler is NONE else ""
    where = " on this node" if missing and local else ""
    return "; ".join(filter(None, (missing, local + where))) if local else ""


def ahead(campaign: Campaign, scheduler: Scheduler) -> Iterator[str]:
    """Say that the energy of a campaign's runs will not be known, and why."""
    if is_requested(campaign.config) and (missing := why_no_energy(scheduler, campaign.active_environment.launcher)):
        yield f"the energy of runs will not be known: {missing}"


def findings() -> Iterator[Finding]:
    """Read the counters of energy, as runs do."""
    reason = why_no_powercap()
    if reason is None:
        zones = ", ".join(zone.name for zone in power_zones())
        yield Finding("energy", Health.WORKS, f"{zones} (powercap)")
        return
    costs = "key energy: joules are not known, unless the scheduler accounts for them"
    remedy = "chmod a+r /sys/class/powercap/*/energy_uj, as root" if "root" in reason else ""
    yield Finding("energy", Health.MISSING, reason, costs, remedy)
