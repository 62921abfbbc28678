"""Numbers that tune a method: each says where it is from, and none stands bare in a module."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "modeling",
    "planning",
    "instrumentation",
    "plugins/versions",
    "plugins/memory",
)
# Rounding and overflow decide nothing; the named ones are facts of mathematics, marks and definitions.
LARGEST_ROUNDING, LEAST_OVERFLOW = 1e-6, 500.0
EXACT = {"MEAN_ABSOLUTE", "_NORMAL", "_LIKELIHOOD", "_LOGARITHM", "QUANTILES", "_POISSON_RATE"}
EXACT |= {"_WIDTH", "_MIDDLE", "_REACH", "_SHOWN"}  # of drawings and of what is written


SETTINGS = ("buran.modeling.correction.gate", "buran.modeling.pmnf.scoring")  # numbers that users may change, too


def modules() -> Iterator[ModuleType]:
    """The modules that hold numbers which tune a method."""
    paths = sorted((ROOT / "src" / "buran").rglob("tuning.py"))
    names = [".".join(path.relative_to(ROOT / "src").with_suffix("").parts) for path in paths]
    return map(importlib.import_module, [*names, *SETTINGS])


def tuned_in(module: ModuleType) -> Iterator[type[Any]]:
    """The dataclasses of a module that hold such numbers."""
    for _, kind in inspect.getmembers(module, inspect.isclass):
        own = kind.__module__ == module.__name__ and is_dataclass(kind)
        if own and (module.__name__.endswith(".tuning") or any("origin" in each.metadata for each in fields(kind))):
            yield kind


def test_every_number_says_what_it_means_and_where_it_is_from() -> None:
    rows = [(kind, number) for module in modules() for kind in tuned_in(module) for number in fields(kind)]
    packages = {kind.__module__.split(".")[1] for kind, _ in rows}
    assert len(rows) > 100 and packages - {"plugins", "report"} == {name for name in PACKAGES if "/" not in name}
    for kind, number in rows:
        assert number.metadata.get("meaning") and number.metadata.get("origin"), f"{kind.__name__}.{number.name}"
        assert isinstance(number.default, int | float | tuple)


def test_what_tunes_is_frozen() -> None:
    for kind in (kind for module in modules() for kind in tuned_in(module)):
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
