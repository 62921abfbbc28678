"""Finished runs that today's campaign does not count as its own, and what has changed since."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from buran.campaign.records import BuildRecord, Status
from buran.measurement.earlier_runs import measured_targets
from buran.measurement.store import ledger
from buran.measurement.store.ledger import Entry
from buran.measurement.target import Target
from buran.workflow.history import History
from buran.workflow.session import Session

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
