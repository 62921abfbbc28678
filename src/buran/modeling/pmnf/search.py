"""Search for the hypothesis of each call path: beam search over sums of terms, judged by leave-one-out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from buran.errors import UsageError
from buran.modeling.numerics.least_squares import best
from buran.modeling.pmnf.beam import (
    ROUNDING_ERROR,
    Beam,
    BestHypotheses,
    Costs,
    Criterion,
    Dictionary,
    Sums,
    cost_of,
    extend,
    leave_one_out,
    one_term,
    parents,
    score,
    smape_left_out,
)
from buran.modeling.pmnf.candidates import (
    DEPENDENT,
    Ids,
    Mask,
    TermTable,
    line_misfit,
    lines,
    log_misfit,
    patterns,
    short_list,
)
from buran.modeling.pmnf.powers import Spaces, space_of
from buran.modeling.pmnf.terms import Array
from buran.modeling.pmnf.tuning import BEAM, PROGRESS

Progress = Callable[[int], None]
_CHUNK_BYTES = 3_000_000  # of one working array; larger ones fall out of the cache


@dataclass(frozen=True)
class SearchOptions:
    """How wide to search.

    Attributes
    ----------
    max_terms
        Terms beside the constant.
    alternatives
        Hypotheses remembered for the uncertainty of the selection, the chosen one among them.
    terms_per_parameter
        Different factors of one parameter in a hypothesis, at most; any number by default.
    criterion
        What hypotheses compete by: ``error``, the mean error at left-out points with `costs`; or plainly ``smape``, as
        Extra-P does.
    costs
        Preference for simple hypotheses, for the criterion ``error``.
    """

    max_terms: int = 4
    alternatives: int = 32
    terms_per_parameter: int | None = None
    criterion: Criterion = "error"
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        if self.terms_per_parameter is not None and self.terms_per_parameter < 1:
            raise UsageError("a parameter needs at least one term", why=f"{self.terms_per_parameter} were asked for")

    def width(self, points: int, parameters: int) -> int:
        """Return the number of hypotheses to keep."""
        few = parameters == 1 or points >= BEAM * parameters
        return BEAM if few else self.alternatives


def search(
    points: Array,
    values: Array,
    weights: Array,
    space: Spaces,
    options: SearchOptions,
    progress: Progress | None = None,
) -> tuple[list[TermTable], BestHypotheses]:
    """Find the best hypotheses of each call path.

    Parameters
    ----------
    points
        Shape (point, parameter).
    values, weights
        Shape (call path, point); finite, weights positive.
    space
        Exponents to try.
    options
        Width of the search.
    progress
        Called with the number of call paths that were newly searched.

    Returns
    -------
    tables
        One for each parameter.
    found
        The best hypotheses of each call path.
    """
    count, parameters = points.shape
    functions = [space_of(space, p).candidates(points[:, p]) for p in range(parameters)]
    tables = [TermTable.of(functions[p], points[:, p]) for p in range(parameters)]
    rows = np.zeros((len(values), options.alternatives, options.max_terms, parameters), dtype=np.int16)
    hypotheses = BestHypotheses(rows, np.full(rows.shape[:2], np.inf))
    if min(options.max_terms, count - 2) < 1 or not any(table.functions for table in tables):
        hypotheses.scores[:, 0] = 0.0
        return tables, hypotheses
    products = patterns(tuple(_listed(table, parameters) for table in tables))
    grid = _Grid(points, tables, [lines(points, p) for p in range(parameters)], products)
    width = options.width(count, parameters)
    chunk = max(1, _CHUNK_BYTES // (8 * len(products) * max(count, 2 * width)))
    for start in range(0, len(values), chunk):
        part = slice(start, start + chunk)
        y, w = values[part], weights[part]
        with _one_thread():
            calls = _Calls(np.arange(len(y)), y, w, _dictionary(grid, y, w))
            # views: found hypotheses are entered there
            _beam_search(tables, calls, options, width, BestHypotheses(hypotheses.rows[part], hypotheses.scores[part]))
        if progress is not None:
            progress(len(y))
    return tables, hypotheses


def _listed(table: TermTable, parameters: int) -> int:
    """Length of the short list: the whole table for a single parameter."""
    return min(len(table.functions), BEAM + int(table.plain.sum()) if parameters > 1 else len(table.functions))


@dataclass(frozen=True, eq=False)
class _Calls:
    """The call paths of a chunk whose hypotheses are still extended.

    Attributes
    ----------
    index
        Shape (call path,): their places in the chunk.
    values, weights
        Shape (call path, point).
    dictionary
        The products to choose terms from.
    """

    index: Ids
    values: Array
    weights: Array
    dictionary: Dictionary

    def of(self, keep: Mask) -> _Calls:
        """Return the part for some of the call paths."""
        return _Calls(self.index[keep], self.values[keep], self.weights[keep], self.dictionary.of(keep))

    def judged(self, criterion: Criterion, free: Array, residual: Array) -> Array:
        """Return errors at left-out points, shape (call path, hypothesis).

        Parameters
        ----------
        free, residual
            Shape (call path, hypothesis, point): 1 less the leverage, and weighted residuals.
        """
        if criterion == "error":
            return leave_one_out(free, residual)
        return smape_left_out(free, residual, self.values, self.weights)


def _beam_search(
    tables: list[TermTable], calls: _Calls, options: SearchOptions, width: int, hypotheses: BestHypotheses
) -> None:
    """Extend the constant term by term; enter the best hypotheses into `hypotheses`."""
    largest = min(options.max_terms, calls.values.shape[1] - 2)
    _enter_constant(calls, options, hypotheses)
    before = np.full(len(calls.index), np.inf)  # smallest errors with a term less
    beam: Beam | None = None
    for terms in range(1, largest + 1):
        if terms == 1:
            sums = _single_terms(calls, options.criterion)
        else:
            parent = beam or parents(calls.dictionary, width)
            beam = extend(calls.dictionary, parent, width, options.terms_per_parameter)
            sums = _extended_sums(calls, beam, options.criterion)
        better = _enter_best(tables, calls, sums, options, hypotheses)
        smallest = sums.errors.min(axis=1)
        keep = smallest > ROUNDING_ERROR
        if terms >= max(2, len(tables)):  # below, a sum may not have all its parts yet
            keep &= better | (smallest < PROGRESS * before)
        before = smallest[keep]
        if terms == largest or not keep.any():
            break
        if not keep.all():
            calls = calls.of(keep)
            beam = None if beam is None else beam.of(keep)


def _enter_constant(calls: _Calls, options: SearchOptions, hypotheses: BestHypotheses) -> None:
    """Enter the constant hypotheses."""
    dictionary = calls.dictionary
    # of a constant with unit vector u, 1 - h = 1 - u^2
    errors = calls.judged(options.criterion, 1 - dictionary.unit[:, None] ** 2, dictionary.centred[:, None])
    hypotheses.scores[:, 0] = score(errors, np.zeros(errors.shape), calls.values.shape[1], 1)[:, 0]


def _single_terms(calls: _Calls, criterion: Criterion) -> Sums:
    """Return the constant with each product of the dictionary, in parts that fit into the cache."""
    dictionary = calls.dictionary
    chunk, products, count = dictionary.columns.shape
    together = max(1, _CHUNK_BYTES // (32 * chunk * count))  # four such arrays at once
    parts = (one_term(dictionary, slice(start, start + together)) for start in range(0, products, together))
    errors = np.concatenate([calls.judged(criterion, part.free, part.residual) for part in parts], axis=1)
    errors = np.where(dictionary.usable, errors, np.inf)
    rows, coefficients = dictionary.rows[:, :, None], dictionary.gain[..., None]
    predicted = coefficients * dictionary.there + dictionary.level[:, None, None]
    return Sums(rows, coefficients, predicted, errors)


def _extended_sums(calls: _Calls, beam: Beam, criterion: Criterion) -> Sums:
    """Return the hypotheses of a beam."""
    dictionary, at = calls.dictionary, np.arange(len(calls.index))[:, None, None]
    errors = np.where(beam.usable, calls.judged(criterion, beam.free, beam.residual), np.inf)
    # f(x) = c_0 + sum_k c_k t_k(x), at the edges
    predicted = np.matmul(beam.coefficients[:, :, None], dictionary.there[at, beam.members])[:, :, 0]
    predicted += dictionary.level[:, None, None]
    return Sums(dictionary.rows[at, beam.members], beam.coefficients, predicted, errors)


def _enter_best(
    tables: list[TermTable], calls: _Calls, sums: Sums, options: SearchOptions, hypotheses: BestHypotheses
) -> Mask:
    """Enter the best of the sums into `hypotheses`; return shape (call path,): whether one beats those before."""
    cost, handicap = cost_of(tables, calls.dictionary, sums, options.costs)
    if options.criterion != "error":  # as published, without costs
        cost, handicap = np.zeros_like(cost), np.where(np.isfinite(handicap), 0.0, np.inf)
    scores = score(sums.errors, cost, calls.values.shape[1], sums.rows.shape[2] + 1) + handicap
    at, front = np.arange(len(scores))[:, None], best(scores, options.alternatives)
    front_scores = scores[at, front]
    better = np.asarray(front_scores[:, 0] < hypotheses.scores[calls.index, 0])
    hypotheses.enter(calls.index, sums.rows[at, front], front_scores)
    return better


@dataclass(frozen=True, eq=False)
class _Grid:
    """What all call paths of a search share.

    Attributes
    ----------
    points
        Shape (point, parameter).
    tables
        Terms of each parameter.
    on_lines
        For each parameter, the points of each line along it; empty where there are none.
    products
        Shape (product, parameter): places in the short lists, 0 for absent factors.
    """

    points: Array
    tables: list[TermTable]
    on_lines: list[list[Ids]]
    products: Ids

    def short_lists(self, values: Array, weights: Array) -> list[Ids]:
        """Return for each parameter shape (call path, place): rows of its table, 0 first for an absent factor."""
        none = np.zeros((len(values), 1), dtype=np.int64)
        out: list[Ids] = []
        for p, table in enumerate(self.tables):
            if len(self.tables) == 1:
                chosen = np.tile(np.arange(1, 1 + len(table.functions)), (len(values), 1))
            elif self.on_lines[p]:
                chosen = short_list(table, line_misfit(table, self.on_lines[p], values, weights))
            else:
                chosen = short_list(table, log_misfit(table, self.points, p, values, weights))
            out.append(np.concatenate([none, chosen], axis=1))
        return out


def _dictionary(grid: _Grid, values: Array, weights: Array) -> Dictionary:
    """Form the products of the short lists, and the hypothesis that is constant."""
    (calls, count), tables, products = weights.shape, grid.tables, grid.products
    edges = np.array(list(product(*(range(table.edges.shape[1]) for table in tables))))
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    # the points, and the edges, where nothing is weighted
    constant = np.concatenate([weights, np.ones((calls, len(edges)))], axis=1)
    unit = constant / length
    rows = np.zeros((calls, len(products), len(tables)), dtype=np.int64)
    factors: list[Array] = []
    for p, (table, listed) in enumerate(zip(tables, grid.short_lists(values, weights), strict=True)):
        everywhere = np.concatenate([table.values, table.edges[:, edges[:, p]]], axis=1)
        factors.append(everywhere[listed[:, 1:]])
        rows[:, :, p] = listed[:, products[:, p]]
    columns, usable = _orthonormal_products(products, factors, constant, unit, count)
    # what the constant u leaves of the weighted values y: y - (u'y) u
    y = values * weights
    along = (y * unit[:, :count]).sum(axis=1, keepdims=True)
    centred = y - along * unit[:, :count]
    plain = [table.plain[rows[..., p]] | (rows[..., p] == 0) for p, table in enumerate(tables)]
    simple = np.asarray(np.logical_and.reduce(plain))
    always = np.asarray(simple[0] if len(tables) == 1 else (products > 0).sum(axis=1) == 1)
    level, positive = along[:, 0] / length[:, 0], np.asarray((values >= 0).all(axis=1))
    seen, there, unit = columns[..., :count], columns[..., count:], unit[:, :count]
    gain = np.matmul(seen, centred[..., None])[..., 0]
    return Dictionary(rows, seen, there, usable, simple, always, level, positive, unit, centred, gain)


def _orthonormal_products(
    products: Ids, factors: list[Array], constant: Array, unit: Array, count: int
) -> tuple[Array, Mask]:
    """Return products of factors, orthogonal to the constant at the points and of length 1 there, and the usable ones.

    Parameters
    ----------
    factors
        For each parameter shape (call path, factor, place); the first `count` places are the points.
    constant, unit
        Shape (call path, place): the constant, weighted, and that of length 1.

    Returns
    -------
    columns, usable
        Shape (call path, product, place) and (call path, product): False where a product is constant.
    """
    (calls, width), present = constant.shape, products > 0
    columns, usable = np.empty((calls, len(products), width)), np.empty((calls, len(products)), dtype=bool)
    starts = [0, *(1 + np.flatnonzero((present[1:] != present[:-1]).any(axis=1))).tolist(), len(products)]
    for start, end in pairwise(starts):  # products of the same parameters
        block = constant[:, None]
        for p in np.flatnonzero(present[start]).tolist():
            some = factors[p][:, : products[end - 1, p]]
            block = (block[:, :, None] * some[:, None]).reshape(calls, -1, width)
        # b - (u'b) u, by Gram and Schmidt
        before = np.vecdot(block[..., :count], block[..., :count])
        for _ in range(2):  # the second pass removes what rounding left of the first
            block -= np.matmul(block[..., :count], unit[:, :count, None]) * unit[:, None]
        after = np.vecdot(block[..., :count], block[..., :count])
        usable[:, start:end] = after > DEPENDENT * before
        np.divide(block, np.sqrt(np.where(usable[:, start:end], after, 1.0))[..., None], out=columns[:, start:end])
    return columns, usable


@cache
def _libraries() -> ThreadpoolController:
    return ThreadpoolController()


def _one_thread() -> AbstractContextManager[Any]:
    """Let linear algebra use one thread only, as long as it lasts.

    Products of small matrices gain nothing from several: their threads wait for each other, and take the time of cores
    that have other work.
    """
    limited: AbstractContextManager[Any] = _libraries().limit(limits=1, user_api="blas")
    return limited
