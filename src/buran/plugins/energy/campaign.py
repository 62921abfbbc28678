"""What runs consumed: from their records to a table of the whole program, and to the report."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import median

from buran.campaign.plan import Purpose
from buran.campaign.records import RunRecord
from buran.features import ReportSection
from buran.modeling.pmnf.text import format_function
from buran.plugins.energy.consumption import ENERGY, is_requested
from buran.plugins.energy.powercap import POWERCAP
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree
from buran.reporting.content import Reach, Report, reach_at, reach_of, reach_text, run_time_reach
from buran.reporting.html import table_section
from buran.reporting.tables import section
from buran.wording import counted, named
from buran.workflow.collect import of_whole_program
from buran.workflow.history import OF_THE_PROGRAM, FinishedRun, History, in_store, run_times


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


_BEFORE = "they were made before key energy was set (`buran run --remeasure` makes them again)"


@dataclass(frozen=True)
class Consumed:
    """What is known of the energy of runs.

    Attributes
    ----------
    joules
        By the run's folder, counted by one source.
    source
        The one that knows most runs.
    others
        Runs by source whose energy another one counted: they are not compared.
    """

    joules: Mapping[Path, float]
    source: str
    others: Mapping[str, int]


def consumed(history: History, runs: Iterable[FinishedRun]) -> Consumed:
    """Read what runs consumed."""
    records = {run.folder: history.run_record(run.folder) for run in in_store(runs)}
    known = {folder: record for folder, record in records.items() if record.energy_j is not None}
    sources = Counter(str(record.energy_from) for record in known.values())
    source = min(sources, key=lambda name: (-sources[name], name), default="")
    joules = {folder: record.energy_j or 0.0 for folder, record in known.items() if record.energy_from == source}
    return Consumed(joules, source, {name: count for name, count in sources.items() if name != source})


def energy_table(history: History, runs: Sequence[FinishedRun], tree: CallTree | None) -> Experiment | None:
    """Return the energy of the whole program without hooks; None where it is not known of any run, or not requested.

    Where the program did not run without hooks, it is that of runs with hooks, less what these take on average, as
    `run_times` estimates times.

    Parameters
    ----------
    tree
        Tree of the other metrics: the whole program is its root.
    """
    if not is_requested(history.session.campaign.config):
        return None
    known = consumed(history, (run for run in runs if run.mode in OF_THE_PROGRAM))
    joules = run_times(
        [run for run in runs if run.folder in known.joules], Purpose.MODEL, lambda run: known.joules[run.folder]
    )
    if not joules:
        return None
    parameters = history.session.campaign.parameters
    return of_whole_program({ENERGY.name: joules}, {ENERGY.name: ENERGY.unit}, parameters, tree)


def energy_notes(history: History) -> list[str]:
    """Say of which runs the energy is not known, and of which it is not theirs alone."""
    if not is_requested(history.session.campaign.config):
        return []
    runs = list(in_store(history.runs))
    records = [history.run_record(run.folder) for run in runs]
    reasons = Counter(record.energy_unknown or _BEFORE for record in records if record.energy_j is None)
    notes = [f"The energy of {count} of {len(runs)} runs is not known: {why}." for why, count in reasons.most_common()]
    known = consumed(history, runs)
    notes += [
        f"The energy of {count} runs was counted by {name}, of most by {known.source}: it is left out, as they do not "
        "count the same."
        for name, count in known.others.items()
    ]
    shared = sum(_is_shared(record) for record in records if record.energy_j is not None)
    if shared:
        notes.append(
            f"The energy of {shared} runs is also that of other programs: their jobs did not have their nodes for "
            "themselves (resources.exclusive)."
        )
    return notes


def _is_shared(record: RunRecord) -> bool:
    return record.allocation is not None and not record.allocation.get("exclusive", True)


def energy_of_campaign(history: History, report: Report) -> EnergyTable | None:
    """Return joules next to core hours: at points, at the target, and of the campaign; None where none are known."""
    campaign = history.session.campaign
    models = report.models.get(ENERGY.name)
    if not is_requested(campaign.config) or models is None:
        return None
    runs = [run for run in history.runs if run.mode in OF_THE_PROGRAM and run.purpose is Purpose.MODEL]
    known = consumed(history, runs)
    runs = [run for run in runs if run.folder in known.joules]
    joules = run_times(runs, Purpose.MODEL, lambda run: known.joules[run.folder])
    seconds = run_times(runs, Purpose.MODEL)
    rows = [
        EnergyRow(dict(point), len(of_point), campaign.cores(point) * median(seconds[point]) / 3600, median(of_point))
        for point, of_point in sorted(joules.items(), key=lambda item: item[0])
    ]
    everything = consumed(history, history.runs)
    with_energy = [run for run in history.runs if run.folder in everything.joules]
    at_target = run_time_reach(report)
    hours = campaign.cores(campaign.target) / 3600
    model = models.models[0]
    return EnergyTable(
        source=known.source,
        rows=tuple(rows),
        runs=(len(with_energy), len(history.runs)),
        core_hours=fsum(run.wall_s * campaign.cores(run.point) / 3600 for run in with_energy),
        joules=fsum(everything.joules.values()),
        core_hours_at_target=None if at_target is None else reach_of(*(hours * end for end in at_target)),
        joules_at_target=reach_at(models, report.target),
        model="" if model is None else format_function(model.function, models.parameters),
        smape=None if model is None else model.quality.smape,
    )


SECTION = ReportSection(
    ENERGY.name,
    "Energy",
    lambda history, report, _: energy_of_campaign(history, report),
    lambda table, report: energy_text(table, report.target),
    lambda table, report: energy_page(table, report.target),
    cost=lambda table: f"{counted(table.runs[0], 'run')} took {table.joules:.3g} J",
)
