"""Models of what call paths take up: each counted call path has its share of the time that was measured with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from buran.model.alternative import Alternative
from buran.model.candidates import Mask
from buran.model.model import Model
from buran.model.terms import Array, ModelFunction


def split(model: Model, effort: ModelFunction, held: Mapping[str, ModelFunction], itself: str) -> dict[str, Model]:
    """Split a model of time by counted effort: a unit of one kind costs the same wherever it is counted.

    Parameters
    ----------
    model
        Of a call path's time, with the terms of its effort; more of them, such as waiting, stay with it.
    effort
        Its effort model: the sum of `held`.
    held
        Effort of each counted call path that it takes up, by name.
    itself
        Name of the call path, which keeps the constant.

    Returns
    -------
    dict
        Models by name, `itself` first, that add up to `model`. Empty where a part has a term that the sum does not
        have, as those of other parts cancel it.
    """
    units = dict(zip(effort.terms, effort.coefficients, strict=True))
    names = [itself, *(name for name in held if name != itself)]
    shares = np.zeros((len(names), 1 + len(model.function.terms)))
    for row, name in enumerate(names[1:], start=1):
        part = held[name]
        if not set(part.terms) <= set(units):
            return {}
        count = dict(zip(part.terms, part.coefficients, strict=True))
        shares[row, 1:] = [
            count.get(term, 0.0) / units[term] if term in units else 0.0 for term in model.function.terms
        ]
    shares[0] = 1.0 - shares[1:].sum(axis=0)
    return {name: _part(model, share) for name, share in zip(names, shares, strict=True)}


def _part(model: Model, shares: Array) -> Model:
    """Return a share of the constant and of each term, with the errors that go with it."""
    function, kept = _scaled(model.function, shares)
    covariance = _covariance(model.covariance, shares, kept)
    alternatives = tuple(
        replace(best, function=function, covariance=_covariance(best.covariance, shares, kept))
        for best in model.alternatives[:1]
        if isinstance(best, Alternative)
    )
    return Model(function, model.quality, covariance, alternatives)


def _scaled(function: ModelFunction, shares: Array) -> tuple[ModelFunction, Mask]:
    coefficients = shares * np.array([function.constant, *function.coefficients])
    kept: Mask = np.asarray(np.abs(shares) > 1e-12)
    kept[0] = True
    terms = tuple(term for term, keep in zip(function.terms, kept[1:].tolist(), strict=True) if keep)
    return ModelFunction(float(coefficients[0]), tuple(coefficients[1:][kept[1:]].tolist()), terms), kept


def _covariance(covariance: tuple[tuple[float, ...], ...], shares: Array, kept: Mask) -> tuple[tuple[float, ...], ...]:
    if not covariance:
        return ()
    scaled = shares[:, None] * np.array(covariance) * shares
    return tuple(map(tuple, scaled[np.ix_(kept, kept)].tolist()))
