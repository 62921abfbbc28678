"""Segmented behaviour: other growth from a certain value of a parameter on.

An MPI library changes its algorithm, a working set leaves the cache: one function then fits neither side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from buran.model.candidates import Ids
from buran.model.fit import fit_models
from buran.model.model import Model
from buran.model.scoring import score
from buran.model.search import SearchOptions
from buran.model.space import HypothesisSpace
from buran.model.terms import Array
from buran.model.tuning import SEGMENTS


@dataclass(frozen=True)
class Segmentation:
    """Models of one call path that hold between breaks along one parameter.

    Attributes
    ----------
    parameter
        Column of the points.
    breaks
        The behaviour changes between the lower and the upper of two values that were measured; ascending.
    models
        One for each segment, one more than breaks.
    error, error_before
        Mean relative error at left-out points, with the segments and with one model.
    next_values
        Values of the parameter to measure next: between those of each break, and where a segment has less than
        five values.
    inner
        Segmentations of the segments along other parameters, which then replace their models; None where one model is
        enough. Empty if none has any.
    """

    parameter: int
    breaks: tuple[tuple[float, float], ...]
    models: tuple[Model, ...]
    error: float
    error_before: float
    next_values: tuple[float, ...]
    inner: tuple[Segmentation | None, ...] = ()

    def evaluate(self, points: Array | Sequence[float]) -> Array:
        """Return the values at `points` (..., parameter); the middle of a break belongs to the upper segment."""
        at = np.asarray(points, dtype=np.float64)
        place = np.searchsorted([_middle(*edge) for edge in self.breaks], at[..., self.parameter], side="right")
        inner = self.inner or (None,) * len(self.models)
        parts = [
            model.function.evaluate(at) if segmentation is None else segmentation.evaluate(at)
            for model, segmentation in zip(self.models, inner, strict=True)
        ]
        return np.choose(place, parts)


def find_segments(
    points: Array, values: Array, models: Sequence[Model | None], *, space: HypothesisSpace | None = None
) -> tuple[Segmentation | None, ...]:
    """Look for call paths that two or three models along one parameter explain much better than one.

    Every split of every parameter's values into segments of three and more is tried. The errors at left-out points
    of all segments together compete with that of one model, at the price of all coefficients and breaks. Each segment
    of several parameters is looked at in the same way, for breaks along another one.

    Parameters
    ----------
    points
        Shape (point, parameter).
    values
        Shape (call path, point); NaN where nothing was measured.
    models
        What `fit_models` found for them.
    space
        Exponents to try.

    Returns
    -------
    tuple
        For each call path; None where one model is enough, or there are too few values to tell.
    """
    points, values = np.asarray(points, dtype=np.float64), np.asarray(values, dtype=np.float64)
    out: list[Segmentation | None] = [None] * len(values)
    asked = [i for i, model in enumerate(models) if model is not None and model.quality.error > SEGMENTS.steady]
    if not asked:
        return tuple(out)
    inexact = [model for model in models if model is not None and model.quality.error > SEGMENTS.steady]
    before = np.array([model.quality.error for model in inexact])
    sizes = np.array([model.quality.points for model in inexact])
    best = _scores(before, np.array([1 + len(model.function.terms) for model in inexact]), sizes, 1)
    for parameter in range(points.shape[1]):
        for call, segmentation, segment_score in _along(points, values[asked], parameter, before, sizes, space):
            if segment_score < best[call]:
                best[call], out[asked[call]] = segment_score, segmentation
    if points.shape[1] == 1:
        return tuple(out)
    return tuple(
        None if outer is None else _with_inner(points, values[call], outer, space) for call, outer in enumerate(out)
    )


def _with_inner(points: Array, values: Array, outer: Segmentation, space: HypothesisSpace | None) -> Segmentation:
    """Look for breaks along the other parameters in each segment."""
    place = np.searchsorted([_middle(*edge) for edge in outer.breaks], points[:, outer.parameter], side="right")
    inner: list[Segmentation | None] = []
    for number, model in enumerate(outer.models):
        here = place == number
        segment = find_segments(points[here], values[None, here], [model], space=space)[0]
        inner.append(segment if segment is not None and segment.parameter != outer.parameter else None)
    return replace(outer, inner=tuple(inner)) if any(segment is not None for segment in inner) else outer


def _along(
    points: Array, values: Array, parameter: int, before: Array, sizes: Ids, space: HypothesisSpace | None
) -> list[tuple[int, Segmentation, float]]:
    """Return the best segmentation of each call path along one parameter, with its score."""
    levels = np.unique(points[:, parameter])
    count = len(levels)
    if count < 2 * SEGMENTS.shortest:
        return []
    options = SearchOptions(max_terms=points.shape[1], alternatives=1)
    fits: dict[tuple[int, int], tuple[tuple[Model | None, ...], Array, Ids]] = {}

    def fitted(begin: int, end: int) -> tuple[tuple[Model | None, ...], Array, Ids]:
        """Models of a segment, their summed errors and numbers of coefficients."""
        if (begin, end) not in fits:
            here = (points[:, parameter] >= levels[begin]) & (points[:, parameter] <= levels[end - 1])
            scores = fit_models(points[here], values[:, here], space=space, options=options).models
            errors = np.array([np.nan if m is None else m.quality.error * m.quality.points for m in scores])
            terms = np.array([0 if m is None else 1 + len(m.function.terms) for m in scores])
            fits[begin, end] = scores, np.where(np.isnan(errors), np.inf, errors), terms
        return fits[begin, end]

    best = np.full(len(values), np.inf)
    choice: list[tuple[int, ...]] = [()] * len(values)
    for number in range(2, SEGMENTS.most + 1):
        for cuts in combinations(range(SEGMENTS.shortest, count - SEGMENTS.shortest + 1), number - 1):
            edges = (0, *cuts, count)
            if min(np.diff(edges)) < SEGMENTS.shortest:
                continue
            parts = [fitted(begin, end) for begin, end in pairwise(edges)]
            error = np.sum([errors for _, errors, _ in parts], axis=0) / sizes
            coefficients = np.sum([terms for _, _, terms in parts], axis=0)
            scores = _scores(error, coefficients, sizes, number)
            for call in np.flatnonzero(scores < best).tolist():
                best[call], choice[call] = scores[call], edges
    out = []
    for call, edges in enumerate(choice):
        if not edges:
            continue
        pairs = list(pairwise(edges))
        segment_models = tuple(model for begin, end in pairs if (model := fitted(begin, end)[0][call]) is not None)
        breaks = tuple((float(levels[cut - 1]), float(levels[cut])) for cut in edges[1:-1])
        total = sum(float(fitted(begin, end)[1][call]) for begin, end in pairs) / float(sizes[call])
        next_values = _next_values([levels[begin:end] for begin, end in pairs])
        segmentation = Segmentation(parameter, breaks, segment_models, total, float(before[call]), next_values)
        out.append((call, segmentation, float(best[call])))
    return out


def _scores(error: Array, coefficients: Ids, points: Ids, segments: int) -> Array:
    """Compare one model with segments: smaller is better; infinite where nothing is left to judge by."""
    taken = coefficients + segments - 1
    out = np.full(len(error), np.inf)
    fine = np.isfinite(error) & (points > taken)
    cost = np.asarray(SEGMENTS.coefficient * (taken - 1), dtype=np.float64)
    out[fine] = score(error[fine], cost[fine], points[fine], taken[fine])
    return out


def _next_values(segments: Sequence[Array]) -> tuple[float, ...]:
    out = []
    for left, right in pairwise(segments):
        out.append(_middle(float(left[-1]), float(right[0])))
    for levels in segments:
        missing, have = SEGMENTS.enough - len(levels), levels.tolist()
        while missing > 0:  # halve the widest gap
            gap = int(np.argmax(np.diff(np.log(have)) if have[0] > 0 else np.diff(have)))
            have.insert(gap + 1, _middle(have[gap], have[gap + 1]))
            out.append(have[gap + 1])
            missing -= 1
    return tuple(sorted(out))


def _middle(low: float, high: float) -> float:
    """Return a value between two: a whole one between whole ones, geometric where both are positive."""
    middle = (low * high) ** 0.5 if low > 0 else (low + high) / 2
    whole = low.is_integer() and high.is_integer() and high - low >= 2
    return min(max(float(round(middle)), low + 1), high - 1) if whole else middle
