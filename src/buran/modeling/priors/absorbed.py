"""Models of what call paths take up: each counted call path has its share of the time that was measured with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from buran.modeling.pmnf.alternative import Alternative
from buran.modeling.pmnf.candidates import Mask
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.terms import Array, ModelFunction, Term
from buran.modeling.price.discrepancy import Discrepancy, ratios


def split(model: Model, effort: ModelFunction, absorbed: Mapping[str, ModelFunction], itself: str) -> dict[str, Model]:
    """Split a model of time by counted effort: a unit of one kind costs the same wherever it is counted.

    Parameters
    ----------
    model
        Model of a call path's time, with the terms of its effort; more of them, such as waiting, stay with it.
    effort
        Its effort model: the sum of `absorbed`.
    absorbed
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
    if not all(set(part.terms) <= set(units) for part in absorbed.values()):
        return {}
    out = {}
    rest = dict.fromkeys(units, 1.0)
    for name in (name for name in absorbed if name != itself):
        part = absorbed[name]
        shares = {term: count / units[term] for term, count in zip(part.terms, part.coefficients, strict=True)}
        rest |= {term: rest[term] - share for term, share in shares.items()}
        out[name] = _part(model, shares, 0.0)
    return {itself: _part(model, rest, 1.0), **out}


def _part(model: Model, of_terms: Mapping[Term, float], other: float) -> Model:
    """Return a share of each term of the effort, and of all else, with the errors that go with it."""

    def shares_in(function: ModelFunction) -> Array:
        return np.array([other, *(of_terms.get(term, other) for term in function.terms)])

    # Where costs are open, no alternative is the model itself: then all of them are split.
    alternatives = [each for each in model.alternatives[:1] if isinstance(each, Alternative)]
    if alternatives and alternatives[0].function != model.function:
        alternatives = list(model.alternatives)
    shares = shares_in(model.function)
    function, _ = _scaled(model.function, shares)
    parts = []
    for each in alternatives:
        own = shares_in(each.function)
        scaled, some = _scaled(each.function, own)
        parts.append(replace(each, function=scaled, covariance=_covariance(each.covariance, own, some)))
    left_over = model.discrepancy
    if left_over is not None:
        # a unit of work has the same price in all parts
        at = left_over.process.points
        left = ratios(left_over.logs, model.function.evaluate(at))
        left_over = Discrepancy.of(left_over.process, left, function.evaluate(at))
    return Model(function, model.quality, tuple(parts), discrepancy=left_over)


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
