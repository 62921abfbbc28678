"""What is declared is what is imported, locked and written to the environment file; and nothing else."""

from __future__ import annotations

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from packaging.version import Version

ROOT = Path(__file__).parents[1]
LOCKS = sorted(path.name for path in (ROOT / "requirements").glob("*.txt"))
DISTRIBUTIONS = {".": "src/buran", "studies": "studies/src/buran_studies"}
NAMES = {"yaml": "pyyaml", "sklearn": "scikit-learn", "pyearth": "py-earth2", "pydantic_core": "pydantic"}
ELSEWHERE = {"pysgpp"}  # imported by a Python of its own, which the user names


def project(folder: str) -> dict:
    return tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]


def name_of(requirement: str) -> str:
    found = re.match(r"[\w.-]+", requirement)
    assert found
    return found[0].lower()


def declared(folder: str) -> set[str]:
    found = project(folder)
    extras = [each for extra in found["optional-dependencies"].values() for each in extra]
    return {name_of(each) for each in (*found["dependencies"], *extras)}


def imported(package: str) -> Iterator[str]:
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield str(node.module).partition(".")[0]


@pytest.mark.parametrize("folder", DISTRIBUTIONS)
def test_what_is_imported_is_declared(folder: str) -> None:
    own = Path(DISTRIBUTIONS[folder]).name
    others = {name for name in imported(DISTRIBUTIONS[folder]) if name not in sys.stdlib_module_names} - {own}
    given = declared(folder) | (declared(".") if folder != "." else set())  # of Buran, which it depends on
    assert {NAMES.get(name, name) for name in others - ELSEWHERE} <= given


def test_there_is_one_version_number() -> None:
    """Tags say it; the changelog and the citation name the newest release."""
    assert all("version" in project(folder)["dynamic"] for folder in DISTRIBUTIONS)
    changes = re.findall(r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert f"\nversion: {changes[0]}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_version_comes_from_tags(tmp_path: Path) -> None:
    number = tool("version").version_of_checkout

    def git(*words: str) -> str:
        names = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false", "-c", "tag.gpgsign=false")
        return subprocess.run(
            ["git", *names, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## Unreleased\n")
    with pytest.raises(ValueError, match=r"CHANGELOG\.md has no section of a release"):
        number(tmp_path)
    changelog.write_text("# Changelog\n\n## Unreleased\n\n## 1.4.9 - 2026-01-01\n\n## 1.4.8 - 2025-01-01\n")
    assert number(tmp_path) == "1.4.9+untagged"  # no git at all
    git("init", "--quiet")
    assert number(tmp_path) == "1.4.9+untagged"  # no commit
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    git("tag", "another-tag")
    assert number(tmp_path) == "1.4.9+untagged"  # a clone without tags of releases
    git("tag", "v1.4.10")
    assert number(tmp_path) == "1.4.10"
    git("commit", "--quiet", "--allow-empty", "-m", "two")
    commit = git("rev-parse", "--short", "HEAD")
    assert number(tmp_path) == f"1.4.11.dev1+g{commit}"
    changelog.write_text(changelog.read_text() + "more\n")
    assert number(tmp_path) == f"1.4.11.dev1+g{commit}.dirty"
    inside = tmp_path / "unpacked"  # an archive, unpacked in a repository of something else
    inside.mkdir()
    (inside / "CHANGELOG.md").write_text("## 0.9.0 - 2024-01-01\n")
    assert number(inside) == "0.9.0+untagged"
    assert all(Version(each) for each in (number(tmp_path), number(inside)))
    assert Version("1.4.10") < Version(number(tmp_path)) < Version("1.4.11")


def requirements(name: str) -> dict[str, str]:
    """Names and versions of a lock."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return dict(line.split(" ")[0].split("==") for line in lines if line[:1].isalpha())


@pytest.mark.parametrize("name", LOCKS)
def test_locks_have_hashes_and_no_addresses(name: str) -> None:
    text = (ROOT / "requirements" / name).read_text()
    blocks = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    assert blocks and all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text and "--index" not in text


@pytest.mark.parametrize("name", sorted(set(LOCKS) - {"base.txt"}))
def test_other_locks_repeat_nothing_of_the_base(name: str) -> None:
    assert not requirements(name).keys() & requirements("base.txt").keys()


def test_the_base_locks_every_dependency() -> None:
    assert {name_of(dependency) for dependency in project(".")["dependencies"]} <= requirements("base.txt").keys()
    studies = {name_of(dependency) for dependency in project("studies")["dependencies"]} - {"buran"}
    assert studies <= requirements("base.txt").keys() | requirements("test.txt").keys()


def tool(name: str) -> ModuleType:
    """Import a script of `tools/`."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_environment_file_is_current() -> None:
    environment = tool("environment")
    assert environment.PATH.read_text() == environment.environment(), "run tools/environment.py"
