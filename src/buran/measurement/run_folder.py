"""The folder in which a run starts: what it finds there, and what of it is kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from buran.campaign.resources import Input
from buran.files import check_room

Stamps = Mapping[Path, tuple[int, int]]


def bring_inputs(
    inputs: Iterable[Input], build_folder: Path, folder: Path, texts: Mapping[str, str] | None = None
) -> Stamps:
    """Copy inputs into a run's folder, or link them; return size and time of what is linked.

    Parameters
    ----------
    texts
        What stands at the run's point in those that values are put into, by name.

    Raises
    ------
    OSError
        One is missing or cannot be read.
    """
    linked: dict[Path, tuple[int, int]] = {}
    for entry in inputs:
        for file, location in entry.files(build_folder):
            target = folder / location
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.fill and texts is not None:
                target.write_bytes(texts[entry.name].encode(errors="surrogateescape"))
            elif entry.link:
                target.symlink_to(file.resolve())
                linked[file] = _stamp(file)
            else:
                shutil.copy2(file, target)
    return linked


def changed_input(linked: Stamps) -> str | None:
    """Return why a run that wrote to a file it was linked to is worth nothing, and so would be all that follow."""
    for path, stamp in linked.items():
        if not path.exists() or _stamp(path) != stamp:
            return f"it changed its input {path} (program.inputs: leave out link: true, and each run gets a copy)"
    return None


def keep_output(folder: Path, patterns: Sequence[str], limit: int, kept: Path) -> dict[str, int]:
    """Copy the files that patterns name, as long as they fit; return the sizes of those that do not."""
    files = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file() and not path.is_symlink()}
    left_out: dict[str, int] = {}
    for path in sorted(files):
        size, name = path.stat().st_size, path.relative_to(folder)
        try:
            if size > limit:
                raise OverflowError
            (kept / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, kept / name)
            limit -= size
        except (OverflowError, OSError):  # the measurement is worth more than its output
            (kept / name).unlink(missing_ok=True)
            left_out[str(Path(kept.name) / name)] = size
    return left_out


def with_room(folder: Path, reason: str) -> str:
    """Return why a run in a folder failed: a program that filled the disk says nothing about itself.

    Raises
    ------
    OSError
        The disk is full of other things.
    """
    try:
        check_room(folder)
    except OSError:
        written = _size_of(folder)
        shutil.rmtree(folder, ignore_errors=True)
        check_room(folder.parent)
        return f"the disk was full: the run had written {written / 1e6:.0f} MB into its folder; {reason}"
    return reason


def _size_of(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    paths = (Path(walked) / name for walked, _, names in os.walk(folder) for name in names)
    return sum(path.lstat().st_size for path in paths)


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
