"""Other learners of run time, all chosen the same way: by a validation split of the training sample.

Inputs and times are logarithms, as in the CPR paper, but for parameters on linear scales; categories are indicators,
or categories where a learner knows them.
"""

from __future__ import annotations

import io
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from buran_studies.tensor import sparse_grid
from buran_studies.tensor.data import Array, Sample
from buran_studies.tensor.sparse_grid import SparseGrid

Fit = Callable[[Array, Array], Any]
"""Takes encoded inputs and logarithms of times; returns something that predicts the latter."""


@dataclass(frozen=True)
class Rival:
    """A learner and the settings that are tried.

    Attributes
    ----------
    make
        Makes an unfitted learner from a setting, the places of the columns that are categories or their indicators,
        and a seed.
    tries
        The settings.
    indicators
        Whether categories become indicators.
    """

    make: Callable[[Mapping[str, Any], list[int], int], Any]
    tries: tuple[Mapping[str, Any], ...]
    indicators: bool = True


@dataclass(frozen=True)
class Outcome:
    """What a learner is worth.

    Attributes
    ----------
    error
        MLogQ on the test set, with the setting that validation chose.
    best
        The smallest of all settings on the test set: what the paper prints.
    fit_s, predict_us
        CPU time of one fit, and of one prediction.
    size_bytes
        Of the file.
    """

    error: float
    best: float
    fit_s: float
    predict_us: float
    size_bytes: int
    setting: str

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return dict(vars(self))


def inputs(X: Array, scale: Sequence[str], categories: Sequence[Array], indicators: bool) -> Array:
    """Encode points for a learner."""
    columns: list[Array] = []
    for j, each in enumerate(scale):
        if each == "categorical" and indicators:
            columns += [(X[:, j] == value).astype(np.float64) for value in categories[j]]
        elif each == "log":
            columns.append(np.log(X[:, j]))
        else:
            columns.append(X[:, j])
    return np.stack(columns, axis=1)


def choices(scale: Sequence[str], categories: Sequence[Array], indicators: bool) -> list[int]:
    """Return the columns of `inputs` that are categories or their indicators."""
    out: list[int] = []
    column = 0
    for j, each in enumerate(scale):
        wide = len(categories[j]) if each == "categorical" and indicators else 1
        out += range(column, column + wide) if each == "categorical" else ()
        column += wide
    return out


def standardised(columns: int, choices: list[int], weight: float = 1.0) -> Any:
    """Return what standardises numerical columns and weighs indicators, which stay 0 and 1.

    Standardised, the indicator of a rare category would count for more than all other parameters together.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import StandardScaler

    numeric = [j for j in range(columns) if j not in choices]
    return ColumnTransformer(
        [("numbers", StandardScaler(), numeric), ("choices", "passthrough", choices)],
        transformer_weights={"choices": weight},
    )


class OnStandardised:
    """A learner on standardised inputs."""

    def __init__(self, learner: Any, choices: list[int], weight: float = 1.0) -> None:
        self.learner, self.choices, self.weight = learner, choices, weight

    def fit(self, F: Array, y: Array) -> OnStandardised:
        """Fit."""
        self.scaler = standardised(F.shape[1], self.choices, self.weight).fit(F)
        self.learner.fit(self.scaler.transform(F), y)
        return self

    def predict(self, F: Array) -> Array:
        """Predict."""
        return np.asarray(self.learner.predict(self.scaler.transform(F)))


def judge(rival: Rival, train: Sample, test: Sample, scale: Sequence[str], seed: int, *, every: bool) -> Outcome:
    """Choose a setting on 20 % of the training sample, fit it to all of it, and test it.

    Parameters
    ----------
    every
        Whether all settings are tested too, for the smallest error on the test set.
    """
    import joblib

    categories = [np.unique(train.X[:, j]) for j in range(train.X.shape[1])]
    F, G = (inputs(sample.X, scale, categories, rival.indicators) for sample in (train, test))
    places = choices(scale, categories, rival.indicators)
    y, t = np.log(train.y), np.log(test.y)
    order = np.random.default_rng(seed).permutation(len(y))
    outside, inside = order[: len(y) // 5], order[len(y) // 5 :]

    def error(found: Array, true: Array) -> float:
        return float(np.abs(found - true).mean())

    errors = [0.0]
    if len(rival.tries) > 1:
        errors = []
        for each in rival.tries:
            learner = rival.make(each, places, seed).fit(F[inside], y[inside])
            errors.append(error(learner.predict(F[outside]), y[outside]))
    chosen = rival.tries[int(np.argmin(errors))]
    start = _cpu_s()
    learner = rival.make(chosen, places, seed).fit(F, y)
    fitted = _cpu_s()
    found = learner.predict(G)
    done = _cpu_s()
    own = error(found, t)
    best = own
    if every:
        for each in rival.tries:
            if each is not chosen:
                best = min(best, error(rival.make(each, places, seed).fit(F, y).predict(G), t))
    file = io.BytesIO()
    joblib.dump(learner, file)
    return Outcome(own, best, fitted - start, 1e6 * (done - fitted) / len(t), file.tell(), str(dict(chosen)))


def _cpu_s() -> float:
    """Return the CPU time of this process and of those that it waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(own.ru_utime + own.ru_stime for own in both)


class TrendAndBoosting:
    """Ridge on polynomials of the second degree, and gradient boosting on what it leaves over."""

    def __init__(self, categorical: list[int], seed: int) -> None:
        self.categorical = categorical
        self.seed = seed

    def fit(self, F: Array, y: Array) -> TrendAndBoosting:
        """Fit both."""
        from sklearn.compose import make_column_transformer
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

        numeric = [j for j in range(F.shape[1]) if j not in self.categorical]
        self.trend = make_pipeline(
            make_column_transformer(
                (make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False)), numeric),
                (OneHotEncoder(handle_unknown="ignore", sparse_output=False), self.categorical),
            ),
            RidgeCV(np.geomspace(1e-4, 1e2, 7)),
        ).fit(F, y)
        self.rest = HistGradientBoostingRegressor(
            max_iter=400,
            learning_rate=0.06,
            min_samples_leaf=8,
            l2_regularization=1.0,
            categorical_features=self.categorical or None,
            early_stopping=False,
            random_state=self.seed,
        ).fit(F, y - self.trend.predict(F))
        return self

    def predict(self, F: Array) -> Array:
        """Predict."""
        return np.asarray(self.trend.predict(F) + self.rest.predict(F))


class Perceptron:
    """Two hidden layers on standardised inputs and targets."""

    def __init__(self, width: int, epochs: int, choices: list[int], seed: int) -> None:
        self.width, self.epochs, self.choices, self.seed = width, epochs, choices, seed

    def fit(self, F: Array, y: Array) -> Perceptron:
        """Fit; a fixed number of passes, so that it does not stop early."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPRegressor

        self.centre, self.spread = float(y.mean()), float(y.std())
        net = MLPRegressor(
            hidden_layer_sizes=(self.width,) * 2, batch_size=64, max_iter=self.epochs, tol=0.0, random_state=self.seed
        )
        net.set_params(n_iter_no_change=self.epochs)
        self.net = OnStandardised(net, self.choices)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.net.fit(F, (y - self.centre) / self.spread)
        return self

    def predict(self, F: Array) -> Array:
        """Predict."""
        return np.asarray(self.centre + self.spread * self.net.predict(F))


class Process:
    """A Gaussian process whose kernel is fitted to a part of the observations."""

    def __init__(self, choices: list[int], seed: int) -> None:
        self.choices, self.seed = choices, seed

    def fit(self, F: Array, y: Array) -> Process:
        """Fit the kernel on 600 observations, then condition on all."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        self.scaler = standardised(F.shape[1], self.choices).fit(F)
        Z = self.scaler.transform(F)
        kernel = ConstantKernel() * Matern(np.ones(Z.shape[1]), (1e-2, 1e3), nu=1.5) + WhiteKernel(1e-2, (1e-6, 1.0))
        part = np.random.default_rng(self.seed).permutation(len(y))[:600]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            first = GaussianProcessRegressor(kernel, normalize_y=True, random_state=self.seed).fit(Z[part], y[part])
        self.model = GaussianProcessRegressor(first.kernel_, optimizer=None, normalize_y=True).fit(Z, y)
        return self

    def predict(self, F: Array) -> Array:
        """Predict in parts, whose covariances fit into memory."""
        Z = self.scaler.transform(F)
        return np.concatenate([self.model.predict(Z[i : i + 2000]) for i in range(0, len(Z), 2000)])


class NormalForm:
    """Our performance models in normal form, on at most 300 observations; numerical parameters only."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, F: Array, y: Array) -> NormalForm:
        """Fit."""
        from buran.modeling.fit import fit_models

        part = np.random.default_rng(self.seed).permutation(len(y))[:300]
        points, index = np.unique(np.exp(F[part]), axis=0, return_inverse=True)
        times = np.bincount(index.reshape(-1), np.exp(y[part])) / np.bincount(index.reshape(-1))
        self.model = fit_models(points, times[None])
        return self

    def predict(self, F: Array) -> Array:
        """Predict; values that are not positive count as 1e-14, as in the paper's scripts."""
        return np.asarray(np.log(np.maximum(self.model.predict(np.exp(F))[0], 1e-14)))


def _neighbours(setting: Mapping[str, Any], categorical: list[int], seed: int) -> Any:
    from sklearn.neighbors import KNeighborsRegressor

    learner = KNeighborsRegressor(n_neighbors=setting["n_neighbors"], weights="distance")
    return OnStandardised(learner, categorical, setting["weight"])


def _support_vectors(setting: Mapping[str, Any], categorical: list[int], seed: int) -> Any:
    from sklearn.svm import SVR

    return OnStandardised(SVR(epsilon=0.01, **setting), categorical)


def _extra_trees(setting: Mapping[str, Any], categorical: list[int], seed: int) -> Any:
    from sklearn.ensemble import ExtraTreesRegressor

    return ExtraTreesRegressor(random_state=seed, **setting)


def _forest(setting: Mapping[str, Any], categorical: list[int], seed: int) -> Any:
    from sklearn.ensemble import RandomForestRegressor

    return RandomForestRegressor(random_state=seed, **setting)


def _boosting(setting: Mapping[str, Any], categorical: list[int], seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor

    return HistGradientBoostingRegressor(
        min_samples_leaf=8,
        l2_regularization=1.0,
        early_stopping=False,
        categorical_features=categorical or None,
        random_state=seed,
        **setting,
    )


def _splines(setting: Mapping[str, Any], categorical: list[int], seed: int) -> Any:
    from pyearth import Earth

    return Earth(max_terms=100, **setting)


RIVALS: Mapping[str, Rival] = {
    "k nearest neighbours": Rival(
        _neighbours, tuple({"n_neighbors": k, "weight": w} for k in (1, 2, 3, 4, 6) for w in (1.0, 3.0))
    ),
    "histogram gradient boosting": Rival(
        _boosting,
        ({"max_iter": 400, "learning_rate": 0.1}, {"max_iter": 1000, "learning_rate": 0.06}),
        indicators=False,
    ),
    "log-polynomial ridge and boosting": Rival(lambda s, c, seed: TrendAndBoosting(c, seed), ({},), indicators=False),
    "perceptron": Rival(lambda s, c, seed: Perceptron(128, int(s["epochs"]), c, seed), ({"epochs": 300},)),
    "Gaussian process": Rival(lambda s, c, seed: Process(c, seed), ({},)),
    "extremely randomised trees": Rival(_extra_trees, ({"n_estimators": 100, "max_features": 0.6},)),
    "random forest": Rival(_forest, ({"n_estimators": 60, "max_features": 0.7},)),
    "support vector machine": Rival(_support_vectors, ({"C": 10.0},)),
    "regression splines (MARS)": Rival(_splines, ({"max_degree": 1}, {"max_degree": 3})),
    "sparse grid": Rival(lambda s, c, seed: SparseGrid(int(s["level"])), ({"level": 2}, {"level": 3}, {"level": 4})),
    "performance model normal form": Rival(lambda s, c, seed: NormalForm(seed), ({},)),
}


def missing(name: str, scale: Sequence[str]) -> str | None:
    """Say why a learner cannot be run, if so."""
    import importlib.util

    if name.startswith("regression splines") and importlib.util.find_spec("pyearth") is None:
        return "py-earth2 is not installed (extra `rivals`)"
    if name == "sparse grid":
        if "categorical" in scale:
            return "a grid has no categories"
        return sparse_grid.missing()
    if name.startswith("performance model") and set(scale) != {"log"}:
        return "has no categories and no linear scales"
    return None
