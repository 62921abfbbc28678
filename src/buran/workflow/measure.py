"""Building, and measuring within the budget in force: what jobs read, what they do, and new generations of points."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from buran.campaign.config import Campaign
from buran.campaign.layout import Layout
from buran.campaign.plan import SCHEMA, BuildSpec, Bundle, Plan
from buran.campaign.point import Point
from buran.campaign.records import BundleOutcome, RunKey
from buran.errors import BuranError, FormatError, UsageError
from buran.files import MADE_AGAIN, Stored, decode, digest, not_synced, read_json, write_json
from buran.measurement.build import build, check_build
from buran.measurement.bundle import measure_bundle
from buran.measurement.schedulers.base import current_scheduler
from buran.measurement.schedulers.jobs import submission_in
from buran.measurement.store import store
from buran.workflow.history import read_plans
from buran.workflow.session import Session, logged


def make_build(session: Session, name: str) -> None:
    """Make a build, and write its pointer; raise `BuildError` if it fails and every point needs it."""
    spec = BuildSpec.read(session.layout.build_spec(name))
    outcome = build(session.target, session.layout, spec)
    check_build(session.layout, spec, outcome)
    outcome.write(session.layout.build_pointer(name))


def measure_jobs(session: Session, name: str, job: str | None = None) -> None:
    """Measure a bundle, or all of a batch one after the other, and write the pointers that are not there.

    Parameters
    ----------
    job
        What the job was submitted for, if not for that alone.

    Raises
    ------
    BuranError
        That of the first bundle that could not be measured; the others were.
    """
    layout, problems = session.layout, list[BuranError]()
    jobs = jobs_in(layout, name)
    for bundle in chain(*jobs):
        pointer = layout.bundle_pointer(bundle)
        try:
            if not pointer.is_file():
                spec, budget = Bundle.read(layout.bundle_spec(bundle)), budget_in_force(layout, session.id)
                measure_bundle(session.target, layout, spec, budget, job or name).write(pointer)
        except BuranError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
    if layout.batch_spec(name).is_file():
        write_json(layout.batch_pointer(name), jobs)


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
    for spec in plan.builds:
        write_build_spec(layout, spec)
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


def point_of(campaign: Campaign, values: Mapping[str, float]) -> Point:
    """Return the point of the campaign with these values.

    Raises
    ------
    UsageError
        There is none.
    """
    point = Point.of(dict(values))
    if point not in (*campaign.points, *campaign.evaluation_points):
        raise UsageError(
            f"{point.key} is no point of campaign {campaign.name}",
            where="--remeasure",
            why=_why_no_point(campaign, point),
            hint="see `buran plan` for the points",
        )
    return point


def _why_no_point(campaign: Campaign, point: Point) -> str:
    """Say which of a point's values the campaign does not have."""
    if point.keys() != set(campaign.parameters):
        return f"its parameters are {', '.join(campaign.parameters)}"
    every = (*campaign.points, *campaign.evaluation_points)
    values = {name: sorted({other[name] for other in every}) for name in campaign.parameters}
    wrong = {name: known for name, known in values.items() if point[name] not in known}
    known = "; ".join(f"{name}: {', '.join(map(str, known))}" for name, known in (wrong or values).items())
    return f"values are {known}" + ("" if wrong else ", but not all of them together")


def open_generation(session: Session, point: Point) -> int:
    """Have all configurations of a point that the campaign uses measured again; return their number."""
    layout = session.layout
    builds = {build.hash for plan in read_plans(layout, session.id) for build in plan.builds}
    keys = [RunKey.parse(folder.relative_to(layout.store)) for folder in store.run_folders(layout.store)]
    of_point = {key.folder: key for key in keys if key.point == point.key and key.build in builds}
    if not of_point:
        raise UsageError(f"{point.key} was not measured yet", hint="`buran run` measures it")
    for key in of_point.values():
        store.new_generation(layout.store, key)
    for pointer in layout.made_pointers("bundles"):
        if BundleOutcome.read(pointer).point == point:
            pointer.unlink()
    return len(of_point)


def main() -> int:
    """Measure; return the exit code."""
    file, campaign, submitted = sys.argv[1:]
    root = Path.cwd()
    names = submission_in(root, submitted).names
    name = names[current_scheduler().array_task() or 0]
    layout = Layout(root)
    log = layout.log("measure_together" if layout.batch_spec(name).is_file() else "measure", name)
    with logged(log, Path(file), campaign) as session:
        measure_jobs(session, name, submitted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
