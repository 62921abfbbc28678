"""Growth that few values of a parameter leave open: other functions that go through the same values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations, product

import numpy as np

from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.tuning import FEW, MATTERS
from buran.modeling.pmnf.alternative import Alternative, divided
from buran.modeling.pmnf.candidates import Mask
from buran.modeling.pmnf.powers import NO_GROWTH, PowerLog
from buran.modeling.pmnf.terms import Array, Factor, ModelFunction, Term, predict
from buran.modeling.pmnf.tuning import REACH

# Powers by which other functions through the same values may be steeper. Tuned: judgement.
STEEPER = 1

_PLAIN = [PowerLog(Fraction(half, 2), log) for half, log in ((0, 1), (1, 0), (2, 0), (2, 1), (4, 0), (6, 0))]
_FALLING = [PowerLog(Fraction(half, 2)) for half in (-1, -2, -4)]
_STEPS = 50  # to see whether a function falls anywhere


def with_other_growth(
    groups: Sequence[Sequence[Alternative]], points: Array, known: Collection[int] = ()
) -> list[tuple[Alternative, ...]]:
    """Put next to each hypothesis others that have its values wherever a parameter has one of its few values.

    Along a parameter with two values or more, but no more than `FEW`, a constant and as many plain terms as
    are needed go through whatever a hypothesis says there. Those whose terms all rise, by up to a power more than the
    hypothesis, and those that rise to a bound, as neighbours of a rank do, share half of its weight: nothing measured
    distinguishes them.

    Parameters
    ----------
    groups
        The hypotheses of each call path.
    points
        Shape (point, parameter).
    known
        Parameters along which the growth is known.
    """
    levels = {p: np.unique(column) for p, column in enumerate(points.T) if p not in known}
    few = {p: tuple(values.tolist()) for p, values in levels.items() if 2 <= len(values) <= FEW and values[0] >= 1}
    if not few or not any(groups):
        return [tuple(group) for group in groups]
    bounds = [sorted({column.min(), column.max(), REACH * column.max()}) for column in points.T]
    far = np.array(list(product(*bounds)))
    at_far = iter(predict([alternative.function for group in groups for alternative in group], far))
    others_of = cache(lambda terms, p: _Others.of(terms, p, few[p], far))  # call paths have the same terms
    out: list[tuple[Alternative, ...]] = []
    for group in groups:
        most = max(alternative.weight for alternative in group)
        first: list[tuple[float, float]] = []  # of each hypothesis its weight, and its prediction at the farthest place
        further: list[tuple[float, float]] = []
        made: list[tuple[Alternative, _Others, int]] = []
        for alternative, there in zip(group, at_far, strict=False):  # the next group goes on with the iterator
            found: list[tuple[_Others, int, float]] = []
            for p in few if alternative.weight >= MATTERS * most else ():
                if others := others_of(alternative.function.terms, p):
                    found += [(others, *one) for one in others.predicted(alternative.function, there)]
            share = alternative.weight / 2 / max(len(found), 1)  # two equal parts
            first.append((alternative.weight - share * len(found), float(there[-1])))
            further += [(share, predicted) for *_, predicted in found]
            made += [(alternative, others, choice) for others, choice, _ in found]
        rows, of_parts = divided(*np.array(first + further).T)
        chosen = (group[row] if row < len(first) else _rewritten(*made[row - len(first)]) for row in rows)
        parts = (
            Alternative(one.function, weight, one.covariance, one.noise, one.degrees)
            for one, weight in zip(chosen, of_parts, strict=True)
        )
        out.append(tuple(parts))
    return out


def cancels_through(function: ModelFunction, points: Array) -> bool:
    """Tell whether terms of a parameter with few values cancel each other to go through all of these.

    So many terms go through any values. What they say of other values, they say by chance.
    """
    for p, column in enumerate(points.T):
        values = len(np.unique(column))
        if not 2 <= values <= FEW:
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
class _Others:
    """Terms that others replace which have their values at the few ones of a parameter, and rise.

    Attributes
    ----------
    rests
        The factors of each term that do not depend on the parameter.
    factors
        Those of the functions of each choice, none of the constant.
    shares
        Shape (choice, term, function): how much of each function the other factors of a term are.
    at_far
        Shape (choice, place, term): far out.
    """

    rests: Sequence[tuple[Factor, ...]]
    factors: Sequence[Sequence[tuple[Factor, ...]]]
    shares: Array
    at_far: Array

    @classmethod
    def of(cls, terms: Sequence[Term], parameter: int, values: tuple[float, ...], far: Array) -> _Others | None:
        """Return what replaces terms for a parameter with few `values`, at places (place, parameter), if anything."""
        parts = [_split(term, parameter) for term in terms]
        if not any(along for along, _ in parts):
            return None
        if any(len(factor.columns) > 1 for along, _ in parts for factor in along):
            return None  # how these parameters act together is what the formula says
        leads = [term.lead(parameter) for term in terms]
        if min(leads) < NO_GROWTH:
            return None
        power, log = max(leads)
        choices, steepest = _choices(len(values), parameter)
        x = tuple(far[:, parameter].tolist())
        some = [_shares(along, parameter, far.shape[1], values, max(x)) for along, _ in parts]
        shares, rises, same = (np.array(each) for each in zip(*some, strict=True))
        fits = (steepest <= power + log / 2 + STEEPER) & rises.all(axis=0) & ~same.all(axis=0)
        rests = [rest for _, rest in parts]
        # rest_t(x) sum_k shares_tk f_k(x)
        there = (shares[:, fits, None] @ _columns(len(values), x)[fits])[:, :, 0]
        there *= np.array([Term(rest).evaluate(far) if rest else np.ones(len(far)) for rest in rests])[:, None]
        factors = [choices[k] for k in np.flatnonzero(fits).tolist()]
        return cls(rests, factors, shares[:, fits].transpose(1, 0, 2), there.transpose(1, 2, 0))

    def predicted(self, function: ModelFunction, at_far: Array) -> list[tuple[int, float]]:
        """Return choices with their predictions at the last place, for a function that predicts `at_far`."""
        # c_0 + sum over terms of c_t rest_t(x) sum_k shares_tk f_k(x)
        there = function.constant + self.at_far @ function.coefficients
        kept = np.flatnonzero(~((there < 0).any(axis=1) & (at_far >= 0).all()))
        return list(zip(kept.tolist(), there[kept, -1].tolist(), strict=True))


@cache
def _choices(values: int, parameter: int) -> tuple[list[tuple[tuple[Factor, ...], ...]], Array]:
    """Return functions that go through so many values, the first a constant, and the steepest power of each choice."""
    choices = [*combinations(_PLAIN, values - 1), *combinations(_FALLING, values - 1)]
    steepest = np.array([max(function.lead for function in some)[0] for some in choices], dtype=np.float64)
    return [((), *((Factor(parameter, function),) for function in some)) for some in choices], steepest


@lru_cache(maxsize=4096)
def _shares(
    along: tuple[Factor, ...], parameter: int, parameters: int, values: tuple[float, ...], end: float
) -> tuple[Array, Mask, Mask]:
    """Return shape (choice, function): how much of each a term is; and which rise, and are the term itself, (choice,).

    Parameters
    ----------
    along
        The factors that depend on the parameter.
    values, end
        Of the parameter: measured ones, and up to where no function may fall.
    """
    at = np.zeros((len(values), parameters))
    at[:, parameter] = values
    wanted = Term(along).evaluate(at) if along else np.ones(len(values))
    shares = np.linalg.solve(_columns(len(values), values).transpose(0, 2, 1), wanted[:, None])[..., 0]
    shares[np.abs(shares) < ROUNDING * np.abs(shares).max(axis=1, keepdims=True)] = 0.0
    reach = tuple(np.geomspace(values[0], end, _STEPS).tolist())
    along_reach = (shares[:, None] @ _columns(len(values), reach))[:, 0]
    rises = np.diff(along_reach).min(axis=1) >= -ROUNDING * np.abs(wanted).max()
    choices, steepest = _choices(len(values), parameter)
    same = [along in some for some in choices]
    fits = np.where(steepest < 0, rises, (shares[:, 1:] >= 0).all(axis=1))
    return np.asarray(shares), np.asarray(fits, dtype=bool), np.array(same)


@lru_cache(maxsize=256)
def _columns(values: int, at: tuple[float, ...]) -> Array:
    """Return shape (choice, function, place): a constant and the functions of `_choices`."""
    x = np.array(at)
    choices = _choices(values, 0)[0]
    return np.array(
        [[Term(factors).evaluate(x[:, None]) if factors else np.ones(len(at)) for factors in some] for some in choices]
    )


def _split(term: Term, parameter: int) -> tuple[tuple[Factor, ...], tuple[Factor, ...]]:
    """Return the factors that depend on a parameter, and the others."""
    along = tuple(factor for factor in term.factors if parameter in factor.columns)
    return along, tuple(factor for factor in term.factors if parameter not in factor.columns)


def _rewritten(alternative: Alternative, others: _Others, choice: int) -> Alternative:
    """Return the hypothesis with its terms' factors of a parameter replaced by sums of others."""
    function, size = alternative.function, 1 + len(others.rests)
    constant = _product(())
    rows: dict[Term, Array] = {constant: np.eye(1, size)[0]}  # of the old coefficients
    for index, (rest, shares) in enumerate(zip(others.rests, others.shares[choice].tolist(), strict=True), start=1):
        for factors, share in zip(others.factors[choice], shares, strict=True):
            if share:
                rows.setdefault(_product((*rest, *factors)), np.zeros(size))[index] += share
    terms = sorted((term for term in rows if term.factors), key=lambda term: term.growth_order, reverse=True)
    matrix = np.array([rows[term] for term in (constant, *terms)])
    coefficients = (matrix @ np.array([function.constant, *function.coefficients])).tolist()
    covariance = alternative.covariance
    if covariance:
        covariance = tuple(map(tuple, (matrix @ np.array(covariance) @ matrix.T).tolist()))
    new_function = ModelFunction(coefficients[0], tuple(coefficients[1:]), tuple(terms))
    return replace(alternative, function=new_function, covariance=covariance)


@lru_cache(maxsize=4096)
def _product(factors: tuple[Factor, ...]) -> Term:
    """Return their term; call paths have the same ones."""
    return Term(tuple(sorted(factors)))
