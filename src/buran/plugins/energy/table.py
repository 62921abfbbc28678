"""Joules next to core hours: what a campaign consumed, what a run consumes, and what one would at the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from buran.plugins.energy.powercap import POWERCAP
from buran.reporting.files import table_section
from buran.reporting.plain import Reach, reach_text, section
from buran.wording import named


@dataclass(frozen=True)
class EnergyRow:
    """A run at a point: medians over runs without hooks."""

    point: Mapping[str, float]
    runs: int
    core_hours: float
    joules: float


@dataclass(frozen=True)
class EnergyTable:
    """What programs consume.

    Attributes
    ----------
    source
        Who counted it.
    runs
        Finished runs of the campaign whose energy is known, and all.
    core_hours, joules
        Of the former, together: of cores that the program had, while it ran.
    core_hours_at_target, joules_at_target
        Of a run; None without a model.
    model, smape
        Of the whole program's energy in joules, and how far it is from what was measured, in percent; empty without a
        model.
    """

    source: str
    rows: Sequence[EnergyRow]
    runs: tuple[int, int]
    core_hours: float
    joules: float
    core_hours_at_target: Reach | None
    joules_at_target: Reach | None
    model: str
    smape: float | None


HEADER = ("point", "runs", "core hours", "joules", "watts per core")
_RAPL = "Counted by RAPL in processors and, where available, memory of the node (powercap)"
EXPLANATION = (
    "Uninstrumented runs, median. Counters are those of whole sockets or nodes: what idle cores and other programs "
    "there consume is in them."
)


def rows_of(table: EnergyTable, target: Mapping[str, float]) -> list[list[str]]:
    """Return the cells of each row, as `HEADER` says; the last one is the target."""
    rows = [
        [named(row.point), str(row.runs), f"{row.core_hours:.3g}", f"{row.joules:.4g}", _watts(row)]
        for row in table.rows
    ]
    at = (table.core_hours_at_target, table.joules_at_target)
    return [*rows, [f"{named(target)}, predicted", "–", *map(reach_text, at), "–"]]


def _watts(row: EnergyRow) -> str:
    return f"{row.joules / (3600 * row.core_hours):.3g}" if row.core_hours > 0 else "–"


def sentences_of(table: EnergyTable) -> list[str]:
    """Return what is said in addition to the table."""
    known, all_runs = table.runs
    runs = f"All {known} runs" if known == all_runs else f"{known} of {all_runs} runs, those whose energy is known,"
    source = _RAPL if table.source == POWERCAP else f"As the scheduler {table.source} accounts for steps of its jobs"
    said = [f"{source}. {EXPLANATION}"]
    if table.smape is not None:
        said.append(f"Energy (whole program, J): {table.model}; SMAPE {table.smape:.2g} %.")
    return [
        *said,
        f"{runs} of the campaign, without warm-ups, took {table.core_hours:.3g} core hours and {table.joules:.4g} J.",
    ]


def energy_text(table: EnergyTable, target: Mapping[str, float]) -> str:
    """Return the table as plain text."""
    text = section("Energy and core hours", HEADER, rows_of(table, target))
    return "\n".join([text, "", *sentences_of(table)])


def energy_page(table: EnergyTable, target: Mapping[str, float]) -> str:
    """Return the table as HTML."""
    rows = rows_of(table, target)
    return table_section("energy", "Energy", sentences_of(table), HEADER, rows, {len(rows) - 1})
