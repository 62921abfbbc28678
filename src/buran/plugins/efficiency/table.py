"""How well a run uses its cores: the efficiencies of the POP project, at each point and at the target.

Definitions: POP Standard Metrics for Parallel Performance Analysis (https://pop-coe.eu/node/69), and C. Rosas,
J. Gimenez, J. Labarta, "Scalability prediction for fundamental performance factors", Supercomputing Frontiers and
Innovations 1(2), 2014.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path

from buran.reporting.html import environment
from buran.reporting.tables import section
from buran.wording import named

Interval = tuple[float, float]


@dataclass(frozen=True)
class CoreUse:
    """What the efficiencies of a run are made of, without starting and ending MPI.

    Attributes
    ----------
    cores
        Ranks times threads.
    mean_s, most_s
        Time in the program's own functions, on average and on the busiest of the cores.
    whole_s
        Time of the slowest rank.
    transfer_s
        Most that MPI takes apart from waiting; None where a profile does not say.
    work
        Executed basic blocks, or another count of computation, of all cores; None where nothing was counted.
    """

    cores: float
    mean_s: float
    most_s: float
    whole_s: float
    transfer_s: float | None = None
    work: float | None = None


@dataclass(frozen=True)
class Efficiencies:
    """Efficiencies at a point, 1 is ideal; None where they are not known.

    Attributes
    ----------
    parallel_interval, global_interval
        Of `parallel` and `global_` at the target; None at measured points.
    transfer, serialisation
        Bounds: transfer is this at least, serialisation this at most.
    crowded
        Whether there were more ranks and threads than cores: times then tell of taking turns.
    counting
        Whether only runs that count were made there: their times have the cost of counting in them.
    """

    point: Mapping[str, float]
    global_: float | None
    parallel: float | None
    load_balance: float | None
    communication: float | None
    serialisation: float | None
    transfer: float | None
    scalability: float | None
    work_scaling: float | None
    cost_scaling: float | None
    crowded: bool = False
    parallel_interval: Interval | None = None
    counting: bool = False
    global_interval: Interval | None = None


@dataclass(frozen=True)
class EfficiencyTable:
    """Efficiencies of a program.

    Attributes
    ----------
    measured
        A row for each point, in the order of its values.
    target
        From models; None without them.
    reference
        What scalability is related to, as text.
    sources
        For each column its title, its formula, and what it is made from.
    divided
        Whether ranks share one amount of work (strong scaling); else each has its own (weak scaling).
    contradiction
        What measurements say against the campaign's word for that; empty for nothing.
    stated
        Whether the campaign has a word for that.
    along
        Numbers of ranks, doubled from the fewest to the target's, with the global efficiency by the models of call
        paths, all other parameters as at the target; empty without models.
    """

    measured: Sequence[Efficiencies]
    target: Efficiencies | None
    reference: str
    sources: Sequence[tuple[str, str, str]]
    divided: bool = True
    contradiction: str = ""
    stated: bool = False
    along: Sequence[tuple[float, float]] = ()


TIMES = (
    "Times are those of all ranks and threads in the profiles, without MPI_Init and MPI_Finalize; useful is what is "
    "not in MPI, locks or barriers."
)
COLUMNS = {
    "global_": "global",
    "parallel": "parallel",
    "load_balance": "load balance",
    "communication": "communication",
    "serialisation": "serialisation",
    "transfer": "transfer",
    "scalability": "computational scalability",
    "work_scaling": "work",
    "cost_scaling": "cost of work",
}
_POP = {
    "global": ("Global Efficiency", "GE"),
    "parallel": ("Parallel Efficiency", "PE"),
    "load balance": ("Load Balance Efficiency", "LBE"),
    "communication": ("Communication Efficiency", "CommE"),
    "serialisation": ("Serialisation Efficiency", "SerE"),
    "transfer": ("Transfer Efficiency", "TE"),
    "computational scalability": ("Computation Efficiency", "CompE"),
}
_SHORT = ("global", "parallel", "balance", "communic.", "serialis.", "transfer", "scalab.", "work", "cost")


def efficiencies(
    point: Mapping[str, float],
    use: CoreUse,
    reference: CoreUse | None,
    *,
    divided: bool,
    crowded: bool = False,
    parallel_interval: Interval | None = None,
) -> Efficiencies:
    """Return the efficiencies at a point.

    Parameters
    ----------
    reference
        The run on the fewest ranks with the same other parameters; None where there is none.
    divided
        Whether ranks share one amount of work (strong scaling); else each has its own (weak scaling).
    """
    parallel = _ratio(use.mean_s, use.whole_s)
    ideal_s = None if use.transfer_s is None else use.whole_s - use.transfer_s
    scalability = work_scaling = cost_scaling = None
    if reference is not None:
        by, base_by = (use.cores, reference.cores) if divided else (1.0, 1.0)
        scalability = _ratio(reference.mean_s * base_by, use.mean_s * by)
        if use.work and reference.work:
            per_core, base_per_core = use.work / use.cores, reference.work / reference.cores
            work_scaling = _ratio(base_per_core * base_by, per_core * by)
            cost_scaling = _ratio(reference.mean_s / base_per_core, use.mean_s / per_core)
    return Efficiencies(
        point,
        None if parallel is None or scalability is None else parallel * scalability,
        parallel,
        _ratio(use.mean_s, use.most_s),
        _ratio(use.most_s, use.whole_s),
        None if ideal_s is None else _ratio(use.most_s, ideal_s),
        None if ideal_s is None else _ratio(ideal_s, use.whole_s),
        scalability,
        work_scaling,
        cost_scaling,
        crowded,
        parallel_interval,
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 and isfinite(part / whole) else None


def pop_names(table: EfficiencyTable) -> dict[str, tuple[str, str]]:
    """Return by title what the POP project calls a figure that it defines in the same way, and its short name.

    Its Computation Efficiency compares the useful time of all cores: that of strong scaling.
    """
    return {name: pop for name, pop in _POP.items() if table.divided or pop[1] not in ("GE", "CompE")}


def sources_of(work: str, divided: bool) -> tuple[tuple[str, str, str], ...]:
    """Return for each column its title, formula and source; `work` is what was counted."""
    amount = "of all cores" if divided else "of one core, on average"
    counted = f"{work} of the counting build, by the times" if work else "nothing was counted"
    return (
        ("global", "parallel x computational scalability", "its factors"),
        ("parallel", "mean useful time / time of the slowest rank", "times; at the target the models of call paths"),
        ("load balance", "mean / largest useful time", "times; at the target a model of largest over mean"),
        ("communication", "largest useful time / time of the slowest rank", "times"),
        (
            "serialisation",
            "largest useful time / time on an ideal network, at most",
            "known where all ranks leave MPI's operations together: the one that comes last does not wait",
        ),
        ("transfer", "time on an ideal network / time of the slowest rank, at least", "as serialisation"),
        (
            "computational scalability",
            f"useful time {amount}, at the reference / here = work x cost of work",
            "times; at the target the models of call paths",
        ),
        ("work", f"work {amount}, at the reference / here", counted),
        ("cost of work", "useful time for a unit of work, at the reference / here", counted),
    )


def rows_of(table: EfficiencyTable) -> list[tuple[str, list[str], str]]:
    """Return of each point its name, its figures as they are shown, and what is special about it; the target last."""
    rows = []
    for row in (*table.measured, *filter(None, (table.target,))):
        cells = [_shown(getattr(row, key), key) for key in COLUMNS]
        remark = "more ranks than cores" if row.crowded else "with counting" if row.counting else ""
        if row is table.target:
            reach = row.parallel_interval
            remark = "target, from models"
            remark += "" if reach is None else f"; parallel {100 * reach[0]:.0f} to {100 * reach[1]:.0f} %"
        rows.append((named(row.point), cells, remark))
    return rows


def _shown(value: float | None, key: str) -> str:
    bound = {"serialisation": "≤ ", "transfer": "≥ "}.get(key, "")
    return "–" if value is None else f"{bound}{100 * value:.3g} %"


def efficiency_text(table: EfficiencyTable) -> str:
    """Return the table as plain text; columns that nothing is known of are left out."""
    rows = rows_of(table)
    known = [position for position in range(len(COLUMNS)) if any(cells[position] != "–" for _, cells, _ in rows)]
    header = ("point", *(_SHORT[position] for position in known), "")
    title = "How well the cores are used (POP efficiencies, 100 % is ideal)"
    text = section(
        title, header, [(name, *(cells[position] for position in known), remark) for name, cells, remark in rows]
    )
    names, pop = list(COLUMNS.values()), pop_names(table)
    called = {name: f"{name} (POP: {', '.join(pop[name])})" if name in pop else name for name in names}
    lines = [
        f"- {called[name]} = {formula}; {source}"
        for name, formula, source in table.sources
        if names.index(name) in known
    ]
    return "\n".join([text, "", f"Scalability is related to {table.reference}. {TIMES}", *lines])


def efficiency_page(table: EfficiencyTable) -> str:
    """Return the table as HTML."""
    template = environment(Path(__file__).parent).get_template("efficiency.html.j2")
    columns, pop = list(COLUMNS.values()), pop_names(table)
    return template.render(table=table, rows=rows_of(table), times=TIMES, columns=columns, pop=pop)
