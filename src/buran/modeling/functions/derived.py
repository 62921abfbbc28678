"""Values that a program derives from its parameters, such as the edges of its grid of ranks, as variables of terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.expressions import Expression, ExpressionError, compile_expression
from buran.campaign.point import canonical
from buran.files import JsonObject
from buran.modeling.functions.powers import NO_GROWTH, Lead, Style

Array = NDArray[np.float64]
_LOW, _STEP, _FAR = 64, 64, 64**4  # squares and cubes, so that grids of so many ranks have whole edges
_ROOT = 6  # largest denominator of a power in the long run


@dataclass(frozen=True)
class DerivedValue:
    """A number that is computed from parameters.

    Attributes
    ----------
    name
        As formulas show it.
    text
        How it is computed: an expression as campaign files have it, of the `parameters` alone.
    parameters
        Names of the parameters it uses.
    columns
        Their columns of the points.
    """

    name: str
    text: str
    parameters: tuple[str, ...]
    columns: tuple[int, ...]

    @classmethod
    def of(cls, name: str, text: str, parameters: Sequence[str]) -> DerivedValue:
        """Read an expression of some of the `parameters`, which are named in the order of the points' columns.

        Raises
        ------
        ExpressionError
            If it is none.
        """
        used = tuple(p for p in parameters if p in compile_expression(text, parameters, "number").names)
        return cls(name, text, used, tuple(parameters.index(p) for p in used))

    @cached_property
    def main(self) -> int:
        """The column that it grows most with."""
        return max(self.columns, key=self.lead)

    def evaluate(self, points: Array) -> Array:
        """Return the values at `points` (..., parameter), without the last axis.

        Between whole numbers, where there may be none, it is that of the nearest ones; NaN where that has none either.
        """
        at = np.asarray(points, dtype=np.float64)[..., list(self.columns)]
        values = [_value(self.text, self.parameters, tuple(row)) for row in at.reshape(-1, len(self.columns)).tolist()]
        return np.array(values, dtype=np.float64).reshape(at.shape[:-1])

    def lead(self, column: int) -> Lead:
        """Growth with one parameter as long as no rounding ends it: the power of it, and no logarithm."""
        return (_power(self, column), 0) if column in self.columns else NO_GROWTH

    def moved(self, columns: Sequence[int]) -> DerivedValue:
        """Return it for points whose parameters stand in other `columns`, given by today's."""
        return replace(self, columns=tuple(columns[column] for column in self.columns))

    def written(self, style: Style) -> str:
        """Write it as a factor that needs no parentheses; in Python as it is computed."""
        if style == "python":
            return f"({self.text})"
        return self.name if self.name.isidentifier() or self.name.endswith(")") else f"({self.name})"

    def to_json(self) -> dict[str, Any]:
        """Return plain texts and numbers."""
        return {
            "name": self.name,
            "text": self.text,
            "parameters": dict(zip(self.parameters, self.columns, strict=True)),
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> DerivedValue:
        """Read what `to_json` gives; KeyError, TypeError or ValueError where it is damaged."""
        parameters = {str(name): int(column) for name, column in data["parameters"].items()}
        try:
            _compiled(str(data["text"]), tuple(parameters))
        except ExpressionError as error:
            raise ValueError(str(error)) from None
        return cls(str(data["name"]), str(data["text"]), tuple(parameters), tuple(parameters.values()))


def neighbours(
    edges: Sequence[DerivedValue], sides: Sequence[Sequence[Fraction]]
) -> dict[DerivedValue, list[Fraction]]:
    """Return how many neighbours a rank of a grid has on one side, on average over the ranks, with the exact values.

    Along an edge of x ranks a share of 1 - 1 / x has one. Neighbours across faces are the sum of these shares, those
    across edges and corners the sums of their products. Last come all neighbours of a rank, on all sides.

    Parameters
    ----------
    edges
        Edges of the grid, derived from the same parameter.
    sides
        Their values, shape (edge, value of the parameter), at least 1.
    """
    shares = [[1 - 1 / side for side in row] for row in zip(*sides, strict=True)]
    texts = [f"(1 - 1 / ({edge.text}))" for edge in edges]
    names = ", ".join(edge.name for edge in edges)
    out = {}
    for degree, kind in enumerate(("faces", "edges", "corners")[: len(edges)], start=1):
        some = list(combinations(range(len(edges)), degree))
        text = " + ".join(" * ".join(texts[i] for i in indices) for indices in some)
        variable = replace(edges[0], name=f"{kind}({names})", text=text)
        out[variable] = [sum((prod(row[i] for i in indices) for indices in some), Fraction(0)) for row in shares]
    if len(edges) > 1:
        text = " * ".join(f"(1 + 2 * {share})" for share in texts) + " - 1"
        variable = replace(edges[0], name=f"neighbours({names})", text=text)
        out[variable] = [prod((1 + 2 * share for share in row), start=Fraction(1)) - 1 for row in shares]
    return out


def variables_of(derived: Mapping[str, str], names: Sequence[str], points: Array) -> list[list[DerivedValue]]:
    """Return groups of variables that terms may have together.

    The first one is what is derived. The others are the blocks of a whole parameter that is divided by another one
    (rounded down, up, and what remains) or by all derived grid edges (rounded down; rounded up).

    Parameters
    ----------
    derived
        Values that the program derives from its parameters, such as those of a campaign file: expressions by name.
    names
        Names of the parameters, in the order of the columns of `points` (point, parameter).
    """
    given = [value for name, text in derived.items() if (value := DerivedValue.of(name, text, names)).parameters]
    whole = [p for p, column in enumerate(points.T) if (column == np.rint(column)).all() and (column >= 1).all()]
    out = [given]
    for p in whole:
        name, column = names[p], points[:, p]
        others = [q for q in whole if q != p and (column > points[:, q]).any() and (column % points[:, q]).any()]
        edges = [v for v in given if len(v.columns) == 1 and p not in v.columns and (v.evaluate(points) >= 1).all()]
        groups = [(f"{name} // {names[q]}", f"ceil({name} / {names[q]})", f"{name} % {names[q]}") for q in others]
        out += [[DerivedValue.of(text, text, names) for text in texts] for texts in groups]
        if any((column % v.evaluate(points)).any() for v in edges):
            for form in ("{} // {}", "ceil({} / {})"):
                texts = [(form.format(name, v.name), form.format(name, f"({v.text})")) for v in edges]
                out.append([DerivedValue.of(*pair, names) for pair in texts])
    return out


@lru_cache(maxsize=256)
def _compiled(text: str, parameters: tuple[str, ...]) -> Expression:
    return compile_expression(text, parameters, "number")


@lru_cache(maxsize=1 << 16)
def _value(text: str, parameters: tuple[str, ...], numbers: tuple[float, ...]) -> float:
    expression = _compiled(text, parameters)
    for some in (numbers, tuple(map(round, numbers))):
        try:
            return float(expression({name: canonical(x) for name, x in zip(parameters, some, strict=True)}))
        except ExpressionError:
            continue
    return float("nan")


@lru_cache(maxsize=256)
def _power(variable: DerivedValue, column: int) -> Fraction:
    powers = [Fraction(0)]
    for others in (float(_LOW), float(_FAR)):
        points = np.full((2, max(variable.columns) + 1), others)
        points[:, column] = _LOW * _STEP, _LOW * _STEP**2
        low, high = variable.evaluate(points).tolist()
        if low > 0 and high > 0:
            powers.append(Fraction(float(np.log(high / low) / np.log(_STEP))).limit_denominator(_ROOT))
    return max(powers, key=abs)
