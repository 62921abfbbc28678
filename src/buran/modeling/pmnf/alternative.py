"""Hypotheses that a model competed with, their mixture of t distributions, and growth that few values leave open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, lru_cache
from itertools import combinations, product
from typing import Literal, overload

import numpy as np

from buran.modeling.functions.powers import NO_GROWTH, PowerLog
from buran.modeling.functions.terms import Array, Factor, ModelFunction, Term, predict
from buran.modeling.numerics import intervals
from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.least_squares import Mask
from buran.modeling.numerics.tuning import FEW, MATTERS, REACH
from buran.modeling.price.discrepancy import Discrepancy, left_over_at

# Of the weight, at which the hypotheses of a call path are divided, each part with one that stands for it. Tuned: of
# 300 generated call paths the ends of 90 % intervals move by 2 % in the middle half.
MIXTURE_PARTS = (0.01, 0.03, 0.08, 0.2, 0.5, 0.8, 0.92, 0.97, 0.99)

# Powers by which other functions through the same values may be steeper. Tuned: judgement.
STEEPER = 1

_PLAIN = [PowerLog(Fraction(half, 2), log) for half, log in ((0, 1), (1, 0), (2, 0), (2, 1), (4, 0), (6, 0))]
_FALLING = [PowerLog(Fraction(half, 2)) for half in (-1, -2, -4)]
_STEPS = 50  # to see whether a function falls anywhere
_TOGETHER = 500  # call paths; more would need much memory at once


@dataclass(frozen=True)
class Alternative:
    """A hypothesis within reach of the best, fitted.

    Attributes
    ----------
    function
        The prediction.
    weight
        How much speaks for it, of 1 for all alternatives of a call path.
    covariance
        Covariance of the constant and the coefficients, in the function's order; not there without a degree of freedom.
    noise
        Standard deviation of a value around the function, as a share of the function's value.
    degrees
        Degrees of freedom that remain.
    """

    function: ModelFunction
    weight: float
    covariance: tuple[tuple[float, ...], ...]
    noise: float
    degrees: int


def divided(weights: Array, predicted: Array) -> tuple[list[int], list[float]]:
    """Return the hypotheses that stand for the parts of a mixture, the best first, and the weights of these parts.

    Sorted by their predictions far out, hypotheses fall into parts of the weight, narrow ones at the ends. The one in
    the middle of each stands for all of it.

    Parameters
    ----------
    weights, predicted
        Shape (hypothesis,): the best first; what has no weight stands for nothing.
    """
    edges = MIXTURE_PARTS
    if not weights.all():  # where there are many points, odds of what is not the best vanish
        some = np.flatnonzero(weights)
        rows, of_parts = divided(weights[some], predicted[some])
        return some[rows].tolist(), of_parts
    if len(weights) <= len(edges):
        return list(range(len(weights))), weights.tolist()
    # place of each hypothesis in the cumulative weight, and the part that it falls into
    order = np.argsort(predicted, kind="stable")
    middle = np.empty(len(weights))
    middle[order] = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    part = np.searchsorted(edges, middle, side="right")
    # of each part the hypothesis nearest to its centre; the best stands for its own, wherever it lies there
    weight = np.bincount(part, weights)
    centre = np.bincount(part, weights * middle)
    gap = np.round(np.abs(middle - centre[part] / weight[part]), 9)  # rounding errors choose none
    gap[0] = -1.0
    nearest = np.lexsort((gap, part))
    first = nearest[np.unique(part[nearest], return_index=True)[1]]
    rows = [0, *first[first != 0].tolist()]
    return rows, weight[part[rows]].tolist()


class LazyAlternatives(Sequence[Alternative]):
    """Alternatives of one call path, fitted on first use, by a function of numbers of call paths."""

    def __init__(self, fit: Callable[[Sequence[int]], list[tuple[Alternative, ...]]], call: int) -> None:
        self._fit, self._call = fit, call
        self._fitted: tuple[Alternative, ...] | None = None

    def _all(self) -> tuple[Alternative, ...]:
        if self._fitted is None:
            (self._fitted,) = self._fit([self._call])
        return self._fitted

    def __len__(self) -> int:
        return len(self._all())

    @overload
    def __getitem__(self, index: int) -> Alternative: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Alternative, ...]: ...
    def __getitem__(self, index: int | slice) -> Alternative | tuple[Alternative, ...]:
        return self._all()[index]


def prepare(groups: Sequence[Sequence[Alternative]]) -> None:
    """Fit those that are not fitted yet, together."""
    by_block: dict[object, list[LazyAlternatives]] = {}
    for alternatives in groups:
        if isinstance(alternatives, LazyAlternatives) and alternatives._fitted is None:
            by_block.setdefault(alternatives._fit, []).append(alternatives)
    for waiting in by_block.values():
        for start in range(0, len(waiting), _TOGETHER):
            some = waiting[start : start + _TOGETHER]
            fitted = some[0]._fit([path._call for path in some])
            for path, alternatives in zip(some, fitted, strict=True):
                path._fitted = alternatives


Target = Literal["value", "mean"]


def mixture_interval(
    groups: Sequence[Sequence[Alternative]],
    at: Array,
    level: float,
    of: Target,
    left_over: Sequence[Discrepancy | None],
) -> tuple[Array, Array]:
    """Return the ends for call paths with the same number of alternatives, and what each leaves over."""
    from scipy.special import ndtri  # as all that intervals need, only where they are asked for

    flat = [one for group in groups for one in group]
    shape = (len(groups), len(groups[0]))
    middle = predict([one.function for one in flat], at)
    found = [one for one, group in zip(left_over, groups, strict=True) for _ in group]
    noise = np.array([one.noise for one in flat])
    # residuals that the process explains are no noise, neither of a value nor of coefficients
    explained = np.array([np.inf if one is None else one.process.noise for one in found])
    known = np.isfinite(noise) & (noise > 0)
    share = np.where(known, np.minimum(explained / np.where(known, noise, 1.0), 1.0), 1.0)
    variance = share[:, None] ** 2 * _variance(flat, at)
    if of == "value":
        with np.errstate(over="ignore"):  # an infinite variance leaves the interval without ends
            variance += ((share * noise)[:, None] * middle) ** 2
    # f exp(g): a normal g reaches farther above f than below, and never below 0
    shift, deviation = left_over_at(found, [one.function for one in flat], at)
    factor = np.exp(shift)
    middle, variance = factor * middle, factor**2 * variance
    total = variance + (deviation * middle) ** 2
    z = ndtri((1 + level) / 2)
    with np.errstate(over="ignore"):
        reach = [np.abs(middle * np.expm1(sign * z * deviation)) / z for sign in (-1, 1)]
    below, above = (np.sqrt(variance + np.where(middle < 0, *pair) ** 2) for pair in (reach[::-1], reach))
    weight = np.array([one.weight for one in flat]).reshape(shape)
    # only the noise is estimated from residuals: degrees of freedom of the sum after Satterthwaite (1946)
    ratio = np.divide(total, variance, out=np.ones_like(total), where=(variance > 0) & np.isfinite(variance))
    degrees = np.array([float(one.degrees) for one in flat])[:, None] * ratio**2
    middle, below, above, degrees = (each.reshape(*shape, -1) for each in (middle, below, above, degrees))
    return intervals.of_mixture(middle, below, degrees, weight, level, above)


def _variance(alternatives: Sequence[Alternative], at: Array) -> Array:
    """Return shape (alternative, point): of the predicted mean; NaN without a covariance."""
    out = np.full((len(alternatives), len(at)), np.nan)
    number: dict[Term, int] = {}
    columns = [[number.setdefault(term, len(number)) for term in one.function.terms] for one in alternatives]
    values = np.stack([*(term.evaluate(at) for term in number), np.ones(len(at))])  # the constant is the last
    sizes = np.array(
        [len(numbers) if one.covariance else -1 for numbers, one in zip(columns, alternatives, strict=True)]
    )
    for size in np.unique(sizes[sizes >= 0]).tolist():
        rows = np.flatnonzero(sizes == size)
        covariance = np.array([alternatives[row].covariance for row in rows.tolist()])
        design = values[np.array([[-1, *columns[row]] for row in rows])]
        with np.errstate(over="ignore", invalid="ignore"):
            out[rows] = np.maximum(np.einsum("aip,aij,ajp->ap", design, covariance, design), 0.0)
    return out


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
        out.append(tuple(replace(one, weight=weight) for one, weight in zip(chosen, of_parts, strict=True)))
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
    # shares s of functions through as many values: columns s = the factor at these values
    wanted = Term(along).evaluate(at) if along else np.ones(len(values))
    shares = np.linalg.solve(_columns(len(values), values).transpose(0, 2, 1), wanted[:, None])[..., 0]
    shares[np.abs(shares) < ROUNDING * np.abs(shares).max(axis=1, keepdims=True)] = 0.0
    reach = tuple(np.geomspace(values[0], end, _STEPS).tolist())
    # does what they add up to rise from the least value to the end?
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
