"""Measuring bundles within the budget in force."""

from __future__ import annotations

from buran.campaign.plan import Bundle
from buran.campaign.records import BundleOutcome, read_batch
from buran.errors import BuranError
from buran.files import write_json
from buran.measurement.bundle import measure_bundle
from buran.workflow.session import Session
from buran.workflow.specs import budget_in_force


def measure(session: Session, bundle_id: str, job: str | None = None) -> BundleOutcome:
    """Measure a bundle; return what became of its runs.

    Parameters
    ----------
    job
        What the job was submitted for, if not for the bundle alone.
    """
    bundle, budget = Bundle.read(session.layout.bundle_spec(bundle_id)), budget_in_force(session.layout, session.id)
    return measure_bundle(session.target, session.layout, bundle, budget, job)


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
    layout, names = session.layout, read_batch(session.layout.batch_spec(batch))
    left = [name for name in names if not layout.bundle_pointer(name).is_file()]
    problems: list[BuranError] = []
    for name in left:
        try:
            measure(session, name, job or batch).write(layout.bundle_pointer(name))
        except BuranError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
    return list(names)


def measure_array(session: Session, array: str) -> list[str]:
    """Measure what the jobs of an array are for, and return their names.

    Raises
    ------
    BuranError
        That of the first job that could not be carried out; the others were.
    """
    names = read_batch(session.layout.array_spec(array))
    problems: list[BuranError] = []
    for name in names:
        try:
            measure_job(session, name)
        except BuranError as problem:
            problems.append(problem)
    if problems:
        raise problems[0]
    return list(names)


def measure_job(session: Session, name: str, job: str | None = None) -> None:
    """Measure a bundle or a batch whose pointer is not there, and write it.

    Parameters
    ----------
    job
        What the job was submitted for, if not for that alone.
    """
    pointer = session.layout.job_pointer(name)
    if pointer.is_file():
        return
    if session.layout.batch_spec(name).is_file():
        write_json(pointer, measure_batch(session, name, job))
    else:
        measure(session, name, job).write(pointer)
