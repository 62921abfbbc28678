"""What speaks for a hypothesis: its error at left-out points, and what it pays for its freedom."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

import numpy as np

from buran.model.beam import Beam, Dictionary, first_occurrence, leave_group_out, leave_one_out
from buran.model.candidates import Ids, Mask, TermTable
from buran.model.regression import BOUND
from buran.model.scatter import Scatter
from buran.model.terms import Array
from buran.model.tuning import SEARCH
from buran.numerics.origin import MODELLER, tuned

Criterion = Literal["error", "smape", "rss", "ar2", "bic"]
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
ROUNDING_ERROR = 1e-11  # relative error below which two fits differ by rounding alone
MEAN_ABSOLUTE = (2 / np.pi) ** 0.5  # of Gaussian noise, by its standard deviation


SATURATION = "ablation of the three: saturating functions, 1 % noise, err 10.9 instead of 7.5 % (evidence/models.md)"


@dataclass(frozen=True)
class Costs:
    """What a hypothesis has to pay for its freedom, in nats; see `score`.

    What is added to the score counts however many points there are: noise is no reason to predict negative values, and
    terms of alternating signs follow any curve between the points and none beyond them. The degree of growth is the
    largest of each parameter, added up (a log counts a quarter), the error at most 1: where values are steady, steep
    growth costs next to nothing.
    """

    coefficient: float = tuned(
        4.0,
        "for each coefficient in addition to the constant",
        "first 1.5, then 3, then 5; changed while the method was built, no figures kept (evidence/models.md)",
    )
    parameter: float = tuned(
        1.5,
        "for each parameter that matters",
        "ablation: without, noise around a constant stays a constant in 83 instead of 90 % (evidence/models.md)",
    )
    extra_term: float = tuned(
        5.0,
        "for each second and further factor of the same parameter",
        "first 3.5; changed while the method was built, no figures kept (evidence/models.md)",
    )
    extra_plain_term: float = tuned(1.5, "the same for plain exponents, which are few, hence cheaper", MODELLER)
    saturating: float = tuned(
        1.0,
        "for each negative coefficient of a falling term",
        SATURATION,
    )
    negative: float = tuned(
        0.5, "for each negative coefficient of a term that one with a positive coefficient outgrows", SATURATION
    )
    declining: float = tuned(
        4.0,
        "added to the score for each other negative coefficient: the prediction falls below zero sooner or later",
        "first 1.5; changed while the method was built, no figures kept (evidence/models.md)",
    )
    alternating: float = tuned(
        0.5, "added to the score once if a rising term that another outgrows has a negative coefficient", SATURATION
    )
    steep: float = tuned(
        0.25,
        "added to the score, times the error and the degree of growth beyond 1: one chance value must not become cubic",
        "ablation: of scarce, noisy values 5 instead of 2 % at most become cubic (evidence/models.md)",
    )


def score(
    error: Array, cost: Array, points: int | Ids, coefficients: int | Ids, scatter: Scatter | None = None
) -> Array:
    """Compare hypotheses of different size: smaller is better.

    ``log(error) + cost / (d + 1)``, d = points - coefficients. By chance alone a superfluous coefficient
    shrinks the residuals to a share r with a probability near r^d, so that to ask for a probability below
    exp(-cost) is to ask for log r < -cost / d. Few points thus demand a large improvement and many points a
    small one, and exact data always pass. The 1 lets three points show growth.

    What repetitions tell about the noise counts like further points that no hypothesis explains better than by this
    noise, a third of a point for each degree of freedom: it says when an error is small enough, and makes those that
    it does not explain weigh more. Not one for each, since a hypothesis that is nearly right is worth having too.
    """
    if scatter is None:
        return np.asarray(np.log(np.hypot(error, ROUNDING_ERROR)) + cost / (points - coefficients + 1))
    freedom = (SEARCH.freedom * scatter.degrees).reshape(-1, *(1,) * (error.ndim - 1))
    noise = MEAN_ABSOLUTE * scatter.share.reshape(freedom.shape)
    total = points + freedom
    share = np.hypot(np.sqrt(points / total) * error, np.sqrt(freedom / total) * noise)
    return np.asarray(total / points * (np.log(np.hypot(share, ROUNDING_ERROR)) + cost / (total - coefficients + 1)))


def by_criterion(criterion: Criterion, beam: Beam, values: Array, weights: Array) -> Array:
    """Compare hypotheses by a criterion from elsewhere, without costs: smaller is better.

    ``smape`` and ``rss``: of predictions at left-out points, as Extra-P compares; ``ar2``: adjusted R2 in sample;
    ``bic``: Bayesian information criterion of the weighted fit. All as the logarithm of an error.

    Parameters
    ----------
    criterion
        Not "error".
    beam
        The hypotheses.
    values, weights
        Shape (call path, point).

    Returns
    -------
    array
        Shape (call path, hypothesis); infinite where it is not defined.
    """
    count, coefficients = beam.residual.shape[2], beam.basis.shape[2]
    free = 1 - (beam.basis**2).sum(axis=2)
    void = ~beam.usable
    y, gaps = values[:, None], beam.residual / weights[:, None]
    scale = np.sqrt((values**2).mean(axis=1))[:, None]
    scale = np.where(scale > 0, scale, 1.0)
    penalty = 0.0
    if criterion == "bic":
        error = np.sqrt((beam.residual**2).mean(axis=2))
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


def errors_of(tables: list[TermTable], dictionary: Dictionary, beam: Beam) -> Array:
    """Return shape (call path, hypothesis): errors at left-out points.

    A hypothesis with nearly as many factors of a parameter as the parameter has values could follow any values,
    and points that share a value would hide it: all points with a value are then left out together.
    """
    out = leave_one_out(beam)
    at = np.arange(len(beam.members))[:, None, None]
    for p, table in enumerate(tables):
        rows = np.sort(dictionary.rows[at, beam.members, p], axis=2)
        many = first_occurrence(rows).sum(axis=2) > table.safe
        out[many] = np.maximum(out[many], leave_group_out(beam, many, table.same_value))
    return out


def _steepness(tables: list[TermTable], dictionary: Dictionary, beam: Beam) -> Array:
    """Return shape (call path, hypothesis): the largest degree of each parameter, added up."""
    at = np.arange(len(beam.members))[:, None, None]
    out = np.zeros(beam.members.shape[:2])
    for p, table in enumerate(tables):
        out += table.degree[dictionary.rows[at, beam.members, p]].max(axis=2)
    return out


def _negative_somewhere(tables: list[TermTable], dictionary: Dictionary, beam: Beam, coefficients: Array) -> Mask:
    """Mark hypotheses that are negative at an edge of the range in which nothing is, of values that are not."""
    level = dictionary.level
    call, place = np.nonzero(beam.usable & np.isfinite(level)[:, None])
    edges = np.array(list(product(*(range(table.edges.shape[1]) for table in tables))))
    members = beam.members[call, place]
    columns = np.ones((*members.shape, len(edges)))
    for p, table in enumerate(tables):
        columns *= table.edges[:, edges[:, p]][dictionary.rows[call[:, None], members, p]]
    columns -= dictionary.shift[call[:, None], members][..., None]
    by_length = coefficients[call, place] / dictionary.length[call[:, None], members]
    out = np.zeros(beam.usable.shape, dtype=bool)
    above = level[call, None] + np.matmul(by_length[:, None], columns)[:, 0]
    out[call, place] = above.min(axis=1) < -BOUND * np.abs(above).max(axis=1)
    return out


def cost_of(
    tables: list[TermTable],
    dictionary: Dictionary,
    beam: Beam,
    centred: Array,
    errors: Array,
    costs: Costs,
    nonnegative: bool,
) -> tuple[Array, Array]:
    """Return shape (call path, hypothesis), twice: cost of the freedom, and the handicap on the score.

    The handicap is infinite for hypotheses that are negative at a corner of the range in which nothing may be.
    """
    at = np.arange(len(beam.members))[:, None, None]
    rows = dictionary.rows[at, beam.members]  # call path, hypothesis, term, parameter
    terms = rows.shape[2]
    out = np.full(rows.shape[:2], float(costs.coefficient * terms))
    for p, table in enumerate(tables):
        parameter_rows = np.sort(rows[..., p], axis=2)
        new = first_occurrence(parameter_rows)
        distinct = new.sum(axis=2)
        fancy = (new & ~table.plain[parameter_rows]).sum(axis=2)
        # the first factor is free to be fancy; further ones pay by their kind
        extra = np.maximum(distinct - 1, 0)
        expensive = np.minimum(fancy, extra)
        out += (
            costs.parameter * (distinct > 0)
            + costs.extra_term * expensive
            + costs.extra_plain_term * (extra - expensive)
        )
    falling = np.zeros(rows.shape[:3], dtype=bool)
    few = falling.copy()
    outgrown = np.ones((*rows.shape[:3], terms), dtype=bool)  # the third axis by the fourth
    for p, table in enumerate(tables):
        falling |= table.falling[rows[..., p]]
        few |= table.falling[rows[..., p]] & (len(table.same_value) == 2)
        growth = table.growth[rows[..., p]]
        outgrown &= growth[..., None] <= growth[:, :, None]
    columns = dictionary.columns[at, beam.members]
    triangle = np.einsum("chkp,chtp->chkt", beam.basis[:, :, 1:], columns)
    triangle[~beam.usable] = np.eye(terms)
    target = np.einsum("chkp,cp->chk", beam.basis[:, :, 1:], centred)
    coefficients = np.linalg.solve(triangle, target[..., None])[..., 0]
    negative = coefficients < 0
    covered = (outgrown & ~negative[:, :, None]).any(axis=3)
    out += costs.saturating * (negative & falling).sum(axis=2)
    out += costs.negative * (negative & ~falling & covered).sum(axis=2)
    handicap = costs.declining * (negative & ~falling & ~covered).sum(axis=2)
    handicap += costs.declining * (negative & few).sum(axis=2)  # no two values show a bound that is risen to
    handicap += costs.alternating * (negative & ~falling & covered).any(axis=2)
    handicap += costs.steep * np.minimum(errors, 1.0) * _steepness(tables, dictionary, beam)
    if nonnegative:
        handicap[negative.any(axis=2)] = np.inf
    handicap[_negative_somewhere(tables, dictionary, beam, coefficients)] = np.inf
    return out, handicap
