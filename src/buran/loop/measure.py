"""Measuring bundles within the budget in force."""

from __future__ import annotations

from buran.campaign.plan import Bundle
from buran.campaign.records import BundleOutcome, read_batch
from buran.errors import BuranError
from buran.loop.session import Session
from buran.loop.specs import budget_in_force
from buran.measure.bundle import measure_bundle


def measure(session: Session, bundle_id: str, job: str | None = None) -> BundleOutcome:
    """Measure a bundle; return what became of its runs.

    Parameters
    ----------
    job
        What the job was submitted for, if not for the bundle alone.
    """
    layout = session.layout
    budget = budget_in_force(layout, session.id)
    return measure_bundle(session.target, layout, Bundle.read(layout.bundle_spec(bundle_id)), budget, job)


def measure_batch(session: Session, batch: str, job: str | None = None) -> list[str]:
    """Measure bundles that share a job, write the pointer of each, and return their identifiers.

    Parameters
    ----------
    job
        What the job was submitted for, if not for the batch alone.

    Raises
    ------
    BuranError
        That of the first bundle that could not be measured; the others were.
    """
    layout, bundles = session.layout, read_batch(session.layout.batch_spec(batch))
    problems: list[BuranError] = []
    for bundle in bundles:
        if layout.bundle_pointer(bundle).is_file():
            continue
        try:
            measure(session, bundle, job or batch).write(layout.bundle_pointer(bundle))
        except BuranError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
    return list(bundles)
