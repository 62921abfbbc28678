"""Sums of models: kernels, subtrees of the call tree, whole programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import fsum

import numpy as np

from buran.modeling.pmnf.model import Model, Quality, predict_models
from buran.modeling.pmnf.quality import adjusted_r2, rss, smape
from buran.modeling.pmnf.terms import Array, ModelFunction, Term


def add_functions(functions: Iterable[ModelFunction]) -> ModelFunction:
    """Return the sum; equal terms are joined, so that it has the value of the sum at every point."""
    constants: list[float] = []
    parts: dict[Term, list[float]] = {}
    for function in functions:
        constants.append(function.constant)
        for coefficient, term in zip(function.coefficients, function.terms, strict=True):
            parts.setdefault(term, []).append(coefficient)
    terms = sorted(parts, key=lambda term: term.growth_order, reverse=True)
    kept = [(total, term) for term in terms if (total := fsum(parts[term]))]
    return ModelFunction(fsum(constants), tuple(c for c, _ in kept), tuple(t for _, t in kept))


def add_models(models: Sequence[Model | None], points: Array, values: Array) -> Model | None:
    """Return the sum of models, judged by the sum of what was measured.

    Parameters
    ----------
    models
        Those to add; None for call paths where nothing was measured.
    points
        Shape (point, parameter).
    values
        Shape (point,): the measured sum; NaN where it is not known.

    Returns
    -------
    Model or None
        None if there is none to add. Its intervals take the errors of the parts as independent. It has no
        alternatives, and no error at left-out points.
    """
    present = [model for model in models if model is not None]
    if not present:
        return None
    function = add_functions(model.function for model in present)
    known = np.isfinite(values)
    predicted, actual = predict_models(present, points).sum(axis=0)[known], values[known]
    count, signed = int(known.sum()), any(model.signed for model in present)
    quality = Quality(
        count,
        float(smape(predicted, actual)) if count else np.nan,
        np.nan,
        np.nan,
        float(adjusted_r2(predicted, actual, np.array(1 + len(function.terms)))) if count else np.nan,
        float(rss(predicted, actual)),
    )
    return Model(function, quality, parts=tuple(present), signed=signed)
