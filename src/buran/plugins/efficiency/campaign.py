"""POP efficiencies of a campaign: from the profiles of its runs at measured points, from models at the target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count, takewhile
from math import log
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from buran.campaign.plan import Mode, Purpose
from buran.campaign.point import Point
from buran.features import ReportSection
from buran.modeling.fit import fit_models
from buran.modeling.functions.terms import Array
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.priors.paths import waits
from buran.plugins.efficiency import KEY
from buran.plugins.efficiency.table import (
    CoreUse,
    Efficiencies,
    EfficiencyTable,
    Interval,
    efficiencies,
    efficiency_page,
    efficiency_text,
    sources_of,
)
from buran.profiles.experiment.build import Run
from buran.profiles.metrics import metric_of, stands_for
from buran.profiles.profile import SEPARATOR, Profile
from buran.profiles.startup import STARTUP, is_startup_or_shutdown
from buran.reporting.content import LEVEL, Answer, Report
from buran.wording import counted
from buran.workflow.history import History
from buran.workflow.notes import crowded_points
from buran.workflow.report import counting_runs, newest_runs

_TOGETHER = ("all2all", "barrier")  # roles of operations that no rank leaves before the last one comes
_MOST_OF_MPI = 0.95  # of the time in MPI must be in such operations: then it is distinguished from waiting
_DIVIDED = 0.5  # exponent of the ranks in all cores' work, below which they share one amount of it
_MOST_INTERVALS = 300  # call paths, the largest: of more it takes long, and theirs add nothing that is seen
_FEWEST = 4  # points that a model of load balance takes at least

At = tuple[float, ...]


def efficiency_of_campaign(history: History, report: Report) -> EfficiencyTable | None:
    """Return the efficiencies of a campaign's runs; None for programs without ranks."""
    campaign = history.session.campaign
    counted = counting_runs(history)
    crowded = crowded_points(history, (run for run in history.runs if run.purpose is Purpose.MODEL))
    scaling: str = getattr(campaign.config, KEY)
    timed = newest_runs(history, Mode.TIME)
    return efficiency_table(report, timed, counted, campaign.ranks_parameter, crowded, scaling)


def core_use(profile: Profile) -> CoreUse | None:
    """Return how the cores of a run were used; None where no times were measured or the program took none."""
    if "time" not in profile.values:
        return None
    regions = [profile.tree.regions[number] for number in profile.tree.region.tolist()]
    seconds = profile.exclusive("time")
    inside = np.array([r.paradigm not in ("measurement", "gpu") and r.name not in STARTUP for r in regions], dtype=bool)
    useful = inside & ~np.array([waits(region) for region in regions], dtype=bool)
    busy = profile.exclusive("cpu_time" if "cpu_time" in profile.values else "time")[useful].sum(axis=0)
    first = np.array([location.thread == 0 for location in profile.locations])
    whole_s = float(seconds[inside][:, first].sum(axis=0).max(initial=0.0))
    if whole_s <= 0:
        return None
    cores = int(profile.attributes.get("represents_locations", len(profile.locations)))
    in_mpi = inside & np.array([region.paradigm == "mpi" for region in regions], dtype=bool)
    together = in_mpi & np.array([region.role in _TOGETHER for region in regions], dtype=bool)
    return CoreUse(
        cores, float(busy.mean()), float(busy.max()), whole_s, _transfer(profile, seconds[:, first], in_mpi, together)
    )


def _transfer(profile: Profile, seconds: Array, in_mpi: NDArray[np.bool_], together: NDArray[np.bool_]) -> float | None:
    """Return the most that MPI takes apart from waiting: at each call path the least of all ranks.

    That one came last and waited for nobody. None where much time is in operations that tell nothing of it, such as
    messages between two ranks.
    """
    if seconds.shape[1] < 2 or "visits" not in profile.values:
        return None
    visits = profile.values["visits"][together][:, [location.thread == 0 for location in profile.locations]]
    alike = bool((visits == visits[:, :1]).all())
    if not alike or seconds[together].sum() < _MOST_OF_MPI * seconds[in_mpi].sum():
        return None
    return float(seconds[together].min(axis=1).sum())


def efficiency_table(
    report: Report,
    timed: Sequence[Run],
    counted: Sequence[Run],
    ranks_parameter: str | None,
    crowded: Sequence[Point],
    scaling: str = "auto",
) -> EfficiencyTable | None:
    """Return the efficiencies at all measured points and at the target; None for programs without ranks.

    Parameters
    ----------
    scaling
        The campaign's word, ``strong``, ``weak`` or ``auto``.
    timed, counted
        Runs under the last filter, and runs of the counting build, which stand for points that only they have.
    crowded
        Points with more ranks and threads than cores.
    """
    if ranks_parameter is None:
        return None
    names = report.parameters
    ranks = names.index(ranks_parameter)
    metric, work = _work(counted, names)
    uses: dict[At, list[CoreUse]] = {}
    for runs in (timed, counted):
        before = set(uses)
        for point, _, profile in runs:
            at = tuple(float(point[name]) for name in names)
            if at not in before and (use := core_use(profile)) is not None:
                uses.setdefault(at, []).append(use)
    only_counted = uses.keys() - {tuple(float(point[name]) for name in names) for point, *_ in timed}
    if not any(use[0].cores > 1 for use in uses.values()):
        return None
    points = {at: _middle(repeated, work.get(at)) for at, repeated in sorted(uses.items())}
    references = {at: min(o for o in points if _others(o, ranks) == _others(at, ranks)) for at in points}
    growth = _growth(points, references)
    divided = growth is None or growth < _DIVIDED
    measured = "strong" if divided else "weak"
    contradiction = ""
    if scaling not in ("auto", measured) and growth is not None:
        what = f"{metric_of(metric).heading.lower()} of all ranks grow" if work else "useful time of all ranks grows"
        contradiction = f"`scaling: {scaling}`, but the {what} as p^{growth:.2g}"
        contradiction += f" where all else stays: is this {measured} scaling?"
    divided = divided if scaling == "auto" else scaling == "strong"
    full = {tuple(float(point[name]) for name in names) for point in crowded}
    rows = [
        replace(
            efficiencies(
                dict(zip(names, at, strict=True)), use, points[references[at]], divided=divided, crowded=at in full
            ),
            counting=at in only_counted,
        )
        for at, use in points.items()
    ]
    fewest = min(at[ranks] for at in points)
    others = [name for name in names if name != ranks_parameter]
    same = f" with the same {' and '.join(others)}" if others else ""
    kind = "ranks share one amount of work" if divided else "each rank has an amount of work of its own"
    uncrowded = {at: use for at, use in points.items() if at not in full}
    target, along = _at_target(report, uncrowded, ranks, metric, fewest, divided)
    return EfficiencyTable(
        rows,
        target,
        f"the point on the fewest ranks{same}; {kind}",
        sources_of(metric_of(metric).heading.lower() if metric else "", divided),
        divided,
        contradiction,
        scaling != "auto",
        along,
    )


def _others(at: At, ranks: int) -> At:
    return at[:ranks] + at[ranks + 1 :]


def _work(counted: Sequence[Run], names: Sequence[str]) -> tuple[str, dict[At, float]]:
    """Return the metric that stands for computation, and its value of all cores at each point."""
    metric = next(iter(stands_for("computation", {name for *_, profile in counted for name in profile.values})), "")
    work: dict[At, float] = {}
    for point, _, profile in counted:
        if metric in profile.values:
            counts = profile.exclusive(metric).sum(axis=0)
            stand_for = int(profile.attributes.get("represents_locations", len(counts)))
            work[tuple(float(point[name]) for name in names)] = float(counts.mean()) * stand_for
    return metric, work


def _middle(uses: Sequence[CoreUse], work: float | None) -> CoreUse:
    """Return the medians of repetitions."""
    transfers = [use.transfer_s for use in uses if use.transfer_s is not None]
    return CoreUse(
        uses[0].cores,
        median(use.mean_s for use in uses),
        median(use.most_s for use in uses),
        median(use.whole_s for use in uses),
        median(transfers) if len(transfers) == len(uses) else None,
        work,
    )


def _growth(points: Mapping[At, CoreUse], references: Mapping[At, At]) -> float | None:
    """Return the exponent of the ranks in the work of all cores, else in their useful time; None where none vary."""
    growth = []
    for at, use in points.items():
        base = points[references[at]]
        if use.cores > base.cores:
            totals = (use.work, base.work) if use.work and base.work else (
                use.mean_s * use.cores, base.mean_s * base.cores,
            )  # fmt: skip
            if totals[0] and totals[1]:
                growth.append(log(totals[0] / totals[1]) / log(use.cores / base.cores))
    return median(growth) if growth else None


def _at_target(
    report: Report, points: Mapping[At, CoreUse], ranks: int, metric: str, fewest: float, divided: bool
) -> tuple[Efficiencies | None, Sequence[tuple[float, float]]]:
    """Return the efficiencies at the target, and the global one for numbers of ranks up to there.

    They are sums of the models of call paths, and a model of the load balance.
    """
    times, names = report.models.get("time"), report.parameters
    if times is None or times.aggregate != "mean" or times.unit != "sec" or report.unknown.advice:
        return None, ()
    most = report.target[names[ranks]]
    doubled = takewhile(lambda number: number < most, (fewest * 2.0**k for k in count()))
    numbers = [most, min(fewest, most), *doubled]
    at = np.array([[report.target[name] for name in names]] * len(numbers), dtype=np.float64)
    at[:, ranks] = numbers
    apart = is_startup_or_shutdown(times.call_paths)
    in_mpi = np.array([name.rpartition(SEPARATOR)[2].startswith("MPI_") for name in times.call_paths], dtype=bool)
    parts = [np.maximum(_sum(times, at, rows & ~apart), 0.0) for rows in (~in_mpi, in_mpi)]
    useful_s, whole_s = parts[0], parts[0] + parts[1]
    by = at[:, ranks] if divided else np.ones(len(at))
    along = useful_s[1] * by[1] / np.where(whole_s > 0, whole_s * by, np.nan)
    works: list[float | None] = [None, None]
    if (counts := report.models.get(metric)) is not None and counts.aggregate == "mean":
        works = (_sum(counts, at[:2], np.ones(len(counts.models), dtype=bool)) * at[:2, ranks]).tolist()
    most_s = _most(points, at[:1], useful_s[0], whole_s[0])
    target = CoreUse(at[0, ranks], useful_s[0], most_s, whole_s[0], None, works[0])
    reference = CoreUse(at[1, ranks], useful_s[1], useful_s[1], whole_s[1], None, works[1])
    reach = _reach(times, at[:1], (~in_mpi & ~apart, in_mpi & ~apart))
    found = efficiencies(
        {name: float(report.target[name]) for name in names},
        target,
        reference,
        divided=divided,
        parallel_interval=None if reach is None else _share(*reach),
    )
    if reach is not None and found.global_ is not None:
        least_s, most_s = (useful + in_mpi for useful, in_mpi in zip(*reach, strict=True))
        ideal_s = found.global_ * float(whole_s[0])
        found = replace(found, global_interval=(ideal_s / (most_s or 1.0), ideal_s / (least_s or 1.0)))
    order = [*range(2, len(numbers)), 0]
    return found, [(float(numbers[index]), float(along[index])) for index in order]


def _share(useful_s: Interval, in_mpi_s: Interval) -> Interval:
    """Return the ends of the part that useful time is of both."""
    low, high = (useful / (useful + in_mpi or 1.0) for useful, in_mpi in zip(useful_s, in_mpi_s[::-1], strict=True))
    return float(low), float(high)


def _sum(models: ModelSet, at: Array, rows: NDArray[np.bool_]) -> Array:
    added: Array = np.nan_to_num(models.predict(at))[rows].sum(axis=0)
    return added


def _most(points: Mapping[At, CoreUse], target: Array, mean_s: float, whole_s: float) -> float:
    """Return the useful time of the busiest core at the target; NaN where too few points tell of it."""
    uneven = {at: use.most_s / use.mean_s for at, use in points.items() if use.mean_s > 0}
    if len(uneven) < _FEWEST:
        return float("nan")
    model = fit_models(np.array(list(uneven)), np.array([list(uneven.values())])).models[0]
    if model is None:
        return float("nan")
    return float(np.clip(mean_s * model.predict(target)[0], mean_s, whole_s))


def _reach(times: ModelSet, at: Array, parts: Sequence[NDArray[np.bool_]]) -> tuple[Interval, Interval] | None:
    """Return the intervals of useful time and of time in MPI, the errors of call paths independent of each other."""
    middle = np.maximum(np.nan_to_num(times.predict(at)[:, 0]), 0.0)
    largest = np.argsort(-middle, kind="stable")[:_MOST_INTERVALS]
    models = replace(
        times,
        call_paths=tuple(times.call_paths[row] for row in largest.tolist()),
        models=tuple(times.models[row] for row in largest.tolist()),
    )
    low, high = (end[:, 0] for end in models.predict_interval(at, LEVEL))
    counts = np.isfinite(low) & np.isfinite(high)
    if not counts[middle[largest] > 0].all():
        return None
    bounds = []
    for rows in parts:
        inside = rows[largest] & counts
        down, up = (float(np.linalg.norm((end - middle[largest])[inside])) for end in (low, high))
        bounds.append((float(max(middle[rows].sum() - down, 0.0)), float(middle[rows].sum() + up)))
    return bounds[0], bounds[1]


_PAYS = 0.5  # of the cores' time: where less is of use, more ranks no longer pay


def _value(history: History, report: Report, folder: Path | None) -> EfficiencyTable | None:
    """Return the efficiencies once the campaign's report is written."""
    return None if folder is None else efficiency_of_campaign(history, report)


def _answer(table: EfficiencyTable, report: Report) -> Answer | None:
    """Say up to how many ranks it pays to divide one amount of work, or how well ranks use more of it."""
    if not table.stated:
        return None
    question = "Up to how many ranks does it pay?" if table.divided else "How efficient is it at the target?"
    facts = [table.contradiction] if table.contradiction else []  # first: the rest means little under a wrong word
    if not table.along or table.target is None or not np.isfinite([efficiency for _, efficiency in table.along]).all():
        return Answer(question, "Not known", [*facts, "There are no models of the times of all call paths"])
    (fewest, _), *_, (most, at_target) = table.along
    percent, reach = f"{100 * at_target:.3g} %", table.target.global_interval
    interval = "" if reach is None else f"; {100 * LEVEL:.0f} % interval {100 * reach[0]:.3g} to {100 * reach[1]:.3g} %"
    paying = [ranks for ranks, _ in takewhile(lambda each: each[1] >= _PAYS, table.along)]
    last = f"{max(paying):g}" if paying else f"less than {fewest:g}"
    if not table.divided:
        half = "" if most in paying else f"; {100 * _PAYS:.0f} % up to {last} rank{'' if last == '1' else 's'}"
        fact = f"Global efficiency on {most:g} ranks, compared with {counted(int(fewest), 'rank')}{interval}{half}"
        return Answer(question, percent, [*facts, fact])
    if most in paying:
        last += ", the target"
        facts.append(f"There {percent} of all cores is of use{interval}")
    else:
        of_use = f"less than {100 * _PAYS:.0f} % of all cores is of use"
        facts.append(f"Beyond, {of_use}; on {most:g} ranks {percent}{interval}")
    speeds = {ranks: ranks * efficiency for ranks, efficiency in table.along}
    fastest = max(speeds, key=speeds.__getitem__)
    if fastest < most:
        gain = f", {speeds[fastest] / speeds[fewest]:.3g} times as fast as on {fewest:g}" if fastest > fewest else ""
        facts.append(f"Fastest on {counted(int(fastest), 'rank')}{gain}")
    return Answer(question, last, facts)


SECTION = ReportSection(
    "efficiency",
    "Efficiency",
    _value,
    lambda table, report: efficiency_text(table),
    lambda table, report: efficiency_page(table),
    plot=lambda table: {"divided": table.divided},
    notes=lambda table: [table.contradiction] if table.contradiction else [],
    answer=_answer,
    order=-1,
)
