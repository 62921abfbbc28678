"""Making the plan of an iteration from the campaign and the results of the iterations before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from buran.campaign.plan import Plan
from buran.campaign.point import Point
from buran.errors import ConfigError
from buran.files import read_json
from buran.select.planner import Knowledge, Question, next_plan
from buran.steps import program_model
from buran.steps.collect import as_array
from buran.steps.findings import Findings
from buran.steps.refine import rules_of
from buran.steps.session import Session


def question_of(session: Session) -> Question:
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
        build=session.target.build_spec,
        cores=campaign.cores,
        ranks_parameter=campaign.ranks_parameter,
        expected_s=campaign.expected_s,
        budget=campaign.budget_core_hours,
    )


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
    return next_plan(question_of(session), known)


def outcomes(session: Session, plans: tuple[Plan, ...]) -> list[dict[str, Any]]:
    """Return what became of the plans' bundles."""
    return [read_json(session.layout.bundle_pointer(bundle.id)) for plan in plans for bundle in plan.bundles]


def runtime_model(session: Session, findings: Findings) -> Callable[[Point], float | None]:
    """Return the prediction of a run's wall time; never below the shortest run that was seen."""
    if findings.runtime is None:
        return lambda point: None
    model, names = findings.runtime, session.campaign.parameters
    tensor = None
    if findings.program_model[0] == "cpr":
        from buran.tensor import load_model

        tensor = load_model(session.layout.models(session.id, findings.iteration).with_name(program_model.FILE))[0]

    def predict(point: Point) -> float:
        at = as_array([point], names)
        value = model.predict(at)[0, 0] if tensor is None else tensor.predict(list(at.T), "clamp")[0][0]
        return float(max(value, findings.shortest_run_s))

    return predict
