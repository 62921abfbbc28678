"""Whether changed sources make the program that was measured: a comment, or a file no build reads, costs no new run.

Sources that differ in comments and blanks alone are the same. Else what the compiler makes decides: the program and
its libraries as they are loaded, without debug information, and the functions with their sizes, calls and loops as the
builds with hooks list them, without line numbers. Where that could miss something, the answer is no and the campaign
measures again: a changed file that a run may read counts as a change.
"""

from __future__ import annotations

import filecmp
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from buran.campaign.layout import Layout
from buran.campaign.plan import SCHEMA, BuildSpec, Mode
from buran.campaign.records import RECORD, BuildRecord, Status, read_build
from buran.files import write_json
from buran.measurement.build import STATIC, build, tree
from buran.measurement.comments import words
from buran.measurement.languages import is_source
from buran.measurement.source import SKIPPED_FOLDERS, is_product, source_files
from buran.measurement.store import ledger
from buran.measurement.target import Target
from buran.measurement.toolchain.elf import Elf, is_elf
from buran.measurement.toolchain.static_features import StaticFeatures

# fmt: off
_READ_BY_PEOPLE = (
    "README*", "LICENSE*", "COPYING*", "CHANGELOG*", "AUTHORS*", "*.md", "*.rst", ".gitignore", ".clang-format",
    ".editorconfig", "*~", "*.swp", "*.orig", "*.rej",
)
# What these say shows in the program, as what sources say.
_READ_BY_BUILDS = (
    "*.s", "*.S", "Makefile*", "makefile*", "GNUmakefile", "*.mk", "CMakeLists.txt", "*.cmake", "CMakePresets.json",
    "*.am", "*.ac", "*.m4", "meson.build", "meson_options.txt", "configure",
)
# fmt: on


@dataclass(frozen=True)
class Resemblance:
    """A target that was measured and today's, which may make the same program.

    Attributes
    ----------
    target
        Identity of the one that was measured.
    builds
        Records of its builds without a filter, vanilla ones first.
    """

    target: str
    builds: tuple[BuildRecord, ...]


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
    return {entry.target for entry in entries if entry.mode != Mode.IMPORTED and not entry.is_of_build}


def of_other_sources(target: Target, layout: Layout) -> list[Resemblance]:
    """Return the measured targets that only their sources tell from today's, the one built last first."""
    resembling = []
    for name, records in measured_targets(layout):
        sources = {str(record.source["identity"]) for record in records}
        then = (replace(target, source=replace(target.source, identity=source), stands_for=None) for source in sources)
        plain = [record for record in records if not record.spec.filter_text and record.spec.hooks is None]
        plain.sort(key=lambda record: record.spec.mode is not Mode.VANILLA)
        if name != target.made_from and any(other.made_from == name for other in then) and plain:
            resembling.append(Resemblance(name, tuple(plain)))
    return resembling


def take_over(target: Target, layout: Layout, measured: str, why: str) -> Target:
    """Let the finished runs of a measured target count as today's; return today's target."""
    write_json(layout.taken_over(target.made_from), {"schema": SCHEMA, "target": measured, "why": why})
    return replace(target, stands_for=measured)


def same_program(target: Target, layout: Layout, say: Callable[[str], None]) -> Target:
    """Build today's sources, and take the runs of a measured target over if it is the same program.

    Every build that is made for this is one that the campaign needs if the program is another.
    """
    if target.stands_for is not None or target.made_from in _with_runs(layout):
        return target
    others = of_other_sources(target, layout)
    if others:
        say("the sources are not what they were: the program is built, to see whether it is another one")
    for other in others:
        difference = _difference(target, layout, other.builds)
        if difference is None:
            say("it is the same program: what was measured stays in use")
            return take_over(target, layout, other.target, "the same program")
        say(f"it is another program: {difference}")
    return target


def _difference(target: Target, layout: Layout, builds: Sequence[BuildRecord]) -> str | None:
    """Say what is not the same in the first build that differs; None if all are the same."""
    if builds[0].spec.mode is not Mode.VANILLA:
        return "the earlier one was never built without instrumentation"
    for then in (record.spec for record in builds):
        now = replace(then, target=target.made_from)
        if build(target, layout, now).status is not Status.MEASURED:
            return f"it does not build ({now.mode})"
        before, after = tree(layout, then.hash), tree(layout, now.hash)
        if not before.is_dir():
            return f"{before} is gone"
        changed = [name for name in _changed_files(target, before, after) if not _is_like(name, _READ_BY_PEOPLE)]
        of_runs = [str(name) for name in changed if not (is_source(name) or _is_like(name, _READ_BY_BUILDS))]
        if of_runs:
            return f"{of_runs[0]} has changed, and a run may read it"
        if all(_has_same_words(before / name, after / name) for name in changed):
            return None
        difference = _of_builds(layout, then, now)
        if difference is not None:
            return difference
    return None


def _is_like(name: Path, patterns: Sequence[str]) -> bool:
    return any(fnmatch(name.name, pattern) for pattern in patterns)


def _has_same_words(before: Path, after: Path) -> bool:
    if not (before.is_file() and after.is_file()):
        return False
    then = words(before)
    return then is not None and then == words(after)


def _of_builds(layout: Layout, then: BuildSpec, now: BuildSpec) -> str | None:
    if then.mode is Mode.VANILLA:
        programs = [_programs(tree(layout, spec.hash), spec.hash) for spec in (then, now)]
        if not programs[0]:
            return "the earlier one is no program that was compiled"
        names = sorted({*programs[0], *programs[1]})
        return next((f"{n} differs" for n in names if programs[0].get(n) != programs[1].get(n)), None)
    features = [_features(layout.build(spec.hash) / STATIC, spec.hash) for spec in (then, now)]
    return "its functions differ" if features[0] != features[1] else None


def _changed_files(target: Target, before: Path, after: Path) -> Iterator[Path]:
    """Yield the sources that differ, and the files of the earlier build that are no more."""
    for file in source_files(target.source.folder, target.skipped):
        if not _is_same_file(before / file.path, after / file.path):
            yield file.path
    for walked, folders, names in os.walk(before):  # what a build has made is not followed
        folders[:] = sorted(set(folders).difference(SKIPPED_FOLDERS))
        for path in (Path(walked, name).relative_to(before) for name in sorted(names) if not is_product(name)):
            if (before / path).is_file() and not (after / path).exists() and not is_elf(before / path):
                yield path


def _is_same_file(before: Path, after: Path) -> bool:
    if before.is_symlink() or after.is_symlink():
        return before.is_symlink() and after.is_symlink() and before.readlink() == after.readlink()
    return before.is_file() and filecmp.cmp(before, after, shallow=False)


def _programs(folder: Path, build_hash: str) -> dict[str, tuple[Any, ...]]:
    """Return what is loaded of every program and library of a build, and its functions' names, by its path."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and is_elf(path))
    files = ((str(path.relative_to(folder)), Elf.read(path)) for path in paths)
    return {
        name: (elf.function_names, *((section, _plain(content, build_hash)) for section, content in elf.loaded))
        for name, elf in files
        if elf.is_linked
    }


def _plain(content: bytes, build_hash: str) -> bytes:
    """Return a content without the name of the folder that it was built in."""
    return content.replace(build_hash.encode(), b"*" * len(build_hash))


def _features(path: Path, build_hash: str) -> list[str]:
    """Return what a build tells of its functions, one text for each, without line numbers."""
    if not path.is_file():
        return []
    features = StaticFeatures.from_jsonl(path.read_text(encoding="utf-8").replace(build_hash, "*"), path)
    return [
        json.dumps(asdict(replace(function, line=0, loops=tuple(replace(loop, line=0) for loop in function.loops))))
        for function in features.functions
    ]
