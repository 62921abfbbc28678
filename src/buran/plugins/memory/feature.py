"""What sampled accesses to memory add to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.identity import requested
from buran.features import Feature, Key, Native, ReportSection, late
from buran.plugins.memory.keys import KEY, MemoryKeys, keys_of, machine_of, mistakes_of, sampled_at

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.profiles.experiment.table import Experiment
    from buran.profiles.profile import CallTree
    from buran.reporting.content import Report
    from buran.workflow.history import FinishedRun, History


def _identity(campaign: Campaign) -> Mapping[str, object]:
    """Return the keys, and what the machine file says."""
    machine = machine_of(campaign)
    return {KEY: requested(keys_of(campaign.config)), "machine_file": None if machine is None else asdict(machine)}


def _table(history: History, runs: Sequence[FinishedRun], tree: CallTree | None) -> Experiment | None:
    from buran.plugins.memory.section import misses_table

    return misses_table(history, runs)


def _write(history: History, report: Report, folder: Path) -> None:
    from buran.plugins.memory.section import write_misses

    write_misses(history, folder)


def _sections() -> tuple[ReportSection, ...]:
    from buran.plugins.memory.section import CACHES, ROOFLINE

    return CACHES, ROOFLINE


FEATURE = Feature(
    KEY,
    Key(
        MemoryKeys,
        MemoryKeys(),
        "How accesses to memory are sampled, for the metrics `misses_level_1` to `misses_level_4` and "
        "`first_touches`; needs a compiler plugin, and builds of their own.",
    ),
    misfits=mistakes_of,
    identity=_identity,
    sampled_at=sampled_at,
    native=Native(
        Path(__file__).with_name("native"),
        late("buran.plugins.memory.reuse:reuse_metrics"),
        late("buran.plugins.memory.reuse:sampling_of"),
    ),
    table=_table,
    accounts=late("buran.plugins.memory.section:accounts"),
    notes=late("buran.plugins.memory.section:notes"),
    sections=_sections,
    write=_write,
)
