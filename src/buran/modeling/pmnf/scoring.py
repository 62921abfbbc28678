"""What speaks for a hypothesis: its error at left-out points, and what it pays for its freedom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from buran.modeling.pmnf.beam import BOUND, Beam, Dictionary, leave_group_out
from buran.modeling.pmnf.candidates import Ids, Mask, TermTable
from buran.modeling.pmnf.terms import Array

Criterion = Literal["error", "smape", "rss", "ar2", "bic"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
ROUNDING_ERROR = 1e-11  # relative error below which two fits differ by rounding alone
_EQUAL = 1e-6  # of the score, for each factor: of hypotheses that differ by rounding alone, the shortest comes first
MEAN_ABSOLUTE = (2 / np.pi) ** 0.5  # of Gaussian noise, by its standard deviation


@dataclass(frozen=True)
class Costs:
    """What a hypothesis has to pay for its freedom, in nats; see `score`.

    What is added to the score counts however many points there are: noise is no reason to predict negative values, and
    terms of alternating signs follow any curve between the points and none beyond them. The degree of growth is the
    largest of each parameter, added up (a log counts a quarter), the error at most 1: where values are steady, steep
    growth costs next to nothing.
    """

    # For each coefficient in addition to the constant, and each further factor of a parameter that is not plain;
    # added to the score for each negative coefficient by which the prediction falls below zero sooner or later.
    # Tuned: first 1.5, then 3, then 5; ablation: without, 86 instead of 92 % are found (evidence/models.md).
    coefficient: float = 4.0
    # For each parameter that matters, and each further plain factor of it. Tuned: ablation: without, noise around a
    # constant stays a constant in 83 instead of 90 % (evidence/models.md).
    factor: float = 1.5
    # For each other negative coefficient: of a falling term, or of one that another outgrows; added to the score,
    # too, if there is one of the latter; and added times the error and the degree of growth beyond 1: one chance
    # value must not become cubic. Tuned: ablation: saturating functions, 1 % noise, err 10.9 instead of 7.5 %; of
    # scarce, noisy values 5 instead of 2 % at most become cubic (evidence/models.md).
    implausible: float = 0.5


def score(error: Array, cost: Array, points: int | Ids, coefficients: int | Ids) -> Array:
    """Compare hypotheses of different size: smaller is better.

    ``log(error) + cost / (d + 1)``, d = points - coefficients. By chance alone a superfluous coefficient
    shrinks the residuals to a share r with a probability near r^d, so that to ask for a probability below
    exp(-cost) is to ask for log r < -cost / d. Few points thus demand a large improvement and many points a
    small one, and exact data always pass. The 1 lets three points show growth.
    """
    return np.asarray(np.log(np.hypot(error, ROUNDING_ERROR)) + cost / (points - coefficients + 1))


def by_criterion(
    criterion: Criterion, free: Array, residual: Array, coefficients: int, values: Array, weights: Array
) -> Array:
    """Compare hypotheses by a criterion from elsewhere, without costs: smaller is better.

    ``smape`` and ``rss``: of predictions at left-out points, as Extra-P compares; ``ar2``: adjusted R2 in sample;
    ``bic``: Bayesian information criterion of the weighted fit. All as the logarithm of an error.

    Parameters
    ----------
    criterion
        Not "error".
    free, residual
        Shape (call path, hypothesis, point): 1 - leverage, and weighted residuals.
    coefficients
        Coefficients of each hypothesis.
    values, weights
        Shape (call path, point).

    Returns
    -------
    array
        Shape (call path, hypothesis); infinite where it is not defined.
    """
    count = residual.shape[2]
    void = np.zeros(residual.shape[:2], dtype=bool)
    y, gaps = values[:, None], residual / weights[:, None]
    scale = np.sqrt((values**2).mean(axis=1))[:, None]
    scale = np.where(scale > 0, scale, 1.0)
    penalty = 0.0
    if criterion == "bic":
        error = np.sqrt((residual**2).mean(axis=2))
        penalty = coefficients * np.log(count) / (2 * count)
    elif criterion == "ar2":
        error = np.sqrt((gaps**2).mean(axis=2) * (count - 1) / max(count - coefficients, 1)) / scale
        void = void | (coefficients >= count)
    else:
        bound = free < BOUND
        void = void | bound.any(axis=2)
        gaps = gaps / np.where(bound, 1.0, free)
        if criterion == "rss":
            error = np.sqrt((gaps**2).mean(axis=2)) / scale
        else:
            size = np.abs(y) + np.abs(y - gaps)
            error = np.divide(np.abs(gaps), size, out=np.zeros_like(gaps), where=size > 0).mean(axis=2)
    return np.where(void, np.inf, np.log(np.hypot(error, ROUNDING_ERROR)) + penalty)


def with_groups_out(tables: list[TermTable], dictionary: Dictionary, beam: Beam, new: Mask, errors: Array) -> Array:
    """Return errors at left-out points, shape (call path, hypothesis), where points hide how free a hypothesis is.

    A hypothesis with nearly as many factors of a parameter as the parameter has values could follow any values,
    and points that share a value would hide it: all points with a value are then left out together.

    Parameters
    ----------
    new
        Shape (call path, hypothesis, term, parameter): factors that are of no term before.
    errors
        At points that are left out alone.
    """
    out = errors.copy()
    for p, table in enumerate(tables):
        call, index = np.nonzero((new[..., p].sum(axis=2) > table.safe) & np.isfinite(errors))
        if len(call):
            basis = np.concatenate([dictionary.unit[call, None], beam.basis[call, index]], axis=1)
            without = leave_group_out(basis, beam.residual[call, index], table.same_value)
            out[call, index] = np.maximum(out[call, index], without)
    return out


@dataclass(frozen=True, eq=False)
class Sums:
    """Hypotheses of one size that compete.

    Attributes
    ----------
    rows, new
        Shape (call path, hypothesis, term, parameter): of the term tables; factors that are of no term before.
    coefficients
        Shape (call path, hypothesis, term).
    predicted
        Shape (call path, hypothesis, place): at a point beyond the others, then at the edges.
    errors, scores
        Shape (call path, hypothesis): at left-out points, and by a plain criterion; infinite where not usable.
    """

    rows: Ids
    new: Mask
    coefficients: Array
    predicted: Array
    errors: Array
    scores: Array


def cost_of(
    tables: list[TermTable], dictionary: Dictionary, sums: Sums, costs: Costs, nonnegative: bool
) -> tuple[Array, Array]:
    """Return shape (call path, hypothesis), twice: cost of the freedom, and the handicap on the score.

    The handicap is infinite for hypotheses that are negative at an edge of the range in which nothing may be.
    """
    rows, coefficients, errors = sums.rows, sums.coefficients, sums.errors
    terms = rows.shape[2]
    out = np.full(errors.shape, float(costs.coefficient * terms))
    steepness = np.zeros(errors.shape)
    falling = np.zeros(coefficients.shape, dtype=bool)
    few = falling.copy()
    outgrown = np.ones((*coefficients.shape, terms), dtype=bool)  # the third axis by the fourth
    for p, table in enumerate(tables):
        of_table, first = rows[..., p], sums.new[..., p]
        distinct, fancy = first.sum(axis=2), (first & ~table.plain[of_table]).sum(axis=2)
        # the first factor is free to be fancy; further ones pay by their kind
        extra = np.maximum(distinct - 1, 0)
        expensive = np.minimum(fancy, extra)
        out += costs.factor * (distinct > 0) + costs.coefficient * expensive
        out += costs.factor * (extra - expensive)
        steepness += table.degree[of_table].max(axis=2)
        falls, growth = table.falling[of_table], table.growth[of_table]
        falling |= falls
        few |= falls & (len(table.same_value) == 2)
        outgrown &= growth[..., None] <= growth[:, :, None]
    negative = coefficients < 0
    covered = negative & ~falling & (outgrown & ~negative[:, :, None]).any(axis=3)
    out += costs.implausible * ((negative & falling) | covered).sum(axis=2)
    handicap = _EQUAL * (rows > 0).sum(axis=(2, 3))
    handicap += costs.coefficient * (negative & ~falling & ~covered).sum(axis=2)
    handicap += costs.coefficient * (negative & few).sum(axis=2)  # no two values show a bound that is risen to
    handicap += costs.implausible * covered.any(axis=2)
    handicap += costs.implausible * np.minimum(errors, 1.0) * steepness
    if nonnegative:
        handicap[negative.any(axis=2)] = np.inf
    predicted = sums.predicted
    below = predicted.min(axis=2) < -BOUND * np.abs(predicted).max(axis=2)
    handicap[below & dictionary.positive[:, None]] = np.inf
    return out, handicap
