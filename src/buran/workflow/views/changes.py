"""What has changed since a campaign's runs and its report were made, and which of them still count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from buran.campaign.document import read_campaign_file
from buran.campaign.layout import campaign_file
from buran.campaign.records import BuildRecord, Status
from buran.errors import UsageError
from buran.measurement.earlier_runs import measured_targets
from buran.measurement.store import ledger
from buran.measurement.store.ledger import Entry
from buran.measurement.target import Target
from buran.workflow.history import FinishedRun, History, lost
from buran.workflow.session import Session

CAMPAIGN = "campaign.yaml"
"""The campaign file as it was when the report was made, next to it."""

_TOOLS = {
    "kind": "how functions are instrumented",
    "compiler": "the compiler",
    "fortran": "the Fortran compiler",
    "mpi": "the MPI",
    "scorep": "Score-P",
}


def changes_in_words(history: History, entries: Iterable[Entry] | None = None) -> tuple[str, ...]:
    """Say which finished runs are not used as they are, and why; nothing once today's target has runs in its plans.

    Parameters
    ----------
    entries
        The ledger, if it was read by now.
    """
    session = history.session
    booked = ledger.read(session.layout.store) if entries is None else entries
    entries = (entry for entry in booked if entry.status == Status.MEASURED)
    runs = Counter(entry.target for entry in entries if not entry.is_of_build)
    if ours := runs.pop(session.target.id, 0):
        if history.plans:
            return ()
        return (
            f"{ours} finished runs are of this target, but the campaign file has changed since they were planned, or "
            "an earlier version of Buran planned them; a new plan uses them wherever it asks for them",
        )
    measured = measured_targets(session.layout)
    if not measured:
        return ()
    newest, records = measured[0]
    changed = differences(records[0], session.target)
    looked = " (a program that turns out the same keeps its runs)" if "the sources" in changed else ""
    name = session.campaign.path.name
    return (
        f"{runs[newest]} finished runs do not fit today's target; since then has changed: {'; '.join(changed)}. "
        f"They are kept, and every point is measured again{looked}, unless `buran run --adopt {name}` takes them over",
    )


def as_measured(session: Session) -> tuple[Session, tuple[str, ...]]:
    """Return the campaign with the target that was measured last, and a note, where today's has no plans yet."""
    if History.open(session).plans:
        return session, ()
    for measured, records in measured_targets(session.layout):
        earlier = replace(session, stands_for=measured)
        if History.open(earlier).plans:
            changed = "; ".join(differences(records[0], session.target))
            return earlier, (f"this is of the program that was measured; since then has changed: {changed}",)
    return session, ()


def differences(record: BuildRecord, target: Target) -> tuple[str, ...]:
    """Return what of a target is not as it was when a build was made, from the build's record; at least one thing."""
    target = target.at(dict(record.spec.values))
    then, now = dict(record.toolchain), dict(target.backend.description)
    changed = [] if record.source["identity"] == target.source.identity else ["the sources"]
    if list(record.modules) != list(target.campaign.active_environment.modules):
        changed.append("the modules")
    compared: list[tuple[str, str | None, str | None]] = [("the flags", record.flags, target.campaign.flags)]
    compared += [
        (what, then[key], now.get(key))
        for key, what in _TOOLS.items()
        if key in then and (key != "fortran" or target.source.has_fortran)
    ]
    changed += [f"{what} ({before!r} then, {after!r} now)" for what, before, after in compared if before != after]
    if record.backend != target.backend.identity and len(changed) == 0:
        changed.append(f"the measurement system, or what it measures ({record.backend} then)")
    return tuple(changed) or ("the build command, the path of the program, or the environment's variables",)


@dataclass(frozen=True)
class FoundReport:
    """Where a report lies.

    Attributes
    ----------
    remarks
        What changed since it was made, in sentences; empty if nothing did.
    """

    folder: Path
    remarks: tuple[str, ...] = ()


def find_report(session: Session, *, earlier: bool = True) -> FoundReport:
    """Return the campaign's report; of an earlier version of the campaign, saying so, if this one has none.

    Parameters
    ----------
    earlier
        Whether one of an earlier version will do.

    Raises
    ------
    UsageError
        There is none.
    """
    layout, file = session.layout, session.campaign.path
    folder = layout.results(session.id)
    if (folder / "report.txt").is_file():  # the last file that is written
        return FoundReport(folder, tuple(_lost(session, session.id)))
    latest = layout.latest.resolve()
    if not earlier or not (latest / "report.txt").is_file():
        raise UsageError(
            "this campaign has no report yet",
            where=folder / "report.txt",
            why="the campaign is not finished, or its file, sources or compiler changed since"
            if layout.store.is_dir()
            else "it has not been run",
            hint=f"buran run {file}",
        )
    date = datetime.fromtimestamp((latest / "report.json").stat().st_mtime).strftime("%Y-%m-%d %H:%M")
    changed = (
        f"this report, of {date}, answers an earlier version of the campaign: {_changes(latest / CAMPAIGN, file)}. "
        f"`buran run {file.name}` measures what is new and makes a report of this version"
    )
    return FoundReport(latest, (changed, *_lost(session, latest.name)))


def kept_report(folder: Path) -> FoundReport | None:
    """Return the report in a folder of results, as it was written; None where the campaign's file tells more.

    Raises
    ------
    UsageError
        The folder is of no campaign.
    """
    if (folder / "report.txt").is_file():
        return FoundReport(folder)
    try:
        campaign_file(folder)
    except UsageError:
        latest = folder / "latest"
        if not (latest / "report.txt").is_file():
            raise
        return FoundReport(latest)
    return None


def _lost(session: Session, campaign: str) -> list[str]:
    """Say which runs of a report are gone; those of points that are to be measured again, without pointers, are not."""
    history, pointers = History(session, campaign), session.layout.bundle_pointer
    plans = [plan for plan in history.plans if all(pointers(bundle.id).is_file() for bundle in plan.bundles)]
    return lost_in_words(history, history.runs_of(plans))


def lost_in_words(history: History, runs: Sequence[FinishedRun]) -> list[str]:
    """Say how many of some runs are gone from the store."""
    gone, session = lost(runs), history.session
    if not gone:
        return []
    example = gone[0].folder.relative_to(session.layout.root)
    return [
        f"{len(gone)} of {len(runs)} finished runs are gone from the store, such as {example}: models made since do "
        f"without them, and figures made of them cannot be recomputed. `buran verify {session.campaign.path.name}` "
        "names all that is missing."
    ]


def _changes(before: Path, now: Path) -> str:
    """Say which keys of the campaign file differ."""
    if not before.is_file():
        return "its file, sources, compiler or MPI changed"
    old, new = (dict(_keys(read_campaign_file(path).data)) for path in (before, now))
    keys = [key for key in dict.fromkeys((*old, *new)) if old.get(key) != new.get(key) or (key in old) != (key in new)]
    return f"changed since: {', '.join(keys)}" if keys else "its sources, compiler or MPI changed"


def _keys(data: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _keys(value, f"{above}.{key}" if above else str(key))
    else:
        yield above, data
