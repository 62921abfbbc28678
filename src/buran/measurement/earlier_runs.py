"""What was measured earlier: whether changed sources make the same program, and results of tools that are not here.

What is loaded of the program decides, and of its libraries, which debug information is no part of: then an edited
comment costs no new run. A changed file that a run may read counts as a change.
"""

from __future__ import annotations

import filecmp
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path

from buran.campaign.config import Campaign
from buran.campaign.layout import Layout
from buran.campaign.plan import SCHEMA, Mode
from buran.campaign.records import RECORD, BuildRecord, Status, read_build
from buran.errors import ToolError
from buran.files import write_json
from buran.measurement.backends.base import Backend
from buran.measurement.build import build, tree
from buran.measurement.source import is_source, source_files
from buran.measurement.store import ledger
from buran.measurement.target import Target, open_target
from buran.measurement.toolchain.elf import Elf, is_elf

_NOT_READ_BY_RUNS = ("README*", "LICENSE*", "*.md", "*.rst", "*.s", "*.S", "[Mm]akefile*", "CMakeLists.txt", "*.cmake")


def measured_targets(layout: Layout) -> list[tuple[str, list[BuildRecord]]]:
    """Return the targets that have finished runs of their own, the one built last first, with their finished builds."""
    measured = _with_runs(layout)
    paths = sorted(layout.store.glob(f"*/build/{RECORD}"), key=lambda path: path.stat().st_mtime, reverse=True)
    builds: dict[str, list[BuildRecord]] = {}
    for record in (read_build(path.parent) for path in paths):
        if record.spec.target in measured:
            builds.setdefault(record.spec.target, []).append(record)
    return list(builds.items())


def _with_runs(layout: Layout) -> set[str]:
    """Return the targets that have finished runs of their own, from the ledger alone."""
    entries = (entry for entry in ledger.read(layout.store) if entry.status == Status.MEASURED)
    return {entry.target for entry in entries if not entry.is_of_build}


def take_over(target: Target, layout: Layout, measured: str, why: str) -> Target:
    """Let the finished runs of a measured target count as today's; return today's target."""
    write_json(layout.taken_over(target.made_from), {"schema": SCHEMA, "target": measured, "why": why})
    return replace(target, stands_for=measured)


def same_program(target: Target, layout: Layout, say: Callable[[str], None]) -> Target:
    """Build today's sources without hooks, and take the runs of a measured target over if it is the same program."""
    if target.stands_for is not None or target.made_from in _with_runs(layout):
        return target
    for name, records in measured_targets(layout):
        sources = {str(record.source["identity"]) for record in records}
        then = (replace(target, source=replace(target.source, identity=source)) for source in sources)
        if not any(other.made_from == name for other in then):
            continue  # more than its sources has changed
        say("the sources are not what they were: the program is built, to see whether it is another one")
        difference = _difference(target, layout, records)
        if difference is None:
            say("it is the same program: what was measured stays in use")
            return take_over(target, layout, name, "the same program")
        say(f"it is another program: {difference}")
    return target


def _difference(target: Target, layout: Layout, builds: Sequence[BuildRecord]) -> str | None:
    """Say what of the build without hooks is not the same, or of the files that a run may read; None if all is."""
    plain = (record.spec for record in builds if record.spec.mode is Mode.VANILLA)
    then = next((spec for spec in plain if tree(layout, spec.hash).is_dir()), None)
    if then is None:
        return "no build of the earlier one without instrumentation is there"
    now = replace(then, target=target.made_from)
    if build(target, layout, now).status is not Status.MEASURED:
        return "it does not build"
    before, after = tree(layout, then.hash), tree(layout, now.hash)
    files = {file.path for file in source_files(target.source.folder, target.skipped)}
    gone = {file.path for file in source_files(before, target.skipped) if not (after / file.path).exists()}
    for path in sorted(files | gone):
        if not _goes_into_the_program(path) and not _is_same_file(before / path, after / path):
            return f"{path} has changed, and a run may read it"
    programs = [_programs(tree(layout, spec.hash), spec.hash) for spec in (then, now)]
    if not programs[0]:
        return "the earlier one is no program that was compiled"
    names = sorted({*programs[0], *programs[1]})
    return next((f"{name} differs" for name in names if programs[0].get(name) != programs[1].get(name)), None)


def _goes_into_the_program(path: Path) -> bool:
    """Return whether what a file says shows in the program, or is for people."""
    return is_source(path) or any(fnmatch(path.name, pattern) for pattern in _NOT_READ_BY_RUNS)


def _is_same_file(before: Path, after: Path) -> bool:
    return before.is_file() and after.is_file() and filecmp.cmp(before, after, shallow=False)


def _programs(folder: Path, build_hash: str) -> dict[str, list[tuple[str, bytes]]]:
    """Return what is loaded of every program and library of a build, without the folder's name, by its path."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path))
    files = {str(path.relative_to(folder)): Elf.read(path) for path in paths}
    own, plain = build_hash.encode(), b"*" * len(build_hash)
    return {
        name: [(section, content.replace(own, plain)) for section, content in elf.loaded]
        for name, elf in files.items()
        if elf.is_linked
    }


@dataclass(frozen=True)
class RecordedBackend(Backend):
    """A measurement system that this machine does not have: it says what it was, and can neither build nor run.

    Attributes
    ----------
    record
        Record of a build that it made.
    missing
        What is missing on this machine.
    """

    record: BuildRecord
    missing: ToolError

    @property
    def identity(self) -> str:
        """As recorded."""
        return self.record.backend

    @property
    def description(self) -> Mapping[str, str | None]:
        """As recorded."""
        return self.record.toolchain

    @property
    def mpi_flavour(self) -> str:
        """As recorded."""
        return (self.description.get("mpi") or "").partition(" ")[0]

    @property
    def mpiexec(self) -> str:
        """Not to be had."""
        raise self.missing

    @property
    def notes(self) -> tuple[str, ...]:
        """What is missing, and that it was there."""
        return (f"{self.missing.line}; what was measured is shown as its builds recorded it, and nothing can run here",)

    def tools(self, mode: Mode) -> Mapping[str, str]:
        """Not to be had."""
        raise self.missing

    def run_environment(self, mode: Mode, folder: Path, filter_file: Path | None = None) -> Mapping[str, str]:
        """Not to be had."""
        raise self.missing


def recorded_target(campaign: Campaign, layout: Layout, missing: ToolError) -> Target:
    """Return the target with the measurement system of its finished builds, of this campaign's if it has plans.

    Raises
    ------
    ToolError
        `missing`, where nothing was measured.
    """
    choice = campaign.environment_choice
    records: dict[str, BuildRecord] = {}
    chosen: dict[str, BuildRecord] = {}
    for _, builds in measured_targets(layout):
        records.setdefault(builds[0].backend, builds[0])
        for record in builds:
            chosen.setdefault(str(dict(record.spec.values).get(choice)) if choice else "", record)
    targets = [
        open_target(
            campaign,
            layout,
            {name: RecordedBackend(chosen.get(name, record), missing) for name in campaign.in_environments},
        )
        for record in records.values()
    ]
    if not targets:
        raise missing
    return next((target for target in targets if layout.plan(target.campaign_id, 0).is_file()), targets[0])
