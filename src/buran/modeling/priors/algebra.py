"""Sums and products of model functions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from buran.modeling.pmnf.derived import DerivedValue
from buran.modeling.pmnf.powers import BasisFunction, PowerLog
from buran.modeling.pmnf.terms import Factor, ModelFunction, Term


def added(functions: Iterable[ModelFunction]) -> ModelFunction:
    """Add functions; terms that cancel each other vanish."""
    constant = 0.0
    coefficients: dict[Term, float] = {}
    for function in functions:
        constant += function.constant
        for coefficient, term in zip(function.coefficients, function.terms, strict=True):
            coefficients[term] = coefficients.get(term, 0.0) + coefficient
    kept = [term for term, value in coefficients.items() if value]
    kept.sort(key=lambda term: term.growth_order, reverse=True)
    return ModelFunction(constant, tuple(coefficients[term] for term in kept), tuple(kept))


def scaled(function: ModelFunction, by: float) -> ModelFunction:
    """Multiply a function by a number."""
    if not by:
        return ModelFunction(0.0)
    return ModelFunction(by * function.constant, tuple(by * c for c in function.coefficients), function.terms)


def multiplied(one: ModelFunction, other: ModelFunction) -> ModelFunction:
    """Multiply two functions term by term."""
    parts = [scaled(other, one.constant), scaled(ModelFunction(0.0, one.coefficients, one.terms), other.constant)]
    for a, left in zip(one.coefficients, one.terms, strict=True):
        for b, right in zip(other.coefficients, other.terms, strict=True):
            term = product(left, right)
            parts.append(ModelFunction(a * b) if term is None else ModelFunction(0.0, (a * b,), (term,)))
    return added(parts)


def single(function: ModelFunction) -> tuple[float, Term | None] | None:
    """Return coefficient and term (None for 1) of a function with one part alone; None for any other."""
    if not function.terms:
        return function.constant, None
    if len(function.terms) == 1 and not function.constant:
        return function.coefficients[0], function.terms[0]
    return None


def reciprocal(term: Term) -> Term | None:
    """Return 1 / term; None where anything but plain powers would be divided by."""
    powers = [factor.basis.power for factor in term.factors]
    factors = [replace(f, basis=PowerLog(-p)) for f, p in zip(term.factors, powers, strict=True) if p is not None]
    return Term(tuple(factors)) if len(factors) == len(powers) else None


def product(one: Term, other: Term) -> Term | None:
    """Multiply two terms; None for 1."""
    by_variable: dict[tuple[int, DerivedValue | None], list[BasisFunction]] = {}
    for factor in (*one.factors, *other.factors):
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
