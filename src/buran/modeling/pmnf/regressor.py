"""The modelling engine with the conventions of scikit-learn."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import NotFittedError

from buran.errors import UsageError
from buran.modeling.pmnf.fit import Fit, fit_models
from buran.modeling.pmnf.mixture import Target
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.repetitions import Repetition, over_repetitions, repetition_weights, scatter_of
from buran.modeling.pmnf.scoring import Criterion
from buran.modeling.pmnf.search import SearchOptions
from buran.modeling.pmnf.space import HypothesisSpace, Negative, named_space
from buran.modeling.pmnf.terms import Array


class PMNFRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Performance models in normal form, for one or many call paths.

    Parameters
    ----------
    space
        ``full``, ``extrap`` or a `HypothesisSpace` of one's own.
    negative
        Whether negative powers compete, for a named space.
    aggregate
        How repetitions become one value.
    weights
        ``relative``: noise is a share of the value; ``repetitions``: from the scatter of repetitions.
    max_terms
        Terms beside the constant.
    nonnegative
        Whether only coefficients of 0 and more are allowed.
    terms_per_parameter
        Different factors of one parameter, at most.
    criterion
        What hypotheses compete by: error, smape, rss, ar2 or bic; see `SearchOptions`.

    Attributes
    ----------
    models_
        One for each call path; None where nothing was measured.
    n_features_in_
        Number of parameters.
    """

    def __init__(
        self,
        space: str | HypothesisSpace = "full",
        *,
        negative: Negative = "always",
        aggregate: Repetition = "mean",
        weights: Literal["relative", "repetitions"] = "relative",
        max_terms: int = 4,
        nonnegative: bool = False,
        terms_per_parameter: int | None = None,
        criterion: Criterion = "error",
    ) -> None:
        self.space = space
        self.negative = negative
        self.aggregate = aggregate
        self.weights = weights
        self.max_terms = max_terms
        self.nonnegative = nonnegative
        self.terms_per_parameter = terms_per_parameter
        self.criterion = criterion

    def fit(self, X: ArrayLike, y: ArrayLike) -> PMNFRegressor:
        """Find a model for each call path.

        Parameters
        ----------
        X
            Shape (point, parameter). Rows that repeat are repetitions of one point.
        y
            Shape (point,), (point, call path) or (point, call path, repetition); NaN where nothing was measured.

        Raises
        ------
        UsageError
            For shapes that do not match, and values that cannot be modelled.
        """
        points, values = _points(X), np.asarray(y, dtype=np.float64)
        if values.ndim not in (1, 2, 3) or len(values) != len(points):
            raise UsageError(
                "points and values do not match",
                why=f"X has shape {points.shape}, y {values.shape}",
                hint="y has shape (point,), (point, call path) or (point, call path, repetition)",
            )
        if self.weights not in ("relative", "repetitions"):
            raise UsageError(f"no weights are called {self.weights!r}", hint="choose from relative, repetitions")
        options = SearchOptions(
            max_terms=self.max_terms,
            nonnegative=self.nonnegative,
            terms_per_parameter=self.terms_per_parameter,
            criterion=self.criterion,
        )
        full = values.reshape(len(values), -1, 1) if values.ndim < 3 else values
        points, repetitions = _distinct(points, full)
        space = named_space(self.space, self.negative) if isinstance(self.space, str) else self.space
        weights = repetition_weights(repetitions) if self.weights == "repetitions" else None
        self._fit: Fit = fit_models(
            points,
            over_repetitions(repetitions, self.aggregate),
            space=space,
            weights=weights,
            scatter=scatter_of(repetitions, self.aggregate, weights),
            options=options,
        )
        self._flat = values.ndim == 1
        self.models_: tuple[Model | None, ...] = self._fit.models
        self.n_features_in_ = points.shape[1]
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return shape (point,), or (point, call path) if `y` had call paths; NaN without a model."""
        at = self._at(X)
        return self._shaped(self._fit.predict(at))

    def predict_interval(self, X: ArrayLike, level: float = 0.9, of: Target = "value") -> tuple[Array, Array]:
        """Return lower and upper ends in the shape of `predict`; see `prediction_interval`."""
        at = self._at(X)
        lower, upper = self._fit.predict_interval(at, level, of)
        return self._shaped(lower), self._shaped(upper)

    def _at(self, X: ArrayLike) -> Array:
        if not hasattr(self, "models_"):
            raise NotFittedError("this PMNFRegressor has no models yet: call fit first")
        points = _points(X)
        if points.shape[1] != self.n_features_in_:
            raise UsageError(
                "the points have another number of parameters than the models",
                why=f"{points.shape[1]} instead of {self.n_features_in_}",
            )
        return points

    def _shaped(self, values: Array) -> Array:
        return values[0] if self._flat else np.ascontiguousarray(values.T)


def _points(table: ArrayLike) -> Array:
    points = np.asarray(table, dtype=np.float64)
    if points.ndim != 2:
        raise UsageError("points have shape (point, parameter)", why=f"these have {points.shape}")
    return points


def _distinct(points: Array, values: Array) -> tuple[Array, Array]:
    """Join repeated rows; return points and values (call path, point, repetition)."""
    distinct, index = np.unique(points, axis=0, return_inverse=True)
    index = index.reshape(-1)
    counts = np.bincount(index, minlength=len(distinct))
    _, calls, repeated = values.shape
    out = np.full((calls, len(distinct), int(counts.max(initial=1)), repeated), np.nan)
    order = np.argsort(index, kind="stable")
    rank = np.empty(len(points), dtype=np.int64)
    starts = np.cumsum(counts) - counts
    rank[order] = np.arange(len(points)) - starts[index[order]]
    out[:, index, rank] = values.transpose(1, 0, 2)
    return distinct, out.reshape(calls, len(distinct), -1)
