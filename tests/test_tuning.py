"""Numbers that tune a method: each says where it is from, and none stands bare in a module."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("numerics", "model", "prior", "tensor", "correct", "select", "instrument", "compare")
# Rounding and overflow decide nothing; the named ones are facts of mathematics, marks and definitions.
LARGEST_ROUNDING, LEAST_OVERFLOW = 1e-6, 500.0
EXACT = {"MEAN_ABSOLUTE", "_NORMAL", "_LIKELIHOOD", "_LOGARITHM", "QUANTILES", "_POISSON_RATE"}


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tuning_page", ROOT / "tools" / "reference" / "tuning.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_number_says_what_it_means_and_where_it_is_from(tool: ModuleType) -> None:
    rows = list(tool.numbers())
    assert len(rows) > 100 and {module.split(".")[1] for module, _ in rows} == set(PACKAGES)
    for module, number in rows:
        assert number.meaning and number.origin, f"{module}: {number.method}.{number.name}"
        assert isinstance(number.value, int | float | tuple)


def test_the_page_lists_what_is_in_the_code(tool: ModuleType) -> None:
    assert tool.PAGE.read_text() == tool.page(), "run `python tools/reference/tuning.py`"


def test_what_tunes_is_frozen(tool: ModuleType) -> None:
    for module in {importlib.import_module(name) for name, _ in tool.numbers()}:
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if is_dataclass(kind) and kind.__module__ == module.__name__:
                assert kind.__dataclass_params__.frozen
                assert set(kind.__annotations__) == {field.name for field in fields(kind)}


def bare_floats(path: Path) -> Iterator[tuple[str, float, str]]:
    """Yield name, value and line of the floats that a module assigns at its top level."""
    lines = path.read_text().splitlines()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for value in values:
                numbers = [each.value for each in ast.walk(value) if isinstance(each, ast.Constant)]
                if isinstance(value, ast.Constant | ast.BinOp | ast.UnaryOp):
                    for number in numbers:
                        if isinstance(number, float):
                            following = lines[node.end_lineno] if node.end_lineno < len(lines) else ""
                            yield names[0], number, lines[node.lineno - 1] + following


@pytest.mark.parametrize("package", PACKAGES)
def test_no_float_stands_bare(package: str) -> None:
    for path in sorted((ROOT / "src" / "buran" / package).rglob("*.py")):
        if path.name != "tuning.py":
            for name, value, line in bare_floats(path):
                exact = name in EXACT or abs(value) <= LARGEST_ROUNDING or value >= LEAST_OVERFLOW
                assert exact, f"{path.relative_to(ROOT)}: {name} = {value:g} belongs into {package}/tuning.py"
                assert "#" in line or '"""' in line, f"{path.relative_to(ROOT)}: {name} has no comment"
