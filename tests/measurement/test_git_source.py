"""A target's source from a repository: a revision is fetched once and stands for itself."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from buran.errors import ConfigError
from buran.measurement.source import git_source

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    return folder


def commit(repository: Path, name: str, text: str) -> str:
    (repository / name).write_text(text)
    git(repository, "add", name)
    git(repository, "commit", "--quiet", "-m", name)
    return git(repository, "rev-parse", "HEAD")


def test_a_revision_is_fetched_once_and_identified_by_its_commit(repository: Path, tmp_path: Path) -> None:
    first = commit(repository, "main.f90", "end\n")
    git(repository, "tag", "v1")
    url, cache = str(repository), tmp_path / "cache"
    source = git_source(url, "v1", cache)
    assert (source.revision, source.identity, source.has_fortran) == (first, first[:16], True)
    assert (source.folder / "main.f90").read_text() == "end\n"
    assert git_source(url, first, cache).folder == source.folder
    second = commit(repository, "more.c", "int a;\n")  # what came since is fetched when it is asked for
    later = git_source(url, second, cache)
    assert later.revision == second and (later.folder / "more.c").is_file()
    assert not (source.folder / "more.c").exists()
    shutil.rmtree(repository)  # and is there without the repository
    assert git_source(url, second, cache) == later


def test_what_cannot_be_had_is_named(repository: Path, tmp_path: Path) -> None:
    commit(repository, "a.c", "int a;\n")
    with pytest.raises(ConfigError, match="no revision 'v9'"):
        git_source(str(repository), "v9", tmp_path / "cache")
    with pytest.raises(ConfigError, match="cannot clone") as error:
        git_source(str(tmp_path / "nowhere"), "v1", tmp_path / "cache")
    assert "program.source.git" in str(error.value)
