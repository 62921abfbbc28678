"""The shape of the package: who may import whom, and what the command line may not load."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from buran.workflow.steps import KINDS

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "buran"

# A package may import itself, the packages named here and what every package may import.
EVERYWHERE = {
    "budget",
    "wording",
    "crash",
    "errors",
    "exponents",
    "files",
    "assets",
    "extensions",
    "features",
}
MAY_IMPORT = {
    "profiles": set(),
    "campaign": {"profiles"},
    "modeling": {"campaign", "profiles"},
    "measurement": {"campaign", "profiles"},
    "planning": {"campaign", "modeling", "profiles"},
    "instrumentation": {"campaign", "measurement", "modeling", "profiles"},
    "reporting": {"campaign", "instrumentation", "measurement", "modeling", "planning", "profiles"},
}
MAY_IMPORT["workflow"] = set(MAY_IMPORT)
MAY_IMPORT["cli"] = set(MAY_IMPORT)
# Inside of the room of models: each published method knows numerics, and no other one but what its paper builds on.
MAY_IMPORT_IN_MODELING = {
    "numerics": set(),
    "functions": {"numerics"},
    "price": {"functions", "numerics"},
    "pmnf": {"functions", "numerics", "price"},
    "exact": {"functions", "numerics", "pmnf"},
    "fit": {"exact", "functions", "numerics", "pmnf", "price"},
    "priors": {"exact", "fit", "functions", "numerics", "pmnf", "price"},
    "tensor": {"numerics"},
    "correction": {"fit", "functions", "numerics", "pmnf"},
}


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


@pytest.mark.parametrize("package", sorted(MAY_IMPORT_IN_MODELING))
def test_published_methods_know_little_of_each_other(package: str) -> None:
    room = PACKAGE / "modeling" / package
    for path in room.rglob("*.py") if room.is_dir() else [room.with_suffix(".py")]:
        found = set(re.findall(r"buran\.modeling\.(\w+)", "".join(map(ast.unparse, imports_in(path)))))
        extra = found - {package} - MAY_IMPORT_IN_MODELING[package]
        assert not extra, f"{path.relative_to(PACKAGE)} imports {sorted(extra)}"


def imports_in(path: Path) -> list[ast.stmt]:
    return [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]


def test_every_package_has_its_rule() -> None:
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert packages == {*MAY_IMPORT, "plugins"}
    rooms = {path.parent.name for path in PACKAGE.glob("modeling/*/__init__.py")}
    assert rooms | {"fit"} == set(MAY_IMPORT_IN_MODELING)
    for rules in (
        MAY_IMPORT_IN_MODELING,
        {name: known - {name} for name, known in MAY_IMPORT.items() if name != "cli"},
    ):
        assert tuple(TopologicalSorter(rules).static_order())  # raises for a circle


def test_the_core_does_not_know_its_plugins() -> None:
    """It finds them by entry points, as it finds other distributions; only their loader knows where they lie."""
    files = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "plugins" not in path.parents]
    files += [*(ROOT / "scripts").glob("*.py"), *(ROOT / "rules").glob("*.smk"), *PACKAGE.parent.glob("snake*/*.py")]
    known = {path.relative_to(ROOT).as_posix() for path in files if re.search(r"buran[./]plugins", path.read_text())}
    assert known == {"src/buran/extensions.py"}


def test_tests_of_the_core_need_no_plugin() -> None:
    own = ROOT / "tests" / "plugins"
    files = [path for path in (ROOT / "tests").rglob("*.py") if own not in path.parents]
    found = [path for path in files if re.search(r"^(from|import) buran\.plugins\.", path.read_text(), re.MULTILINE)]
    assert not found


def test_no_plugin_imports_another() -> None:
    for path in (PACKAGE / "plugins").rglob("*.py"):
        own = path.relative_to(PACKAGE / "plugins").parts[0]
        others = set(re.findall(r"buran\.plugins\.(\w+)", path.read_text())) - {own}
        assert not others, f"{path.relative_to(PACKAGE)} imports {sorted(others)}"


def test_nothing_in_the_package_imports_snakemake() -> None:
    for path in PACKAGE.rglob("*.py"):
        assert "import snakemake" not in path.read_text(), path
        assert "from snakemake" not in path.read_text(), path


def test_the_product_does_not_need_the_studies() -> None:
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "scripts").glob("*.py"), *(ROOT / "rules").glob("*.smk")]:
        assert "import buran_studies" not in path.read_text() and "from buran_studies" not in path.read_text(), path


def test_no_scheduler_is_known_by_name_outside_of_its_file() -> None:
    """But the registry, our runtime, which asks Slurm's variables for the name of an emulated node, and energy."""
    known = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.*") if mentions(path, "slurm")}
    here, of_energy = "measurement/schedulers", {"plugins/energy/meter.py", "plugins/energy/slurm_steps.py"}
    assert known - of_energy == {
        f"{here}/base.py",
        f"{here}/slurm.py",
        f"{here}/slurm_words.py",
        "measurement/native/process.c",
    }


def mentions(path: Path, word: str) -> bool:
    return path.suffix in (".py", ".c", ".h", ".cpp", ".cc") and word in path.read_text().lower()


def test_rules_are_the_steps_with_a_log_and_a_script_each() -> None:
    names, scripts = list[str](), set[str]()
    for file in (ROOT / "rules").glob("*.smk"):
        text = file.read_text()
        parts = re.split(r"^(?:rule|checkpoint) (\w+):$", text, flags=re.MULTILINE)
        rules = dict(zip(parts[1::2], parts[2::2], strict=True))
        assert file.stem == "common" or file.stem in rules
        for name, body in rules.items():
            (script,) = re.findall(r'"\.\./scripts/(\w+)\.py"', body)
            assert name.startswith(script) or re.search(rf'step=(?:lambda _: )?"{name}"', body)
            assert f'"logs/{name}/' in body
            scripts.add(script)
        names += rules
    assert sorted(names) == sorted(KINDS)
    assert scripts == {path.stem for path in (ROOT / "scripts").glob("*.py")}


def test_no_class_name_stands_for_two_things() -> None:
    places: dict[str, list[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            places.setdefault(name, []).append(str(path.relative_to(PACKAGE)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_modules_do_not_import_each_other_in_circles() -> None:
    """Nor do their functions; types alone may look back, under `TYPE_CHECKING`."""
    modules = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    needed = {name: needed_modules(path, modules) - {name} for name, path in modules.items()}
    while free := [name for name, others in needed.items() if not others & needed.keys()]:
        for name in free:
            del needed[name]
    assert not needed, f"these import each other: {sorted(needed)}"


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def needed_modules(path: Path, modules: Mapping[str, Path]) -> set[str]:
    names: set[str] = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "late":
            names.add(ast.literal_eval(node.args[0]).partition(":")[0])
        elif "TYPE_CHECKING" not in _condition(node):
            waiting.extend(ast.iter_child_nodes(node))
    # A package stands for itself only where no module of it is named.
    exact = {name for name in names if name in modules}
    return {name for name in exact if not any(other.startswith(f"{name}.") for other in exact)}


def _condition(node: ast.AST) -> str:
    return ast.unparse(node.test) if isinstance(node, ast.If) else ""


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from buran.cli import main; code = main(['--help']); "
        "heavy = {'numpy', 'scipy', 'pydantic', 'snakemake', 'sklearn', 'yaml', 'jinja2', 'sympy'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "suggest" in done.stdout


def test_test_modules_have_names_of_their_own() -> None:
    """Pytest imports them by their names alone."""
    names = [path.name for tests in ("tests", "studies/tests") for path in (ROOT / tests).rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_names_have_the_words_of_the_field() -> None:
    """`docs/development/wording.md` has better ones; `lacks_metric` is a key of the records of runs.

    `in_place` is one of the table of MPI operations.
    """
    words = "told|asked|asks|dear(?:er|est)?|lack(?:s|ing)?|door|doubt|outlook|beside|places?|ends|here"
    wrong = re.compile(rf"(?:^|_)(?:{words})(?:_|$)")
    found = set[str]()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            name = next((value for kind in ("name", "id", "attr", "arg") if (value := getattr(node, kind, None))), None)
            if isinstance(name, str) and wrong.search(name.lower()) and name not in ("lacks_metric", "in_place"):
                found.add(f"{path.relative_to(PACKAGE)}: {name}")
    assert not found, sorted(found)
