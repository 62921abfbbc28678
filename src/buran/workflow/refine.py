"""Deciding the filter of the next iteration; a decision that was measured with is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median
from typing import cast

import numpy as np

from buran.campaign.config import Campaign
from buran.campaign.identity import requested, with_first_names
from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.records import Status
from buran.campaign.strategies import abilities_of
from buran.errors import BuildError
from buran.files import digest, write_text
from buran.instrumentation.callgraph import CallGraph
from buran.instrumentation.filter_file import parse
from buran.instrumentation.filter_list import WRITERS, list_of
from buran.instrumentation.graph_sources import graph_of_features, with_measured
from buran.instrumentation.pattern import named_by_any
from buran.instrumentation.pira import filter_and_expand, filter_only, hotspots
from buran.instrumentation.prediction import VISIT_COST_S, ModelledProgram, predict_regions
from buran.instrumentation.refine import Explored, refine, with_wishes
from buran.instrumentation.refinement import FunctionVerdict, Refinement, Wishes, read_verdicts, write_verdicts
from buran.instrumentation.start import guard, guarded, longest, start_filter
from buran.measurement.toolchain.static_features import StaticFeatures, StaticFunction
from buran.modeling.fit import fit_models
from buran.modeling.numerics.tuning import OVERHEAD
from buran.modeling.pmnf.model_set import ModelSet
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.profiles.experiment.table import Aggregate, Experiment
from buran.profiles.metrics import work_metrics
from buran.workflow.findings import Findings
from buran.workflow.history import History
from buran.workflow.overhead import cost_factor, excessive
from buran.workflow.session import Session

_VALUES = 3  # of a parameter: the fewest that tell growth from a constant


def refined_filter(history: History) -> str:
    """Return the filter that the next iteration is built with.

    Points that are added to a campaign later do not change a filter that was measured with: that would make
    every measurement under it worthless. Other refinement settings or another target decide again.
    """
    session, iteration = history.session, history.iteration
    settings = _settings(session)
    decided = session.layout.decided_filter(session.target.id, settings, iteration)
    if decided.is_file():
        return decided.read_text(encoding="utf-8")
    verdicts = known_verdicts(session, iteration - 1)
    new: dict[str, FunctionVerdict] = {}
    last = history.plans[-1] if history.plans else None
    if session.earlier is not None and (last is None or last.pilot):
        text = session.earlier.filter_text
    elif last is None:
        text = _started(history)
    elif last.pilot:
        text, new = _guarded(history)
    else:
        text, new = _decide(history, verdicts)
    write_verdicts(session.layout.verdicts(session.target.id, settings, iteration), {**verdicts, **new})
    write_text(decided, text)
    return text


def _settings(session: Session) -> str:
    config = session.campaign.config
    earlier = [] if session.earlier is None else [session.earlier.filter_text]
    refinement = with_first_names(requested(config)).get("refinement", {})
    return digest([refinement, config.strategy.name, *earlier], 8)


def known_verdicts(session: Session, iteration: int) -> dict[str, FunctionVerdict]:
    """Return what was known of functions when the filter of an iteration was decided; nothing for the first."""
    path = session.layout.verdicts(session.target.id, _settings(session), iteration)
    return read_verdicts(path) if path.is_file() else {}


def starts_by_itself(session: Session) -> bool:
    """Tell whether a campaign chooses the functions it starts with."""
    refinement = session.campaign.config.refinement
    return session.earlier is not None or (refinement.enabled and refinement.start != "default")


def start_build(session: Session) -> BuildSpec | None:
    """Return the build whose call graph the first filter is chosen from; None if none is needed.

    The one that counts, in the target's environment: its static features come from the compiler plugin whatever
    measures the times.
    """
    campaign = session.campaign
    if not starts_by_itself(session) or session.earlier is not None or campaign.config.refinement.start == "everything":
        return None
    builds = (session.target.build_spec(Mode.EFFORT, "", point) for point in campaign.points)
    return _of_target(campaign, builds)[0]


def _of_target(campaign: Campaign, builds: Iterable[BuildSpec]) -> list[BuildSpec]:
    """Return the builds in the target's environment; all, where a parameter chooses environments and none has that."""
    choice, builds = campaign.environment_choice, list(builds)
    return [b for b in builds if choice is None or dict(b.values).get(choice) == campaign.target[choice]] or builds


def _started(history: History) -> str:
    session = history.session
    refinement = session.campaign.config.refinement
    spec = start_build(session)
    graph = None
    if spec is not None:
        outcome, features = history.build_outcome(spec.hash), history.features(spec.hash)
        if outcome.status is not Status.MEASURED or features is None:
            raise BuildError(
                "the call graph of the program is not known",
                where=session.campaign.path,
                why=outcome.reason or "only compiler plugins report it",
                hint="refinement.start: default, or everything",
            )
        graph = graph_of_features(features)
    return start_filter(refinement.start, graph, refinement.start_threshold)


def _guarded(history: History) -> tuple[str, dict[str, FunctionVerdict]]:
    """Take hooks away where a pilot found that they cost too much; where it found nothing, the default is left."""
    findings, experiment = history.findings(history.iteration - 1), history.table(history.iteration - 1)
    if not len(findings.tree) or experiment is None:
        return "", {}
    at = dict(zip(experiment.parameters, experiment.points[longest(experiment)].tolist(), strict=True))
    pairs = [
        (overhead.time_ratio * overhead.vanilla_cpu_s, overhead.vanilla_cpu_s)
        for overhead in findings.overhead
        if overhead.time_ratio is not None and overhead.point == at
    ]
    hooked_s, plain_s = pairs[-1] if pairs else (0.0, 0.0)
    wishes = wishes_of(history.session)
    limit = wishes.overhead or OVERHEAD
    decision = guard(experiment, hooked_s, plain_s, visit_cost_s(history), limit, wishes.keep)
    return guarded(findings.filter_text, decision), dict(decision.verdicts)


def wishes_of(session: Session) -> Wishes:
    """Return what the campaign asks of refinements."""
    refinement = session.campaign.config.refinement
    return Wishes(
        share=refinement.share,
        overhead=None if refinement.overhead_percent is None else refinement.overhead_percent / 100,
        constants=refinement.constants,
        closure=refinement.closure,
        keep=refinement.keep,
        drop=refinement.drop,
    )


def _decide(history: History, verdicts: dict[str, FunctionVerdict]) -> tuple[str, dict[str, FunctionVerdict]]:
    last = history.iteration - 1
    findings = history.findings(last)
    enabled = history.session.campaign.config.refinement.enabled and len(findings.tree) > 0
    chosen = refinement_of(history, last, verdicts) if enabled and _tells_growth(history, last) else None
    if chosen is None:
        return findings.filter_text, {}
    too_expensive = chosen.prediction.visit_cost_s > visit_cost_s(history, last)
    # A first filter goes where functions are named, or the filter is all that is wanted: it is tried then.
    wanted = history.session.campaign.config.goal == "filter" or bool(wishes_of(history.session).drop)
    if chosen.settled and not too_expensive and (findings.filter_text or not wanted):
        return findings.filter_text, {}
    return WRITERS["scorep"](list_of(chosen)), chosen.verdicts


def _tells_growth(history: History, iteration: int) -> bool:
    """Tell whether models of times were made from enough values of each parameter to overrule an earlier choice."""
    times, every = history.models(iteration).get("time"), history.session.campaign.points
    if times is None:
        return False
    used = [dict(zip(times.parameters, point, strict=True)) for point in times.points]
    return all(
        len({point[name] for point in used}) >= min(_VALUES, len({point[name] for point in every}))
        for name in history.session.campaign.parameters
    )


def refinement_of(history: History, iteration: int, verdicts: dict[str, FunctionVerdict]) -> Refinement | None:
    """Choose functions by the models of an iteration; None without models."""
    session, findings, sets = history.session, history.findings(iteration), history.models(iteration)
    campaign = session.campaign
    refinement = campaign.config.refinement
    if "time" not in sets or "visits" not in sets:
        return None
    target = np.array([campaign.target[name] for name in campaign.parameters], dtype=np.float64)
    tree, time, visits = findings.tree, sets["time"], _with_all_visits(sets["visits"], history.table(iteration))
    features = static_features(history, iteration)
    graph = None if features is None else with_measured(graph_of_features(features), tree)
    if refinement.strategy != "relevance":
        return with_wishes(_published(session, findings, time, visits, target, graph), wishes_of(session))
    new = refinement.filtering != "run"  # what has no hooks cannot be switched on
    cost_s = visit_cost_s(history, iteration)
    program = ModelledProgram(
        tree,
        time,
        visits,
        cost_s,
        work=[sets[name] for name in work_metrics(sets)],
        imbalance=np.array(findings.imbalance_s),
        extremes_s=np.array(findings.extremes_s).reshape(-1, 2),
        threads=np.array(findings.threads) if findings.threads else None,
        points=[[point[name] for name in campaign.parameters] for point in campaign.points],
        plain_s=_plain_s(campaign, findings),
    )
    explored = Explored(
        graph if new or refinement.closure == "static" else None,
        verdicts,
        () if features is None else [function.mangled for function in features.functions if function.hooked],
        _uncounted(history, iteration),
    )
    chosen = refine(program, target, wishes_of(session), explored)
    if excessive(history, iteration, chosen.prediction) is None:
        return chosen
    # the measured overhead is above the limit: choose again by what a visit costs in the program, and add no hooks
    factor = cost_factor(history, iteration, chosen.prediction, time)
    if factor > 1:
        chosen = refine(replace(program, visit_cost_s=factor * cost_s), target, wishes_of(session), explored)
    return replace(chosen, added={})


def _with_all_visits(visits: ModelSet, table: Experiment | None) -> ModelSet:
    """Return models of the visits of all call paths that were visited.

    Visits that follow no formula have no model that predictions may rest on. Their hooks cost something all the same.
    """
    without = [row for row, model in enumerate(visits.models) if model is None]
    if table is None or not without or visits.metric not in table.values:
        return visits
    row_of = {name: row for row, name in enumerate(table.tree.names)}
    rows = [row for row in without if visits.call_paths[row] in row_of]
    counts = over_repetitions(table.over_locations(visits.metric, cast(Aggregate, visits.aggregate)), "mean")
    counted = counts[[row_of[visits.call_paths[row]] for row in rows]]
    present = np.isfinite(counted).any(axis=0)
    found = fit_models(table.points_in(visits.parameters)[present], counted[:, present]).models
    models = list(visits.models)
    for row, model in zip(rows, found, strict=True):
        models[row] = model
    return replace(visits, models=tuple(models))


def _plain_s(campaign: Campaign, findings: Findings) -> list[float]:
    """Return, for each point of a campaign, the CPU time of a thread without instrumentation; NaN where unknown."""
    plain_s = {tuple(each.point.items()): each.vanilla_cpu_s for each in findings.overhead if each.vanilla_cpu_s > 0}
    return [
        plain_s.get(tuple(point.items()), np.nan) / (campaign.ranks(point) * campaign.threads(point))
        for point in campaign.points
    ]


def _uncounted(history: History, iteration: int) -> list[str]:
    """Return the linker symbols without hooks in the build that counts, where each run is weighed.

    Their counts stay with their callers: with hooks of their own, few times alone would tell how they grow.
    """
    config = history.session.campaign.config
    if not abilities_of(config.strategy.name).weighs_runs:
        return []
    for build in _builds(history, iteration, Mode.EFFORT):
        if (features := history.features(build.hash)) is not None:
            functions = [(each.name, each.mangled) for each in features.functions]
            kept = set(named_by_any(config.refinement.keep, functions))
            return [
                each.mangled for number, each in enumerate(features.functions) if not each.hooked and number not in kept
            ]
    return []


def _published(
    session: Session, findings: Findings, time: ModelSet, visits: ModelSet, target: np.ndarray, graph: CallGraph | None
) -> Refinement:
    refinement, tree = session.campaign.config.refinement, findings.tree
    if graph is None:
        raise BuildError(
            "the call graph of the program is not known",
            where=session.campaign.path,
            why=f"`refinement.strategy: {refinement.strategy}` follows it, and only compiler plugins report it",
            hint="refinement.strategy: relevance, or count basic blocks: that build reports it too",
        )
    if refinement.strategy == "hotspots":
        largest = np.array(time.points[np.array(time.points).sum(axis=1).argmax()])
        at_largest = predict_regions(ModelledProgram(tree, time, visit_cost_s=0.0), time.points[-1])
        return hotspots(at_largest, graph, time.predict(largest[None])[:, 0])
    prediction = predict_regions(ModelledProgram(tree, time, visits, 0.0), target)
    threshold_s = refinement.threshold
    if threshold_s is None:  # without starting and ending MPI, which no function is compared with
        threshold_s = refinement.share * prediction.total_s
    chosen = filter_only if refinement.strategy == "filter" else filter_and_expand
    return chosen(prediction, graph, threshold_s)


def _builds(history: History, iteration: int, mode: Mode) -> list[BuildSpec]:
    """Return an iteration's builds of a kind in the target's environment; those of earlier ones if it made none."""
    for plan in reversed(history.plans[: iteration + 1]):
        builds = [build for build in plan.builds if build.mode is mode]
        if builds:
            return _of_target(history.session.campaign, builds)
    return []


def static_features(history: History, iteration: int) -> StaticFeatures | None:
    """Return what the newest build for time says of the program; None if no backend knows anything.

    Where that build says nothing, as with Score-P, the build that counts does: the same program, whose hooks are then
    those that the filter of the build for time asks for.
    """
    timed = _builds(history, iteration, Mode.TIME)
    for build in (*timed, *_builds(history, iteration, Mode.EFFORT)):
        features = history.features(build.hash)
        if features is not None and build.mode is Mode.TIME:
            return features
        if features is not None:
            return _with_hooks(features, timed[0].filter_text if timed else "")
    return None


def _with_hooks(features: StaticFeatures, filter_text: str) -> StaticFeatures:
    rules = parse(filter_text)

    def hooked(function: StaticFunction) -> bool:
        return rules.gives_hooks(function.name, function.mangled, function.file, inline=function.inline)

    functions = (replace(function, hooked=hooked(function)) for function in features.functions)
    return replace(features, functions=tuple(functions))


def visit_cost_s(history: History, iteration: int | None = None) -> float:
    """Return what a visit costs where the program was built, or will be; Score-P's usual cost where nobody knows.

    Parameters
    ----------
    iteration
        The last one that counts.
    """
    last = history.iteration - 1 if iteration is None else iteration
    builds = [build for number in range(last + 1) for build in _builds(history, number, Mode.TIME)]
    records = [history.build_record(build.hash) for build in builds]
    costs = [record.visit_cost_s for record in records if record is not None and record.visit_cost_s is not None]
    return median(costs) if costs else VISIT_COST_S
