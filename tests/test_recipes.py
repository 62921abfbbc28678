"""Recipes of other package managers say what `pyproject.toml` says, and the workflow keeps the catalogue's rules."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
RECIPES = ROOT / "recipes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
BOUNDS = {
    Requirement(each).name: str(Requirement(each).specifier)
    for each in [*PROJECT["project"]["dependencies"], f"python{PROJECT['project']['requires-python']}"]
}
SPACK = RECIPES / "spack" / "spack_repo" / "buran" / "packages"


def conda_bounds(lines: list[str]) -> dict[str, str]:
    """Bounds by name; what conda calls `snakemake-minimal` is the engine without its optional tools."""
    split = [Requirement(line.replace(" ", "", 1)) for line in lines]
    return {each.name.removesuffix("-minimal"): str(each.specifier) for each in split}


def test_the_conda_recipe_declares_what_the_project_declares() -> None:
    recipe = yaml.safe_load((RECIPES / "conda" / "recipe.yaml").read_text())
    assert conda_bounds(recipe["requirements"]["run"]) == BOUNDS
    scripts = [" = ".join(pair) for pair in PROJECT["project"]["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert PROJECT["build-system"]["requires"] == [recipe["requirements"]["host"][-1].replace(" ", "")]


def test_what_the_conda_recipe_brings_itself_is_the_locked_version() -> None:
    context = yaml.safe_load((RECIPES / "conda" / "pycubexr" / "recipe.yaml").read_text())
    locked = (ROOT / "requirements" / "base.txt").read_text()
    assert f"pycubexr=={context['context']['version']} " in locked
    assert context["source"]["sha256"] in locked


def spack_bounds(text: str) -> dict[str, str]:
    """Bounds of what is needed to run, by the names of the project."""
    bounds = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "depends_on":
            assert isinstance(node.args[0], ast.Constant)
            name, _, versions = str(node.args[0].value).partition("@")
            if versions and not any(word.arg == "when" for word in node.keywords):
                bounds[name.removeprefix("py-")] = versions
    return bounds


def in_spack(specifier: str) -> str:
    """Return bounds as Spack writes them: `>=9.20,<10` is `9.20:9`."""
    parts = dict(re.findall(r"(>=|<)([\d.]+)", specifier))
    return f"{parts['>=']}:{int(parts['<']) - 1 if '<' in parts else ''}"


def test_the_spack_package_declares_what_the_project_declares() -> None:
    bounds = spack_bounds((SPACK / "buran" / "package.py").read_text())
    assert bounds.pop("hatchling") == in_spack(PROJECT["build-system"]["requires"][0])
    assert bounds == {canonicalize_name(name): in_spack(bound) for name, bound in BOUNDS.items()}


@pytest.mark.parametrize("path", sorted(SPACK.glob("*/package.py")), ids=lambda path: path.parent.name)
def test_versions_that_spack_is_given_are_the_locked_ones(path: Path) -> None:
    locked = (ROOT / "requirements" / "base.txt").read_text()
    name = path.parent.name.removeprefix("py_").replace("_", "-")
    for version, checksum in re.findall(r'version\("(\S+)", sha256="(\w+)"\)', path.read_text()):
        assert f"\n{name}=={version} " in locked and checksum in locked


def test_the_image_installs_the_lock_and_the_wheel() -> None:
    text = (RECIPES / "apptainer" / "buran.def").read_text()
    assert re.findall(r"^%(\w+)", text, re.MULTILINE) == ["files", "post", "environment", "runscript", "test", "help"]
    assert "--require-hashes --requirement /opt/base.txt" in text and "--no-deps /opt/dist/buran-*.whl" in text


def test_the_catalogue_of_workflows_finds_what_it_looks_for() -> None:
    usage = yaml.safe_load((ROOT / ".snakemake-workflow-catalog.yml").read_text())["usage"]
    assert usage.keys() <= {"mandatory-flags", "software-stack-deployment", "report"}
    # The Snakefile imports Buran: an environment of conda for its scripts does not make it run.
    assert "conda" not in usage.get("software-stack-deployment", ())
    assert "pip install buran" in usage["mandatory-flags"]["desc"]
    assert (ROOT / "workflow" / "Snakefile").is_file() and (ROOT / "config" / "README.md").read_text().strip()
    readme = (ROOT / "README.md").read_text().lower()
    assert "snakemake" in readme and "workflow" in readme
    rules = {path: path.read_text() for path in (ROOT / "rules").glob("*.smk")}
    scripts = {path for path, text in rules.items() if "script:" in text}
    assert scripts and {path for path, text in rules.items() if "conda:" in text} == scripts
    assert usage["report"] is ("report:" in (ROOT / "Snakefile").read_text())  # `snakemake --report`


@pytest.mark.slow
def test_the_engine_has_nothing_to_say_of_the_workflows_style() -> None:
    command = [sys.executable, "-m", "snakemake", "--lint", "--snakefile", "workflow/Snakefile"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0 and "Congratulations" in done.stderr + done.stdout, done.stderr
