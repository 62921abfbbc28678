"""Growth that few values of a parameter leave open: other functions that go through the same values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product

import numpy as np

from buran.model.alternative import Alternative, divided
from buran.model.powers import PowerLog
from buran.model.terms import Array, Factor, ModelFunction, Term
from buran.model.tuning import FEW_VALUES, SEARCH
from buran.numerics.intervals import ROUNDING
from buran.numerics.tuning import COMMON

_PLAIN = [(Fraction(0), 1), (Fraction(1, 2), 0), (Fraction(1), 0), (Fraction(1), 1), (Fraction(2), 0), (Fraction(3), 0)]
_FALLING = [(Fraction(-1, 2), 0), (Fraction(-1), 0), (Fraction(-2), 0)]
_STEPS = 50  # to see whether a function falls anywhere


def with_other_growth(
    alternatives: Sequence[Alternative], points: Array, known: Collection[int] = ()
) -> tuple[Alternative, ...]:
    """Put next to each hypothesis others that have its values wherever a parameter has one of its few values.

    Along a parameter with two values or more, but no more than `COMMON.few`, a constant and as many plain terms as
    are needed go through whatever a hypothesis says there. Those whose terms all rise, by up to a power more than the
    hypothesis, and those that rise to a bound, as neighbours of a rank do, share half of its weight: nothing measured
    distinguishes them.

    Parameters
    ----------
    points
        Shape (point, parameter).
    known
        Parameters along which the growth is known.
    """
    levels = {p: np.unique(column) for p, column in enumerate(points.T) if p not in known}
    few = {p: values for p, values in levels.items() if 2 <= len(values) <= COMMON.few and values[0] >= 1}
    if not few or not alternatives:
        return tuple(alternatives)
    ends = [sorted({column.min(), column.max(), SEARCH.reach * column.max()}) for column in points.T]
    far = np.array(list(product(*ends)))
    most = max(alternative.weight for alternative in alternatives)
    first: list[tuple[float, float]] = []  # of each hypothesis its weight, and its prediction at the farthest place
    beside: list[tuple[float, float]] = []
    made: list[_Other] = []
    for alternative in alternatives:
        at_far = alternative.function.evaluate(far)
        others: list[_Other] = []
        if alternative.weight >= COMMON.matters * most:
            others = [other for p, values in few.items() for other in _through(alternative, p, values, far, at_far)]
        share = alternative.weight / 2 / max(len(others), 1)  # two equal parts
        first.append((alternative.weight - share * len(others), float(at_far[-1])))
        beside += [(share, float(other.at_far[-1])) for other in others]
        made += others
    weights, predicted = np.array(first + beside).T
    rows, of_parts = divided(weights, predicted)
    chosen = (alternatives[row] if row < len(first) else made[row - len(first)].made() for row in rows)
    return tuple(
        Alternative(one.function, weight, one.covariance, one.noise, one.degrees)
        for one, weight in zip(chosen, of_parts, strict=True)
    )


def cancels_through(function: ModelFunction, points: Array) -> bool:
    """Tell whether terms of a parameter with few values cancel each other to go through all of these.

    So many terms go through any values. What they say of other values, they say by chance.
    """
    for p, column in enumerate(points.T):
        values = len(np.unique(column))
        if not 2 <= values <= COMMON.few:
            continue
        sizes: dict[tuple[Factor, ...], list[float]] = {}
        apart: set[tuple[Factor, ...]] = {()} if function.constant else set()
        for coefficient, term in zip(function.coefficients, function.terms, strict=True):
            along, rest = _split(term, p)
            if along:
                sizes.setdefault(rest, []).append(coefficient)
            else:
                apart.add(rest)
        if any(len(some) + (rest in apart) >= values and min(some) < 0 < max(some) for rest, some in sizes.items()):
            return True
    return False


@dataclass(frozen=True, eq=False)
class _Other:
    """A hypothesis with other factors of a parameter, made only if it stands for a part of the mixture.

    Attributes
    ----------
    alternative
        What it agrees with at all values of the parameter.
    rests
        The factors of each term that do not depend on the parameter.
    factors, shares
        Those of each new function, none of the constant, and shape (term, new function): how much of each a term is.
    at_far
        Shape (place,): its predictions.
    """

    alternative: Alternative
    rests: Sequence[tuple[Factor, ...]]
    factors: Sequence[tuple[Factor, ...]]
    shares: Array
    at_far: Array

    def made(self) -> Alternative:
        """Write it out."""
        return _rewritten(self.alternative, self.rests, self.factors, self.shares)


def _through(alternative: Alternative, parameter: int, values: Array, far: Array, at_far: Array) -> list[_Other]:
    """Return hypotheses with other terms of a parameter that agree at all its values."""
    function = alternative.function
    parts = [_split(term, parameter) for term in function.terms]
    if not any(along for along, _ in parts) or any(term.lead(parameter) < (0, 0) for term in function.terms):
        return []
    if any(len(factor.columns) > 1 for along, _ in parts for factor in along):
        return []  # how these parameters act together is what the formula says
    power, log = max(term.lead(parameter) for term in function.terms)
    steepest = power + Fraction(log, 2) + FEW_VALUES.steeper
    shapes, rests = (tuple(some) for some in zip(*parts, strict=True))
    others = _shares(shapes, parameter, far.shape[1], tuple(values.tolist()), float(far[:, parameter].max()), steepest)
    if not others:
        return []
    positive, ones = bool((at_far >= 0).all()), np.ones(len(far))
    sizes = np.array(function.coefficients)[:, None] * [Term(rest).evaluate(far) if rest else ones for rest in rests]
    along = tuple(far[:, parameter].tolist())
    own = {(rest, factors) for rest, factors in zip(rests, shapes, strict=True)}
    out = []
    for some, shares in others:
        # c_0 + sum over terms of c_t rest_t(x) sum_k shares_tk f_k(x)
        there = function.constant + (sizes * (shares @ _columns(some, along))).sum(axis=0)
        factors = ((), *((Factor(parameter, basis),) for basis in some))
        if not (positive and (there < 0).any()) and _pairs(rests, factors, shares) != own:
            out.append(_Other(alternative, rests, factors, shares, there))
    return out


def _pairs(
    rests: Sequence[tuple[Factor, ...]], factors: Sequence[tuple[Factor, ...]], shares: Array
) -> set[tuple[tuple[Factor, ...], tuple[Factor, ...]]]:
    """Return the terms of a hypothesis with other functions of a parameter, without its constant."""
    found = {(rest, factors[k]) for rest, row in zip(rests, shares, strict=True) for k in np.flatnonzero(row).tolist()}
    return found - {((), ())}


@lru_cache(maxsize=4096)
def _shares(
    shapes: tuple[tuple[Factor, ...], ...],
    parameter: int,
    parameters: int,
    values: tuple[float, ...],
    end: float,
    steepest: Fraction,
) -> tuple[tuple[tuple[PowerLog, ...], Array], ...]:
    """Return other functions that go through the same values, with shape (shape, function): how much of each.

    Parameters
    ----------
    shapes
        The factors of each term that depend on the parameter.
    values, end
        Of the parameter: measured ones, and up to where no function may fall.
    """
    at = np.zeros((len(values), parameters))
    at[:, parameter] = values
    wanted = np.array([Term(along).evaluate(at) if along else np.ones(len(values)) for along in shapes])
    rising = combinations([PowerLog(*pair) for pair in _PLAIN if pair[0] <= steepest], len(values) - 1)
    bounded = combinations([PowerLog(*pair) for pair in _FALLING], len(values) - 1)
    reach = tuple(np.geomspace(values[0], end, _STEPS).tolist())
    rounding = ROUNDING * np.abs(wanted).max()
    out = []
    for some in (*rising, *bounded):
        shares = np.linalg.solve(_columns(some, values).T, wanted.T).T
        shares[np.abs(shares) < ROUNDING * np.abs(shares).max(axis=1, keepdims=True)] = 0.0
        if some[0].exponent < 0:
            falls = np.diff(shares @ _columns(some, reach)).min() < -rounding
        else:
            falls = (shares[:, 1:] < 0).any()
        if not falls:
            out.append((some, shares))
    return tuple(out)


@lru_cache(maxsize=1024)
def _columns(functions: tuple[PowerLog, ...], at: tuple[float, ...]) -> Array:
    """Return shape (function, value): a constant and the functions; call paths have the same ones."""
    values = np.array(at)
    return np.stack([np.ones(len(at)), *(function.evaluate(values) for function in functions)])


def _split(term: Term, parameter: int) -> tuple[tuple[Factor, ...], tuple[Factor, ...]]:
    """Return the factors that depend on a parameter, and the others."""
    along = tuple(factor for factor in term.factors if parameter in factor.columns)
    return along, tuple(factor for factor in term.factors if parameter not in factor.columns)


def _rewritten(
    alternative: Alternative, rests: Sequence[tuple[Factor, ...]], factors: Sequence[tuple[Factor, ...]], shares: Array
) -> Alternative:
    """Return the hypothesis with its terms' factors of a parameter replaced by sums of others.

    Parameters
    ----------
    rests
        The other factors of each term.
    factors
        Of the new functions.
    shares
        Shape (term, new function).
    """
    function = alternative.function
    rows: dict[tuple[Factor, ...], Array] = {(): np.eye(1, 1 + len(rests))[0]}  # of the old coefficients
    for place, (rest, row) in enumerate(zip(rests, shares, strict=True)):
        for new, share in zip(factors, row.tolist(), strict=True):
            if share:
                key = tuple(sorted((*rest, *new)))
                rows.setdefault(key, np.zeros(1 + len(rests)))[1 + place] += share
    terms = sorted((Term(key) for key in rows if key), key=lambda term: term.growth_order, reverse=True)
    matrix = np.array([rows[()], *(rows[term.factors] for term in terms)])
    coefficients = (matrix @ np.array([function.constant, *function.coefficients])).tolist()
    covariance = alternative.covariance
    if covariance:
        covariance = tuple(map(tuple, (matrix @ np.array(covariance) @ matrix.T).tolist()))
    new_function = ModelFunction(coefficients[0], tuple(coefficients[1:]), tuple(terms))
    return replace(alternative, function=new_function, covariance=covariance)
