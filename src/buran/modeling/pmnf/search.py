"""Search for the hypothesis of each call path: beam search over sums of terms, judged by leave-one-out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from buran.errors import UsageError
from buran.modeling.numerics.arrays import best
from buran.modeling.numerics.intervals import ROUNDING
from buran.modeling.numerics.tuning import FEW
from buran.modeling.pmnf.beam import Beam, Dictionary, extend, first_occurrence, leave_one_out, one_term, parents
from buran.modeling.pmnf.best_hypotheses import BestHypotheses, beyond
from buran.modeling.pmnf.candidates import (
    DEPENDENT,
    Ids,
    Mask,
    TermTable,
    falls_with,
    line_misfit,
    lines,
    log_misfit,
    patterns,
    short_list,
)
from buran.modeling.pmnf.scatter import Scatter
from buran.modeling.pmnf.scoring import (
    CRITERIA,
    MEAN_ABSOLUTE,
    ROUNDING_ERROR,
    Costs,
    Criterion,
    by_criterion,
    cost_of,
    score,
    with_groups_out,
)
from buran.modeling.pmnf.space import Spaces, space_of
from buran.modeling.pmnf.terms import Array
from buran.modeling.pmnf.tuning import BEAM, PROGRESS, STEADY

Progress = Callable[[int], None]
_ARRAYS = 8  # of the size of all terms at all points that the search has at once
_MOST_BYTES = 4_000_000_000
_CHUNK_BYTES = 3_000_000  # of one working array; larger ones fall out of the cache


@dataclass(frozen=True)
class SearchOptions:
    """How wide to search.

    Attributes
    ----------
    max_terms
        Terms beside the constant.
    beam
        Hypotheses of one size kept to be extended; by default few for a single parameter and where there are many
        points, which tell hypotheses apart early, else as many as `alternatives`.
    alternatives
        Hypotheses remembered for the uncertainty of the selection, the chosen one among them.
    nonnegative
        Whether only coefficients of 0 and more are allowed.
    terms_per_parameter
        Different factors of one parameter in a hypothesis, at most; any number by default.
    criterion
        What hypotheses compete by: ``error``, the mean error at left-out points with `costs`; or plainly ``smape``,
        ``rss``, ``ar2``, ``bic``, see `by_criterion`.
    costs
        Preference for simple hypotheses, for the criterion ``error``.
    """

    max_terms: int = 4
    beam: int | None = None
    alternatives: int = 32
    nonnegative: bool = False
    terms_per_parameter: int | None = None
    criterion: Criterion = "error"
    costs: Costs = field(default_factory=Costs)

    def __post_init__(self) -> None:
        if self.max_terms < 0:
            raise UsageError("a model cannot have fewer than 0 terms", why=f"max_terms is {self.max_terms}")
        if self.terms_per_parameter is not None and self.terms_per_parameter < 1:
            raise UsageError("a parameter needs at least one term", why=f"{self.terms_per_parameter} were asked for")
        if self.criterion not in CRITERIA:
            raise UsageError(f"no criterion is called {self.criterion!r}", hint=f"choose from {', '.join(CRITERIA)}")

    def width(self, points: int, parameters: int) -> int:
        """Return the number of hypotheses to keep."""
        if self.beam is not None:
            return self.beam
        few = parameters == 1 or points >= BEAM * parameters
        return BEAM if few else self.alternatives


def search(
    points: Array,
    values: Array,
    weights: Array,
    scatter: Scatter,
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
    scatter
        What is known about the noise.
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
    target = beyond(points)
    gaps = {1: count, 2: 1}.get(parameters, 0)  # a function of several parameters hardly ever dips between values
    functions = [space_of(space, p).candidates(points[:, p]) for p in range(parameters)]
    _check_memory(max(map(len, functions)), count)
    tables = [TermTable.of(functions[p], points[:, p], float(target[p]), gaps) for p in range(parameters)]
    hypotheses = BestHypotheses.of(len(values), options.alternatives, options.max_terms, parameters)
    if min(options.max_terms, count - 2) < 1 or not any(table.functions for table in tables):
        hypotheses.scores[:, 0] = 0.0
        return tables, hypotheses
    on_lines = [lines(points, p) for p in range(parameters)]
    products = patterns(tuple(_listed(table, parameters) for table in tables))
    width = options.width(count, parameters)
    chunk = max(1, _CHUNK_BYTES // (8 * len(products) * max(count, 2 * width)))
    for start in range(0, len(values), chunk):
        part = slice(start, start + chunk)
        y, w = values[part], weights[part]
        part_hypotheses = hypotheses.of_calls(part)
        with _one_thread():
            falls = falls_with(points, y)
            dictionary = _dictionary(points, tables, on_lines, products, y, w, falls)
            error = _beam_search(tables, dictionary, y, w, scatter.of(part), options, width, part_hypotheses)
        if options.criterion == "error":
            steady = (error > ROUNDING) & (error < STEADY)
            part_hypotheses.put_central_first(count, steady, _is_plain(tables, part_hypotheses.rows))
        if progress is not None:
            progress(len(y))
    return tables, hypotheses


def _is_plain(tables: list[TermTable], rows: NDArray[np.int16]) -> Mask:
    """Mark hypotheses that claim no more than few values of a parameter tell: one simple factor of it at most.

    Parameters
    ----------
    rows
        Shape (call path, hypothesis, term, parameter), of the tables.
    """
    plain = np.ones(rows.shape[:2], dtype=bool)
    for p, table in enumerate(tables):
        if len(table.same_value) <= FEW:
            factors = rows[..., p : p + 1]
            plain &= (table.plain | (np.arange(len(table.plain)) == 0))[factors].all(axis=(2, 3))
            plain &= first_occurrence(factors).sum(axis=(2, 3)) <= 1
    return plain


def _check_memory(terms: int, points: int) -> None:
    """Refuse a space whose terms alone do not fit into memory."""
    needed = 8 * _ARRAYS * terms * points
    if needed > _MOST_BYTES:
        raise UsageError(
            "the hypothesis space is too large for the search",
            why=f"{terms} terms of a parameter at {points} points take {needed / 1e9:.3g} GB, "
            f"more than {_MOST_BYTES / 1e9:.3g} GB",
            hint="leave terms out of the space, those with logarithms first, or model fewer points",
        )


def _listed(table: TermTable, parameters: int) -> int:
    """Length of the short list: the whole table for a single parameter."""
    return min(len(table.functions), BEAM + int(table.plain.sum()) if parameters > 1 else len(table.functions))


def _beam_search(
    tables: list[TermTable],
    dictionary: Dictionary,
    values: Array,
    weights: Array,
    scatter: Scatter,
    options: SearchOptions,
    width: int,
    hypotheses: BestHypotheses,
) -> Array:
    """Extend the constant term by term; enter the best hypotheses into `hypotheses`; return the smallest errors."""
    calls, products, count = dictionary.columns.shape
    largest = min(options.max_terms, count - 2)
    active = np.arange(calls)

    def judged(free: Array, residual: Array, coefficients: int) -> tuple[Array, Array]:
        errors = leave_one_out(free, residual)
        if options.criterion == "error":
            return errors, errors
        return errors, by_criterion(options.criterion, free, residual, coefficients, values[active], weights[active])

    errors, scores = judged(1 - dictionary.unit[:, None] ** 2, dictionary.centred[:, None], 1)
    least = errors[:, 0]
    if options.criterion == "error":
        scores = score(errors, np.zeros((calls, 1)), count, 1)
    hypotheses.scores[:, 0], hypotheses.ahead[:, 0] = scores[:, 0], dictionary.level
    before = np.full(calls, np.inf)  # smallest errors with a term less
    beam: Beam | None = None
    for terms in range(1, largest + 1):
        if terms == 1:
            members, coefficients = np.tile(np.arange(products)[:, None], (calls, 1, 1)), dictionary.gain[..., None]
            together = max(1, _CHUNK_BYTES // (32 * calls * count))  # four such arrays at once
            parts = (one_term(dictionary, slice(start, start + together)) for start in range(0, products, together))
            figures = [judged(part.free, part.residual, 2) for part in parts]
            errors, scores = (np.concatenate(each, axis=1) for each in zip(*figures, strict=True))
            usable, predicted = dictionary.usable, coefficients * dictionary.there
            rows = dictionary.rows[:, :, None]
            new = rows > 0
        else:
            beam = extend(dictionary, beam or parents(dictionary, width), width, options.terms_per_parameter)
            members, coefficients, usable = beam.members, beam.coefficients, beam.usable
            at = np.arange(len(active))[:, None, None]
            errors, scores = judged(beam.free, beam.residual, terms + 1)
            predicted = np.matmul(coefficients[:, :, None], dictionary.there[at, members])[:, :, 0]
            rows = dictionary.rows[at, members]
            new = first_occurrence(rows)
            errors = with_groups_out(tables, dictionary, beam, new, errors)
        errors = np.where(usable, errors, np.inf)
        predicted += dictionary.level[:, None, None]
        cost, handicap = cost_of(
            tables, dictionary, rows, new, coefficients, predicted[..., 1:], errors, options.costs, options.nonnegative
        )
        if options.criterion == "error":
            scores = score(errors, cost, count, terms + 1) + handicap
        else:
            scores = np.where(usable & np.isfinite(handicap), scores, np.inf)
        at = np.arange(len(active))[:, None]
        front = best(scores, options.alternatives)
        front_scores = scores[at, front]
        better = front_scores[:, 0] < hypotheses.scores[active, 0]
        hypotheses.enter(active, rows[at, front], front_scores, predicted[at, front, 0])
        smallest = errors.min(axis=1)
        keep = smallest > ROUNDING_ERROR
        noise = MEAN_ABSOLUTE * scatter.share
        if terms >= len(tables):  # below, a sum may not have all its parts yet
            left_out = (count / (count - terms - 1)) ** 0.5  # by so much errors at left-out points exceed the noise
            keep &= (scatter.degrees < count) | (smallest >= noise * left_out)
        if terms >= max(2, len(tables)):
            unexplained = (scatter.degrees > 0) & (smallest > noise)
            keep &= better | (smallest < PROGRESS * before[active]) | unexplained
        before[active] = smallest
        least[active] = np.minimum(least[active], smallest)
        if terms == largest or not keep.any():
            break
        if not keep.all():
            active, scatter, dictionary = active[keep], scatter.of(keep), dictionary.of(keep)
            beam = None if beam is None else beam.of(keep)
    return least


def _dictionary(
    points: Array,
    tables: list[TermTable],
    on_lines: list[list[Ids]],
    products: Ids,
    values: Array,
    weights: Array,
    falls: Mask,
) -> Dictionary:
    """Form the products of the short lists, and the hypothesis that is constant."""
    (calls, count), parameters = weights.shape, len(tables)
    edges = np.array(list(product(*(range(table.edges.shape[1]) for table in tables))))
    length = np.linalg.norm(weights, axis=1, keepdims=True)
    # the points, one beyond them, and the edges, where nothing is weighted
    constant = np.concatenate([weights, np.ones((calls, 1 + len(edges)))], axis=1)
    unit = constant / length
    columns = np.empty((calls, len(products), constant.shape[1]))
    rows = np.zeros((calls, len(products), parameters), dtype=np.int64)
    listed: list[Ids] = []
    factors: list[Array] = []
    for p, table in enumerate(tables):
        if parameters == 1:
            chosen = np.tile(np.arange(1, 1 + len(table.functions)), (calls, 1))
        elif on_lines[p]:
            chosen = short_list(table, line_misfit(table, on_lines[p], values, weights), falls[:, p])
        else:
            chosen = short_list(table, log_misfit(table, points, p, values, weights), falls[:, p])
        listed.append(np.concatenate([np.zeros((calls, 1), dtype=np.int64), chosen], axis=1))
        everywhere = np.concatenate([table.values, table.ahead[:, None], table.edges[:, edges[:, p]]], axis=1)
        factors.append(everywhere[chosen])
        rows[:, :, p] = listed[p][:, products[:, p]]
    present = products > 0
    usable = np.empty(rows.shape[:2], dtype=bool)
    starts = [0, *(1 + np.flatnonzero((present[1:] != present[:-1]).any(axis=1))).tolist(), len(products)]
    for start, end in pairwise(starts):  # products of the same parameters
        block = constant[:, None]
        for p in np.flatnonzero(present[start]).tolist():
            some = factors[p][:, : products[end - 1, p]]
            block = (block[:, :, None] * some[:, None]).reshape(calls, -1, constant.shape[1])
        before = np.vecdot(block[..., :count], block[..., :count])
        for _ in range(2):  # the second pass removes what rounding left of the first
            block -= np.matmul(block[..., :count], unit[:, :count, None]) * unit[:, None]
        after = np.vecdot(block[..., :count], block[..., :count])
        usable[:, start:end] = after > DEPENDENT * before
        np.divide(block, np.sqrt(np.where(usable[:, start:end], after, 1.0))[..., None], out=columns[:, start:end])
    y = values * weights
    along = (y * unit[:, :count]).sum(axis=1, keepdims=True)
    centred = y - along * unit[:, :count]
    plain = [table.plain[rows[..., p]] | (rows[..., p] == 0) for p, table in enumerate(tables)]
    simple = np.asarray(np.logical_and.reduce(plain))
    return Dictionary(
        rows,
        columns[..., :count],
        columns[..., count:],
        usable,
        simple,
        np.asarray(simple[0] if parameters == 1 else present.sum(axis=1) == 1),
        along[:, 0] / length[:, 0],
        np.asarray((values >= 0).all(axis=1)),
        unit[:, :count],
        centred,
        np.matmul(columns[..., :count], centred[..., None])[..., 0],
    )


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
