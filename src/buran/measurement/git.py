"""Asking git: the one place that calls it, so that no repository's own configuration runs a program here.

A repository may name programs in its configuration: a file system monitor, hooks, filters, differs, pagers, what
fetches objects that are missing. Who only looks at a folder has not agreed to any of them.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

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

_NOTHING_FETCHED = {"GIT_ALLOW_PROTOCOL": "none", "GIT_NO_LAZY_FETCH": "1"}


def call_git(*words: str) -> subprocess.CompletedProcess[str] | None:
    """Call git with nothing of a repository's configuration that runs a program; None if there is no git."""
    environment = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    environment |= {"GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C", **_NOTHING_FETCHED}
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


@dataclass(frozen=True)
class _WorkingCopy:
    """A working copy that may be anybody's.

    Attributes
    ----------
    filters_off
        Words for git that switch off the filters of its configuration.
    """

    folder: Path
    filters_off: tuple[str, ...]

    @classmethod
    def at(cls, folder: Path) -> _WorkingCopy | None:
        """Read its configuration; None where there is no git or no repository."""
        where = ("-C", str(folder), "config", "--list", "--show-scope", "--name-only", "-z")
        listed = call_git(*where)
        if listed is None or listed.returncode:
            return None
        scopes_and_names = listed.stdout.split("\0")
        filters = {
            name.rpartition(".")[0]
            for scope, name in zip(scopes_and_names[::2], scopes_and_names[1::2], strict=False)
            if scope in ("local", "worktree") and name.startswith("filter.")
        }
        off = (
            word
            for name in sorted(filters)
            for key in ("clean=", "smudge=", "process=", "required=false")
            for word in ("-c", f"{name}.{key}")
        )
        return cls(folder, tuple(off))

    def ask(self, *words: str) -> str | None:
        """Ask git; None where it has no answer."""
        done = call_git(*self.filters_off, "-C", str(self.folder), *words)
        return done.stdout if done is not None and done.returncode == 0 else None


def revision_of(folder: Path) -> str | None:
    """Return git's name for the state of a working copy, ``-dirty`` behind it if files differ; None without one."""
    copy = _WorkingCopy.at(folder)
    name = None if copy is None else copy.ask("describe", "--always")
    if copy is None or name is None:
        return None
    return name.strip() + ("" if copy.ask(*_DIFF, "--quiet", "HEAD") is not None else "-dirty")


def commit_and_changes(folder: Path) -> tuple[str | None, str | None]:
    """Return the commit of a working copy, and what is not committed below the folder as a patch.

    None stands for what git does not say.
    """
    copy = _WorkingCopy.at(folder)
    commit = None if copy is None else copy.ask("rev-parse", "HEAD")
    if copy is None or commit is None:
        return None, None
    return commit.strip(), copy.ask(*_DIFF, "HEAD", "--", ".")
