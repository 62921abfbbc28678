"""Formulas that exact counts follow nearly, at every point.

A count that is rounded, or that depends a little on data, has no formula without a rest. But counts have no noise: a
sum of few products of powers that misses none of many points by more than a hundredth is no chance, even if its terms
cancel each other or fall with a parameter, as boundaries of a divided grid do: ``3 n^2/p^2 - 2 n^2/p^3``. A search for
noisy values has reason to mistrust such sums, and takes a product of odd exponents instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product

import numpy as np

from buran.modeling.exact.formulas import Formula, model_of_formulas
from buran.modeling.functions.powers import BasisFunction, PowerLog
from buran.modeling.functions.terms import Array, Factor, Term, summed
from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.least_squares import Ids, least_norm, orthogonal_part, span, unit_columns
from buran.modeling.numerics.tuning import FEW, MARGIN_BITS, MATTERS
from buran.modeling.pmnf.alternative import Alternative, cancels_through
from buran.modeling.pmnf.model import Model, Quality, adjusted_r2, rss, smape
from buran.modeling.pmnf.repetitions import relative_weights
from buran.modeling.pmnf.search import SearchOptions

_RISING = tuple(
    PowerLog(Fraction(power), log)
    for power, log in (
        ("0", 1), ("1/3", 0), ("1/2", 0), ("2/3", 0), ("1", 0), ("1", 1), ("4/3", 0), ("3/2", 0), ("2", 0), ("2", 1),
        ("3", 0), ("4", 0),
    )
)  # fmt: skip
_FALLING = tuple(PowerLog(-basis.exponent) for basis in _RISING if not basis.log_exponent and basis.exponent <= 3)
_DEPENDENT = 1e-6  # length of a column of length 1 that must remain next to others


def near_models(points: Array, values: Array, bases: Sequence[Sequence[BasisFunction]]) -> list[Model | None]:
    """Find formulas that miss no count by more than `MATTERS`.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    values
        Shape (call path, point), finite; without noise.
    bases
        Bases of each parameter: of these, the plain ones are combined.

    Returns
    -------
    list
        One for each call path; None where no sum of few terms comes so near, or where too few points would tell. The
        alternatives are other sums of as many terms.
    """
    terms = _terms(points, bases)
    columns = np.array([np.ones(len(points)) if term is None else term.evaluate(points) for term in terms])
    return [_near_model(points, row, terms, columns) for row in values]


def without_rounding(points: Array, values: Array, model: Model, bases: Sequence[Sequence[BasisFunction]]) -> Model:
    """Return a model of counts without terms that say nothing but how these are rounded.

    Whole numbers leave a rest of a few units, which two terms of a parameter follow by chance closer than the one that
    the program has. As long as one term in the place of two leaves no more than that, it takes it.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    values
        Shape (point,), finite; without noise.
    bases
        Bases of each parameter: the functions that terms may have.
    """
    weights = relative_weights(values[None])[0]
    most = min(_unit_of(values), MATTERS / float(weights.max()))
    terms = list(model.function.terms)
    while found := _with_one_for_two(points, values, terms, bases, most):
        terms = found
    if len(terms) == len(model.function.terms):
        return model
    columns = np.stack([np.ones(len(points)), *(term.evaluate(points) for term in terms)], axis=1)
    function = summed(zip(least_norm(columns, values).tolist(), [None, *terms], strict=True))
    made = model_of_formulas(points, values, [(function, 0.0)])
    return model if made is None else _judged(made, points, values, weights)


def _with_one_for_two(
    points: Array, values: Array, terms: Sequence[Term], bases: Sequence[Sequence[BasisFunction]], most: float
) -> list[Term] | None:
    """Return the terms without one of them, or with one in the place of two that differ in a parameter alone.

    Of all those, the set that leaves least at the worst point; None where that is more than `most`.
    """
    best, least = None, most
    for (i, one), (j, two) in combinations(enumerate(terms), 2):
        others = [term for k, term in enumerate(terms) if k not in (i, j)]
        candidates = [one, two]
        for p, functions in enumerate(bases):
            rest, other = ([factor for factor in term.factors if factor.parameter != p] for term in (one, two))
            if rest == other:
                candidates += [Term(tuple(sorted((*rest, Factor(p, basis))))) for basis in functions]
        # r = b - Q'Q b, c' = c - Q'Q c; what c' leaves of r at the worst point
        basis = span(np.stack([np.ones(len(points)), *(term.evaluate(points) for term in others)], axis=1))
        rows = orthogonal_part(np.array([term.evaluate(points) for term in candidates]).T, basis).T
        left = orthogonal_part(values[:, None], basis)[:, 0]
        squares = np.maximum((rows**2).sum(axis=1), np.finfo(float).tiny)
        worst = np.abs(left - ((rows @ left) / squares)[:, None] * rows).max(axis=1)
        if worst.min() <= least:
            best, least = [*others, candidates[int(worst.argmin())]], float(worst.min())
    return best


def _unit_of(values: Array) -> float:
    """Return the largest number that divides all differences of counts, as two basic blocks for each round do."""
    whole = np.rint(values)
    if (values != whole).any() or np.abs(whole).max() >= 2.0**53:
        return 1.0
    return float(max(np.gcd.reduce(np.abs(whole - whole[0]).astype(np.int64)), 1))


def _terms(points: Array, bases: Sequence[Sequence[BasisFunction]]) -> list[Term | None]:
    """List products of functions of up to two parameters, the constant first, which is None."""
    shapes: list[list[tuple[Factor, ...]]] = []
    for p, (column, own) in enumerate(zip(points.T, bases, strict=True)):
        plain = [basis for basis in (*_RISING, *_FALLING) if basis in own]
        shapes.append([(), *((Factor(p, basis),) for basis in plain if basis.is_defined(float(column.min())))])
    products = (tuple(factor for shape in some for factor in shape) for some in product(*shapes))
    return [Term(factors) if factors else None for factors in products if len(factors) <= 2]


def _near_model(points: Array, values: Array, terms: Sequence[Term | None], columns: Array) -> Model | None:
    count = len(values)
    if not values.any():
        return None
    weights = relative_weights(values[None])[0]
    target = values * weights
    unit, length = unit_columns((columns * weights).T)
    scaled = unit.T
    # each set: orthonormal basis Q (set, term, point), rest r = b - Q'Q b (set, point)
    members, basis, rest = np.zeros((1, 0), np.int64), np.zeros((1, 0, count)), target[None]
    for number in range(1, min(SearchOptions.max_terms, count - FEW) + 1):
        members, basis, rest = _extended(members, basis, rest, scaled)
        formulas: list[Formula] = []
        for chosen in members[np.abs(rest).max(axis=1) <= MATTERS].tolist():
            coefficients = least_norm(unit[:, chosen], target)
            # a chance sum meets each point that it was not fitted to with the probability of its misfit
            worst = float(np.abs(target - coefficients @ scaled[chosen]).max())
            bits = (count - number) * -np.log2(max(worst, ROUNDING)) - number * np.log2(len(terms))
            function = summed(zip((coefficients / length[chosen]).tolist(), [terms[k] for k in chosen], strict=True))
            if worst <= MATTERS and bits >= MARGIN_BITS and not cancels_through(function, points):
                formulas.append((function, float(bits)))
        formulas.sort(key=lambda formula: -formula[1])
        model = model_of_formulas(points, values, formulas)
        if model is not None:
            return _judged(model, points, values, weights)
    return None


def _extended(members: Ids, basis: Array, rest: Array, columns: Array) -> tuple[Ids, Array, Array]:
    """Add each column to each set; return the `SearchOptions.alternatives` sets that leave least."""
    # c' = c - Q'Q c for each set and column
    rows = columns[None] - np.einsum("stp,sct->scp", basis, np.einsum("stp,cp->sct", basis, columns))
    length = np.linalg.norm(rows, axis=2)
    rows /= np.where(length > _DEPENDENT, length, 1.0)[..., None]
    # |r'|^2 = |r|^2 - (c' r)^2
    gain = np.einsum("scp,sp->sc", rows, rest)
    left = np.where(length > _DEPENDENT, (rest**2).sum(axis=1)[:, None] - gain**2, np.inf)
    most = (members.shape[1] + 1) * SearchOptions.alternatives  # sets turn up repeatedly
    order = np.argsort(left, axis=None, kind="stable")[:most]
    order = order[np.isfinite(left.ravel()[order])]
    parent, column = np.divmod(order, len(columns))
    grown = np.sort(np.column_stack([members[parent], column]), axis=1)
    first = np.sort(np.unique(grown, axis=0, return_index=True)[1])[: SearchOptions.alternatives]
    parent, column = parent[first], column[first]
    added = rows[parent, column]
    rest = rest[parent] - gain[parent, column][:, None] * added
    return grown[first], np.concatenate([basis[parent], added[:, None]], axis=1), rest


def _judged(model: Model, points: Array, values: Array, weights: Array) -> Model:
    """Return the model with what it misses the counts by, and how uncertain its coefficients are for that."""
    alternatives: list[Alternative] = []
    for alternative in model.alternatives:
        function = alternative.function
        design = np.column_stack([np.ones(len(points)), *(term.evaluate(points) for term in function.terms)])
        design[:, 0] *= bool(function.constant)
        degrees = max(len(points) - int((design != 0).any(axis=0).sum()), 1)
        # cov(c) = s^2 (X' W X)^-1
        rest = (values - function.evaluate(points)) * weights
        noise = float(np.sqrt((rest**2).sum() / degrees))
        covariance = noise**2 * np.linalg.pinv((design * weights[:, None]).T @ (design * weights[:, None]))
        alternatives.append(
            replace(alternative, covariance=tuple(map(tuple, covariance.tolist())), noise=noise, degrees=degrees)
        )
    seen, predicted = values[None], model.function.evaluate(points)[None]
    size = np.array([1 + len(model.function.terms)])
    figures = smape(predicted, seen), adjusted_r2(predicted, seen, size), rss(predicted, seen)
    missed, explained, squares = (float(figure[0]) for figure in figures)
    error = float(np.abs((seen - predicted) * weights).mean())
    quality = Quality(len(points), missed, missed, error, explained, squares)
    return replace(model, quality=quality, alternatives=tuple(alternatives))
