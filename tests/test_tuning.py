"""Numbers that tune a method: each says what it means and where it is from, and none stands bare in a module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("modeling", "planning", "instrumentation", "plugins/versions", "plugins/memory")
ORIGIN = re.compile(r"(Tuned|Published): \S")
MOST = 120
# Rounding and overflow decide nothing; the named ones are facts of mathematics, marks and definitions.
LARGEST_ROUNDING, LEAST_OVERFLOW = 1e-6, 500.0
EXACT = {"MEAN_ABSOLUTE", "_NORMAL", "_LIKELIHOOD", "_LOGARITHM", "QUANTILES", "_POISSON_RATE"}
EXACT |= {"_WIDTH", "_MIDDLE", "_REACH", "_SHOWN"}  # of drawings and of what is written


@dataclass(frozen=True)
class Constant:
    """A constant of a module, or a default of a class: its numbers, and the comment above or beside it."""

    path: Path
    name: str
    numbers: tuple[float, ...]
    comment: str


def constants_of(path: Path) -> Iterator[Constant]:
    lines = path.read_text().splitlines()
    tree = ast.parse(path.read_text())
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for node in [*tree.body, *(each for one in classes for each in one.body)]:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            names = [each.id for each in ast.walk(target) if isinstance(each, ast.Name)]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            plain = [each for each in values if isinstance(each, ast.Constant | ast.BinOp | ast.UnaryOp)]
            found = [each.value for value in plain for each in ast.walk(value) if isinstance(each, ast.Constant)]
            numbers = tuple(each for each in found if isinstance(each, int | float) and not isinstance(each, bool))
            first = node.lineno - 1
            while lines[first - 1].lstrip().startswith("#"):
                first -= 1
            beside = "".join(re.findall(r"#.*", lines[node.lineno - 1]))
            following = lines[node.end_lineno] if node.end_lineno < len(lines) else ""
            said = " ".join(line.strip("# ") for line in lines[first : node.lineno - 1])
            yield Constant(path, names[0], numbers, said + beside + following * following.startswith('"""'))


def all_constants() -> Iterator[Constant]:
    for package in PACKAGES:
        for path in sorted((ROOT / "src" / "buran" / package).rglob("*.py")):
            yield from constants_of(path)


def test_tuned_numbers_are_few_and_say_what_they_mean() -> None:
    tuned = [each for each in all_constants() if ORIGIN.search(each.comment)]
    assert 100 < len(tuned) <= MOST
    for each in tuned:
        meaning = ORIGIN.split(each.comment)[0]
        assert each.numbers and meaning.strip(), f"{each.path.relative_to(ROOT)}: {each.name}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_float_stands_bare(package: str) -> None:
    for path in sorted((ROOT / "src" / "buran" / package).rglob("*.py")):
        for each in constants_of(path):
            floats = [number for number in each.numbers if isinstance(number, float)]
            decides = [number for number in floats if LARGEST_ROUNDING < abs(number) < LEAST_OVERFLOW]
            if floats and each.name.lstrip("_").isupper():
                known = each.name in EXACT or not decides or ORIGIN.search(each.comment)
                assert known, f"{path.relative_to(ROOT)}: {each.name} needs a comment with `Tuned: WHERE FROM.`"
                assert each.comment, f"{path.relative_to(ROOT)}: {each.name} has no comment"
