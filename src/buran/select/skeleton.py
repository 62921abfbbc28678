"""Models whose terms are known, from counters of effort for example: only their coefficients are open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from buran.model import Model, ModelFunction, Quality, Term
from buran.model.alternative import Alternative
from buran.model.fit import with_discrepancies
from buran.model.quality import adjusted_r2, rss, smape
from buran.model.tuning import DISCREPANCY
from buran.numerics.least_squares import solve, span
from buran.select.space import Array, Ids
from buran.select.tuning import PLANNING


@dataclass(frozen=True)
class Cliff:
    """Misses of a cache, which cost nothing until it is left, and what the machine lets expect of their cost.

    Attributes
    ----------
    level
        Of the cache, from 1.
    misses
        As a function of the parameters.
    cost, deviation
        Of a miss in the unit of the values: what is expected before any is measured, and how far it may be off.
    """

    level: int
    misses: ModelFunction
    cost: float
    deviation: float


_RANK = 1e-9  # of the largest singular value: what is smaller, the points do not determine


def fit_known(
    points: Array, means: Array, runs: Ids, terms: Sequence[Term], cliffs: Sequence[Cliff] = ()
) -> Model | None:
    """Fit the coefficients of given terms and a constant, relative errors weighing alike.

    Parameters
    ----------
    points
        Shape (point, parameter).
    means, runs
        Shape (point,): mean of the repetitions, and how many there are.
    terms
        The terms beside the constant.
    cliffs
        Misses of caches, whose terms follow in the model.

    Returns
    -------
    Model or None
        None if the points do not determine the coefficients.
    """
    here = (runs > 0) & np.isfinite(means) & (means != 0)
    at, y = points[here], means[here]
    design = np.column_stack([np.ones(len(at)), *(term.evaluate(at) for term in terms)])
    if len(at) < design.shape[1]:
        return None
    weight = np.sqrt(runs[here]) / np.abs(y)
    if span(design * weight[:, None], _RANK).shape[1] < design.shape[1]:
        return None
    design = np.column_stack([design, *(cliff.misses.evaluate(at) for cliff in cliffs)])
    # What is expected of a cost is a further point, as sure as the noise of the others lets it be.
    count, degrees = len(terms) + 1, len(at) - 1 - len(terms)
    rows, values = np.vstack([design, np.eye(design.shape[1])[count:]]), np.append(y, [c.cost for c in cliffs])
    noise = PLANNING.first_noise
    for _ in range(2 if cliffs else 1):
        solution = solve(rows[None], values[None], np.append(weight, [noise / c.deviation for c in cliffs])[None])
        coefficients, inverse = solution.coefficients[0], solution.inverse[0]
        coefficients[count:] = np.maximum(coefficients[count:], 0.0)
        predicted = design @ coefficients
        squares = float((((predicted - y) * weight) ** 2).sum())
        worth = PLANNING.first_worth
        noise = float(np.sqrt((squares + worth * PLANNING.first_noise**2) / (degrees + worth)))
    spread = noise**2 if cliffs else squares / degrees if degrees else np.nan
    order = sorted(range(len(terms)), key=lambda k: terms[k].growth_order, reverse=True)
    functions = [ModelFunction(1.0), *(ModelFunction(0.0, (1.0,), (terms[k],)) for k in order)]
    functions += [cliff.misses for cliff in cliffs]
    columns_of = [0, *(1 + k for k in order), *range(count, len(coefficients))]
    function, turn = _sum(functions, coefficients[columns_of])
    covariance: tuple[tuple[float, ...], ...] = ()
    if degrees:
        covariance = tuple(map(tuple, (turn @ (inverse * spread)[np.ix_(columns_of, columns_of)] @ turn.T).tolist()))
    quality = Quality(
        len(at),
        float(smape(predicted, y)),
        np.nan,
        np.nan,
        float(adjusted_r2(predicted, y, np.array(count))),
        float(rss(predicted, y)),
    )
    only = Alternative(function, 1.0, covariance, float(np.sqrt(spread)) if degrees else 0.0, degrees)
    # the price of a unit of work is that of the product's estimator
    known = np.array([runs[here].sum() - len(at)])
    constant = Model(function, quality, (only,))
    return with_discrepancies(at, y[None], [constant], np.array([noise]), known, (DISCREPANCY.price,))[0]


def _sum(functions: Sequence[ModelFunction], coefficients: Array) -> tuple[ModelFunction, Array]:
    """Return a sum, its terms as they come, and how its coefficients follow from these, (1 + term, function)."""
    turn = np.zeros((1 + sum(len(function.terms) for function in functions), len(functions)))
    first = 1
    for column, function in enumerate(functions):
        turn[0, column] = function.constant
        turn[first : first + len(function.terms), column] = function.coefficients
        first += len(function.terms)
    constant, *rest = (turn @ coefficients).tolist()
    return ModelFunction(constant, tuple(rest), tuple(term for each in functions for term in each.terms)), turn
