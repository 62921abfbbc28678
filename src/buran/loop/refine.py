"""Deciding the filter of the next iteration; a decision that was measured with is kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from statistics import median

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.identity import asked
from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.records import RECORD, BuildOutcome, Status, read_build
from buran.campaign.shape import Refinement as RefinementPart
from buran.campaign.strategies import abilities_of
from buran.errors import BuildError
from buran.experiment.jsonl import read_jsonl
from buran.files import digest, write_text
from buran.instrument.callgraph import CallGraph
from buran.instrument.filter_file import format_filter, parse
from buran.instrument.filter_list import WRITERS, list_of
from buran.instrument.graph_sources import graph_of_features, with_measured
from buran.instrument.guard import LIMIT, guard, guarded, longest
from buran.instrument.published import filter_and_expand, filter_only, hotspots
from buran.instrument.refine import VISIT_COST_S, Refinement, Wishes, refine
from buran.instrument.start import start_filter
from buran.instrument.verdicts import Verdict, read_verdicts, write_verdicts
from buran.loop.findings import Findings
from buran.loop.session import Session
from buran.measure.build import STATIC
from buran.measure.toolchain.static_features import StaticFeatures
from buran.model.model_set import ModelSet, read_models
from buran.profile.metrics import work_metrics

_HARMLESS = 1e-4  # of the run time at the target: early models of few runs must not lose kernels for so little
_VALUES = 3  # of a parameter: the fewest that tell growth from a constant


def rules_of(filter_text: str) -> str:
    """Return a filter without its comments: what decides whether two builds are the same."""
    return format_filter(parse(filter_text)) if filter_text else ""


def refined_filter(session: Session, iteration: int) -> str:
    """Return the filter that an iteration is built with.

    Points that are added to a campaign later do not change a filter that was measured with: that would make
    every measurement under it worthless. Other refinement settings or another target decide anew.
    """
    layout, settings = session.layout, _settings(session)
    decided = layout.decided_filter(session.target.id, settings, iteration)
    if decided.is_file():
        return decided.read_text()
    known = known_verdicts(session, iteration - 1)
    if session.earlier is not None and (
        iteration == 0 or session.layout.read_plan(session.id, iteration - 1).comparison
    ):
        text, found = session.earlier.filter_text, dict[str, Verdict]()
    elif iteration == 0:
        text, found = _started(session), dict[str, Verdict]()
    elif session.layout.read_plan(session.id, iteration - 1).pilot:
        text, found = _guarded(session, iteration - 1)
    else:
        text, found = _decide(session, iteration - 1, known)
    write_verdicts(layout.verdicts(session.target.id, settings, iteration), {**known, **found})
    write_text(decided, text)
    return text


def _settings(session: Session) -> str:
    config = session.campaign.config
    imported = [asked(entry) for entry in config.measurements]
    earlier = [] if session.earlier is None else [session.earlier.filter_text]
    return digest([asked(config.refinement), config.strategy.name, *imported, *earlier], 8)


def known_verdicts(session: Session, iteration: int) -> dict[str, Verdict]:
    """Return what was known of functions when the filter of an iteration was decided; nothing for the first."""
    path = session.layout.verdicts(session.target.id, _settings(session), iteration)
    return read_verdicts(path) if path.is_file() else {}


def begins_with_pilot(refinement: RefinementPart, strategy: str) -> bool:
    """Tell whether a campaign begins with pilot runs.

    Where one budget is for refinement and times, what the first filter measures in vain is dearer than a small run.
    """
    if refinement.pilot is not None:
        return refinement.pilot
    return refinement.start != "default" or abilities_of(strategy).weighs_runs


def starts_by_itself(session: Session) -> bool:
    """Tell whether a campaign chooses the functions it starts with."""
    own = session.campaign.config.refinement
    return session.earlier is not None or (own.enabled and own.start != "default")


def start_build(session: Session) -> BuildSpec | None:
    """Return the build whose call graph the first filter is chosen from; None if none is needed.

    The one that counts: its static features come from the compiler plugin whatever measures the times.
    """
    if (
        not starts_by_itself(session)
        or session.earlier is not None
        or session.campaign.config.refinement.start == "everything"
    ):
        return None
    spec = session.target.build_spec(Mode.EFFORT, "", session.campaign.points[0])
    session.layout.write_build_spec(spec)
    return spec


def _started(session: Session) -> str:
    own = session.campaign.config.refinement
    spec = start_build(session)
    graph = None
    if spec is not None:
        outcome = BuildOutcome.read(session.layout.build_pointer(spec.hash))
        path = session.layout.build(spec.hash) / STATIC
        if outcome.status is not Status.MEASURED or not path.is_file():
            raise BuildError(
                "the call graph of the program is not known",
                where=session.campaign.path,
                why=outcome.reason or "only compiler plugins tell it",
                hint="refinement.start: default, or everything",
            )
        graph = graph_of_features(StaticFeatures.from_jsonl(path.read_text(), path))
    return start_filter(own.start, graph, own.start_threshold)


def _guarded(session: Session, iteration: int) -> tuple[str, dict[str, Verdict]]:
    """Take hooks away where a pilot found that they cost too much; where it found nothing, the default is left."""
    layout = session.layout
    findings = Findings.read(layout.findings(session.id, iteration))
    table = layout.table(session.id, iteration)
    if not len(findings.tree) or not table.stat().st_size:
        return "", {}
    experiment = read_jsonl(table)
    at = dict(zip(experiment.parameters, experiment.points[longest(experiment)].tolist(), strict=True))
    pairs = [
        (each.time_ratio * each.vanilla_cpu_s, each.vanilla_cpu_s)
        for each in findings.overhead
        if each.time_ratio is not None and each.point == at
    ]
    hooked_s, plain_s = pairs[-1] if pairs else (0.0, 0.0)
    limit = wishes_of(session).overhead or LIMIT
    found = guard(experiment, hooked_s, plain_s, visit_cost_s(session, iteration), limit)
    return guarded(findings.filter_text, found), dict(found.verdicts)


def wishes_of(session: Session) -> Wishes:
    """Return what the campaign asks of refinements."""
    own = session.campaign.config.refinement
    return Wishes(
        share=own.share,
        overhead=None if own.overhead_percent is None else own.overhead_percent / 100,
        constants=own.constants,
        closure=own.closure,
        keep=own.keep,
        drop=own.drop,
        harmless=0.0 if abilities_of(session.campaign.config.strategy.name).all_at_once else _HARMLESS,
    )


def _decide(session: Session, iteration: int, known: dict[str, Verdict]) -> tuple[str, dict[str, Verdict]]:
    findings = Findings.read(session.layout.findings(session.id, iteration))
    if not session.campaign.config.refinement.enabled or len(findings.tree) == 0:
        return findings.filter_text, {}
    if not _tells_growth(session, iteration):
        return findings.filter_text, {}
    chosen = refinement_of(session, iteration, findings, known)
    if chosen is None or (chosen.settled and findings.filter_text):
        return findings.filter_text, {}
    return WRITERS["scorep"](list_of(chosen)), chosen.verdicts


def _tells_growth(session: Session, iteration: int) -> bool:
    """Tell whether models of times were made from enough values of each parameter to overrule an earlier choice."""
    sets = [each for each in read_models(session.layout.models(session.id, iteration)) if each.metric == "time"]
    if not sets:
        return False
    used = [dict(zip(sets[0].parameters, point, strict=True)) for point in sets[0].points]
    return tell_growth(used, session.campaign)


def tell_growth(points: Collection[Mapping[str, float]], campaign: Campaign) -> bool:
    """Tell whether points have enough values of each parameter to tell growth from a constant."""
    every = campaign.points
    return all(
        len({point[name] for point in points}) >= min(_VALUES, len({point[name] for point in every}))
        for name in campaign.parameters
    )


def refinement_of(session: Session, iteration: int, findings: Findings, known: dict[str, Verdict]) -> Refinement | None:
    """Choose functions by the models of an iteration; None without models."""
    layout, campaign = session.layout, session.campaign
    own = campaign.config.refinement
    sets = {each.metric: each for each in read_models(layout.models(session.id, iteration))}
    if "time" not in sets or "visits" not in sets:
        return None
    target = np.array([campaign.refinement_target[name] for name in campaign.parameters], dtype=np.float64)
    tree, time, visits = findings.tree, sets["time"], sets["visits"]
    features = static_features(session, iteration)
    graph = None if features is None else with_measured(graph_of_features(features), tree)
    if own.strategy != "relevance" and graph is not None:
        return _published(session, findings, time, visits, target, graph)
    new = own.filtering != "run"  # what has no hooks cannot be switched on
    return refine(
        tree,
        time,
        visits,
        target,
        wishes_of(session),
        visit_cost_s=visit_cost_s(session, iteration),
        work=[sets[name] for name in work_metrics(sets)],
        imbalance=np.array(findings.imbalance_s),
        ends_s=np.array(findings.ends_s).reshape(-1, 2),
        graph=graph if new or own.closure == "static" else None,
        known=known,
        hooked=() if features is None else [each.mangled for each in features.functions if each.hooked],
    )


def _published(
    session: Session, findings: Findings, time: ModelSet, visits: ModelSet, target: np.ndarray, graph: CallGraph
) -> Refinement:
    own, tree = session.campaign.config.refinement, findings.tree
    if own.strategy == "hotspots":
        largest = np.array(time.points).sum(axis=1).argmax()
        return hotspots(tree, time.predict(np.array(time.points[largest])[None])[:, 0], time, graph)
    whole = float(np.nansum(np.maximum(time.predict(target[None]), 0.0)))
    threshold_s = own.threshold_s if own.threshold_s is not None else own.share * whole
    chosen = filter_only if own.strategy == "filter" else filter_and_expand
    return chosen(tree, time, visits, target, graph, threshold_s)


def _timed_builds(session: Session, iteration: int) -> list[BuildSpec]:
    """Return the builds for time of an iteration; those of earlier ones if it made none."""
    for number in range(iteration, -1, -1):
        plan = session.layout.read_plan(session.id, number)
        found = [build for build in plan.builds if build.mode is Mode.TIME]
        if found:
            return found
    return []


def static_features(session: Session, iteration: int) -> StaticFeatures | None:
    """Return what the newest build for time says of the program; None if its backend knows nothing."""
    for build in _timed_builds(session, iteration):
        path = session.layout.build(build.hash) / STATIC
        if path.is_file():
            return StaticFeatures.from_jsonl(path.read_text(), path)
    return None


def visit_cost_s(session: Session, iteration: int) -> float:
    """Return what a visit costs where the program was built, or will be; Score-P's usual cost where nobody knows."""
    costs = []
    for number in range(iteration + 1):
        for build in _timed_builds(session, number):
            folder = session.layout.build(build.hash)
            if (folder / RECORD).is_file() and (cost := read_build(folder).visit_cost_s):
                costs.append(cost)
    if not costs and session.layout.read_plan(session.id, 0).imported:  # nothing is built yet
        costs = [session.target.backend.visit_cost_s() or VISIT_COST_S]
    return median(costs) if costs else VISIT_COST_S
