"""An installed wheel, in an environment of its own and far from the source tree, does what the README says."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from clean_copy import clean_copy

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build both distributions from a copy, as pip does it, so that nothing is left in the source tree."""
    folder = tmp_path_factory.mktemp("built")
    tree = folder / "tree"
    clean_copy(tree)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*build, "-w", folder, tree, tree / "studies"], check=True, cwd=folder)
    return {path.name.partition("-")[0]: path for path in folder.glob("*.whl")}


def needed(requirements: Iterable[str]) -> Iterator[Distribution]:
    """Yield the distributions of this environment that are required, and those that they require."""
    seen: set[tuple[str, str]] = set()
    waiting = [(requirement, "") for requirement in requirements]
    while waiting:
        text, extra = waiting.pop()
        required = Requirement(text)
        if required.marker is not None and not required.marker.evaluate({"extra": extra}):
            continue
        for extra in required.extras | {""}:
            if (required.name, extra) not in seen:
                seen.add((required.name, extra))
                found = distribution(required.name)
                waiting += [(each, extra) for each in found.requires or ()]
                if not extra:
                    yield found


@pytest.fixture(scope="module")
def installed(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel alone in an empty environment, with what it declares and nothing else.

    These packages are linked from the environment of the tests: nothing is downloaded.
    """
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=True)
    install(folder / "venv" / "bin", wheels["buran"])
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    (metadata,) = site.glob("buran-*.dist-info")
    for found in needed(PathDistribution(metadata).requires or ()):
        for name in {file.parts[0] for file in found.files or () if file.parts[0] != ".."}:
            if not (site / name).exists():
                (site / name).symlink_to(found.locate_file(name))
    return folder / "venv" / "bin"


def install(bin: Path, wheel: Path) -> None:
    subprocess.run([bin / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)


def call(bin: Path, folder: Path, *words: str, code: int = 0) -> str:
    path = f"{bin}{os.pathsep}{os.environ['PATH'].removeprefix(str(Path(sys.executable).parent) + os.pathsep)}"
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [bin / words[0], *words[1:]], cwd=folder, env={**environment, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code == 0 else done.stderr


def test_it_is_the_installed_package(installed: Path, tmp_path: Path) -> None:
    shown = call(installed, tmp_path, "python", "-c", "import buran.assets as a; print(a.root())").strip()
    assert Path(shown).is_relative_to(installed.parent)
    for name in ("Snakefile", "rules/measure.smk", "profiles/slurm/config.yaml", "config/examples/treesort.yaml"):
        assert (Path(shown) / name).is_file()
    assert not list(Path(shown).rglob("*.o"))


@pytest.mark.mpi
def test_first_steps(installed: Path, tmp_path: Path) -> None:
    """`buran init --example stencil DIR && cd DIR && buran run`, with fewer points."""
    call(installed, tmp_path, "buran", "init", "--example", "stencil", "demo")
    campaign = tmp_path / "demo" / "campaign.yaml"
    text = campaign.read_text()
    fewer = (("values: [1, 2, 4, 8]", "values: [1, 2]"), ("stop: 48", "stop: 24"), ("p: 8, n: 64", "p: 2, n: 32"))
    for old, new in fewer:
        assert old in text
        text = text.replace(old, new)
    campaign.write_text(text)
    shown = call(installed, tmp_path / "demo", "buran", "run")
    assert str(installed.parent) in shown  # the Snakefile that is run is the installed one
    assert "0 failed" in shown
    assert "stencil" in call(installed, tmp_path / "demo", "buran", "report")


def test_the_studies_are_a_wheel_of_their_own(wheels: dict[str, Path], installed: Path, tmp_path: Path) -> None:
    """Last of this file: it installs them."""
    names = zipfile.ZipFile(wheels["buran"]).namelist()
    assert not [name for name in names if "studies" in name or "evaluate" in name or "test_" in name]
    assert all(name.startswith("buran_studies") for name in zipfile.ZipFile(wheels["buran_studies"]).namelist())
    refused = call(installed, tmp_path, "buran", "generate", "--functions", "2", "-o", "out", code=2)
    assert "install buran-studies" in refused
    assert "generate" not in call(installed, tmp_path, "buran", "--help")
    install(installed, wheels["buran_studies"])
    assert "generate" in call(installed, tmp_path, "buran", "--help")
    call(installed, tmp_path, "buran", "generate", "--functions", "2", "-o", "out")
    assert (tmp_path / "out" / "truth.json").is_file()
