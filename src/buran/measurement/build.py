"""Building one variant of the target, once, into the store."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from buran.campaign.layout import Layout
from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.records import BuildOutcome, BuildRecord, Status, read_build
from buran.errors import BuildError, BuranError, FormatError
from buran.files import digest, file_sha256, write_text
from buran.measurement.machine.machine import BuildJob
from buran.measurement.machine.process import Interrupted, interruptible
from buran.measurement.machine.provenance import environment_of, record_node, tool_versions
from buran.measurement.source import commit_and_changes, copy_source
from buran.measurement.store import ledger, store
from buran.measurement.target import Target
from buran.measurement.toolchain.elf import Elf

TIME_LIMIT_S = 4 * 3600.0  # of a build, so that one that hangs ends
_ERROR = re.compile(
    r"^[^\"]*\berror:|\bcmake error|undefined reference|multiple definition|: (command )?not found", re.IGNORECASE
)  # a quotation mark before it stands in source code that a compiler shows
_GIVEN_UP = re.compile(r"\*\*\* ")  # as make says it, for any reason
LONGEST_ERROR = 160  # characters of it that are shown; the log has all
STATIC = "static.jsonl"
FILTER = "scorep.filter"
LOG = "build.log"
_LAST_LINES = 10  # of a log, for the terminal


def build(target: Target, layout: Layout, spec: BuildSpec) -> BuildOutcome:
    """Build a variant unless the store has it; return what became of it."""
    target, slot = target.at(dict(spec.values)), store.Slot.of_build(layout.store, spec.hash)
    compiled = None if spec.hooks is None else build(target, layout, spec.compiled)
    with interruptible(), store.reserve(slot) as temporary:
        if temporary is not None and compiled is not None:
            _filter_at_run_time(target, layout, spec, compiled, slot, temporary)
        elif temporary is not None:
            _build_into(target, layout, spec, slot, temporary)
    verdict = slot.verdict()
    if verdict is None:
        raise BuildError("a build was interrupted", where=slot.point, hint="run the campaign again")
    record = read_build(verdict)
    return BuildOutcome(
        spec.hash,
        spec.mode,
        record.status,
        record.reason,
        str(verdict.relative_to(layout.root)),
        record.binary,
        record.cost_core_hours or 0.0,
    )


def check_build(layout: Layout, spec: BuildSpec, outcome: BuildOutcome) -> None:
    """Check that a build that every point needs has not failed.

    Raises
    ------
    BuildError
        With what the compiler said last.
    """
    if outcome.status is not Status.FAILED or not spec.is_for_every_point:
        return
    log = layout.root / outcome.folder / LOG
    text = log.read_text(errors="replace", encoding="utf-8")
    last = [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    raise BuildError(
        f"the program does not build ({spec.mode})",
        where=log,
        why="\n".join([str(outcome.reason), *last]),
        hint=next_step(text),
    )


def next_step(log: str) -> str:
    """Say what to do about a build that failed, from what it printed."""
    if _OLDER_C.search(log):
        return (
            "this is C of before 1999, which clang refuses from version 16 on: write compiler: gcc in the campaign "
            "file, or give the flag -std=gnu89 to the build"
        )
    return "correct it; `buran run` builds again"


_OLDER_C = re.compile(r"error: .*\[-Wimplicit-(int|function-declaration)\]")


def tree(layout: Layout, build_hash: str) -> Path:
    """Return the folder a variant is built in; it keeps its name, for paths that builds burn in."""
    return layout.store / build_hash / "tree"


def run_filter(layout: Layout, build_hash: str) -> Path | None:
    """Return the filter that a variant is run with; None if it was compiled with it."""
    folder = layout.build(build_hash)
    return folder / FILTER if read_build(folder).filtered_at_run_time else None


def _filter_at_run_time(
    target: Target, layout: Layout, spec: BuildSpec, compiled: BuildOutcome, slot: store.Slot, temporary: Path
) -> None:
    """Make a variant of a program that exists: nothing is compiled."""
    record = read_build(layout.root / compiled.folder)
    record = replace(record, spec=spec, filtered_at_run_time=True, cost_core_hours=None)  # the program was charged
    if record.status is not Status.MEASURED:
        record.write(temporary)
        store.keep_failure(slot, temporary)
        return
    folder = tree(layout, spec.hash)
    folder.unlink(missing_ok=True)
    folder.symlink_to(tree(layout, spec.compiled.hash), target_is_directory=True)
    assert record.binary is not None
    write_text(temporary / FILTER, target.backend.run_filter(layout.root / record.binary, spec.filter_text))
    features = layout.root / compiled.folder / STATIC
    if features.is_file():
        shutil.copy(features, temporary / STATIC)
    record.write(temporary)
    store.commit(slot, temporary)


def _build_into(target: Target, layout: Layout, spec: BuildSpec, slot: store.Slot, temporary: Path) -> None:
    folder, campaign, backend = tree(layout, spec.hash), target.campaign, target.backend
    filter_file = _lay_out(target, spec, folder, temporary)
    environment = {**os.environ, **campaign.active_environment.variables}
    environment.update(backend.build_environment(spec.mode, filter_file))
    binary, log = folder / campaign.binary, temporary / LOG
    log.write_text("", encoding="utf-8")
    record = _begun(target, layout, spec, environment, temporary)
    job = BuildJob(
        argv=["bash", "-c", campaign.with_modules(f"exec 2>&1\n{record.command}")],
        cwd=folder,
        environment=environment,
        stdout=log,
        stderr=temporary / "build.err",
        time_limit_s=TIME_LIMIT_S,
        binary=binary,
        spec=spec,
    )
    try:
        outcome = backend.machine.build(job)
    except Interrupted:
        record.write(temporary)
        store.keep_failure(slot, temporary)
        raise
    job.stderr.unlink(missing_ok=True)
    record = replace(record, status=Status.MEASURED, reason=None, wall_s=outcome.wall_s)
    reason = None
    if outcome.failure:
        known, error = backend.why_failed(log), first_error(log.read_text(errors="replace", encoding="utf-8"))
        reason = f"the build command failed: {outcome.failure}{f' ({known})' if known else error and f', {error}'}"
    try:
        record = _inspected(target, reason, record, binary, folder, temporary)
    except BuranError as error:
        replace(record, status=Status.FAILED, reason=str(error)).write(temporary)
        ledger.book(layout.store, store.keep_failure(slot, temporary))
        return
    record = replace(record, binary=str(binary.relative_to(layout.root)), binary_sha256=file_sha256(binary))
    replace(record, libraries=_libraries(binary)).write(temporary)
    ledger.book(layout.store, store.commit(slot, temporary))


def _lay_out(target: Target, spec: BuildSpec, folder: Path, temporary: Path) -> Path | None:
    """Copy the sources into an empty folder, with the filter beside it; return the latter's file."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    filter_file = folder.with_name(FILTER) if spec.filter_text else None
    if filter_file is not None:
        write_text(filter_file, spec.filter_text)
        shutil.copy(filter_file, temporary / FILTER)
    copy_source(target.source, folder, target.skipped)
    return filter_file


def _begun(
    target: Target, layout: Layout, spec: BuildSpec, environment: Mapping[str, str], temporary: Path
) -> BuildRecord:
    """Return the record of a build that was interrupted; write what the sources have beyond their commit."""
    campaign, backend = target.campaign, target.backend
    commit, changes = commit_and_changes(target.source.folder)
    if changes:
        (temporary / "source.diff").write_text(changes, encoding="utf-8")
    return BuildRecord(
        status=Status.INTERRUPTED,
        reason="interrupted",
        spec=spec,
        command=campaign.build_command(dict(spec.values), backend.tools(spec.mode)),
        source={"identity": target.source.identity, "revision": target.source.revision, "commit": commit},
        backend=backend.identity,
        toolchain=dict(backend.description),
        flags=campaign.flags,
        filter=digest(spec.filter_text) if spec.filter_text else None,
        notes=tuple(backend.notes),
        environment=environment_of(environment),
        modules=tuple(campaign.active_environment.modules),
        tools=tool_versions(),
        node=record_node(layout.store),
    )


def _libraries(binary: Path) -> tuple[str, ...] | None:
    """Return the shared libraries that a program asks for; None for a script, or if they cannot be told."""
    try:
        return Elf.read(binary).needed
    except FormatError:
        return None


def first_error(log: str) -> str:
    """Return the first line of a build's log that compilers or linkers call an error, else that of make, else none."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    whole = [f"{line} {after}".rstrip() if line.endswith(":") else line for line, after in pairwise([*lines, ""])]
    return next((line[:LONGEST_ERROR] for wanted in (_ERROR, _GIVEN_UP) for line in whole if wanted.search(line)), "")


def _inspected(
    target: Target, failure: str | None, record: BuildRecord, binary: Path, folder: Path, temporary: Path
) -> BuildRecord:
    """Look at what a build has made; write the features of the program and return the record with what they tell.

    Raises
    ------
    BuranError
        There is no program that can be run.
    """
    name, backend, spec = target.campaign.binary, target.backend, record.spec
    if failure is not None:
        raise BuildError(failure)
    if not binary.is_file():
        raise BuildError(f"the build command succeeded but made no file {name!r} (program.binary)")
    if not os.access(binary, os.X_OK):
        raise BuildError(f"the file {name!r} (program.binary) is not executable")
    if spec.mode is Mode.VANILLA:
        return record
    features, notes = backend.inspect_build(binary, folder, spec.filter_text, spec.mode)
    if features is not None:
        write_text(temporary / STATIC, features.to_jsonl())
    record = replace(record, notes=(*record.notes, *notes))
    cost = backend.visit_cost() if spec.mode is Mode.TIME else None
    return record if cost is None else replace(record, visit_cost_s=cost.seconds, visit_cost_spread_s=cost.spread_s)
