"""Building, and measuring bundles within the budget in force."""

from __future__ import annotations

from itertools import chain

from buran.campaign.plan import BuildSpec, Bundle
from buran.campaign.records import BundleOutcome
from buran.errors import BuranError
from buran.files import write_json
from buran.measurement.build import build, check_build
from buran.measurement.bundle import measure_bundle
from buran.workflow.session import Session
from buran.workflow.specs import budget_in_force, jobs_in


def make_build(session: Session, name: str) -> None:
    """Make a build, and write its pointer; raise `BuildError` if it fails and every point needs it."""
    spec = BuildSpec.read(session.layout.build_spec(name))
    outcome = build(session.target, session.layout, spec)
    check_build(session.layout, spec, outcome)
    outcome.write(session.layout.build_pointer(name))


def measure(session: Session, bundle_id: str, job: str | None = None) -> BundleOutcome:
    """Measure a bundle; return what became of its runs.

    Parameters
    ----------
    job
        What the job was submitted for, if not for the bundle alone.
    """
    bundle, budget = Bundle.read(session.layout.bundle_spec(bundle_id)), budget_in_force(session.layout, session.id)
    return measure_bundle(session.target, session.layout, bundle, budget, job)


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
                measure(session, bundle, job or name).write(pointer)
        except BuranError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
    if layout.batch_spec(name).is_file():
        write_json(layout.batch_pointer(name), jobs)
