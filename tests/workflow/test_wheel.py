"""An installed wheel, in an environment of its own and far from the source tree, does what the README says."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel, not editable; packages that it needs are those of this environment, without its `buran`."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    site = next((folder / "venv" / "lib").glob("python*/site-packages"))
    # A line of a .pth file adds a folder, but not the .pth files in it: an editable install there is not seen.
    (site / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    # Built from a copy, as pip does it, so that nothing is left in the source tree.
    tree = folder / "tree"
    files = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_bytes((ROOT / name).read_bytes())
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index", tree]
    subprocess.run(install, check=True, cwd=folder)
    return folder / "venv" / "bin"


def call(bin: Path, folder: Path, *words: str) -> str:
    path = f"{bin}{os.pathsep}{os.environ['PATH'].removeprefix(str(Path(sys.executable).parent) + os.pathsep)}"
    environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        [bin / words[0], *words[1:]], cwd=folder, env={**environment, "PATH": path}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
def test_it_is_the_installed_package(installed: Path, tmp_path: Path) -> None:
    shown = call(installed, tmp_path, "python", "-c", "import buran.assets as a; print(a.root())").strip()
    assert Path(shown).is_relative_to(installed.parent)
    for name in ("Snakefile", "rules/measure.smk", "profiles/slurm/config.yaml", "config/examples/codes/lulesh.yaml"):
        assert (Path(shown) / name).is_file()
    assert not list(Path(shown).rglob("*.o"))


@pytest.mark.thorough
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
