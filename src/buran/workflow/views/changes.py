"""Finished runs that today's campaign does not count as its own, and what has changed since."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.records import BuildRecord, Status
from buran.measurement.recorded import RecordedBackend
from buran.measurement.same_program import measured_targets
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
_WRAPPER = re.compile(r"'?/[^'=:;&|]*/((?:buran|scorep)-\w+)'?")
_RUNTIME = re.compile(r"embedded-([0-9a-f]{16})")


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
    runs = Counter(entry.target for entry in entries if entry.mode != Mode.IMPORTED and not entry.is_of_build)
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
    return tuple(_differences(record, target)) or ("the path of the program, or the environment's variables",)


def _differences(record: BuildRecord, target: Target) -> Iterator[str]:
    target = target.at(dict(record.spec.values))
    campaign, backend, then = target.campaign, target.backend, record.toolchain
    if record.source["identity"] != target.source.identity:
        yield "the sources"
    if record.flags != campaign.flags:
        yield f"the flags ({record.flags!r} then, {campaign.flags!r} now)"
    elif not isinstance(backend, RecordedBackend) and _command(record.command) != _command_now(record.spec, target):
        yield "the build command"
    if list(record.modules) != list(campaign.active_environment.modules):
        yield "the modules"
    tools = [
        f"{what} ({then[key]} then, {backend.description.get(key)} now)"
        for key, what in _TOOLS.items()
        if key in then and then[key] != backend.description.get(key) and (key != "fortran" or target.source.has_fortran)
    ]
    yield from tools
    if not tools and record.backend != backend.identity:
        yield _what_of_backend(record, backend.identity)


def _what_of_backend(record: BuildRecord, now: str) -> str:
    runtimes = [match and match[1] for match in map(_RUNTIME.search, (record.backend, now))]
    if record.backend.partition("-")[0] != now.partition("-")[0]:
        return f"the backend ({record.backend.partition('-')[0]} then, {now.partition('-')[0]} now)"
    if runtimes[0] != runtimes[1]:
        return f"Buran's measurement runtime (Buran {record.tools['buran']} built it then)"
    return "what the backend was to measure (counters, the effort metric or, simulated, the seed)"


def _command_now(spec: BuildSpec, target: Target) -> str | None:
    if {name for name, _ in spec.values} != set(target.campaign.build_parameters):
        return None
    return _command(target.campaign.build_command(dict(spec.values), target.backend.tools(spec.mode)))


def _command(text: str) -> str:
    """Return a build command without the folders of our wrappers, which may move."""
    return _WRAPPER.sub(r"\1", text)
