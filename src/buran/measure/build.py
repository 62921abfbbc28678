"""Building one variant of the target, once, into the store."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from buran.campaign.layout import Layout
from buran.campaign.plan import BuildSpec, Mode
from buran.campaign.point import Point
from buran.errors import BuildError, BuranError
from buran.files import digest, file_sha256, write_json, write_text
from buran.measure.machine.machine import BuildJob
from buran.measure.machine.process import Interrupted, interruptible
from buran.measure.machine.provenance import environment_of, record_node, tool_versions, working_copy
from buran.measure.source import copy_source
from buran.measure.store import ledger, store
from buran.measure.target import Target

TIME_LIMIT_S = 4 * 3600.0
SCHEMA = 1
STATIC = "static.jsonl"
FILTER = "scorep.filter"


def build(target: Target, layout: Layout, spec: BuildSpec) -> dict[str, Any]:
    """Build a variant unless the store has it; return what became of it.

    Returns
    -------
    dict
        ``status``, ``folder`` relative to the campaign's results, and ``reason`` with ``log`` for a failure.
    """
    slot = store.Slot(layout.store / spec.hash, "build")
    compiled = None if spec.hooks is None else build(target, layout, spec.compiled)
    with interruptible(), store.reserve(slot) as temporary:
        if temporary is not None and compiled is not None:
            _filter_at_run_time(layout, spec, compiled, slot, temporary)
        elif temporary is not None:
            _build_into(target, layout, spec, slot, temporary)
    verdict = slot.verdict()
    if verdict is None:
        raise BuildError("a build was interrupted", where=slot.point, hint="run the campaign again")
    record = store.record(verdict)
    return {
        "build": spec.hash,
        "mode": spec.mode,
        "status": record["status"],
        "reason": record.get("reason"),
        "folder": str(verdict.relative_to(layout.root)),
        "binary": record.get("binary"),
        "cost_core_hours": record.get("cost_core_hours", 0.0),
    }


def tree(layout: Layout, build_hash: str) -> Path:
    """Return the folder a variant is built in; it keeps its name, for paths that builds burn in."""
    return layout.store / build_hash / "tree"


def run_filter(layout: Layout, build_hash: str) -> Path | None:
    """Return the filter that a variant is run with; None if it was compiled with it."""
    folder = layout.build(build_hash)
    return folder / FILTER if store.record(folder).get("filtered_at_run_time") else None


def _filter_at_run_time(
    layout: Layout, spec: BuildSpec, compiled: dict[str, Any], slot: store.Slot, temporary: Path
) -> None:
    """Make a variant of a program that exists: nothing is compiled."""
    record = store.record(layout.root / compiled["folder"])
    record |= {"spec": spec.to_json(), "filtered_at_run_time": True}
    record.pop("cost_core_hours", None)  # the program that it runs was charged
    if record["status"] != store.Status.MEASURED:
        write_json(temporary / store.RECORD, record)
        store.keep_failure(slot, temporary)
        return
    folder = tree(layout, spec.hash)
    folder.unlink(missing_ok=True)
    folder.symlink_to(tree(layout, spec.compiled.hash), target_is_directory=True)
    write_text(temporary / FILTER, spec.filter_text)
    features = layout.root / compiled["folder"] / STATIC
    if features.is_file():
        shutil.copy(features, temporary / STATIC)
    write_json(temporary / store.RECORD, record)
    store.commit(slot, temporary)


def _build_into(target: Target, layout: Layout, spec: BuildSpec, slot: store.Slot, temporary: Path) -> None:
    folder = tree(layout, spec.hash)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    filter_file: Path | None = None
    if spec.filter_text:
        filter_file = folder.with_name(FILTER)
        write_text(filter_file, spec.filter_text)
        shutil.copy(filter_file, temporary / FILTER)
    copy_source(target.source, folder, target.skipped)
    campaign, backend = target.campaign, target.backend
    command = campaign.build_command(Point.of(dict(spec.values)), backend.tools(spec.mode))
    environment = {**os.environ, **campaign.active_environment.variables}
    environment.update(backend.build_environment(spec.mode, filter_file))
    binary, log = folder / campaign.binary, temporary / "build.log"
    log.write_text("")
    record: dict[str, Any] = {
        "schema": SCHEMA,
        "spec": spec.to_json(),
        "command": command,
        "source": {"identity": target.source.identity, "revision": target.source.revision},
        "backend": backend.identity,
        "toolchain": dict(backend.description),
        "flags": campaign.flags,
        "filter": digest(spec.filter_text) if spec.filter_text else None,
        "notes": list(backend.notes),
        "environment": environment_of(environment),
        "modules": list(campaign.active_environment.modules),
        "tools": tool_versions(),
        "node": record_node(layout.store),
    }
    copy = working_copy(target.source.folder)
    record["source"]["commit"] = copy["commit"]
    if copy["diff"]:
        (temporary / "source.diff").write_text(copy["diff"])
    try:
        outcome = backend.machine.build(
            BuildJob(
                argv=["bash", "-c", campaign.with_modules(f"exec 2>&1\n{command}")],
                cwd=folder,
                environment=environment,
                stdout=log,
                stderr=temporary / "build.err",
                time_limit_s=TIME_LIMIT_S,
                binary=binary,
                spec=spec,
            )
        )
    except Interrupted:
        write_json(temporary / store.RECORD, {**record, "status": store.Status.INTERRUPTED, "reason": "interrupted"})
        store.keep_failure(slot, temporary)
        raise
    (temporary / "build.err").unlink(missing_ok=True)
    reason = outcome.failure and f"the build command failed: {outcome.failure}"
    if reason is None and not binary.is_file():
        reason = f"the build command succeeded but made no file {campaign.binary!r} (target.binary)"
    elif reason is None and not os.access(binary, os.X_OK):
        reason = f"the file {campaign.binary!r} (target.binary) is not executable"
    elif reason is None and spec.mode is not Mode.VANILLA:
        try:
            features, notes = backend.inspect_build(binary, folder, spec.filter_text, spec.mode)
        except BuranError as error:
            reason = str(error)
        else:
            record["notes"] += notes
            if spec.mode is Mode.TIME:
                record["visit_cost_s"] = backend.visit_cost_s()
            if features is not None:
                write_text(temporary / STATIC, features.to_jsonl())
    record |= {"wall_s": outcome.wall_s, "reason": reason}
    if campaign.config.budget.build_cores is not None:
        record["cost_core_hours"] = outcome.wall_s * campaign.config.budget.build_cores / 3600.0
    if reason:
        record["status"] = store.Status.FAILED
        write_json(temporary / store.RECORD, record)
        _book(layout, store.keep_failure(slot, temporary))
        return
    record |= {
        "status": store.Status.MEASURED,
        "binary": str(binary.relative_to(layout.root)),
        "binary_sha256": file_sha256(binary),
    }
    write_json(temporary / store.RECORD, record)
    _book(layout, store.commit(slot, temporary))


def _book(layout: Layout, folder: Path) -> None:
    entry = ledger.entry_of(layout.store, folder)
    if entry is not None:
        ledger.append(layout.store, entry)
