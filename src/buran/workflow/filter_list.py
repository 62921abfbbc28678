"""The filter list to go on with, and why each function is in it or not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buran.campaign.plan import Mode
from buran.instrumentation.filter_file import parse
from buran.instrumentation.filter_list import WRITERS, FilterList, list_of
from buran.instrumentation.measured import PointOverhead, beyond_startup
from buran.instrumentation.prediction import MAINS, symbol_of
from buran.instrumentation.refinement import Refinement
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import Region
from buran.profiles.symbols import variants
from buran.workflow.collect import experiment_of
from buran.workflow.history import History, in_store
from buran.workflow.overhead import overheads_by_filter
from buran.workflow.refine import known_verdicts, refinement_of, static_features


@dataclass(frozen=True, eq=False)
class CurrentList:
    """A list of functions and what it was judged by.

    Attributes
    ----------
    functions
        In the list, and left out.
    judged
        What the newest models say of these functions.
    """

    functions: FilterList
    judged: Refinement


def current_list(history: History) -> CurrentList | None:
    """Return the filter in force with what the newest models say of it; where it names no functions, what they choose.

    A filter that names none one by one, such as everything but what costs too much, is in force where others would cost
    no less. None without models of times and visits.
    """
    findings = next(history.newest_findings, None)
    if findings is None:
        return None
    last = findings.iteration
    verdicts = known_verdicts(history.session, last)
    chosen = refinement_of(history, last, verdicts)
    if chosen is None:
        return None
    features = static_features(history, last)
    names = {} if features is None else {each.mangled: each.name for each in features.functions}
    rules = history.plans[-1].filter_text if history.plans else ""
    named = parse(rules).named
    idle: frozenset[str] = frozenset()
    if named:
        idle = _never_called(history, rules)
        chosen = chosen.restricted(named - idle)
    return CurrentList(list_of(chosen, verdicts, idle, names), chosen)


def recommended_filter(history: History) -> str:
    """Return the list to go on with in Score-P's format, with the reasons; empty without list and models."""
    current = current_list(history)
    if current is None:
        return history.plans[-1].filter_text if history.plans else ""
    return WRITERS["scorep"](current.functions)


def overhead_by_point(history: History, judged: Refinement) -> list[PointOverhead]:
    """Return what the filter in force cost at each point, compared with what its hooks were predicted to cost."""
    last = next(history.newest_findings).iteration
    campaign = history.session.campaign
    rows = {tuple(point): i for i, point in enumerate(judged.prediction.points.tolist())}
    pairs = [
        (rows[key], overhead)
        for overhead in overheads_by_filter(history, last).get(history.findings(last).filter_text, ())
        if overhead.time_ratio is not None
        and overhead.vanilla_cpu_s > 0
        and (key := tuple(overhead.point[name] for name in campaign.parameters)) in rows
    ]
    if not pairs:
        return []
    at = np.array([row for row, _ in pairs])
    measured = np.array([overhead.time_ratio for _, overhead in pairs], dtype=np.float64) - 1
    plain_s = np.array([overhead.vanilla_cpu_s for _, overhead in pairs])
    hooks, openmp = (np.nan_to_num(share[1:][at]) for share in (judged.overhead, judged.prediction.openmp_overhead))
    ranks = np.array([campaign.ranks(overhead.point) for _, overhead in pairs], dtype=np.float64)
    _, startup = beyond_startup(measured - hooks - openmp, plain_s, ranks)
    return [
        PointOverhead(dict(overhead.point), *facts)
        for (_, overhead), *facts in zip(
            pairs, plain_s.tolist(), measured.tolist(), hooks.tolist(), openmp.tolist(), startup.tolist(),
            strict=True,
        )
    ]  # fmt: skip


def _never_called(history: History, rules: str) -> frozenset[str]:
    """Return the linker symbols that a filter names and no run under it recorded, as far as anything was measured."""
    findings = next(history.newest_findings, None)
    if findings is None or findings.filter_text != rules or not len(findings.tree):
        return frozenset()
    modelled = history.plans[findings.iteration].modelled
    others = in_store(
        run
        for run in history.runs
        if run.mode is Mode.TIME and run.purpose is not modelled and run.filter_text == rules
    )
    tables = (history.table(findings.iteration), experiment_of(others, history.session.campaign.parameters))
    regions = [region for table in tables if table is not None for region in _visited(table)]
    ran = {name for region in regions for name in (region.name, *variants(symbol_of(region)))}
    return parse(rules).named - ran - {*MAINS}


def _visited(table: Experiment) -> list[Region]:
    """Return the regions that a run has visited; all where visits were not measured."""
    if "visits" not in table.values:
        return list(table.tree.regions)
    visits = np.nansum(table.over_locations("visits", "sum"), axis=(1, 2))
    return [table.tree.regions[i] for i in np.unique(table.tree.region[visits > 0]).tolist()]
