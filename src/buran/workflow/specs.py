"""What the jobs of a plan read instead of the whole plan: how to build, what to measure, how much may be spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from buran.campaign.layout import Layout
from buran.campaign.plan import SCHEMA, BuildSpec, Bundle, Plan
from buran.errors import FormatError
from buran.files import MADE_AGAIN, Stored, decode, digest, not_synced, read_json, write_json

Jobs = tuple[tuple[str, ...], ...]
"""Bundles of each job of a batch."""


@dataclass(frozen=True)
class BudgetInForce(Stored):
    """Core hours that may be spent until the end of an iteration; None without a budget."""

    kind_of_file = "budget"

    core_hours: float | None

    def write(self, path: Path) -> None:
        """Write the file."""
        write_json(path, {"schema": SCHEMA, "core_hours": self.core_hours})


def plan_in_force(layout: Layout, campaign: str, iteration: int) -> Plan:
    """Read a plan that is about to be carried out, and see to it that what its jobs read is there."""
    plan = Plan.read(layout.plan(campaign, iteration))
    write_specs(layout, campaign, plan)
    return plan


def write_plan(layout: Layout, campaign: str, plan: Plan) -> None:
    """Write a plan, a bundle on a line, after what its jobs read."""
    write_specs(layout, campaign, plan)
    write_json(layout.plan(campaign, plan.iteration), plan.to_json(), depth=2)


def write_specs(layout: Layout, campaign: str, plan: Plan) -> None:
    """Write what is missing of what the jobs of a plan read."""
    for build in plan.builds:
        write_build_spec(layout, build)
    with not_synced():  # they are many, and made again where a power cut left them empty
        for bundle in plan.bundles:
            _write_once(layout.bundle_spec(bundle.id), bundle)
    path, budget = layout.budget(campaign, plan.iteration), BudgetInForce(plan.most_core_hours)
    if not path.is_file() or BudgetInForce.read(path) != budget:  # a plan may be made again
        budget.write(path)


def write_build_spec(layout: Layout, spec: BuildSpec) -> None:
    """Write how to make a build."""
    _write_once(layout.build_spec(spec.hash), spec)


def name_of(jobs: Sequence[Sequence[str]]) -> str:
    """Return the name of a batch, and of a job that is one; a bundle alone has its own."""
    bundles = [*chain(*jobs)]
    return bundles[0] if len(bundles) == 1 else digest(jobs, 16)


def jobs_in(layout: Layout, name: str) -> Jobs:
    """Return the bundles of each job of a batch, or of a bundle alone; raise `FormatError` for a damaged file."""
    path = layout.batch_spec(name)
    try:
        return decode(Jobs, read_json(path)) if path.is_file() else ((name,),)
    except ValueError as error:
        raise FormatError("this is no batch of jobs", where=path, why=str(error), hint=MADE_AGAIN) from error


def _write_once(path: Path, spec: BuildSpec | Bundle) -> None:
    if not (path.is_file() and path.stat().st_size):
        write_json(path, {"schema": SCHEMA, **spec.to_json()})


def budget_in_force(layout: Layout, campaign: str) -> float | None:
    """Return the budget in core hours that the newest plan leaves; None without one."""
    iteration = 0
    while layout.plan(campaign, iteration + 1).is_file():
        iteration += 1
    path = layout.budget(campaign, iteration)
    if path.is_file():
        return BudgetInForce.read(path).core_hours
    plan = layout.plan(campaign, iteration)
    return Plan.read(plan).most_core_hours if plan.is_file() else None
