"""Which parameters were varied together, and sums and products where no point shows their joint effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import combinations, product
from math import prod

import numpy as np

from buran.modeling.functions.terms import Array, Factor, ModelFunction, Term
from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.tuning import FLOOR, MATTERS, REACH
from buran.modeling.pmnf.alternative import Alternative
from buran.modeling.pmnf.candidates import is_dense
from buran.wording import shown_value

Pairs = tuple[tuple[int, int], ...]


def usual_values(points: Array) -> Array:
    """Return the value of each parameter that most points (point, parameter) have, the smallest of equals."""
    out = []
    for column in points.T:
        values, counts = np.unique(column, return_counts=True)
        out.append(values[np.argmax(counts)])
    return np.array(out)


def pairs_varied(points: Array) -> Pairs:
    """Return the pairs of parameters that were varied."""
    varied = np.flatnonzero((points != points[:1]).any(axis=0)).tolist()
    return tuple(combinations(varied, 2))


def pairs_apart(points: Array) -> Pairs:
    """Return those that never were both at once: no point differs in both.

    Whether their shares are added or multiplied, no value says.
    """
    differs = points != usual_values(points)
    return tuple((i, j) for i, j in pairs_varied(points) if not (differs[:, i] & differs[:, j]).any())


def pairs_tied(points: Array) -> Pairs:
    """Return the pairs of parameters that always change at once: each value of one has one of the other with it."""
    kinds = [len(np.unique(column)) for column in points.T]
    pairs = ((i, j) for i, j in combinations(range(len(kinds)), 2) if kinds[i] == kinds[j] > 1)
    return tuple((i, j) for i, j in pairs if len(np.unique(points[:, [i, j]], axis=0)) == kinds[i])


def undecided(points: Array, parameters: Sequence[str]) -> str | None:
    """Return what the points do not say and the runs that would, as text; None where they say everything."""
    if not len(points):
        return None
    notes = []
    if pairs := pairs_apart(points):
        acting = sorted({p for pair in pairs for p in pair})
        names = ", ".join(f"{parameters[i]} and {parameters[j]}" for i, j in pairs)
        decides = ", ".join(f"{parameters[p]} = {shown_value(points[:, p].max())}" for p in acting)
        notes.append(
            f"{names} were never varied together: whether what grows with them is added or multiplied is not known; "
            f"both count as equally likely, and intervals cover both. One run with {decides} decides it"
        )
    for i, j in pairs_tied(points):
        decides = f"{parameters[i]} = {shown_value(points[:, i].max())}, {parameters[j]} = "
        decides += shown_value(points[points[:, i].argmin(), j])
        notes.append(
            f"{parameters[i]} and {parameters[j]} always change together: which of them anything grows with is not "
            f"known, and predictions hold where they change as they did. One run with {decides} distinguishes them"
        )
    for name, column in zip(parameters, points.T, strict=True):
        if (column == column[0]).all():
            notes.append(
                f"{name} has one value, {shown_value(column[0])}: what another one would change is not known. One "
                f"run with another {name} says whether anything changes"
            )
    return ". ".join(notes) or None


Polynomial = dict[tuple[Factor, ...], Array]
"""Coefficient of each term, by its factors, followed by its derivatives with respect to the hypothesis's ones."""
Subset = tuple[int, ...]  # of the parameters

_TINY = 1e-70  # what is smaller has inverse powers that overflow, and is 0


def with_structures(
    alternatives: Sequence[Alternative], points: Array, values: Array, left_open: OpenStructure | None
) -> tuple[Alternative, ...]:
    """Put next to each hypothesis what it makes a sum of, and a product, where points hardly distinguish them.

    Where no point does, all three give the same values at the points, so that they share the weight of the hypothesis
    equally. Where some points do, a structure also counts by how much worse it gives the values there, in units of the
    noise. For hypotheses with little weight, none of this is done.

    Parameters
    ----------
    points, values
        Shapes (point, parameter) and (point,).
    left_open
        Of these points; None where all parameters were varied together often enough.
    """
    if left_open is None or not alternatives:
        return tuple(alternatives)
    most = max(alternative.weight for alternative in alternatives)
    out: list[Alternative] = []
    further: list[Alternative] = []
    for alternative in alternatives:
        others: list[Alternative] = []
        if alternative.weight >= MATTERS * most:
            others = _other_structures(alternative, points, values, left_open)
        out.append(replace(alternative, weight=alternative.weight - sum(other.weight for other in others)))
        further += others
    return (*out, *further)


@dataclass(frozen=True, eq=False)
class OpenStructure:
    """What points leave open.

    Attributes
    ----------
    base
        Shape (parameter,): the usual values.
    open
        Pairs of parameters that no point tells a sum or a product of; then, where less than half of the grid was
        measured, with those that others tell.
    far
        Shape (point, parameter): the ends of the range in which no prediction may be negative.
    """

    base: Array
    open: tuple[Pairs, ...]
    far: Array

    @classmethod
    def of(cls, points: Array) -> OpenStructure | None:
        """Return None where every pair was varied together, and at half of the grid."""
        apart, varied = pairs_apart(points), pairs_varied(points)
        hardly = () if is_dense(points) else varied
        if not (apart or hardly):
            return None
        bounds = [np.unique([column.min(), column.max(), REACH * column.max()]) for column in points.T]
        far = np.stack(np.meshgrid(*bounds, indexing="ij"), axis=-1).reshape(-1, len(bounds))
        return cls(usual_values(points), tuple(pairs for pairs in dict.fromkeys((apart, hardly)) if pairs), far)

    @classmethod
    def untold(cls, points: Array) -> OpenStructure | None:
        """Return what no point tells; None where every pair was varied together at one."""
        left_open = cls.of(points) if pairs_apart(points) else None
        return None if left_open is None else replace(left_open, open=left_open.open[:1])


def _other_structures(
    alternative: Alternative, points: Array, values: Array, left_open: OpenStructure
) -> list[Alternative]:
    """Return the other structures of a hypothesis with their weights."""
    function = alternative.function
    if any(len(factor.columns) > 1 for term in function.terms for factor in term.factors):
        return []  # how these parameters act together is what the formula says
    size = max(alternative.noise, ROUNDING) * np.maximum(np.abs(values), FLOOR * np.abs(values).max())
    size = np.where(size > 0, size, 1.0)
    positive = bool((function.evaluate(left_open.far) >= 0).all())
    least = (((function.evaluate(points) - values) / size) ** 2).sum()
    out: list[Alternative] = []
    others = [other for pairs in left_open.open for other in structures(alternative, left_open.base, pairs)]
    readings = 3 * len(left_open.open)  # of each a sum, a product, and what the hypothesis says itself
    for other in others:
        at_bounds = other.function.evaluate(left_open.far)
        if not np.isfinite(at_bounds).all() or (positive and not (at_bounds >= 0).all()):
            continue  # what cannot be negative is not, in any structure
        gap = (((other.function.evaluate(points) - values) / size) ** 2).sum() - least
        share = np.exp(-max(gap, 0.0) / 2) / readings
        if share > MATTERS:
            out.append(replace(other, weight=float(share * alternative.weight)))
    return out


def structures(alternative: Alternative, base: Array, pairs: Pairs) -> list[Alternative]:
    """Return the hypothesis with the parameters of `pairs` acting as a sum, and as a product, where that differs.

    The value of a function is a sum of effects, one for each set of parameters: what changes when all of them leave the
    `base`, beyond the effects of its subsets (an anchored analysis of variance). Effects of sets that hold one of the
    `pairs` show at no point. In a sum they are 0; in a product they are what the effects of the parts of a set
    multiply to, as shares of the value at the base, which a function that is 0 there does not have.
    """
    effects = _effects(alternative.function, base)
    middle = effects[()][()]
    used = sorted({p for subset in effects for p in subset})
    subsets = [subset for size in range(len(used) + 1) for subset in combinations(used, size)]
    shown = [subset for subset in subsets if not any(i in subset and j in subset for i, j in pairs)]
    candidates = [_added(effects.get(subset, {}) for subset in shown)]
    if middle[0] > _TINY:
        hidden = [
            [effects.get(part, {}) for part in _parts(subset, shown)] for subset in subsets if subset not in shown
        ]
        products = (reduce(_multiplied, parts, _power(middle, 1 - len(parts))) for parts in hidden)
        candidates.append(_added([candidates[0], *products]))
    out: list[Alternative] = []
    for polynomial in candidates:
        other = _alternative(alternative, polynomial)
        if not any(_same(other.function, one.function) for one in (alternative, *out)):
            out.append(other)
    return out


def _effects(function: ModelFunction, base: Array) -> dict[Subset, Polynomial]:
    """Return the effect of each set of parameters that has one; the empty set's is the value at the base."""
    size = 2 + len(function.terms)
    out: dict[Subset, Polynomial] = {(): {(): np.zeros(size)}}
    parts = zip(
        (function.constant, *function.coefficients), ((), *(term.factors for term in function.terms)), strict=True
    )
    for number, (coefficient, factors) in enumerate(parts):
        dual = np.zeros(size)
        dual[0], dual[1 + number] = coefficient, 1.0
        at_base = {p: prod(float(f.evaluate(base)) for f in factors if f.parameter == p) for p in _parameters(factors)}
        for subset, moved in _pairs_of_subsets(tuple(at_base)):
            sign = (-1) ** (len(subset) - len(moved))
            stays = prod(value for p, value in at_base.items() if p not in moved)
            key = tuple(factor for factor in factors if factor.parameter in moved)
            effect = out.setdefault(subset, {})
            effect[key] = effect.get(key, 0.0) + sign * stays * dual
    return out


def _parameters(factors: Sequence[Factor]) -> Subset:
    return tuple(dict.fromkeys(factor.parameter for factor in factors))


def _pairs_of_subsets(parameters: Subset) -> Iterable[tuple[Subset, Subset]]:
    """Yield each subset with each of its subsets."""
    for choice in product(range(3), repeat=len(parameters)):
        subset = tuple(p for p, part in zip(parameters, choice, strict=True) if part)
        yield subset, tuple(p for p, part in zip(parameters, choice, strict=True) if part == 2)


def _parts(subset: Subset, shown: Sequence[Subset]) -> list[Subset]:
    """Divide a set into sets that show at points, the largest first."""
    out: list[Subset] = []
    rest = set(subset)
    while rest:
        out.append(max((part for part in shown if rest.issuperset(part)), key=len))
        rest -= set(out[-1])
    return out


def _added(polynomials: Iterable[Polynomial]) -> Polynomial:
    out: Polynomial = {}
    for polynomial in polynomials:
        for factors, coefficient in polynomial.items():
            out[factors] = out[factors] + coefficient if factors in out else coefficient
    return out


def _multiplied(one: Polynomial, other: Polynomial) -> Polynomial:
    return _added(
        {tuple(sorted((*left, *right))): np.array([a[0] * b[0], *(a[0] * b[1:] + b[0] * a[1:])])}
        for left, a in one.items()
        for right, b in other.items()
    )


def _power(number: Array, power: int) -> Polynomial:
    """Return a number with its derivatives to a power."""
    return {(): np.array([number[0] ** power, *(power * number[0] ** (power - 1) * number[1:])])}


def _alternative(alternative: Alternative, polynomial: Polynomial) -> Alternative:
    """Return the hypothesis with another function, and the covariance of that one's coefficients."""
    size = np.abs([coefficient[0] for coefficient in polynomial.values()]).max(initial=0.0)
    constant = polynomial.get((), np.zeros(2 + len(alternative.function.terms)))
    terms = {Term(factors): polynomial[factors] for factors in polynomial if factors}
    kept = sorted((term for term, c in terms.items() if abs(c[0]) > ROUNDING**2 * size), key=lambda t: t.growth_order)
    rows = np.array([constant, *(terms[term] for term in reversed(kept))])
    function = ModelFunction(float(rows[0, 0]), tuple(rows[1:, 0].tolist()), tuple(reversed(kept)))
    covariance: tuple[tuple[float, ...], ...] = ()
    if alternative.covariance:
        covariance = tuple(map(tuple, (rows[:, 1:] @ np.array(alternative.covariance) @ rows[:, 1:].T).tolist()))
    return replace(alternative, function=function, covariance=covariance)


def _same(one: ModelFunction, other: ModelFunction) -> bool:
    """Tell whether two functions differ by rounding alone."""
    both = [{(): f.constant} | dict(zip(f.terms, f.coefficients, strict=True)) for f in (one, other)]
    size = max(abs(coefficient) for part in both for coefficient in part.values())
    return all(abs(both[0].get(key, 0.0) - both[1].get(key, 0.0)) <= ROUNDING * size for key in both[0] | both[1])
