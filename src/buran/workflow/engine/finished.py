"""Whether anything is left to do for the workflow engine: it takes seconds to find that out in a large campaign.

When the engine says that everything is made, what it said that of is written down: the files it owns, with their
times and sizes, and the workflow that made them. As long as all of that is the same, it would say so again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

from buran import assets
from buran.campaign.plan import SCHEMA, Plan
from buran.campaign.records import Status
from buran.files import digest, file_sha256, read_document, write_json
from buran.measurement.store import ledger
from buran.workflow.history import History
from buran.workflow.session import Session
from buran.workflow.steps import steps_of_plan, steps_to_plan

_MEANS = "everything is made, and nothing is tried again without a request"  # earlier notes did not mean the second


def remember(session: Session) -> None:
    """Write down that the engine has made everything of a campaign that is done, if nothing is tried again."""
    history = History.open(session)
    if history.plans and history.plans[-1].done and _is_settled(history):
        write_json(session.layout.finished(session.id), {"schema": SCHEMA, "state": _state(session, history.plans)})


def _is_settled(history: History) -> bool:
    """Tell whether every run has a verdict, and every build that all points need was made."""
    needed = {build.hash for plan in history.plans for build in plan.builds if build.is_for_every_point}
    builds = (history.build_outcome(build) for build in needed if history.layout.build_pointer(build).is_file())
    failed = any(build.status is Status.FAILED for build in builds)
    bundles, made = {bundle.id for plan in history.plans for bundle in plan.bundles}, history.layout.made("bundles")
    return not failed and bundles.issubset(made) and all(history.outcome(bundle).complete for bundle in bundles)


def is_finished(session: Session) -> bool:
    """Tell whether everything is as it was when the engine had made it all, and booked."""
    path = session.layout.finished(session.id)
    if not (path.is_file() and ledger.ledger_path(session.layout.store).is_file()):
        return False
    state = read_document(path, SCHEMA, lambda data: str(data["state"]), what="note of the workflow's end")
    return state == _state(session, History.open(session).plans)


def misses_files(session: Session) -> bool:
    """Tell whether there is a report, but not all that it was made from: the engine would see nothing to do."""
    plans = History.open(session).plans
    if not (session.layout.results(session.id) / "report.txt").is_file():
        return False
    iterations = session.layout.root / "iterations"
    made = (path for path in _made(session, plans) if path.is_relative_to(iterations))
    return not plans or not plans[-1].done or not all(path.is_file() for path in made)


def _state(session: Session, plans: Sequence[Plan]) -> str:
    """Return a digest over the files of the engine and over the workflow."""
    files = [[str(path.relative_to(session.layout.root)), *_stamp(path)] for path in _made(session, plans)]
    tools = [version("buran"), version("snakemake")]
    root = assets.root()
    sources = [root / "Snakefile", *sorted((root / "rules").glob("*.smk")), *sorted((root / "scripts").glob("*.py"))]
    return digest([_MEANS, files, tools, [file_sha256(path) for path in sources]], 32)


def _made(session: Session, plans: Sequence[Plan]) -> Iterator[Path]:
    """Yield every file that the engine makes for a campaign, whether it is there or not."""
    for plan in plans:
        for step in (*steps_to_plan(session, plan.iteration), *steps_of_plan(session, plan)):
            yield from step.makes
    names = ("report.txt", "report.html", "report.csv", "points.csv")
    yield from (session.layout.results(session.id) / name for name in names)


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        state = path.stat()
    except FileNotFoundError:
        return ()
    return state.st_mtime_ns, state.st_size
