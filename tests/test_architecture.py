"""The shape of the package: who may import whom, and what the command line may not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "buran"

# A package may import itself, the packages named here and what every package may import.
EVERYWHERE = {"errors", "files", "assets", "plugins"}
MAY_IMPORT = {
    "profile": set(),
    "numerics": set(),
    "project": set(),
    "model": {"numerics"},
    "tensor": {"numerics"},
    "campaign": {"profile"},
    "measure": {"campaign", "profile"},
    "correct": {"campaign", "model", "numerics"},
    "experiment": {"campaign", "model", "profile"},
    "prior": {"experiment", "model", "numerics", "profile"},
    "select": {"campaign", "experiment", "model", "numerics", "profile", "tensor"},
    "compare": {"campaign", "experiment", "model", "numerics", "profile"},
    "instrument": {"campaign", "experiment", "measure", "model", "numerics", "profile"},
    "report": {"campaign", "compare", "experiment", "instrument", "model", "profile", "select"},
}
MAY_IMPORT["loop"] = MAY_IMPORT.keys() | {"views"}
MAY_IMPORT["views"] = MAY_IMPORT.keys() | {"engine"}
MAY_IMPORT["engine"] = set(MAY_IMPORT)
MAY_IMPORT["cli"] = set(MAY_IMPORT)


def imports_of(path: Path) -> set[str]:
    """Names of buran's packages that a module imports."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom) and node.module == "buran":
            names = [f"buran.{alias.name}" for alias in node.names if not alias.name.startswith("__")]
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("buran.")}
    return found


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_packages_import_in_one_direction(package: str) -> None:
    for path in sorted((PACKAGE / package).rglob("*.py")):
        extra = imports_of(path) - {package} - EVERYWHERE - MAY_IMPORT[package]
        assert not extra, f"{path.relative_to(PACKAGE)} imports {sorted(extra)}"


def test_every_package_has_its_rule() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == set(MAY_IMPORT)


def test_nothing_in_the_package_imports_snakemake() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert "import snakemake" not in path.read_text(), path
        assert "from snakemake" not in path.read_text(), path


def test_the_product_does_not_need_the_studies() -> None:
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "scripts").glob("*.py"), *(ROOT / "rules").glob("*.smk")]:
        assert "import buran_studies" not in path.read_text() and "from buran_studies" not in path.read_text(), path


def test_no_scheduler_is_known_by_name_outside_of_its_file() -> None:
    """But the registry, and our runtime, which asks Slurm's variables for the name of an emulated node."""
    known = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.*") if mentions(path, "slurm")}
    here = "measure/schedulers"
    assert known == {f"{here}/slurm.py", f"{here}/registry.py", "measure/native/process.c"}


def mentions(path: Path, word: str) -> bool:
    return path.suffix in (".py", ".c", ".h", ".cpp", ".cc") and word in path.read_text().lower()


def test_rule_script_and_log_have_one_name() -> None:
    for rule in (ROOT / "rules").glob("*.smk"):
        if rule.stem != "common":
            text = rule.read_text()
            assert f"rule {rule.stem}:" in text or f"checkpoint {rule.stem}:" in text
            assert f"scripts/{rule.stem}.py" in text
            assert f"logs/{rule.stem}/" in text
            assert (ROOT / "scripts" / f"{rule.stem}.py").is_file()


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from buran.cli import main; code = main(['--help']); "
        "heavy = {'numpy', 'scipy', 'pydantic', 'snakemake', 'sklearn', 'yaml', 'jinja2', 'sympy'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "remeasure" in done.stdout


def test_test_modules_have_names_of_their_own() -> None:
    """Pytest imports them by their names alone."""
    names = [path.name for tests in ("tests", "studies/tests") for path in (ROOT / tests).rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
