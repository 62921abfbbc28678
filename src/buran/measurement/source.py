"""The folder of sources: its files, their identity and their copies, their languages, and what git says of it.

A repository may name programs in its configuration: a file system monitor, hooks, filters, differs, pagers, what
fetches objects that are missing. Who only looks at a folder has not agreed to any of them: here alone git is called.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import subprocess
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from buran.errors import BuildError, ConfigError
from buran.files import file_sha256

C = (".c",)
CXX = (".cc", ".cpp", ".cxx", ".c++", ".C")
CXX_HEADERS = (".hh", ".hpp", ".hxx", ".ipp", ".tcc")
HEADERS = (".h", ".inl", *CXX_HEADERS)  # of C and C++
FIXED_FORM = (".f", ".for", ".ftn", ".f77")
FREE_FORM = (".f90", ".f95", ".f03", ".f08", ".f18", ".fpp")
# A stale object would be linked without instrumentation, so products of earlier builds never come along.
PRODUCTS = ("*.o", "*.obj", "*.mod", "*.gch", "*.pch", "*.d", "*.gcda", "*.gcno", "*.pyc")
SKIPPED_FOLDERS = (".git", ".svn", ".hg", "__pycache__", ".snakemake", "CMakeFiles")
_LARGEST_DIFF = 1_000_000  # characters of uncommitted changes that a record keeps


def suffix(path: Path) -> str:
    """Return the end of a file's name as the lists here spell it: small letters, but for ``.C``, which is C++."""
    return path.suffix if path.suffix in CXX else path.suffix.lower()


def is_fortran(path: Path) -> bool:
    """Tell whether a file is a source in Fortran."""
    return suffix(path) in FIXED_FORM + FREE_FORM


def is_c_like(path: Path) -> bool:
    """Tell whether a file is a source or header in C or C++."""
    return suffix(path) in C + CXX + HEADERS


def is_source(path: Path) -> bool:
    """Tell whether a compiler reads a file, be it as a part of another (``.inc``, of any language)."""
    return is_fortran(path) or is_c_like(path) or suffix(path) == ".inc"


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
        There is a file that cannot be copied, or links go in a circle.
    """
    files = _Walk(folder, skip).below(Path(), (Path(os.path.realpath(folder)),))
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
            raise ConfigError(
                "the source folder has a special file, which cannot be copied",
                where=location,
                why=f"{stat.filemode(mode)}: only files, folders and links belong to sources",
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


_OF_A_REPOSITORY = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"),
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS"),
)
"""Variables that send git to another repository than that of the folder, as inside a hook, or start programs."""

_HARMLESS = (
    *("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.pager=cat"),
    *("-c", "protocol.ext.allow=never", "-c", "submodule.recurse=false", "--no-pager"),
)
_TIME_LIMIT_S = 60.0  # for a look at a working copy
_DIFF = ("diff", "--no-ext-diff", "--no-textconv", "--submodule=short", "--ignore-submodules=dirty")


def call_git(*words: str) -> subprocess.CompletedProcess[str] | None:
    """Call git with nothing of a repository's configuration that runs a program; None if there is no git."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}
    try:
        return subprocess.run(
            ["git", *_HARMLESS, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=environment,
            timeout=_TIME_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None


def _git_in(folder: Path) -> Callable[..., str | None]:
    """Return what asks git about a working copy, with the filters of its configuration off; None for no answer."""
    listed = call_git("-C", str(folder), "config", "--list", "--show-scope", "--name-only", "-z")
    if listed is None or listed.returncode:
        return lambda *words: None
    scopes_and_names = listed.stdout.split("\0")
    filters = {
        name.rpartition(".")[0]
        for scope, name in zip(scopes_and_names[::2], scopes_and_names[1::2], strict=False)
        if scope in ("local", "worktree") and name.startswith("filter.")
    }
    keys = ("clean=", "smudge=", "process=", "required=false")
    off = [word for name in sorted(filters) for key in keys for word in ("-c", f"{name}.{key}")]

    def ask(*words: str) -> str | None:
        done = call_git(*off, "-C", str(folder), *words)
        return done.stdout if done is not None and done.returncode == 0 else None

    return ask


def revision_of(folder: Path) -> str | None:
    """Return git's name for the state of a working copy, ``-dirty`` behind it if files differ; None without one."""
    ask = _git_in(folder)
    name = ask("describe", "--always")
    if name is None:
        return None
    return name.strip() + ("" if ask(*_DIFF, "--quiet", "HEAD") is not None else "-dirty")


def commit_and_changes(folder: Path) -> tuple[str | None, str | None]:
    """Return the commit of a working copy, and what is not committed below the folder as a patch.

    None stands for what git does not say, and for no changes.
    """
    ask = _git_in(folder)
    commit = ask("rev-parse", "HEAD")
    if commit is None:
        return None, None
    diff = ask(*_DIFF, "HEAD", "--", ".") or None
    if diff and len(diff) > _LARGEST_DIFF:
        diff = f"{diff[:_LARGEST_DIFF]}\n... cut off; the sources as built are kept in the store\n"
    return commit.strip(), diff
