"""Hypotheses of many call paths at once: what to add to them, and how well they predict left-out points."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.modeling.numerics.arrays import best
from buran.modeling.pmnf.candidates import DEPENDENT, Ids, Mask
from buran.modeling.pmnf.terms import Array
from buran.modeling.pmnf.tuning import BEAM

BOUND = 1e-9  # 1 - leverage of a point that fixes a coefficient alone


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Products of factors to choose terms from, for each call path of a chunk, and the hypothesis that is constant.

    Attributes
    ----------
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
    positive
        Shape (call path,): whether no value is negative.
    unit
        Shape (call path, point): the constant, weighted, of length 1.
    centred
        Shape (call path, point): what it leaves, weighted.
    gain
        Shape (call path, product): of that, what is along each column.
    """

    rows: Ids
    columns: Array
    there: Array
    usable: Mask
    simple: Mask
    always: Mask
    level: Array
    positive: Mask
    unit: Array
    centred: Array
    gain: Array

    def of(self, calls: Mask) -> Dictionary:
        """Return the part for some of the call paths."""
        return Dictionary(**{key: value if key == "always" else value[calls] for key, value in vars(self).items()})


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
    gain
        Shape (call path, hypothesis): what the last vector of the basis explains of the values.
    parent, along, orthogonal
        Shape (call path, hypothesis), and twice (call path, parent, product): the hypotheses with a term less; what
        columns of the dictionary have along their residuals, and beside their bases, squared.
    """

    members: Ids
    coefficients: Array
    usable: Mask
    basis: Array
    turn: Array
    free: Array
    residual: Array
    gain: Array
    parent: Ids
    along: Array
    orthogonal: Array

    def of(self, calls: Mask) -> Beam:
        """Return the part for some of the call paths."""
        return Beam(*(getattr(self, field.name)[calls] for field in fields(self)))


def one_term(dictionary: Dictionary, chosen: slice | tuple[Ids, Ids]) -> Beam:
    """Return hypotheses of one term each: some products, the same or (call path, product) of each call path."""
    some = (slice(None), chosen) if isinstance(chosen, slice) else chosen
    columns, gain = dictionary.columns[some], dictionary.gain[some]
    free, residual = np.square(columns), gain[..., None] * columns
    np.subtract((1 - dictionary.unit**2)[:, None], free, out=free)
    np.subtract(dictionary.centred[:, None], residual, out=residual)
    return Beam(
        np.broadcast_to(np.arange(dictionary.gain.shape[1]), dictionary.gain.shape)[some][..., None],
        gain[..., None],
        dictionary.usable[some],
        columns[:, :, None],
        np.ones((*gain.shape, 1, 1)),
        free,
        residual,
        gain,
        np.zeros(gain.shape, dtype=np.int64),
        dictionary.gain[:, None],
        dictionary.usable[:, None].astype(np.float64),
    )


def extend(dictionary: Dictionary, beam: Beam, width: int, most: int | None = None) -> Beam:
    """Add one term of the dictionary to each hypothesis of the beam and keep the best.

    `width` by residual, and twice as many of those made of plain terms only; none with more than `most` different
    factors of a parameter.
    """
    calls, products, _ = dictionary.columns.shape
    terms = beam.members.shape[2]
    at = np.arange(calls)[:, None]
    left_over, along, orthogonal = _left_over(dictionary, beam)
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
        gain,
        parent,
        along,
        orthogonal,
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


def parents(dictionary: Dictionary, width: int) -> Beam:
    """Choose the one-term hypotheses to be extended: those marked `always` and the best others."""
    explained = np.where(dictionary.usable & ~dictionary.always, dictionary.gain**2, -np.inf)
    forced = np.tile(np.flatnonzero(dictionary.always), (len(explained), 1))
    others = best(-explained, min(width, int((~dictionary.always).sum())))
    return one_term(dictionary, (np.arange(len(explained))[:, None], np.concatenate([forced, others], axis=1)))


def _left_over(dictionary: Dictionary, beam: Beam) -> tuple[Array, Array, Array]:
    """Residual sum of squares of each hypothesis with each product added: (call path, hypothesis, product).

    Infinite where the product depends linearly on the hypothesis, or the hypothesis is not usable. Also what products
    have along the residuals, and beside the bases: what the parents left, less the part of the last vector.
    """
    at = np.arange(len(beam.parent))[:, None]
    step = np.matmul(beam.basis[:, :, -1], dictionary.columns.transpose(0, 2, 1))
    along = beam.gain[..., None] * step
    np.subtract(beam.along[at, beam.parent], along, out=along)
    np.square(step, out=step)
    orthogonal = np.subtract(beam.orthogonal[at, beam.parent], step, out=step)
    out = np.square(along)
    with np.errstate(divide="ignore", invalid="ignore"):
        out /= orthogonal
    np.subtract((beam.residual**2).sum(axis=2)[:, :, None], out, out=out)
    np.putmask(out, orthogonal < DEPENDENT, np.inf)
    out[~beam.usable] = np.inf
    return out, along, orthogonal


def _best_plain(left_over: Array, beam: Beam, simple: Mask, count: int) -> Ids:
    """Places (call path, choice) of the best in `left_over` flattened, of plain hypotheses with plain products."""
    calls, _hypotheses, products = left_over.shape
    at = np.arange(calls)[:, None]
    plain = np.asarray(simple[at[..., None], beam.members].all(axis=2))
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
    order = np.argsort(key, axis=1, kind="stable")
    ordered = np.take_along_axis(key, order, axis=1)
    again = np.zeros_like(ordered, dtype=bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    out = np.empty_like(again)
    np.put_along_axis(out, order, again, axis=1)
    return out
