"""The target's source: which files count, what identifies them, and a private copy to build in."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from buran.errors import BuildError, ConfigError, ToolError
from buran.files import digest
from buran.measure.languages import is_fortran
from buran.measure.store.claims import claimed

# A stale object would be linked without instrumentation, so products of earlier builds never come along.
PRODUCTS = ("*.o", "*.obj", "*.mod", "*.gch", "*.pch", "*.d", "*.gcda", "*.gcno", "*.pyc")
SKIPPED_FOLDERS = (".git", ".svn", ".hg", "__pycache__", ".snakemake", "CMakeFiles")


@dataclass(frozen=True)
class SourceTree:
    """A folder of source files with an identity.

    Attributes
    ----------
    identity
        Of the content: file names, modes and bytes.
    revision
        Version control's name for it, if there is one.
    has_fortran
        Whether there is a file that only a Fortran compiler takes.
    is_commit
        Whether the identity is that of a commit, not of the content.
    """

    folder: Path
    identity: str
    revision: str | None
    has_fortran: bool = False
    is_commit: bool = False


def source_files(folder: Path, skip: Iterable[Path] = ()) -> list[Path]:
    """Return the files that belong to the source, sorted, relative to `folder`."""
    skipped = {path.resolve() for path in skip}
    paths: list[Path] = []
    for walked, folders, files in os.walk(folder):
        parent = Path(walked)
        folders[:] = sorted(
            name for name in folders if name not in SKIPPED_FOLDERS and (parent / name).resolve() not in skipped
        )
        paths.extend(
            (parent / name).relative_to(folder)
            for name in files
            if (parent / name).resolve() not in skipped and not any(fnmatch(name, glob) for glob in PRODUCTS)
        )
    return sorted(paths)


def local_source(folder: Path, skip: Iterable[Path] = ()) -> SourceTree:
    """Identify a folder by its content.

    Parameters
    ----------
    skip
        Files and folders inside that do not belong to the source, such as results and the binary.
    """
    total = hashlib.sha256()
    files = source_files(folder, skip)
    for relative in files:
        path = folder / relative
        if path.is_symlink():
            content = b"link " + str(path.readlink()).encode()
        else:
            content = hashlib.sha256(path.read_bytes()).digest()
        executable = b"x" if path.stat(follow_symlinks=False).st_mode & 0o100 else b"-"
        total.update(str(relative).encode() + b"\0" + executable + content)
    return SourceTree(
        folder, total.hexdigest()[:16], _git(folder, "describe", "--always", "--dirty"), any(map(is_fortran, files))
    )


def git_source(url: str, revision: str, cache: Path) -> SourceTree:
    """Fetch a revision of a repository, once, and identify it by its commit.

    Raises
    ------
    ToolError, ConfigError
        git is missing; the repository or the revision cannot be had.
    """
    if shutil.which("git") is None:
        raise ToolError("git is needed for target.source.git", hint="install git, or name a local folder")
    repository = cache / f"{digest(url)}.git"
    kept = _git(repository, "rev-parse", "--verify", f"{revision}^{{commit}}") if repository.is_dir() else None
    if kept is not None and (cache / kept).is_dir():  # also where nothing can be written
        return _of_commit(cache / kept, kept)
    with claimed(cache / f"{repository.name}.claim"):
        if not repository.is_dir():
            _clone(url, repository)
        commit = _git(repository, "rev-parse", "--verify", f"{revision}^{{commit}}")
        if commit is None:
            _git(repository, "fetch", "--quiet", "--tags", "origin", "+refs/heads/*:refs/heads/*")
            commit = _git(repository, "rev-parse", "--verify", f"{revision}^{{commit}}")
        if commit is None:
            raise ConfigError(f"the repository has no revision {revision!r}", where="target.source.revision", why=url)
        folder = cache / commit
        if not folder.is_dir():
            temporary = cache / f".tmp-{commit}"
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            _git(repository, f"--work-tree={temporary}", "checkout", "--force", commit, "--", ".")
            temporary.rename(folder)
    return _of_commit(folder, commit)


def _of_commit(folder: Path, commit: str) -> SourceTree:
    return SourceTree(folder, commit[:16], commit, any(map(is_fortran, source_files(folder))), is_commit=True)


def _clone(url: str, repository: Path) -> None:
    done = subprocess.run(
        ["git", "clone", "--quiet", "--bare", "--", url, str(repository)], capture_output=True, text=True
    )
    if done.returncode:
        raise ConfigError("cannot clone the target's repository", where="target.source.git", why=done.stderr.strip())


def _git(folder: Path, *arguments: str) -> str | None:
    if shutil.which("git") is None:
        return None
    done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def copy_source(source: SourceTree, destination: Path, skip: Iterable[Path] = ()) -> None:
    """Copy the source files, with times and modes, into a new folder.

    Raises
    ------
    BuildError
        A folder is not what it was when it was identified.
    """
    for relative in source_files(source.folder, skip):
        target = destination / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # gone in this moment, as the check will say
            shutil.copy2(source.folder / relative, target, follow_symlinks=False)
    if not source.is_commit and local_source(destination).identity != source.identity:
        raise BuildError(
            "the source folder changed while it was copied",
            where=source.folder,
            why="what would be built is not what this campaign is about",
            hint="let nothing write into it while a campaign builds (an editor's save is enough), then run it again",
        )
