"""Models of run time over many parameters, with the conventions of scikit-learn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import Tags, check_array, check_consistent_length, check_random_state, column_or_1d
from sklearn.utils.validation import check_is_fitted

from buran.modeling.numerics.intervals import of_logarithm
from buran.modeling.tensor.axes import Array, InputError, columns_of, encode, fit_axes
from buran.modeling.tensor.blend import MEMBERS, MOST_TREES, Blend, Choices, fit_blend
from buran.modeling.tensor.growth import fit_growth
from buran.modeling.tensor.model import TensorModel, save_model
from buran.modeling.tensor.published.model import PublishedModel, fit_published

Outside = Literal["error", "clamp", "nan"]


class CPRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Run time as a low-rank tensor over parameters, categorical ones included.

    Parameters
    ----------
    preset
        ``default``: smooth CP parts with main effects, and boosted trees on what they leave over.
        ``published``: the CPR paper's model (`buran.modeling.tensor.published`).
    scale
        For each parameter ``auto``, ``log``, ``linear`` or ``categorical``; None: all ``auto``. ``auto`` takes texts
        as categories, and positive numbers as logarithmic.
    names
        Names of the parameters, for messages and files; None: those of a data frame's columns, else x0, x1, ...
    extrapolate
        Places or names of the parameters that may leave the measured range at prediction.
    outside
        What becomes of points that leave it in another parameter by more than an edge cell: ``error``, ``clamp``
        (moved to the edge) or ``nan``.
    unseen
        What becomes of categories that were never measured: ``error``, or ``mean`` of all of them.
    cells
        Nodes along parameters with more than 16 values; with `preset` ``published`` also one number for each parameter.
    rank, ridge
        Products of functions, and weight of their squares (the paper's lambda). None: chosen on observations that are
        left out, as `cells` is.
    members, trees
        ``default`` only: CP parts, each fitted without another part of the observations; trees, at most.
    random_state
        Seed; equal seeds give equal models.

    Attributes
    ----------
    model_
        What was fitted, of `buran.modeling.tensor.model.TensorModel`; `save` writes it.
    n_features_in_
        Number of parameters.
    """

    def __init__(
        self,
        preset: str = "default",
        *,
        scale: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        extrapolate: Sequence[int | str] = (),
        outside: Outside = "error",
        unseen: str = "error",
        cells: int | Sequence[int] | None = None,
        rank: int | None = None,
        ridge: float | None = None,
        members: int = MEMBERS,
        trees: int = MOST_TREES,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        self.preset = preset
        self.scale = scale
        self.names = names
        self.extrapolate = extrapolate
        self.outside = outside
        self.unseen = unseen
        self.cells = cells
        self.rank = rank
        self.ridge = ridge
        self.members = members
        self.trees = trees
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        tags.input_tags.string = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> CPRegressor:
        """Find a model.

        Parameters
        ----------
        X
            Shape (point, parameter): numbers, and texts for categories. Rows that repeat are repetitions.
        y
            Shape (point,): times in any unit, above zero.

        Raises
        ------
        InputError
            A time is not above zero or not finite, shapes do not match, or an option is none.
        """
        if self.preset not in ("default", "published"):
            raise InputError(f"no preset is called {self.preset!r}", hint="choose from default, published")
        columns, times = _columns(X), _times(X, y)
        names = self._names(X, len(columns))
        axes = fit_axes(columns, self.scale, names)
        points = encode(columns, axes)
        free = tuple(sorted({_axis_index(parameter, names) for parameter in self.extrapolate}))
        for j in free:
            if axes[j].is_categorical:
                raise InputError(f"parameter {names[j]}: categories cannot be extrapolated")
        seed = self.random_state
        if not isinstance(seed, int | np.integer):
            seed = int(check_random_state(seed).randint(2**31 - 1))
        random = np.random.default_rng(int(seed))
        inner: Blend | PublishedModel
        growth = None
        if self.preset == "default":
            if not isinstance(self.cells, int | np.integer | None):
                raise InputError("cells of each parameter need the preset 'published'", hint="give one number")
            if self.members < 2 or self.trees < 0:
                raise InputError("there are at least two members, and no fewer than no trees")
            choices = Choices(self.cells, self.rank, self.ridge, self.members, self.trees)
            inner = fit_blend(points, np.log(times), axes, choices, random)
            if free:
                growth = fit_growth(points, np.log(times), axes, free, random)
        else:
            cells = None if self.cells is None else _spread(self.cells, len(axes))
            inner = fit_published(points, times, axes, free, random, cells, self.rank, self.ridge)
        self.model_ = TensorModel(axes, free, inner, growth, len(times))
        self.n_features_in_ = len(axes)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.asarray(X.columns, dtype=object)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Return times, shape (point,).

        Raises
        ------
        InputError
            A point is outside the measured range, or has a category that was not measured; see `outside` and
            `unseen`.
        """
        return self._predict(X)[0]

    def predict_interval(self, X: ArrayLike, level: float = 0.9) -> tuple[Array, Array]:
        """Return the lower and upper end of an interval for a new measurement, each of shape (point,).

        It comes from the errors at observations that were left out of the fit, and is wider where the members of
        the ensemble disagree. Beyond the measured range it comes from the errors at the largest values, predicted
        from smaller ones, and grows with the distance. Where nothing was left out, because there are too few
        observations or the preset does not try, it is NaN.
        """
        if not 0 < level < 1:
            raise InputError(f"an interval's level lies between 0 and 1, not at {level:g}")
        times, spread = self._predict(X)
        error = self.model_.error(_columns(X), level, self.unseen)  # type: ignore[arg-type]
        return of_logarithm(times, error, spread)

    def predict_spread(self, X: ArrayLike) -> Array:
        """Return the standard deviation of the logarithm of the time over the ensemble, shape (point,)."""
        return self._predict(X)[1]

    def save(self, path: str | Path) -> None:
        """Write the model to a file that `buran.modeling.tensor.load_model` and ``buran predict`` read."""
        check_is_fitted(self)
        save_model(Path(path), self.model_)

    def _predict(self, X: ArrayLike) -> tuple[Array, Array]:
        check_is_fitted(self)
        columns = _columns(X)
        if len(columns) != (wanted := self.n_features_in_):
            raise InputError(
                "the points have another number of parameters than the model",
                why=f"X has {len(columns)} features, but CPRegressor is expecting {wanted} features as input",
            )
        if self.outside not in ("error", "clamp", "nan"):
            raise InputError(f"outside cannot be {self.outside!r}", hint="choose from error, clamp, nan")
        if self.unseen not in ("error", "mean"):
            raise InputError(f"unseen cannot be {self.unseen!r}", hint="choose from error, mean")
        return self.model_.predict(columns, self.outside, self.unseen)  # type: ignore[arg-type]

    def _names(self, X: Any, count: int) -> list[str]:
        if self.names is not None:
            if len(self.names) != count:
                raise InputError(
                    "there must be one name for each parameter", why=f"{len(self.names)} names, {count} parameters"
                )
            return list(self.names)
        return list(map(str, X.columns)) if hasattr(X, "columns") else [f"x{j}" for j in range(count)]


def _columns(X: ArrayLike) -> list[NDArray[Any]]:
    return columns_of(check_array(X, dtype=None, ensure_all_finite=False))


def _times(X: ArrayLike, y: ArrayLike) -> Array:
    """Return times as numbers."""
    if y is None:
        raise InputError("times are missing", why="requires y to be passed, but the target y is None")
    times: Array = check_array(column_or_1d(y, warn=True), dtype=np.float64, ensure_2d=False, ensure_all_finite=False)
    check_consistent_length(X, times)
    if len(times) < 2:
        raise InputError("a model needs two observations at least", why=f"{len(times)} sample(s) are given")
    if not np.isfinite(times).all():
        raise InputError("a time is missing or infinite", why="y contains NaN or infinity")
    if (times <= 0).any():
        raise InputError(
            "times must be above zero",
            why=f"{int((times <= 0).sum())} of {len(times)} are not; the smallest is {times.min():g}",
            hint="leave out what was not measured",
        )
    return times


def _axis_index(parameter: int | str, names: Sequence[str]) -> int:
    index = list(names).index(str(parameter)) if parameter in names else parameter
    if isinstance(index, str) or not 0 <= index < len(names):
        raise InputError(f"no parameter is called {parameter!r}", hint=f"choose from {', '.join(names)}")
    return int(index)


def _spread(cells: int | Sequence[int], count: int) -> tuple[int, ...]:
    out = np.atleast_1d(np.asarray(cells, dtype=np.int64))
    if len(out) not in (1, count) or out.min() < 2:
        raise InputError("cells is a number of 2 or more, or one for each parameter", why=f"{cells}")
    return tuple(np.broadcast_to(out, count).tolist())
