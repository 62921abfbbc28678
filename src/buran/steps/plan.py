"""Making the plan of an iteration from the campaign and the results of the iterations before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from buran.campaign.plan import BuildSpec, Mode, Plan
from buran.campaign.point import Point
from buran.errors import ConfigError
from buran.files import read_json
from buran.select.planner import Knowledge, Question, next_plan
from buran.steps.collect import as_array
from buran.steps.findings import Findings
from buran.steps.refine import rules_of
from buran.steps.session import Session


def question_of(session: Session, plans: Sequence[Plan] = ()) -> Question:
    """Return the part of the campaign that plans depend on."""
    campaign, config = session.campaign, session.campaign.config
    return Question(
        points=campaign.points,
        evaluation_points=campaign.evaluation_points,
        metrics=frozenset(config.metrics),
        repetitions=campaign.repetitions,
        effort_repetitions=config.effort_repetitions,
        warmup=config.warmup,
        strategy=config.strategy.name,
        max_iterations=config.strategy.max_iterations,
        refine=config.refinement.enabled,
        seed=config.seed,
        build=partial(_build_spec, session, [plan.filter_text for plan in plans]),
        cores=campaign.cores,
        ranks_parameter=campaign.ranks_parameter,
        expected_s=campaign.expected_s,
        budget=campaign.budget_core_hours,
    )


def _build_spec(session: Session, filters: Sequence[str], mode: Mode, filter_text: str, point: Point) -> BuildSpec:
    """Return the build for a filter: its own, or an earlier one with this filter applied when it runs.

    Parameters
    ----------
    filters
        Of the iterations before this one, in order.
    """
    own = session.campaign.config.refinement
    hooks = None
    if mode is Mode.TIME and own.filtering != "compile":
        known = list(dict.fromkeys([*filters, filter_text]))
        number = known.index(filter_text)
        hooks = known[0 if own.filtering == "run" else number - number % own.rebuild_every]
    return session.target.build_spec(mode, filter_text, point, None if hooks == filter_text else hooks)


def first_plan(session: Session) -> Plan:
    """Plan the first iteration.

    Raises
    ------
    ConfigError
        The budget does not reach for the first plan.
    """
    question = question_of(session)
    plan = next_plan(question, Knowledge())
    if plan.budget_reached:
        whole = next_plan(replace(question, budget=lambda full: None), Knowledge())
        raise ConfigError(
            "the budget is below the cost of the first plan",
            where=f"{session.campaign.path}, key budget",
            why=f"the budget is {plan.budget_core_hours:.4g} core hours, the first plan's {len(whole.bundles)} "
            f"points are expected to cost {whole.predicted_core_hours:.4g} (resources.expected_s)",
            hint="raise the budget, choose fewer or smaller points, fewer repetitions, or strategy 'lines'",
        )
    return plan


def make_plan(session: Session, iteration: int) -> Plan:
    """Plan an iteration; earlier plans, bundles, models and the refined filter must exist."""
    if iteration == 0:
        return first_plan(session)
    layout, campaign = session.layout, session.id
    plans = tuple(layout.read_plan(campaign, each) for each in range(iteration))
    findings = Findings.read(layout.findings(campaign, iteration - 1))
    known = Knowledge(
        plans=plans,
        outcomes=tuple(outcomes(session, plans)),
        runtime=runtime_model(session, findings),
        filter_text=rules_of(layout.filter(campaign, iteration).read_text()),
    )
    return next_plan(question_of(session, plans), known)


def outcomes(session: Session, plans: tuple[Plan, ...]) -> list[dict[str, Any]]:
    """Return what became of the plans' bundles."""
    return [read_json(session.layout.bundle_pointer(bundle.id)) for plan in plans for bundle in plan.bundles]


def runtime_model(session: Session, findings: Findings) -> Callable[[Point], float | None]:
    """Return the prediction of a run's wall time; never below the shortest run that was seen."""
    if findings.runtime is None:
        return lambda point: None
    model, names = findings.runtime, session.campaign.parameters

    def predict(point: Point) -> float:
        value = model.predict(as_array([point], names))[0, 0]
        return float(max(value, findings.shortest_run_s))

    return predict
