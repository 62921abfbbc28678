"""Sums and products of model functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from buran.modeling.pmnf.derived import DerivedValue
from buran.modeling.pmnf.powers import BasisFunction, PowerLog
from buran.modeling.pmnf.terms import Factor, ModelFunction, Term

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
