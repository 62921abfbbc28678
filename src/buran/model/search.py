"""Search for the hypothesis of each call path: beam search over sums of terms, judged by leave-one-out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.model.beam import Beam, Dictionary, best, extend, leave_group_out, leave_one_out, parents
from buran.model.candidates import (
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
from buran.model.space import HypothesisSpace
from buran.model.terms import Array

Progress = Callable[[int], None]
_EXACT = 1e-11  # relative error below which two fits differ by rounding alone
_PROGRESS = 0.5  # an error so much smaller than with a term less lets the search go on, whatever the score says
_NARROW, _MIDDLE, _WIDE = 5, 8, 24  # beams, as measured by benchmarks/modeller.py
_MANY = 10  # points a parameter
_CHUNK_BYTES = 4_000_000  # of one working array; larger ones fall out of the cache


@dataclass(frozen=True)
class Costs:
    """What a hypothesis has to pay for its freedom, in nats; see `score`.

    Attributes
    ----------
    coefficient
        For each coefficient beside the constant.
    parameter
        For each parameter that matters.
    extra_term, extra_plain_term
        For each second and further factor of the same parameter; plain exponents are few, hence cheaper.
    saturating, negative, declining
        For each negative coefficient: of a falling term; of a term that one with a positive coefficient
        outgrows; of another term, which takes the prediction below zero sooner or later. The last is a plain
        addition to the score, however many points there are: noise is no reason to predict negative values.
    steep
        Times the error (at most 1) and the degree of growth beyond 1, the largest of each parameter added up (a log
        counts a quarter): a plain addition, too. Where values scatter by half, one chance value at the largest
        point must not become cubic growth; where they are steady this is next to nothing.
    """

    coefficient: float = 4.0
    parameter: float = 1.5
    extra_term: float = 5.0
    extra_plain_term: float = 1.5
    saturating: float = 1.0
    negative: float = 0.5
    declining: float = 1.5
    steep: float = 0.25


@dataclass(frozen=True)
class SearchOptions:
    """How wide to search.

    Attributes
    ----------
    max_terms
        Terms beside the constant.
    beam
        Hypotheses of one size kept to be extended; by default what the layout needs: few for a single parameter and
        where there are many points, which tell hypotheses apart early.
    alternatives
        Hypotheses remembered for the uncertainty of the selection, the chosen one among them.
    nonnegative
        Whether only coefficients of 0 and more are allowed.
    costs
        Preference for simple hypotheses.
    """

    max_terms: int = 4
    beam: int | None = None
    alternatives: int = 32
    nonnegative: bool = False
    costs: Costs = Costs()

    def width(self, points: int, parameters: int) -> int:
        """Return the number of hypotheses to keep."""
        if self.beam is not None:
            return self.beam
        if parameters == 1:
            return _NARROW
        return _MIDDLE if points >= _MANY * parameters else _WIDE


@dataclass(frozen=True, eq=False)
class Found:
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

    @classmethod
    def of(cls, calls: int, hypotheses: int, terms: int, parameters: int) -> Found:
        """Make room for that many hypotheses."""
        rows = np.zeros((calls, hypotheses, terms, parameters), dtype=np.int16)
        return cls(rows, np.full((calls, hypotheses), np.inf))

    def of_calls(self, part: slice) -> Found:
        """Return a view of some call paths."""
        return Found(self.rows[part], self.scores[part])

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


def score(error: Array, cost: Array, points: int | Ids, coefficients: int | Ids) -> Array:
    """Compare hypotheses of different size: smaller is better.

    ``log(error) + cost / (d + 1)``, d = points - coefficients. By chance alone a superfluous coefficient
    shrinks the residuals to a share r with a probability near r^d, so that to ask for a probability below
    exp(-cost) is to ask for log r < -cost / d. Few points thus demand a large improvement and many points a
    small one, and exact data always pass. The 1 lets three points show growth.
    """
    return np.asarray(np.log(np.hypot(error, _EXACT)) + cost / (points - coefficients + 1))


def search(
    points: Array,
    values: Array,
    weights: Array,
    space: HypothesisSpace,
    options: SearchOptions,
    progress: Progress | None = None,
) -> tuple[list[TermTable], Found]:
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
    tables = [TermTable.of(space, points[:, p]) for p in range(parameters)]
    found = Found.of(len(values), options.alternatives, options.max_terms, parameters)
    if min(options.max_terms, count - 2) < 1 or not any(table.pairs for table in tables):
        found.scores[:, 0] = 0.0
        return tables, found
    on_lines = [lines(points, p) for p in range(parameters)]
    products = patterns(tuple(_listed(table, parameters) for table in tables))
    chunk = max(1, _CHUNK_BYTES // (8 * len(products) * max(count, 2 * options.width(count, parameters))))
    for start in range(0, len(values), chunk):
        part = slice(start, start + chunk)
        y, w = values[part], weights[part]
        falls = falls_with(points, y)
        dictionary, constant = _dictionary(points, tables, on_lines, products, y, w, falls)
        _beam_search(tables, dictionary, constant, options, found.of_calls(part))
        if progress is not None:
            progress(len(y))
    return tables, found


def _listed(table: TermTable, parameters: int) -> int:
    """Length of the short list: the whole table for a single parameter."""
    if parameters == 1:
        return len(table.pairs)
    probe = np.zeros((1, len(table.values)))
    return int(short_list(table, probe, np.zeros(1, dtype=bool)).shape[1])


def _beam_search(
    tables: list[TermTable], dictionary: Dictionary, constant: Beam, options: SearchOptions, found: Found
) -> None:
    """Extend the constant term by term; enter the best hypotheses into `found`."""
    calls, _, count = constant.residual.shape
    largest, width = min(options.max_terms, count - 2), options.width(count, len(tables))
    found.scores[:, 0] = score(leave_one_out(constant)[:, 0], np.zeros(calls), count, 1)
    beam, centred = constant, constant.residual[:, 0]
    active = np.arange(calls)
    least = np.full(calls, np.inf)
    for terms in range(1, largest + 1):
        beam = extend(dictionary, beam, width)
        errors = _errors(tables, dictionary, beam)
        cost, handicap = _cost(tables, dictionary, beam, centred, options)
        handicap += options.costs.steep * np.minimum(errors, 1.0) * _steepness(tables, dictionary, beam)
        scores = score(errors, cost, count, terms + 1) + handicap
        at = np.arange(len(active))[:, None]
        front = best(scores, options.alternatives)
        front_scores = scores[at, front]
        better = front_scores[:, 0] < found.scores[active, 0]
        found.enter(active, dictionary.rows[at[..., None], beam.members[at, front]], front_scores)
        smallest = errors.min(axis=1)
        keep = smallest > _EXACT
        if terms >= max(2, len(tables)):  # below, a sum may not have all its parts yet
            keep &= better | (smallest < _PROGRESS * least[active])
        least[active] = smallest
        if terms == largest or not keep.any():
            break
        if not keep.all():
            active, centred = active[keep], centred[keep]
            dictionary, beam = dictionary.take(keep), beam.of(keep)
        if terms == 1:
            beam = parents(beam, dictionary.always, width)


def _dictionary(
    points: Array,
    tables: list[TermTable],
    on_lines: list[list[Ids]],
    products: Ids,
    values: Array,
    weights: Array,
    falls: Mask,
) -> tuple[Dictionary, Beam]:
    """Form the products of the short lists, and the hypothesis that is constant."""
    calls, parameters = len(values), len(tables)
    columns = np.repeat(weights[:, None], len(products), axis=1)
    rows = np.zeros((calls, len(products), parameters), dtype=np.int64)
    for p, table in enumerate(tables):
        if parameters == 1:
            listed = np.tile(np.arange(1, 1 + len(table.pairs)), (calls, 1))
        elif on_lines[p]:
            listed = short_list(table, line_misfit(table, on_lines[p], values, weights), falls[:, p])
        else:
            listed = short_list(table, log_misfit(table, points, p, values, weights), falls[:, p])
        places = np.concatenate([np.zeros((calls, 1), dtype=np.int64), listed], axis=1)
        rows[:, :, p] = places[:, products[:, p]]
        present = np.flatnonzero(products[:, p])
        columns[:, present] *= table.values[places][:, products[present, p]]
    unit = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    before = np.linalg.norm(columns, axis=2)
    columns -= np.matmul(columns, unit[:, :, None]) * unit[:, None]
    columns -= np.matmul(columns, unit[:, :, None]) * unit[:, None]
    after = np.linalg.norm(columns, axis=2)
    usable = after**2 > DEPENDENT * before**2
    columns /= np.where(usable, after, 1.0)[..., None]
    y = values * weights
    residual = y - (y * unit).sum(axis=1, keepdims=True) * unit
    start = Beam(
        np.zeros((calls, 1, 0), dtype=np.int64),
        unit[:, None, None],
        residual[:, None],
        np.ones((calls, 1), dtype=bool),
    )
    single = (products > 0).sum(axis=1) == 1
    simple = _plain_products(tables, rows)
    always = simple[0] if parameters == 1 else single
    return Dictionary(rows, columns, usable, simple, always), start


def _plain_products(tables: list[TermTable], rows: Ids) -> Mask:
    """Return shape (call path, product): all factors plain or absent."""
    out = np.ones(rows.shape[:2], dtype=bool)
    for p, table in enumerate(tables):
        out &= table.plain[rows[:, :, p]] | (rows[:, :, p] == 0)
    return out


def _errors(tables: list[TermTable], dictionary: Dictionary, beam: Beam) -> Array:
    """Return shape (call path, hypothesis): errors at left-out points.

    A hypothesis with nearly as many factors of a parameter as the parameter has values could follow any values,
    and points that share a value would hide it: all points with a value are then left out together.
    """
    out = leave_one_out(beam)
    at = np.arange(len(beam.members))[:, None, None]
    for p, table in enumerate(tables):
        own = np.sort(dictionary.rows[at, beam.members, p], axis=2)
        many = _first_occurrence(own).sum(axis=2) > table.safe
        out[many] = np.maximum(out[many], leave_group_out(beam, many, table.same_value))
    return out


def _first_occurrence(rows: Ids) -> Mask:
    """Mark present factors (above 0) that differ from the one before, in `rows` sorted along the last axis."""
    out = np.asarray(rows > 0)
    out[..., 1:] &= rows[..., 1:] != rows[..., :-1]
    return out


def _steepness(tables: list[TermTable], dictionary: Dictionary, beam: Beam) -> Array:
    """Return shape (call path, hypothesis): the largest degree of each parameter, added up."""
    at = np.arange(len(beam.members))[:, None, None]
    out = np.zeros(beam.members.shape[:2])
    for p, table in enumerate(tables):
        out += table.degree[dictionary.rows[at, beam.members, p]].max(axis=2)
    return out


def _cost(
    tables: list[TermTable], dictionary: Dictionary, beam: Beam, centred: Array, options: SearchOptions
) -> tuple[Array, Array]:
    """Return shape (call path, hypothesis), twice: cost of the freedom, and the handicap on the score."""
    at = np.arange(len(beam.members))[:, None, None]
    costs = options.costs
    rows = dictionary.rows[at, beam.members]  # call path, hypothesis, term, parameter
    terms = rows.shape[2]
    out = np.full(rows.shape[:2], float(costs.coefficient * terms))
    for p, table in enumerate(tables):
        own = np.sort(rows[..., p], axis=2)
        new = _first_occurrence(own)
        distinct = new.sum(axis=2)
        fancy = (new & ~table.plain[own]).sum(axis=2)
        # the first factor is free to be fancy; further ones pay by their kind
        extra = np.maximum(distinct - 1, 0)
        dear = np.minimum(fancy, extra)
        out += costs.parameter * (distinct > 0) + costs.extra_term * dear + costs.extra_plain_term * (extra - dear)
    falling = np.zeros(rows.shape[:3], dtype=bool)
    outgrown = np.ones((*rows.shape[:3], terms), dtype=bool)  # the third axis by the fourth
    for p, table in enumerate(tables):
        falling |= table.falling[rows[..., p]]
        growth = table.growth[rows[..., p]]
        outgrown &= growth[..., None] <= growth[:, :, None]
    columns = dictionary.columns[at, beam.members]
    triangle = np.einsum("chkp,chtp->chkt", beam.basis[:, :, 1:], columns)
    triangle[~beam.usable] = np.eye(terms)
    target = np.einsum("chkp,cp->chk", beam.basis[:, :, 1:], centred)
    negative = np.linalg.solve(triangle, target[..., None])[..., 0] < 0
    covered = (outgrown & ~negative[:, :, None]).any(axis=3)
    out += costs.saturating * (negative & falling).sum(axis=2)
    out += costs.negative * (negative & ~falling & covered).sum(axis=2)
    handicap = costs.declining * (negative & ~falling & ~covered).sum(axis=2)
    if options.nonnegative:
        handicap[negative.any(axis=2)] = np.inf
    return out, handicap
