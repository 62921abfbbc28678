"""What a foreign repository's configuration may run when somebody looks at it: nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from buran.measurement.source import call_git, commit_and_changes, local_source, revision_of

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    names += ("-c", "protocol.file.allow=always")
    done = subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "a.c").write_text("int a;\n")
    git(folder, "add", "a.c")
    git(folder, "commit", "--quiet", "-m", "a")
    return folder


@pytest.fixture
def spy(tmp_path: Path) -> Callable[[], str]:
    """Make a program that leaves a mark; return its command."""
    program = tmp_path / "spy"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    program.chmod(0o755)
    return lambda: str(program)


def _attack(repository: Path, program: str) -> None:
    """Name a program wherever a repository's configuration takes one."""
    hooks = repository / "hooks of mine"
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "post-checkout"):
        (hooks / hook).symlink_to(program)
    for key, value in {
        "core.fsmonitor": program,
        "core.hooksPath": str(hooks),
        "core.pager": program,
        "pager.diff": program,
        "core.sshCommand": program,
        "core.askPass": program,
        "core.alternateRefsCommand": program,
        "credential.helper": program,
        "diff.external": program,
        "diff.spy.command": program,
        "diff.spy.textconv": program,
        "filter.spy.clean": program,
        "filter.spy.smudge": program,
        "filter.spy.required": "true",
        "filter.Two.dots.process": program,
        "protocol.allow": "always",
    }.items():
        git(repository, "config", key, value)
    (repository / ".git" / "info").mkdir(exist_ok=True)
    (repository / ".git" / "info" / "attributes").write_text("*.c filter=spy diff=spy\n*.h filter=Two.dots\n")


def _look_at(repository: Path) -> None:
    local_source(repository)
    commit_and_changes(repository)


def test_looking_runs_nothing_of_a_repository(repository: Path, tmp_path: Path, spy: Callable[[], str]) -> None:
    (repository / "b.h").write_text("int b;\n")
    git(repository, "add", "b.h")
    _attack(repository, spy())
    index = (repository / ".git" / "index").read_bytes()
    (repository / "a.c").write_text("int b;\n")
    os.utime(repository / "b.h", (1, 1))
    _look_at(repository)
    assert not (tmp_path / "ran").exists()
    assert (repository / ".git" / "index").read_bytes() == index  # looking does not write
    assert "+int b;" in str(commit_and_changes(repository)[1]) and str(revision_of(repository)).endswith("-dirty")


def test_nothing_of_a_submodule_runs(repository: Path, tmp_path: Path, spy: Callable[[], str]) -> None:
    shutil.copytree(repository, tmp_path / "other")
    git(repository, "submodule", "--quiet", "add", str(tmp_path / "other"), "inner")
    git(repository, "commit", "--quiet", "-m", "inner")
    _attack(repository / "inner", spy()) if (repository / "inner" / ".git").is_dir() else None
    for key in ("core.fsmonitor", "diff.external", "core.hooksPath"):
        git(repository / "inner", "config", key, spy())
    git(repository, "config", "-f", ".gitmodules", "submodule.inner.ignore", "none")
    git(repository, "config", "diff.submodule", "log")
    (repository / "inner" / "a.c").write_text("int c;\n")
    _look_at(repository)
    assert not (tmp_path / "ran").exists()


def test_missing_objects_are_not_fetched(repository: Path, tmp_path: Path, spy: Callable[[], str]) -> None:
    (repository / "a.c").write_text("int changed;\n")
    blob = git(repository, "rev-parse", "HEAD:a.c")
    (repository / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    for key, value in {
        "remote.origin.url": str(tmp_path),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": spy(),
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
        "protocol.file.allow": "always",
    }.items():
        git(repository, "config", key, value)
    _look_at(repository)
    assert not (tmp_path / "ran").exists()


def test_what_git_says_is_what_it_said(repository: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "of a hook"))
    assert commit_and_changes(repository) == (commit, None)
    assert revision_of(repository) == commit[:7]
    git_less = tmp_path / "plain"
    git_less.mkdir()
    assert revision_of(git_less) is None and commit_and_changes(git_less) == (None, None)


def test_without_git_nothing_is_said(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert call_git("version") is None and revision_of(repository) is None
