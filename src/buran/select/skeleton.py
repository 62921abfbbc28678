"""Models whose terms are known, from counters of effort for example: only their coefficients are open."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from buran.model import Model, ModelFunction, Quality, Term
from buran.model.alternative import Alternative
from buran.model.quality import adjusted_r2, rss, smape
from buran.numerics.least_squares import solve, span
from buran.select.space import Array, Ids

_RANK = 1e-9  # of the largest singular value: what is smaller, the points do not determine


def fit_known(points: Array, means: Array, runs: Ids, terms: Sequence[Term]) -> Model | None:
    """Fit the coefficients of given terms and a constant, relative errors weighing alike.

    Parameters
    ----------
    points
        Shape (point, parameter).
    means, runs
        Shape (point,): mean of the repetitions, and how many there are.
    terms
        The terms beside the constant.

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
    solution = solve(design[None], y[None], weight[None])
    coefficients, inverse = solution.coefficients[0], solution.inverse[0]
    predicted = design @ coefficients
    degrees = len(at) - len(coefficients)
    spread = float((((predicted - y) * weight) ** 2).sum() / degrees) if degrees else np.nan
    order = sorted(range(len(terms)), key=lambda k: terms[k].growth_order, reverse=True)
    function = ModelFunction(
        float(coefficients[0]), tuple(float(coefficients[1 + k]) for k in order), tuple(terms[k] for k in order)
    )
    columns_of = [0, *(1 + k for k in order)]
    covariance: tuple[tuple[float, ...], ...] = ()
    if degrees:
        covariance = tuple(map(tuple, (inverse * spread)[np.ix_(columns_of, columns_of)].tolist()))
    quality = Quality(
        len(at),
        float(smape(predicted, y)),
        np.nan,
        np.nan,
        float(adjusted_r2(predicted, y, np.array(len(coefficients)))),
        float(rss(predicted, y)),
    )
    only = Alternative(function, 1.0, covariance, float(np.sqrt(spread)) if degrees else 0.0, degrees)
    return Model(function, quality, covariance, (only,))
