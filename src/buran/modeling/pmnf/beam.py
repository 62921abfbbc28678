"""Hypotheses of many call paths at once: what to add to them, their errors at left-out points, and their scores."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from buran.modeling.functions.terms import Array
from buran.modeling.numerics.least_squares import Ids, Mask, best
from buran.modeling.numerics.tuning import BEAM
from buran.modeling.pmnf.candidates import DEPENDENT, TermTable

BOUND = 1e-9  # 1 - leverage of a point that fixes a coefficient alone
Criterion = Literal["error", "smape"]
ROUNDING_ERROR = 1e-11  # relative error below which two fits differ by rounding alone
_EQUAL = 1e-6  # of the score, for each factor: of hypotheses that differ by rounding alone, the shortest comes first


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Products of factors to choose terms from, for each call path of a chunk, and the hypothesis that is constant.

    Attributes
    ----------
    index
        Shape (call path,): their places in the chunk.
    values, weights
        Shape (call path, point).
    rows
        Shape (call path, product, parameter): rows of the term tables, 0 for absent factors.
    columns
        Shape (call path, product, point): weighted, made orthogonal to the constant, of length 1.
    there
        Shape (call path, product, place): the columns, without weights, at the edges of the range in which no
        prediction may be negative.
    usable
        Shape (call path, product): False where the product is constant over the points.
    simple
        Shape (call path, product): all factors plain or absent.
    always
        Shape (product,): extended by a second term however bad alone. A sum needs both its parts, so these
        are the single factors; of a single parameter, the plain ones.
    level
        Shape (call path,): the constant hypothesis.
    unit
        Shape (call path, point): the constant, weighted, of length 1.
    centred
        Shape (call path, point): what it leaves, weighted.
    gain
        Shape (call path, product): of that, what is along each column.
    """

    index: Ids
    values: Array
    weights: Array
    rows: Ids
    columns: Array
    there: Array
    usable: Mask
    simple: Mask
    always: Mask
    level: Array
    unit: Array
    centred: Array
    gain: Array

    def of(self, calls: Mask) -> Dictionary:
        """Return the part for some of the call paths."""
        return Dictionary(**{key: value if key == "always" else value[calls] for key, value in vars(self).items()})

    def errors(self, criterion: Criterion, free: Array, residual: Array) -> Array:
        """Return errors at left-out points, shape (call path, hypothesis).

        Parameters
        ----------
        free, residual
            Shape (call path, hypothesis, point): 1 less the leverage, and weighted residuals.
        """
        if criterion == "error":
            return leave_one_out(free, residual)
        return smape_left_out(free, residual, self.values, self.weights)


@dataclass(frozen=True, eq=False)
class Beam:
    """Hypotheses with the same number of terms, for each call path of a chunk.

    Attributes
    ----------
    members
        Shape (call path, hypothesis, term): places in the dictionary.
    coefficients
        Shape (call path, hypothesis, term): of their columns.
    usable
        Shape (call path, hypothesis).
    basis
        Shape (call path, hypothesis, term, point): orthonormal, and orthogonal to the constant.
    turn
        Shape (call path, hypothesis, term, term): the basis as sums of columns, triangular.
    free
        Shape (call path, hypothesis, point): 1 less the leverage.
    residual
        Shape (call path, hypothesis, point), weighted.
    """

    members: Ids
    coefficients: Array
    usable: Mask
    basis: Array
    turn: Array
    free: Array
    residual: Array

    def of(self, chosen: Mask | tuple[Ids, Ids]) -> Beam:
        """Return the part for some of the call paths, or some (call path, hypothesis)."""
        return Beam(*(getattr(self, field.name)[chosen] for field in fields(self)))

    def sums(self, dictionary: Dictionary, criterion: Criterion) -> Sums:
        """Return what the hypotheses compete by."""
        at = np.arange(len(self.members))[:, None, None]
        errors = np.where(self.usable, dictionary.errors(criterion, self.free, self.residual), np.inf)
        # f(x) = c_0 + sum_k c_k t_k(x), at the edges
        predicted = np.matmul(self.coefficients[:, :, None], dictionary.there[at, self.members])[:, :, 0]
        predicted += dictionary.level[:, None, None]
        return Sums(dictionary.rows[at, self.members], self.coefficients, predicted, errors)


def one_term(dictionary: Dictionary) -> Beam:
    """Return the hypotheses of one term each."""
    columns, gain = dictionary.columns, dictionary.gain[..., None]
    return Beam(
        np.broadcast_to(np.arange(columns.shape[1]), columns.shape[:2])[..., None],
        gain,
        dictionary.usable,
        columns[:, :, None],
        np.ones((*gain.shape, 1)),
        (1 - dictionary.unit**2)[:, None] - np.square(columns),
        dictionary.centred[:, None] - gain * columns,
    )


def extend(dictionary: Dictionary, beam: Beam, width: int, most: int | None = None) -> Beam:
    """Add one term of the dictionary to each hypothesis of the beam and keep the best.

    `width` by residual, and twice as many of those made of plain terms only; none with more than `most` different
    factors of a parameter.
    """
    calls, products, _ = dictionary.columns.shape
    terms = beam.members.shape[2]
    at = np.arange(calls)[:, None]
    left_over = _left_over(dictionary, beam)
    looked_at = width if most is None else BEAM * width
    kept = best(left_over.reshape(calls, -1), 2 * looked_at)  # most hypotheses turn up twice
    by_residual = kept.shape[1]
    kept = np.concatenate([kept, _best_plain(left_over, beam, dictionary.simple, 4 * looked_at)], axis=1)
    parent, added = np.divmod(kept, products)
    members = np.concatenate([beam.members[at, parent], added[..., None]], axis=2)
    fine = beam.usable[at, parent] & dictionary.usable[at, added] & ~_repeated(members, products)
    if most is not None:
        fine &= ~(first_occurrence(dictionary.rows[at[..., None], members]).sum(axis=2) > most).any(axis=2)
    chosen = fine & np.concatenate(
        [np.cumsum(fine[:, :by_residual], axis=1) <= width, np.cumsum(fine[:, by_residual:], axis=1) <= 2 * width],
        axis=1,
    )
    survivors = np.argsort(~chosen, axis=1, kind="stable")[:, : 3 * width]
    members, fine = members[at, survivors], chosen[at, survivors]
    parent, added = parent[at, survivors], added[at, survivors]
    column, basis = dictionary.columns[at, added], beam.basis[at, parent]
    shares = np.zeros((*members.shape[:2], terms))
    for _ in range(2):  # the second pass removes what rounding left of the first
        share = np.matmul(basis, column[..., None])[..., 0]
        column = column - np.matmul(share[:, :, None], basis)[:, :, 0]
        shares += share
    length = np.sqrt((column * column).sum(axis=2))
    fine = fine & (length**2 > DEPENDENT)
    length = np.where(fine, length, 1.0)
    column /= length[..., None]
    turn = np.zeros((*members.shape, terms + 1))
    turn[..., :terms, :terms], turn[..., terms, terms] = beam.turn[at, parent], 1.0
    turn[..., terms, :terms] = -np.matmul(shares[:, :, None], turn[..., :terms, :terms])[:, :, 0]
    turn[..., terms, :] /= length[..., None]
    residual = beam.residual[at, parent]
    gain = (residual * column).sum(axis=2)
    coefficients = gain[..., None] * turn[:, :, terms]
    coefficients[..., :terms] += beam.coefficients[at, parent]
    return Beam(
        members,
        coefficients,
        fine,
        np.concatenate([basis, column[:, :, None]], axis=2),
        turn,
        beam.free[at, parent] - column**2,
        residual - gain[..., None] * column,
    )


def first_occurrence(rows: NDArray[np.integer[Any]]) -> Mask:
    """Mark factors (above 0) in `rows` (..., term, parameter) that are of no term before."""
    out = np.asarray(rows > 0)
    for term in range(1, rows.shape[-2]):
        for other in range(term):
            out[..., term, :] &= rows[..., term, :] != rows[..., other, :]
    return out


def leave_one_out(free: Array, residual: Array) -> Array:
    """Mean absolute weighted error at each point when it is left out, in closed form.

    With h the diagonal of the hat matrix, the error at a left-out point is ``residual / (1 - h)`` (Allen's
    PRESS). Infinite where a point alone determines a coefficient.

    Parameters
    ----------
    free, residual
        Shape (..., point): 1 - h, and weighted residuals.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = residual / free
    np.abs(errors, out=errors)
    return np.asarray(np.where(free.min(axis=-1) < BOUND, np.inf, errors.mean(axis=-1)))


def parents(dictionary: Dictionary, single: Beam, width: int) -> Beam:
    """Choose the one-term hypotheses to be extended: those marked `always` and the best others."""
    explained = np.where(dictionary.usable & ~dictionary.always, dictionary.gain**2, -np.inf)
    forced = np.tile(np.flatnonzero(dictionary.always), (len(explained), 1))
    others = best(-explained, min(width, int((~dictionary.always).sum())))
    return single.of((np.arange(len(explained))[:, None], np.concatenate([forced, others], axis=1)))


def _left_over(dictionary: Dictionary, beam: Beam) -> Array:
    """Residual sum of squares of each hypothesis with each product added: (call path, hypothesis, product).

    Infinite where the product depends linearly on the hypothesis, or the hypothesis is not usable.
    """
    (calls, hypotheses, terms, points), columns = beam.basis.shape, dictionary.columns.transpose(0, 2, 1)
    # of a product t, and r and B the residual and basis of the hypothesis: r'r - (r't)^2 / (t't - |B't|^2)
    out = np.matmul(beam.residual, columns)
    np.square(out, out=out)
    shares = np.matmul(beam.basis.reshape(calls, hypotheses * terms, points), columns)
    orthogonal = 1 - np.square(shares, out=shares).reshape(calls, hypotheses, terms, -1).sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        out /= orthogonal
    np.subtract((beam.residual**2).sum(axis=2)[:, :, None], out, out=out)
    np.putmask(out, orthogonal < DEPENDENT, np.inf)
    np.putmask(out, ~(beam.usable[:, :, None] & dictionary.usable[:, None]), np.inf)
    return np.asarray(out)


def _best_plain(left_over: Array, beam: Beam, simple: Mask, count: int) -> Ids:
    """Places (call path, choice) of the best in `left_over` flattened, of plain hypotheses with plain products."""
    calls, _hypotheses, products = left_over.shape
    at = np.arange(calls)[:, None]
    plain = np.asarray(simple[at[..., None], beam.members].all(axis=2))
    # the part of the table with plain rows and columns, then the best of it
    columns = np.argsort(~simple, axis=1, kind="stable")[:, : int(simple.sum(axis=1).max(initial=0))]
    rows = np.argsort(~plain, axis=1, kind="stable")[:, : int(plain.sum(axis=1).max(initial=0))]
    values = left_over[at[..., None], rows[:, :, None], columns[:, None]]
    values[~(plain[at, rows][:, :, None] & simple[at, columns][:, None])] = np.inf
    chosen = best(values.reshape(calls, -1), count)
    row, column = np.divmod(chosen, max(columns.shape[1], 1))
    return np.asarray(rows[at, row] * products + columns[at, column])


def _repeated(members: Ids, products: int) -> Mask:
    """Mark hypotheses (call path, hypothesis, term) that stand earlier in their row, in another order."""
    members = np.sort(members, axis=2)
    key = members @ products ** np.arange(members.shape[2])
    # equal keys are neighbours in sorted order: all but the first are repeated
    order = np.argsort(key, axis=1, kind="stable")
    ordered = np.take_along_axis(key, order, axis=1)
    again = np.zeros_like(ordered, dtype=bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    out = np.empty_like(again)
    np.put_along_axis(out, order, again, axis=1)
    return out


@dataclass(frozen=True)
class Costs:
    """What a hypothesis has to pay for its freedom, in nats; see `score`.

    What is added to the score counts however many points there are: noise is no reason to predict values that fall
    below zero.
    """

    # For each coefficient in addition to the constant, and each further factor of a parameter that is not plain; added
    # to the score for each negative coefficient of a term that does not fall, or only between two values, and is no
    # other one's with a factor less. Tuned: first 1.5, then 3, then 5; ablation: without, 86 instead of 92 % are found
    # (evidence/models.md).
    coefficient: float = 4.0
    # For each parameter that matters, and each further plain factor of it. Tuned: ablation: without, noise around a
    # constant stays a constant in 83 instead of 90 % (evidence/models.md).
    factor: float = 1.5


def score(error: Array, cost: Array, points: int | Ids, coefficients: int | Ids) -> Array:
    """Compare hypotheses of different size: smaller is better.

    ``log(error) + cost / (d + 1)``, d = points - coefficients. By chance alone a superfluous coefficient
    shrinks the residuals to a share r with a probability near r^d, so that to ask for a probability below
    exp(-cost) is to ask for log r < -cost / d. Few points thus demand a large improvement and many points a
    small one, and exact data always pass. The 1 lets three points show growth.
    """
    return np.asarray(np.log(np.hypot(error, ROUNDING_ERROR)) + cost / (points - coefficients + 1))


def smape_left_out(free: Array, residual: Array, values: Array, weights: Array) -> Array:
    """Compare hypotheses by the SMAPE of predictions at left-out points, as Extra-P does: smaller is better.

    Parameters
    ----------
    free, residual
        Shape (call path, hypothesis, point): 1 - leverage, and weighted residuals.
    values, weights
        Shape (call path, point).

    Returns
    -------
    array
        Shape (call path, hypothesis); infinite where a point fixes a coefficient alone.
    """
    bound = free < BOUND
    gaps = residual / weights[:, None] / np.where(bound, 1.0, free)
    size = np.abs(values[:, None]) + np.abs(values[:, None] - gaps)
    error = np.divide(np.abs(gaps), size, out=np.zeros_like(gaps), where=size > 0).mean(axis=2)
    return np.where(bound.any(axis=2), np.inf, error)


@dataclass(frozen=True, eq=False)
class Sums:
    """Hypotheses of one size that compete.

    Attributes
    ----------
    rows
        Shape (call path, hypothesis, term, parameter): of the term tables.
    coefficients
        Shape (call path, hypothesis, term).
    predicted
        Shape (call path, hypothesis, place): at the edges.
    errors
        Shape (call path, hypothesis): at left-out points; infinite where not usable.
    """

    rows: Ids
    coefficients: Array
    predicted: Array
    errors: Array


def cost_of(tables: list[TermTable], dictionary: Dictionary, sums: Sums, costs: Costs) -> tuple[Array, Array]:
    """Return shape (call path, hypothesis), twice: cost of the freedom, and the handicap on the score.

    The handicap is infinite for hypotheses that are negative at an edge of the range in which nothing may be.
    """
    rows, coefficients, new = sums.rows, sums.coefficients, first_occurrence(sums.rows)
    out = np.full(sums.errors.shape, float(costs.coefficient * rows.shape[2]))
    through, falling = np.zeros(out.shape, dtype=bool), np.zeros(coefficients.shape, dtype=bool)
    # shape (call path, hypothesis, term, other): the other is positive, with all factors of the term
    contained = np.tile((coefficients > 0)[:, :, None], (1, 1, rows.shape[2], 1))
    for p, table in enumerate(tables):
        of_table, first = rows[..., p], new[..., p]
        distinct, fancy = first.sum(axis=2), (first & ~table.plain[of_table]).sum(axis=2)
        # the first factor is free to be fancy; further ones pay by their kind
        expensive = np.minimum(fancy, np.maximum(distinct - 1, 0))
        out += costs.factor * (distinct - expensive) + costs.coefficient * expensive
        through |= distinct > max(table.levels - 2, 1)  # with more, it could pass through any values
        falling |= table.falling[of_table] & (table.levels > 2)  # no two values show a bound that is risen to
        contained &= (of_table[..., None] == of_table[:, :, None]) | (of_table == 0)[..., None]
    handicap = _EQUAL * (rows > 0).sum(axis=(2, 3))
    # growth that starts at a value, (sqrt(p) - 1) n^3, does not fall below zero
    handicap += costs.coefficient * ((coefficients < 0) & ~falling & ~contained.any(axis=3)).sum(axis=2)
    handicap[through] = np.inf
    below = sums.predicted.min(axis=2) < -BOUND * np.abs(sums.predicted).max(axis=2)
    handicap[below & (dictionary.values >= 0).all(axis=1, keepdims=True)] = np.inf
    return out, handicap


@dataclass(frozen=True, eq=False)
class BestHypotheses:
    """The best hypotheses of each call path, best first.

    Attributes
    ----------
    rows
        Shape (call path, hypothesis, term, parameter): rows of the term tables; all 0 for a term that is not there.
    scores
        Shape (call path, hypothesis): infinite where there are fewer hypotheses.
    """

    rows: NDArray[np.int16]
    scores: Array

    def enter(self, calls: Ids, rows: Ids, scores: Array) -> None:
        """Add hypotheses (call path, hypothesis, term, parameter) with their scores; the best remain."""
        terms, count = rows.shape[2], self.scores.shape[1]
        padded = np.zeros((*rows.shape[:2], *self.rows.shape[2:]), dtype=np.int16)
        padded[:, :, :terms] = rows
        all_scores = np.concatenate([self.scores[calls], scores], axis=1)
        all_rows = np.concatenate([self.rows[calls], padded], axis=1)
        order = np.argsort(all_scores, axis=1, kind="stable")[:, :count]  # of equals the smaller hypothesis
        at = np.arange(len(calls))[:, None]
        self.scores[calls], self.rows[calls] = all_scores[at, order], all_rows[at, order]
