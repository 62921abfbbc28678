"""Factors, terms and model functions of the performance model normal form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, total_ordering
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.files import JsonObject
from buran.modeling.functions.derived import DerivedValue
from buran.modeling.functions.powers import NO_GROWTH, BasisFunction, Lead, PowerLog, Style, read_basis

Array = NDArray[np.float64]


@total_ordering
@dataclass(frozen=True)
class Factor:
    """A function of one parameter, or of a value that is derived from parameters.

    Attributes
    ----------
    parameter
        Column of the points; of a derived value, that of the parameter that it grows most with.
    basis
        The function.
    variable
        The derived value; None for the parameter itself.
    """

    parameter: int
    basis: BasisFunction
    variable: DerivedValue | None = None

    def evaluate(self, points: Array) -> Array:
        """Return the factor's values at `points` (..., parameter), without the last axis."""
        x = points[..., self.parameter] if self.variable is None else self.variable.evaluate(points)
        return self.basis.evaluate(x)

    def __lt__(self, other: Factor) -> bool:
        return self._order < other._order

    @property
    def _order(self) -> tuple[int, tuple[Lead, str, str], str]:
        return self.parameter, self.basis.order, "" if self.variable is None else self.variable.text

    @property
    def columns(self) -> tuple[int, ...]:
        """The parameters that it depends on."""
        return (self.parameter,) if self.variable is None else self.variable.columns

    def lead(self, parameter: int) -> Lead:
        """Growth with one parameter; (0, 0) where it does not depend on it."""
        if self.variable is None:
            return self.basis.lead if parameter == self.parameter else NO_GROWTH
        power, log = self.basis.lead
        own_power, own_log = self.variable.lead(parameter)
        return power * own_power, log * (parameter == self.parameter) + int(power) * own_log

    def moved(self, columns: Sequence[int]) -> Factor:
        """Return it for points whose parameters stand in other `columns`, given by today's."""
        variable = None if self.variable is None else self.variable.moved(columns)
        return replace(self, parameter=columns[self.parameter], variable=variable)

    def written(self, names: Sequence[str], style: Style) -> str:
        """Write it with the names of the parameters."""
        name = names[self.parameter] if self.variable is None else self.variable.written(style)
        return self.basis.written(name, style)

    def to_json(self) -> dict[str, Any]:
        """Return plain texts and numbers; powers need not name their family."""
        family = {} if self.basis.family == "powers" else {"family": self.basis.family}
        variable = {} if self.variable is None else {"variable": self.variable.to_json()}
        return {"parameter": self.parameter, **family, **variable, **self.basis.to_json()}

    @classmethod
    def from_json(cls, data: JsonObject) -> Factor:
        """Read what `to_json` gives; raises as `ModelFunction.from_json` does."""
        given = data.get("variable")
        variable = None if given is None else (Cases if "cases" in given else DerivedValue).from_json(given)
        return cls(int(data["parameter"]), read_basis(data), variable)


@dataclass(frozen=True, order=True)
class Term:
    """Product of factors, sorted by parameter; at least one. Those of one variable are of different families."""

    factors: tuple[Factor, ...]

    def evaluate(self, points: Array) -> Array:
        """Return the product of the factors' values at `points` (..., parameter)."""
        out = self.factors[0].evaluate(points)
        for factor in self.factors[1:]:
            out = out * factor.evaluate(points)
        return out

    @cached_property
    def growth_order(self) -> tuple[float, int, tuple[Factor, ...]]:
        """Key that sorts terms by their total degree, then by logs, then by parameter."""
        leads = [factor.lead(column) for factor in self.factors for column in factor.columns]
        return float(sum(power for power, _ in leads)), sum(log for _, log in leads), self.factors

    @property
    def lasting(self) -> Term | None:
        """The term without the values from which on it holds; None if nothing else is in it."""
        factors = tuple(factor for factor in self.factors if not factor.basis.begins)
        return Term(factors) if factors else None

    def moved(self, columns: Sequence[int]) -> Term:
        """Return it for points whose parameters stand in other `columns`, given by today's."""
        return Term(tuple(sorted((f.moved(columns) for f in self.factors), key=lambda factor: factor.parameter)))

    def lead(self, parameter: int) -> Lead:
        """Growth with one parameter; (0, 0) where the term does not depend on it."""
        power, log = NO_GROWTH
        for factor in self.factors:
            factor_power, factor_log = factor.lead(parameter)
            power, log = power + factor_power, log + factor_log
        return power, log


@dataclass(frozen=True)
class ModelFunction:
    """``constant + sum_k coefficients[k] * terms[k]``, the normal form of Eq. 1 in both papers on it.

    Attributes
    ----------
    constant
        The term without parameters.
    coefficients
        One for each term.
    terms
        Fastest growing first.
    """

    constant: float
    coefficients: tuple[float, ...] = ()
    terms: tuple[Term, ...] = ()

    def __post_init__(self) -> None:
        if len(self.coefficients) != len(self.terms):
            raise ValueError(f"{len(self.coefficients)} coefficients for {len(self.terms)} terms")

    def evaluate(self, points: Array | Sequence[float]) -> Array:
        """Return the values at `points` of shape (..., parameter), without the last axis."""
        at = np.asarray(points, dtype=np.float64)
        out = np.full(at.shape[:-1], self.constant)
        for coefficient, term in zip(self.coefficients, self.terms, strict=True):
            out = out + coefficient * term.evaluate(at)
        return out

    def lead(self, parameter: int) -> Lead:
        """Exponents of the part that grows fastest with one parameter, the others fixed.

        A function whose only terms fall with the parameter (negative exponents)
        and which has no other part leads with the slowest fall; with a constant part, (0, 0) leads.
        """
        leads = [term.lead(parameter) for term in self.terms]
        if self.constant or not leads:
            leads.append(NO_GROWTH)
        return max(leads)

    def moved(self, columns: Sequence[int]) -> ModelFunction:
        """Return it for points whose parameters stand in other `columns`, given by today's."""
        return replace(self, terms=tuple(term.moved(columns) for term in self.terms))

    @property
    def is_zero(self) -> bool:
        """Whether it is 0 everywhere."""
        return not self.constant and not self.terms

    @property
    def is_constant(self) -> bool:
        """Whether no parameter matters."""
        return not self.terms

    def dominating_terms(self) -> tuple[Term, ...]:
        """Terms that no other term outgrows in every parameter: the growth class."""
        return tuple(
            term for term in self.terms if not any(other is not term and _outgrows(other, term) for other in self.terms)
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain lists, texts and numbers."""
        return {
            "constant": self.constant,
            "terms": [
                {"coefficient": coefficient, "factors": [factor.to_json() for factor in term.factors]}
                for coefficient, term in zip(self.coefficients, self.terms, strict=True)
            ],
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> ModelFunction:
        """Read what `to_json` gives.

        Raises
        ------
        KeyError, TypeError, ValueError
            Where a key is missing or a value is not what it should be.
        FormatError
            If a term is of a family that is not installed.
        """
        terms = tuple(Term(tuple(map(Factor.from_json, term["factors"]))) for term in data["terms"])
        if any(not term.factors for term in terms):
            raise ValueError("a term without factors")
        return cls(float(data["constant"]), tuple(float(t["coefficient"]) for t in data["terms"]), terms)


_LIMITS = ("size_below", "ratio_below")


@dataclass(frozen=True)
class Cases(DerivedValue):
    """A value that is another function of the parameters in each range of a size and of a ratio.

    Attributes
    ----------
    by
        The size, and numerator and denominator of the ratio, which is 0 where this one is.
    cases
        Each with what size and ratio are below, and its function. The first that fits counts; the last has no ends.
    """

    by: tuple[ModelFunction, ModelFunction, ModelFunction]
    cases: tuple[tuple[float, float, ModelFunction], ...]

    def __hash__(self) -> int:
        return hash((self.text, self.columns))  # that of all functions takes long

    def evaluate(self, points: Array) -> Array:
        """Return the values at `points` (..., parameter), without the last axis."""
        size, above, below = (function.evaluate(points) for function in self.by)
        ratio = np.where(below > 0, above / np.where(below > 0, below, 1.0), 0.0)
        inside = [(size < end) & (ratio < other_end) for end, other_end, _ in self.cases]
        return np.select(inside, [function.evaluate(points) for _, _, function in self.cases], np.nan)

    def lead(self, column: int) -> Lead:
        """Growth with one parameter in the last case."""
        return self.cases[-1][2].lead(column)

    def moved(self, columns: Sequence[int]) -> Cases:
        """Return it for points whose parameters stand in other `columns`, given by today's."""
        by = self.by[0].moved(columns), self.by[1].moved(columns), self.by[2].moved(columns)
        cases = tuple((end, other, function.moved(columns)) for end, other, function in self.cases)
        return replace(self, columns=tuple(columns[column] for column in self.columns), by=by, cases=cases)

    def to_json(self) -> dict[str, Any]:
        """Return plain texts and numbers; ends that are none are left out."""
        cases = [
            {**{key: end for key, end in zip(_LIMITS, bounds, strict=True) if end < np.inf}, **function.to_json()}
            for *bounds, function in self.cases
        ]
        return {**super().to_json(), "by": [function.to_json() for function in self.by], "cases": cases}

    @classmethod
    def from_json(cls, data: JsonObject) -> Cases:
        """Read what `to_json` gives; KeyError, TypeError or ValueError where it is damaged."""
        size, above, below = map(ModelFunction.from_json, data["by"])
        cases = tuple(
            (float(case.get(_LIMITS[0], np.inf)), float(case.get(_LIMITS[1], np.inf)), ModelFunction.from_json(case))
            for case in data["cases"]
        )
        if not cases or cases[-1][:2] != (np.inf, np.inf):
            raise ValueError("the last case has ends")
        parameters = {str(name): int(column) for name, column in data["parameters"].items()}
        columns = tuple(parameters.values())
        return cls(str(data["name"]), str(data["text"]), tuple(parameters), columns, (size, above, below), cases)


def _outgrows(one: Term, other: Term) -> bool:
    """Whether `one` grows at least as fast in every parameter and faster in one."""
    parameters = {column for term in (one, other) for factor in term.factors for column in factor.columns}
    pairs = [(one.lead(p), other.lead(p)) for p in parameters]
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def predict(functions: Sequence[ModelFunction | None], points: Array) -> Array:
    """Evaluate many functions at `points` (point, parameter): shape (function, point), NaN for None.

    Each distinct term is evaluated once.
    """
    at = np.atleast_2d(np.asarray(points, dtype=np.float64))
    out = np.array([np.nan if f is None else f.constant for f in functions])[:, None] * np.ones(len(at))
    number: dict[Term, int] = {}
    entries = [
        (row, number.setdefault(term, len(number)), coefficient)
        for row, function in enumerate(functions)
        if function is not None
        for coefficient, term in zip(function.coefficients, function.terms, strict=True)
    ]
    if entries:
        rows, columns, coefficients = (np.array(part) for part in zip(*entries, strict=True))
        values = np.stack([term.evaluate(at) for term in number])
        np.add.at(out, rows, coefficients[:, None] * values[columns])
    return out


Part = tuple[float, Term | None]
"""A coefficient and its term; None for 1."""


def summed(parts: Iterable[Part]) -> ModelFunction:
    """Add parts, the fastest growing first; terms that cancel each other vanish."""
    sizes: dict[Term | None, float] = {None: 0.0}
    for coefficient, term in parts:
        sizes[term] = sizes.get(term, 0.0) + coefficient
    kept = [term for term, value in sizes.items() if value and term is not None]
    kept.sort(key=lambda term: term.growth_order, reverse=True)
    return ModelFunction(sizes[None], tuple(sizes[term] for term in kept), tuple(kept))


def parts_of(function: ModelFunction) -> Sequence[Part]:
    """Return the constant and the terms of a function."""
    return [(function.constant, None), *zip(function.coefficients, function.terms, strict=True)]


def added(functions: Iterable[ModelFunction]) -> ModelFunction:
    """Add functions; terms that cancel each other vanish."""
    return summed(part for function in functions for part in parts_of(function))


def scaled(function: ModelFunction, by: float) -> ModelFunction:
    """Multiply a function by a number."""
    if not by:
        return ModelFunction(0.0)
    return ModelFunction(by * function.constant, tuple(by * c for c in function.coefficients), function.terms)


def multiplied(one: ModelFunction, other: ModelFunction) -> ModelFunction:
    """Multiply two functions term by term."""
    return summed((a * b, product(left, right)) for a, left in parts_of(one) for b, right in parts_of(other))


def single(function: ModelFunction) -> Part | None:
    """Return the part of a function that has one alone; None for any other."""
    parts = [part for part in parts_of(function) if part[0]] or [(0.0, None)]
    return parts[0] if len(parts) == 1 else None


def product(*terms: Term | None) -> Term | None:
    """Multiply terms; None for 1."""
    by_variable: dict[tuple[int, DerivedValue | None], list[BasisFunction]] = {}
    for factor in (factor for term in terms if term is not None for factor in term.factors):
        bases = by_variable.setdefault((factor.parameter, factor.variable), [])
        products = [(index, basis.times(factor.basis)) for index, basis in enumerate(bases)]
        index, joint = next(
            ((index, joint) for index, joint in products if joint is not None), (len(bases), factor.basis)
        )
        bases[index : index + 1] = [joint]
    factors = sorted(
        Factor(p, basis, v) for (p, v), bases in by_variable.items() for basis in bases if basis.power != 0
    )
    return Term(tuple(factors)) if factors else None


def power(parameter: int, exponent: Fraction | int, log: int = 0) -> ModelFunction:
    """Return ``x^exponent * log2(x)^log``."""
    return ModelFunction(0.0, (1.0,), (Term((Factor(parameter, PowerLog(Fraction(exponent), log)),)),))
