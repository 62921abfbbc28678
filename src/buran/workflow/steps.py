"""The steps of a campaign, each once: which files it makes, which steps come before it, and what it does.

The workflow's rules ask this list, and so does who carries a campaign out without the workflow's engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from buran.campaign.layout import Layout
from buran.campaign.plan import Bundle, Plan
from buran.files import write_text
from buran.workflow.history import History
from buran.workflow.measure import jobs_in, make_build, measure_jobs, plan_in_force, write_build_spec, write_plan
from buran.workflow.model import make_models
from buran.workflow.plan import make_plan
from buran.workflow.refine import refined_filter, start_build, starts_by_itself
from buran.workflow.report import write_results
from buran.workflow.session import Session


@dataclass(frozen=True)
class Step:
    """A step for an iteration, a build or a bundle.

    Attributes
    ----------
    kind
        Which of `KINDS`.
    name
        Number of the iteration, or what the layout calls the build, bundle or batch; empty for the report.
    """

    kind: str
    name: str = ""

    def makes(self, layout: Layout, campaign: str) -> tuple[Path, ...]:
        """Return the files that are there when it is done; the name may be a wildcard of the workflow's engine."""
        return KINDS[self.kind].makes(layout, campaign, self.name)

    def needs(self, course: Course) -> Iterable[Step]:
        """Return the steps before it."""
        return KINDS[self.kind].needs(course, self.name)

    def carry_out(self, session: Session) -> None:
        """Make its files."""
        KINDS[self.kind].carry_out(session, self.name)


def _alone(plan: Plan) -> list[Step]:
    return [Step("measure", bundle.id) for bundle in plan.bundles]


@dataclass(frozen=True)
class Course:
    """A campaign on its way.

    Attributes
    ----------
    plan_of
        Returns an iteration's plan, which is made.
    measuring
        Returns the steps that measure a plan: one for each bundle by default.
    known
        Bundles that were read, by name.
    """

    session: Session
    plan_of: Callable[[int], Plan]
    measuring: Callable[[Plan], Sequence[Step]] = _alone
    known: dict[str, Bundle] = field(default_factory=dict)

    @classmethod
    def of(cls, session: Session) -> Course:
        """Return that of a campaign that is carried out without the workflow's engine."""
        return cls(session, cache(lambda iteration: plan_in_force(session.layout, session.id, iteration)))

    def jobs(self, name: str) -> list[list[Bundle]]:
        """Return the bundles of each job of a batch, or the one that is called so."""
        return [[self._bundle(bundle) for bundle in job] for job in jobs_in(self.session.layout, name)]

    def _bundle(self, name: str) -> Bundle:
        return self.known.get(name) or Bundle.read(self.session.layout.bundle_spec(name))

    def until(self, last: Step) -> Iterator[Step]:
        """Yield all steps until one in their order, each once; it has to be done before the next one is asked for."""
        seen = set[Step]()

        def walk(step: Step) -> Iterator[Step]:
            seen.add(step)
            for need in step.needs(self):
                if need not in seen:
                    yield from walk(need)
            yield step

        yield from walk(last)


@dataclass(frozen=True)
class StepKind:
    """What all steps of a kind have in common; see `Step`."""

    makes: Callable[[Layout, str, str], tuple[Path, ...]]
    needs: Callable[[Course, str], Iterable[Step]]
    carry_out: Callable[[Session, str], None]


def _builds(course: Course, name: str) -> list[Step]:
    builds = {run.build for job in course.jobs(name) for bundle in job for run in bundle.runs}
    return [Step("build", build) for build in sorted(builds)]


def _before(iteration: str) -> list[Step]:
    """Return the models that an iteration begins with: none for the first."""
    return [Step("model", str(int(iteration) - 1))] if int(iteration) else []


def _before_filter(course: Course, iteration: str) -> list[Step]:
    """Return the models that a filter is chosen by; for the first the build whose call graph it is chosen from."""
    graph = None if int(iteration) else start_build(course.session)
    if graph is None:
        return _before(iteration)
    write_build_spec(course.session.layout, graph)
    return [Step("build", graph.hash)]


def _before_plan(course: Course, iteration: str) -> list[Step]:
    """Return the models, and the filter that they suggest; for the first plan one if the campaign file asks for it."""
    has_filter = int(iteration) or starts_by_itself(course.session)
    return [*_before(iteration), *([Step("refine", iteration)] if has_filter else [])]


def _before_models(course: Course, iteration: str) -> Iterator[Step]:
    """Yield the plan, and what measures everything so far."""
    yield Step("plan", iteration)
    for plan in map(course.plan_of, range(int(iteration) + 1)):
        yield from course.measuring(plan)


def _before_report(course: Course, _: str) -> Iterator[Step]:
    """Yield the plans up to the one that ends the campaign, and the last models."""
    iteration = 0
    while True:
        yield Step("plan", str(iteration))
        if course.plan_of(iteration).done:
            break
        iteration += 1
    yield from _before(str(iteration))


def _model(session: Session, iteration: str) -> None:
    make_models(History.open(session, int(iteration) + 1), *Step("model", iteration).makes(session.layout, session.id))


def _refine(session: Session, iteration: str) -> None:
    text = refined_filter(History.open(session, int(iteration)))
    write_text(session.layout.filter(session.id, iteration), text)


def _plan(session: Session, iteration: str) -> None:
    write_plan(session.layout, session.id, make_plan(History.open(session, int(iteration))))


def _report(session: Session, name: str) -> None:
    write_results(History.open(session), session.layout.results(session.id))


KINDS = {
    "build": StepKind(lambda layout, _, name: (layout.build_pointer(name),), lambda course, name: (), make_build),
    "measure": StepKind(lambda layout, _, name: (layout.bundle_pointer(name),), _builds, measure_jobs),
    "measure_together": StepKind(lambda layout, _, name: (layout.batch_pointer(name),), _builds, measure_jobs),
    "model": StepKind(
        lambda layout, *of: (layout.models(*of), layout.findings(*of), layout.table(*of)), _before_models, _model
    ),
    "refine": StepKind(lambda layout, *of: (layout.filter(*of),), _before_filter, _refine),
    "plan": StepKind(lambda layout, *of: (layout.plan(*of),), _before_plan, _plan),
    "report": StepKind(
        lambda layout, campaign, _: tuple(
            layout.results(campaign) / name for name in ("report.txt", "report.html", "report.csv")
        ),
        _before_report,
        _report,
    ),
}
"""By the name of the workflow's rule."""
