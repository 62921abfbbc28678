"""The report that a user gets to see, and whether it is still true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from buran.campaign.document import read_campaign_file
from buran.campaign.layout import campaign_file
from buran.errors import UsageError
from buran.workflow.collect import lost
from buran.workflow.history import History
from buran.workflow.session import Session

CAMPAIGN = "campaign.yaml"
"""The campaign file as it was when the report was made, next to it."""


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


def _lost(session: Session, campaign: str) -> Iterator[str]:
    history = History(session, campaign)
    pointers = session.layout.bundle_pointer  # those of points that are to be measured again are gone
    plans = [plan for plan in history.plans if all(pointers(bundle.id).is_file() for bundle in plan.bundles)]
    gone = lost(history.runs_of(plans))
    if gone:
        yield (
            f"{len(gone)} runs that were measured are gone from the store, such as {gone[0].folder}: what was made of "
            f"them cannot be made again. `buran verify {session.campaign.path.name}` names all that is missing"
        )


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
