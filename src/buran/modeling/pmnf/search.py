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
from buran.modeling.functions.powers import Spaces, space_of
from buran.modeling.functions.terms import Array
from buran.modeling.numerics.least_squares import Ids, Mask, best
from buran.modeling.numerics.tuning import BEAM, PROGRESS
from buran.modeling.pmnf.beam import (
    ROUNDING_ERROR,
    BestHypotheses,
    Costs,
    Criterion,
    Dictionary,
    Sums,
    cost_of,
    extend,
    one_term,
    parents,
    score,
)
from buran.modeling.pmnf.candidates import DEPENDENT, TermTable, line_misfit, lines, log_misfit, patterns, short_list

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
        Hypotheses remembered for the uncertainty of the selection, the chosen one among them; as many of each size are
        extended where there are several parameters.
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
    on_lines = [lines(points, p) for p in range(parameters)]
    # terms that resemble each other crowd a narrow beam: (sqrt(p) - 1) n^3 is found with 24 hypotheses, not with 20
    width = BEAM if parameters == 1 else options.alternatives
    chunk = max(1, _CHUNK_BYTES // (8 * len(products) * max(count, 2 * width)))
    for start in range(0, len(values), chunk):
        part = slice(start, start + chunk)
        y, w = values[part], weights[part]
        with _one_thread():
            listed = [_short_list(table, points, p, on_lines[p], y, w) for p, table in enumerate(tables)]
            dictionary = _dictionary(tables, products, listed, y, w)
            # views: found hypotheses are entered there
            entered = BestHypotheses(hypotheses.rows[part], hypotheses.scores[part])
            _beam_search(tables, dictionary, options, width, entered)
        if progress is not None:
            progress(len(y))
    return tables, hypotheses


def _listed(table: TermTable, parameters: int) -> int:
    """Length of the short list: the whole table for a single parameter."""
    return min(len(table.functions), BEAM + int(table.plain.sum()) if parameters > 1 else len(table.functions))


def _beam_search(
    tables: list[TermTable], dictionary: Dictionary, options: SearchOptions, width: int, hypotheses: BestHypotheses
) -> None:
    """Extend the constant term by term; enter the best hypotheses into `hypotheses`."""
    # of a constant with unit vector u, 1 - h = 1 - u^2
    errors = dictionary.errors(options.criterion, 1 - dictionary.unit[:, None] ** 2, dictionary.centred[:, None])
    hypotheses.scores[:, 0] = score(errors, np.zeros(errors.shape), dictionary.values.shape[1], 1)[:, 0]
    largest = min(options.max_terms, dictionary.values.shape[1] - 2)
    before = np.full(len(errors), np.inf)  # smallest errors with a term less
    beam = one_term(dictionary)
    for terms in range(1, largest + 1):
        if terms > 1:
            parent = parents(dictionary, beam, width) if terms == 2 else beam
            beam = extend(dictionary, parent, width, options.terms_per_parameter)
        sums = beam.sums(dictionary, options.criterion)
        better = _enter_best(tables, dictionary, sums, options, hypotheses)
        smallest = sums.errors.min(axis=1)
        keep = smallest > ROUNDING_ERROR
        if terms >= max(2, len(tables)):  # below, a sum may not have all its parts yet
            keep &= better | (smallest < PROGRESS * before)
        before = smallest[keep]
        if not keep.any():
            break
        if not keep.all():
            dictionary, beam = dictionary.of(keep), beam.of(keep)


def _enter_best(
    tables: list[TermTable], dictionary: Dictionary, sums: Sums, options: SearchOptions, hypotheses: BestHypotheses
) -> Mask:
    """Enter the best of the sums into `hypotheses`; return shape (call path,): whether one beats those before."""
    cost, handicap = cost_of(tables, dictionary, sums, options.costs)
    if options.criterion != "error":  # as published, without costs
        cost, handicap = np.zeros_like(cost), np.where(np.isfinite(handicap), 0.0, np.inf)
    scores = score(sums.errors, cost, dictionary.values.shape[1], sums.rows.shape[2] + 1) + handicap
    at, front = np.arange(len(scores))[:, None], best(scores, options.alternatives)
    front_scores = scores[at, front]
    better = np.asarray(front_scores[:, 0] < hypotheses.scores[dictionary.index, 0])
    hypotheses.enter(dictionary.index, sums.rows[at, front], front_scores)
    return better


def _short_list(
    table: TermTable, points: Array, parameter: int, on_lines: list[Ids], values: Array, weights: Array
) -> Ids:
    """Return rows of the table of a parameter, shape (call path, place), 0 first for an absent factor."""
    if points.shape[1] == 1:
        chosen = np.tile(np.arange(1, 1 + len(table.functions)), (len(values), 1))
    elif on_lines:
        chosen = short_list(table, line_misfit(table, on_lines, values, weights))
    else:
        chosen = short_list(table, log_misfit(table, points, parameter, values, weights))
    return np.pad(chosen, ((0, 0), (1, 0)))


def _dictionary(
    tables: list[TermTable], products: Ids, short_lists: list[Ids], values: Array, weights: Array
) -> Dictionary:
    """Form the products of the short lists, and the hypothesis that is constant."""
    calls, count = weights.shape
    edges = np.array(list(product(*(range(table.edges.shape[1]) for table in tables))))
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    # the points, and the edges, where nothing is weighted
    constant = np.concatenate([weights, np.ones((calls, len(edges)))], axis=1)
    unit = constant / length
    rows = np.zeros((calls, len(products), len(tables)), dtype=np.int64)
    factors: list[Array] = []
    for p, (table, listed) in enumerate(zip(tables, short_lists, strict=True)):
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
    level, index = along[:, 0] / length[:, 0], np.arange(calls)
    seen, there, unit = columns[..., :count], columns[..., count:], unit[:, :count]
    gain = np.matmul(seen, centred[..., None])[..., 0]
    return Dictionary(index, values, weights, rows, seen, there, usable, simple, always, level, unit, centred, gain)


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
