"""The target's source: which files count, what identifies them, and a private copy to build in."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from buran.errors import BuildError, ConfigError
from buran.files import file_sha256
from buran.measurement.git import revision_of
from buran.measurement.languages import is_fortran

# A stale object would be linked without instrumentation, so products of earlier builds never come along.
PRODUCTS = ("*.o", "*.obj", "*.mod", "*.gch", "*.pch", "*.d", "*.gcda", "*.gcno", "*.pyc")
SKIPPED_FOLDERS = (".git", ".svn", ".hg", "__pycache__", ".snakemake", "CMakeFiles")
MOST_FILES = 1_000_000  # ten times the Linux kernel: beyond, a link leads somewhere it should not
_SPECIAL = (
    (stat.S_ISFIFO, "named pipe"),
    (stat.S_ISSOCK, "socket"),
    (stat.S_ISCHR, "device"),
    (stat.S_ISBLK, "device"),
)


def is_product(name: str) -> bool:
    """Tell whether a file of this name is what a build makes, not a source."""
    return any(fnmatch(name, glob) for glob in PRODUCTS)


@dataclass(frozen=True)
class SourceTree:
    """A folder of source files with an identity.

    Attributes
    ----------
    identity
        Identity of the content: file names, modes and bytes.
    revision
        Version control's name for it, if there is one.
    has_fortran
        Whether there is a file that only a Fortran compiler takes.
    """

    folder: Path
    identity: str
    revision: str | None
    has_fortran: bool = False


@dataclass(frozen=True)
class SourceFile:
    """A file that belongs to the source.

    Attributes
    ----------
    path
        Relative to the source folder.
    is_link
        Whether it stays a link: what it leads to is in the source too, or is not there. Any other link counts as
        what it leads to.
    """

    path: Path
    is_link: bool = False


def source_files(folder: Path, skip: Iterable[Path] = ()) -> list[SourceFile]:
    """Return the files that belong to the source, sorted: what is hashed, copied and compared.

    Raises
    ------
    ConfigError
        There is a file that cannot be copied, links go in a circle, or there are too many files.
    """
    files: list[SourceFile] = []
    for file in _Walk(folder, skip).below(Path(), (Path(os.path.realpath(folder)),)):
        files.append(file)
        if len(files) > MOST_FILES:
            raise ConfigError(
                "the source folder has too many files",
                where=folder,
                why=f"there are more than {MOST_FILES:,}; the last one is {file.path}",
                hint="name a smaller folder as program.source, or remove a link to a folder that is not needed",
            )
    return sorted(files, key=lambda file: file.path)


class _Walk:
    """One walk over a source folder, links followed."""

    def __init__(self, folder: Path, skip: Iterable[Path]) -> None:
        self._folder = folder
        self._skipped = {Path(os.path.realpath(path)) for path in skip}

    def below(self, relative: Path, above: tuple[Path, ...]) -> Iterator[SourceFile]:
        """Yield the files below a folder; `above` are the real folders that the walk is inside of."""
        with os.scandir(self._folder / relative) as entries:
            for entry in entries:
                yield from self._at(relative / entry.name, above)

    def _at(self, path: Path, above: tuple[Path, ...]) -> Iterator[SourceFile]:
        location = self._folder / path
        is_link, real = location.is_symlink(), Path(os.path.realpath(location))
        try:
            mode = location.stat().st_mode
        except OSError as error:
            if not is_link and not isinstance(error, FileNotFoundError):
                raise
            mode = 0  # a link that leads nowhere, or a file that is gone in this moment
        if self._is_left_out(path.name, real, is_folder=stat.S_ISDIR(mode)) or not (mode or is_link):
            return
        if is_link and (not mode or self._stays_link(path, real)):
            yield SourceFile(path, is_link=True)
        elif stat.S_ISDIR(mode):
            if is_link and any(outer.is_relative_to(real) for outer in above):
                raise ConfigError(
                    "a link in the source folder goes in a circle",
                    where=location,
                    why=f"it leads to {real}, which it is inside of",
                    hint="remove the link, or make it a relative one that stays in the folder",
                )
            yield from self.below(path, (*above, real))
        elif stat.S_ISREG(mode):
            yield SourceFile(path)
        else:
            kind = next((word for test, word in _SPECIAL if test(mode)), "special file")
            raise ConfigError(
                f"the source folder has a {kind}, which cannot be copied",
                where=location,
                why="only files, folders and links belong to sources",
                hint="remove it, or move it to another folder",
            )

    def _is_left_out(self, name: str, real: Path, *, is_folder: bool) -> bool:
        return real in self._skipped or (name in SKIPPED_FOLDERS if is_folder else is_product(name))

    def _stays_link(self, path: Path, real: Path) -> bool:
        """Tell whether a link leads, by its words, to what comes along with the copy."""
        text = (self._folder / path).readlink()
        goal = Path(os.path.normpath(path.parent / text))
        if text.is_absolute() or goal.parts[:1] == ("..",):
            return False
        if Path(os.path.realpath(self._folder / goal)) != real:  # the words go through another link
            return False
        *folders, name = goal.parts or (".",)
        return not (
            any(part in SKIPPED_FOLDERS for part in folders)
            or self._is_left_out(name, real, is_folder=real.is_dir())
            or any(part in self._skipped for part in real.parents)
        )


def local_source(folder: Path, skip: Iterable[Path] = ()) -> SourceTree:
    """Identify a folder by its content.

    Parameters
    ----------
    skip
        Files and folders inside that do not belong to the source, such as results and the binary.

    Raises
    ------
    ConfigError
        As `source_files` says.
    """
    return _of_content(folder, source_files(folder, skip), revision_of(folder))


def _of_content(folder: Path, files: Sequence[SourceFile], revision: str | None) -> SourceTree:
    total = hashlib.sha256()
    for file in files:
        path = folder / file.path
        content = b"link " + os.fsencode(path.readlink()) if file.is_link else bytes.fromhex(file_sha256(path))
        executable = b"x" if path.stat(follow_symlinks=not file.is_link).st_mode & 0o100 else b"-"
        total.update(os.fsencode(file.path) + b"\0" + executable + content)
    return SourceTree(folder, total.hexdigest()[:16], revision, any(is_fortran(file.path) for file in files))


def copy_source(source: SourceTree, destination: Path, skip: Iterable[Path] = ()) -> None:
    """Copy the source files, with times and modes, into a new folder.

    Raises
    ------
    BuildError
        A folder is not what it was when it was identified.
    """
    for file in source_files(source.folder, skip):
        target = destination / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # gone in this moment, as the check will say
            shutil.copy2(source.folder / file.path, target, follow_symlinks=not file.is_link)
    if _of_content(destination, source_files(destination), None).identity != source.identity:
        raise BuildError(
            "the source folder changed while it was copied",
            where=source.folder,
            why="what would be built is not what this campaign is about",
            hint="let nothing write into it while a campaign builds (an editor's save is enough), then run it again",
        )
