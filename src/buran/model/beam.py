"""Hypotheses of many call paths at once: what to add to them, and how good they are."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from buran.model.candidates import DEPENDENT, Ids, Mask
from buran.model.terms import Array
from buran.model.tuning import SEARCH


@dataclass(frozen=True, eq=False)
class Dictionary:
    """Products of factors to choose terms from, for each call path of a chunk.

    Attributes
    ----------
    rows
        Shape (call path, product, parameter): rows of the term tables, 0 for absent factors.
    columns
        Shape (call path, product, point): weighted, made orthogonal to the constant, of length 1.
    usable
        Shape (call path, product): False where the product is constant over the points.
    simple
        Shape (call path, product): all factors plain or absent.
    always
        Shape (product,): extended by a second term however bad alone. A sum needs both its parts, so these
        are the single factors; of a single parameter, the plain ones.
    ahead
        Shape (call path, product): the columns continued to a point beyond the others, without its weight.
    shift, length
        Shape (call path, product): what was taken from the product of the tables' factors, and then divided by.
    level
        Shape (call path,): the constant hypothesis; infinite where values may be negative.
    """

    rows: Ids
    columns: Array
    usable: Mask
    simple: Mask
    always: Mask
    ahead: Array
    shift: Array
    length: Array
    level: Array

    def take(self, calls: Mask) -> Dictionary:
        """Return the part for some of the call paths."""
        return Dictionary(
            *(value if name == "always" else value[calls] for name, value in vars(self).items()),
        )


@dataclass(frozen=True, eq=False)
class Beam:
    """Hypotheses with the same number of terms, for each call path of a chunk.

    Attributes
    ----------
    members
        Shape (call path, hypothesis, term): places in the dictionary, ascending.
    basis
        Shape (call path, hypothesis, 1 + term, point): orthonormal, the constant first.
    residual
        Shape (call path, hypothesis, point), weighted.
    usable
        Shape (call path, hypothesis).
    basis_ahead
        Shape (call path, hypothesis, 1 + term): the basis continued to a point beyond the others.
    ahead
        Shape (call path, hypothesis): the prediction there.
    """

    members: Ids
    basis: Array
    residual: Array
    usable: Mask
    basis_ahead: Array
    ahead: Array

    def of(self, calls: Mask) -> Beam:
        """Return the part for some of the call paths."""
        return Beam(*(getattr(self, field.name)[calls] for field in fields(self)))

    def take(self, chosen: Ids) -> Beam:
        """Return the hypotheses `chosen` (call path, choice)."""
        at = np.arange(len(chosen))[:, None]
        return Beam(*(getattr(self, field.name)[at, chosen] for field in fields(self)))


def leave_one_out(beam: Beam) -> Array:
    """Mean absolute weighted error at each point when it is left out, in closed form.

    With h the diagonal of the hat matrix, the error at a left-out point is ``residual / (1 - h)`` (Allen's
    PRESS). Infinite where a point alone determines a coefficient.

    Returns
    -------
    array
        Shape (call path, hypothesis).
    """
    free = 1 - (beam.basis**2).sum(axis=2)
    bound = free < 1e-9
    errors = beam.residual / np.where(bound, 1.0, free)
    out = np.mean(np.abs(errors), axis=2)
    return np.where(bound.any(axis=2) | ~beam.usable, np.inf, out)


def leave_group_out(beam: Beam, asked: Mask, groups: Mask) -> Array:
    """Mean absolute weighted error at each point when its whole group is left out, in closed form.

    With Q the orthonormal basis at the points of a group and r their residuals, the errors are
    ``r + Q' (1 - Q Q')^-1 Q r`` (Woodbury). Infinite where the other groups do not determine all coefficients.

    Parameters
    ----------
    beam
        The hypotheses.
    asked
        Shape (call path, hypothesis): those in question.
    groups
        Shape (group, point); each point in one group.

    Returns
    -------
    array
        Shape (asked hypothesis,).
    """
    basis, residual = beam.basis[asked], beam.residual[asked]
    out = np.where(beam.usable[asked], 0.0, np.inf)
    for group in groups if len(basis) else ():
        group_basis, r = basis[:, :, group], residual[:, group]
        rest = np.eye(basis.shape[1]) - np.matmul(group_basis, group_basis.transpose(0, 2, 1))
        bound = np.linalg.eigvalsh(rest)[:, 0] < DEPENDENT
        rest[bound] = np.eye(basis.shape[1])
        correction = np.linalg.solve(rest, np.einsum("hkp,hp->hk", group_basis, r)[..., None])[..., 0]
        errors = np.abs(r + np.einsum("hkp,hk->hp", group_basis, correction)).sum(axis=1)
        out += np.where(bound, np.inf, errors)
    return np.asarray(out / residual.shape[1])


def extend(dictionary: Dictionary, beam: Beam, width: int, most: int | None = None) -> Beam:
    """Add one term of the dictionary to each hypothesis of the beam and keep the best.

    All one-term hypotheses are kept; of the larger ones `width` by residual, and twice as many of those made
    of plain terms only; none with more than `most` different factors of a parameter.
    """
    calls, _, size, _ = beam.basis.shape
    products = dictionary.columns.shape[1]
    at = np.arange(calls)[:, None]
    if size == 1:
        return _one_term(dictionary, beam)
    left_over = _left_over(dictionary, beam)
    looked_at = width if most is None else SEARCH.crowd * width
    kept = best(left_over.reshape(calls, -1), 2 * looked_at)  # most hypotheses turn up twice
    by_residual = kept.shape[1]
    kept = np.concatenate([kept, _best_plain(left_over, beam, dictionary.simple, 4 * looked_at)], axis=1)
    parent, added = np.divmod(kept, products)
    members = np.sort(np.concatenate([beam.members[at, parent], added[..., None]], axis=2), axis=2)
    fine = beam.usable[at, parent] & dictionary.usable[at, added] & ~_repeated(members, products)
    if most is not None:
        fine &= ~_crowded(dictionary, members, most)
    chosen = fine & np.concatenate(
        [np.cumsum(fine[:, :by_residual], axis=1) <= width, np.cumsum(fine[:, by_residual:], axis=1) <= 2 * width],
        axis=1,
    )
    survivors = best((~chosen).astype(np.float64), 3 * width)  # ties keep their order
    members, fine = members[at, survivors], chosen[at, survivors]
    parent, added = parent[at, survivors], added[at, survivors]
    column = dictionary.columns[at, added]
    basis, basis_ahead = beam.basis[at, parent], beam.basis_ahead[at, parent]
    column_ahead = dictionary.ahead[at, added]
    for _ in range(2):  # the second pass removes what rounding left of the first
        along = np.matmul(basis, column[..., None])[..., 0]
        column = column - np.matmul(along[:, :, None], basis)[:, :, 0]
        column_ahead = column_ahead - (along * basis_ahead).sum(axis=2)
    length = np.sqrt((column * column).sum(axis=2))
    fine = fine & (length**2 > DEPENDENT)
    length = np.where(fine, length, 1.0)
    column, column_ahead = column / length[..., None], column_ahead / length
    residual = beam.residual[at, parent]
    gain = (residual * column).sum(axis=2)
    return Beam(
        members,
        np.concatenate([basis, column[:, :, None]], axis=2),
        residual - gain[..., None] * column,
        fine,
        np.concatenate([basis_ahead, column_ahead[..., None]], axis=2),
        beam.ahead[at, parent] + gain * column_ahead,
    )


def first_occurrence(rows: Ids) -> Mask:
    """Mark present factors (above 0) that differ from the one before, in `rows` sorted along the last axis."""
    out = np.asarray(rows > 0)
    out[..., 1:] &= rows[..., 1:] != rows[..., :-1]
    return out


def _crowded(dictionary: Dictionary, members: Ids, most: int) -> Mask:
    """Mark hypotheses (call path, hypothesis, term) with more than `most` factors of one parameter."""
    rows = dictionary.rows[np.arange(len(members))[:, None, None], members]
    different = first_occurrence(np.sort(rows, axis=2).swapaxes(2, 3)).sum(axis=3)
    return np.asarray((different > most).any(axis=2))


def _one_term(dictionary: Dictionary, constant: Beam) -> Beam:
    """Return all hypotheses of one term: the columns are orthogonal to the constant already."""
    calls, products, _ = dictionary.columns.shape
    along = np.matmul(dictionary.columns, constant.residual[:, 0, :, None])
    first = np.broadcast_to(constant.basis[:, :, 0], dictionary.columns.shape)
    first_ahead = np.broadcast_to(constant.basis_ahead[:, :, 0], dictionary.ahead.shape)
    return Beam(
        np.tile(np.arange(products)[:, None], (calls, 1, 1)),
        np.stack([first, dictionary.columns], axis=2),
        constant.residual - along * dictionary.columns,
        dictionary.usable,
        np.stack([first_ahead, dictionary.ahead], axis=2),
        constant.ahead + along[..., 0] * dictionary.ahead,
    )


def _left_over(dictionary: Dictionary, beam: Beam) -> Array:
    """Residual sum of squares of each hypothesis with each product added: (call path, hypothesis, product).

    Infinite where the product depends linearly on the hypothesis, or the hypothesis is not usable.
    """
    size = beam.basis.shape[2]
    turned = dictionary.columns.transpose(0, 2, 1)
    out = np.asarray(np.matmul(beam.residual, turned))
    out *= out
    rest = np.ones_like(out)
    for number in range(1, size):  # columns are orthogonal to the constant already
        along = np.matmul(beam.basis[:, :, number], turned)
        along *= along
        rest -= along
    dependent = rest < DEPENDENT
    np.maximum(rest, DEPENDENT, out=rest)
    out /= rest
    np.subtract((beam.residual**2).sum(axis=2)[:, :, None], out, out=out)
    np.putmask(out, dependent, np.inf)
    out[~beam.usable] = np.inf
    return out


def _best_plain(left_over: Array, beam: Beam, simple: Mask, count: int) -> Ids:
    """Places (call path, choice) of the best in `left_over` flattened, of plain hypotheses with plain products."""
    calls, _hypotheses, products = left_over.shape
    plain = _all_plain(beam, simple)
    columns = np.argsort(~simple, axis=1, kind="stable")[:, : int(simple.sum(axis=1).max(initial=0))]
    rows = np.argsort(~plain, axis=1, kind="stable")[:, : int(plain.sum(axis=1).max(initial=0))]
    at = np.arange(calls)[:, None]
    values = left_over[at[..., None], rows[:, :, None], columns[:, None]]
    values[~(plain[at, rows][:, :, None] & simple[at, columns][:, None])] = np.inf
    chosen = best(values.reshape(calls, -1), count)
    row, column = np.divmod(chosen, max(columns.shape[1], 1))
    return np.asarray(rows[at, row] * products + columns[at, column])


def parents(beam: Beam, always: Mask, width: int) -> Beam:
    """Choose the one-term hypotheses to be extended: those marked `always` and the best others."""
    sums = (beam.residual**2).sum(axis=2)
    sums[~beam.usable] = np.inf
    sums[:, always] = np.inf
    forced = np.tile(np.flatnonzero(always), (len(sums), 1))
    return beam.take(np.concatenate([forced, best(sums, min(width, int((~always).sum())))], axis=1))


def _all_plain(beam: Beam, simple: Mask) -> Mask:
    """Return shape (call path, hypothesis): all terms plain."""
    at = np.arange(len(beam.members))[:, None, None]
    return np.asarray(simple[at, beam.members].all(axis=2))


def best(values: Array, count: int) -> Ids:
    """Places of the `count` smallest values of each row, in ascending order of the values."""
    count = min(count, values.shape[1])
    if count == 0:
        return np.zeros((len(values), 0), dtype=np.int64)
    with np.errstate(over="ignore"):  # half the bytes, and the order is taken from the full numbers
        places = np.argpartition(values.astype(np.float32), count - 1, axis=1)[:, :count]
    places.sort(axis=1)  # ties keep their order
    order = np.argsort(np.take_along_axis(values, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


def _repeated(members: Ids, products: int) -> Mask:
    """Mark hypotheses (call path, hypothesis, term) that stand earlier in their row, in another order."""
    key = np.zeros(members.shape[:2], dtype=np.int64)
    for term in range(members.shape[2]):
        key = key * products + members[:, :, term]
    order = np.argsort(key, axis=1, kind="stable")
    ordered = np.take_along_axis(key, order, axis=1)
    again = np.zeros_like(ordered, dtype=bool)
    again[:, 1:] = ordered[:, 1:] == ordered[:, :-1]
    out = np.empty_like(again)
    np.put_along_axis(out, order, again, axis=1)
    return out
