#!/usr/bin/env python
"""Draw docs/pictures/house.svg: the packages of Buran and which of them imports which, from the code itself.

Packages stand on floors: each imports only from floors below. An arrow is left out where others lead there, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from textwrap import wrap

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "buran"
PICTURE = ROOT / "docs" / "pictures" / "house.svg"

# What is no package of Buran but imports some: its files, and what it is.
OUTSIDE = {
    "Snakefile, rules/, scripts/": (
        ("Snakefile", "rules/*.smk", "scripts/*.py"),
        "The workflow that Snakemake runs.",
    ),
    "studies/": (("studies/src/**/*.py",), "What Buran's methods are worth: a distribution of its own."),
}

Graph = Mapping[str, frozenset[str]]

_WIDTH, _HEIGHT, _BEND, _GAP, _FLOOR, _MARGIN = 236, 102, 16, 20, 144, 24  # pixels
_LETTERS, LINES = 29, 4  # of the text in a box
_SWEEPS = 12  # over the floors, for an order with few crossings


@dataclass(frozen=True)
class Box:
    """Where something stands: the middle of its upper edge, and its size. Arrows that pass a floor have boxes, too."""

    x: float
    y: float
    width: float
    height: float


def imports_of(text: str) -> set[str]:
    """Return the packages of Buran that a Python or workflow file imports."""
    found = re.findall(r"^\s*(?:from|import) buran\.(\w+)", text, re.MULTILINE)
    found += re.findall(r"^\s*from buran import (\w+)", text, re.MULTILINE)
    return set(found)


def packages() -> list[str]:
    """Return the names of Buran's packages."""
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def read_graph() -> dict[str, frozenset[str]]:
    """Return what imports which packages."""
    names = packages()
    files = {name: sorted((PACKAGE / name).rglob("*.py")) for name in names}
    files |= {name: [path for one in patterns for path in ROOT.glob(one)] for name, (patterns, _) in OUTSIDE.items()}
    return {
        name: frozenset(set().union(*(imports_of(path.read_text()) for path in paths)) & set(names) - {name})
        for name, paths in files.items()
    }


def reach(graph: Graph, start: str) -> set[str]:
    """Return everything that something needs, directly or not."""
    seen: set[str] = set()
    ahead = list(graph[start])
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead.extend(graph[name])
    return seen


def arrows(graph: Graph) -> dict[str, frozenset[str]]:
    """Return the arrows that are needed so that every import is one or follows from others."""
    needs = {name: reach(graph, name) for name in graph}

    def above(name: str, other: str) -> bool:
        """Whether one needs another that does not need it."""
        return other in needs[name] and name not in needs[other]

    return {
        name: frozenset(
            other for other in graph[name] if not any(above(name, one) and above(one, other) for one in graph[name])
        )
        for name in graph
    }


def floors(graph: Graph) -> dict[str, int]:
    """Return on which floor each stands, counted from the top: close below the lowest of those that import it."""
    needs = {name: reach(graph, name) for name in graph}
    result: dict[str, int] = {}
    for name in sorted(graph, key=lambda name: (-len(needs[name]), name)):
        users = [other for other in graph if name in graph[other] and other not in needs[name]]
        result[name] = max((result[other] + 1 for other in users if other in result), default=0)
    for name in graph:  # packages that import each other share a floor
        result[name] = max(result[other] for other in graph if other == name or _mutual(needs, name, other))
    return result


def _mutual(needs: Mapping[str, set[str]], name: str, other: str) -> bool:
    return name in needs[other] and other in needs[name]


def ways(needed: Graph, floor: Mapping[str, int]) -> list[list[str]]:
    """Return each arrow with the places at which it passes floors, named after it."""
    result = []
    for name in sorted(needed):
        for other in sorted(needed[name]):
            between = range(floor[name] + 1, floor[other])
            result.append([name, *(f"{name} > {other} > {number}" for number in between), other])
    return result


def arrangement(floor: Mapping[str, int], arrows_drawn: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return what stands on each floor, from left to right: close to what it is connected with."""
    rows: list[list[str]] = [[] for _ in range(max(floor.values()) + 1)]
    for name in sorted(floor):
        rows[floor[name]].append(name)
    near: dict[str, list[str]] = {name: [] for name in floor}
    for way in arrows_drawn:
        for number, bend in enumerate(way[1:-1], start=floor[way[0]] + 1):
            rows[number].append(bend)
            near[bend] = []
        for one, other in pairwise(way):
            near[one].append(other)
            near[other].append(one)
    for sweep in range(_SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            place = boxes(rows)
            middle = {name: fmean([place[other].x for other in near[name]] or [0.0]) for name in row}
            row[:] = [name for _, name in sorted((x, name) for name, x in middle.items())]
    return rows


def boxes(rows: Sequence[Sequence[str]]) -> dict[str, Box]:
    """Return where everything stands: each floor in the middle of the picture."""
    result = {}
    for number, row in enumerate(rows):
        widths = [_BEND if ">" in name else _WIDTH for name in row]
        x = -(sum(widths) + _GAP * (len(row) - 1)) / 2
        for name, width in zip(row, widths, strict=True):
            result[name] = Box(x + width / 2, number * _FLOOR, width, _HEIGHT)
            x += width + _GAP
    return result


def description(name: str) -> str:
    """Return what a package is, as its docstring says in its first sentence."""
    if name in OUTSIDE:
        return OUTSIDE[name][1]
    text = ast.get_docstring(ast.parse((PACKAGE / name / "__init__.py").read_text())) or ""
    return re.sub(r"\s+", " ", text.partition("\n\n")[0].split(". ")[0]).replace("`", "")


def lines_of(name: str) -> list[str]:
    """Return what a package is, as lines of its box."""
    return wrap(description(name), _LETTERS)


def drawing() -> str:
    """Return the picture as SVG."""
    graph = read_graph()
    floor, drawn = floors(graph), arrows(graph)
    routes = ways(drawn, floor)
    rows = arrangement(floor, routes)
    place = boxes(rows)
    left = min(box.x - box.width / 2 for box in place.values()) - _MARGIN
    width = max(box.x + box.width / 2 for box in place.values()) + _MARGIN - left
    height = len(rows) * _FLOOR - (_FLOOR - _HEIGHT) + 2 * _MARGIN + 66
    everywhere = sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("__"))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {-_MARGIN} {width:.0f} {height}" '
            'font-family="Helvetica, Arial, sans-serif" font-size="14">',
            "<title>The packages of Buran, and which imports which</title>",
            "<!-- Generated by `python tools/reference/house.py`. -->",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8z" fill="#5b6b7a"/></marker></defs>',
            f'<rect x="{left:.0f}" y="{-_MARGIN}" width="{width:.0f}" height="{height}" fill="#ffffff"/>',
            '<g fill="none" stroke="#5b6b7a" stroke-width="1.4" marker-end="url(#tip)">',
            *(_arrow([place[name] for name in route]) for route in routes),
            "</g>",
            *(_box(name, place[name]) for name in sorted(floor)),
            *_ground(place.values(), everywhere),
            "</svg>\n",
        ]
    )


def _arrow(route: Sequence[Box]) -> str:
    """Return a line from the lower edge of a box, down past floors, to the upper edge of another."""
    first, last = route[0], route[-1]
    if first.y == last.y:  # packages that import each other
        side = 1 if last.x > first.x else -1
        x, end = first.x + side * first.width / 2, last.x - side * last.width / 2
        y = first.y + first.height / 2 + 8 * side
        return f'<path d="M{x:.0f} {y:.0f}L{end:.0f} {y:.0f}"/>'
    steps = [f"M{first.x:.0f} {first.y + first.height:.0f}"]
    above = first
    for box in route[1:]:
        top, bottom = above.y + above.height, box.y
        half = (top + bottom) / 2
        steps.append(f"C{above.x:.0f} {half:.0f} {box.x:.0f} {half:.0f} {box.x:.0f} {bottom:.0f}")
        if box is not last:
            steps.append(f"L{box.x:.0f} {box.y + box.height:.0f}")
        above = box
    return f'<path d="{"".join(steps)}"/>'


def _box(name: str, box: Box) -> str:
    outside = name in OUTSIDE
    style = 'fill="#fff8e6" stroke="#b58a2b" stroke-dasharray="5 3"' if outside else 'fill="#eef4fa" stroke="#3d6a94"'
    left, line = box.x - box.width / 2, box.y + 21
    lines = [f'<text x="{left + 10:.0f}" y="{line:.0f}" font-weight="bold" font-size="15">{escape(name)}</text>']
    for text in lines_of(name):
        line += 18
        lines.append(f'<text x="{left + 10:.0f}" y="{line:.0f}" fill="#333333">{escape(text)}</text>')
    frame = f'<rect x="{left:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="5" {style}/>'
    return "\n".join(["<g>", frame, *lines, "</g>"])


def _ground(place: Iterable[Box], names: Sequence[str]) -> list[str]:
    """Return the ground that everything stands on: the modules that every package may import."""
    every = list(place)
    left, right = min(box.x - box.width / 2 for box in every), max(box.x + box.width / 2 for box in every)
    top = max(box.y + box.height for box in every) + 24
    text = f"Every package may import {', '.join(names[:-1])} and {names[-1]}."
    size = f'x="{left:.0f}" y="{top:.0f}" width="{right - left:.0f}" height="42" rx="5"'
    where = f'x="{(left + right) / 2:.0f}" y="{top + 26:.0f}" text-anchor="middle"'
    return [
        f'<rect {size} fill="#eeeeee" stroke="#888888"/>',
        f'<text {where} fill="#333333">{escape(text)}</text>',
    ]


if __name__ == "__main__":
    PICTURE.write_text(drawing())
