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
from buran.files import digest, file_sha256, read_document, write_json
from buran.loop.history import History
from buran.loop.session import Session
from buran.loop.steps import steps_of_plan, steps_to_plan


def remember(session: Session) -> None:
    """Write down that the engine has made everything of a campaign that is done."""
    plans = History.open(session).plans
    if plans and plans[-1].done:
        write_json(session.layout.finished(session.id), {"schema": SCHEMA, "state": _state(session, plans)})


def is_finished(session: Session) -> bool:
    """Tell whether everything is as it was when the engine had made it all."""
    path = session.layout.finished(session.id)
    if not path.is_file():
        return False
    state = read_document(path, SCHEMA, lambda data: str(data["state"]), what="note of the workflow's end")
    return state == _state(session, History.open(session).plans)


def lacks_files(session: Session) -> bool:
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
    return digest([files, tools, [file_sha256(path) for path in sources]], 32)


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
