"""The procedure as published: trials of the evolutionary search on one half of the data, judged by the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.files import finite_or_none
from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import Corrected, CorrectionReport, TrialResult
from buran.modeling.correction.data import Data, spawned
from buran.modeling.correction.fit import least_squares
from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.expression import Case, Evolved
from buran.modeling.correction.mecp.search import evolve
from buran.modeling.correction.mecp.trees import Ids
from buran.modeling.correction.mecp.tuning import PROCEDURE, EvolutionTuning
from buran.modeling.correction.terms import Problem, starts_of

_SPLIT, _TRIALS = 2, 3  # first numbers of the seeds' keys


@dataclass(frozen=True)
class EvolvedTrial:
    """One run of the search.

    Attributes
    ----------
    evolved
        What was found.
    train_rmse, test_rmse
        In the unit of the values; the test error over the points that have a value.
    test_mlogq
        Mean absolute logarithm of the ratio; infinite where a prediction is not positive.
    invalid
        Test points without a positive, finite prediction.
    cpu_s
        Time of the search.
    """

    evolved: Evolved
    train_rmse: float
    test_rmse: float
    test_mlogq: float
    invalid: int
    cpu_s: float

    @property
    def result(self) -> TrialResult:
        """What files say of it; the time is left out, so that the same seed gives the same file."""
        errors = {name: finite_or_none(getattr(self, name)) for name in ("train_rmse", "test_rmse", "test_mlogq")}
        return TrialResult(self.evolved.program.tokens, self.evolved.theta, **errors, invalid=self.invalid)


@dataclass(frozen=True)
class Trials:
    """All trials of a case on one division of the data.

    Attributes
    ----------
    original_rmse, original_mlogq
        Of the base model on the test half, fitted to the training half by least squares.
    """

    case: Case
    theta: tuple[float, ...]
    train: Data
    test: Data
    original_rmse: float
    original_mlogq: float
    trials: tuple[EvolvedTrial, ...]

    @property
    def chosen(self) -> EvolvedTrial:
        """The best on the training half; the test half has no say."""
        return min(self.trials, key=lambda trial: trial.train_rmse)

    @property
    def oracle(self) -> EvolvedTrial:
        """The best on the test half: chosen on the test half, as published, so that its error is no prediction."""
        return min(self.trials, key=lambda trial: trial.test_rmse)

    @property
    def better(self) -> float:
        """Share of converged trials with a smaller test error than the original model."""
        errors = [trial.test_rmse for trial in self.trials if np.isfinite(trial.train_rmse)]
        return float(np.mean([error < self.original_rmse for error in errors])) if errors else 0.0

    @property
    def failed(self) -> int:
        """Number of trials that did not converge: none of their programs had a value at all training points."""
        return sum(not np.isfinite(trial.train_rmse) for trial in self.trials)


def correct_as_published(
    base: BaseModel, data: Data, case: Case, trials: int, seed: int, progress: Callable[[int], None] | None = None
) -> Corrected:
    """Run the procedure as published; see `run_trials`.

    Raises
    ------
    UsageError
        If the half for training has fewer points than the base model parameters, or there are no trials.
    """
    if trials < 1:
        raise UsageError("at least one trial is needed", why=f"{trials} were asked for")
    train, test = halves(data, seed)
    parameters, needed = len(base.parameters), max(2 * len(base.parameters) - 1, 4)
    if len(data.points) < needed:
        raise UsageError(
            f"the published procedure needs {needed} points for {parameters} parameters",
            where=base.name,
            why=f"half of the points are for testing: of {len(data.points)}, {len(train.points)} are left to train",
            hint="measure more points, or take the robust preset",
        )
    return as_corrected(base, run_trials(base, train, test, case, trials=trials, seed=seed, progress=progress), seed)


def halves(data: Data, seed: int) -> tuple[Data, Data]:
    """Divide the data at random, the larger half first."""
    order = spawned(seed, _SPLIT).permutation(len(data.points))
    first, second = np.sort(order[: (len(order) + 1) // 2]), np.sort(order[(len(order) + 1) // 2 :])
    return Data(data.points[first], data.values[first]), Data(data.points[second], data.values[second])


def fit_original(base: BaseModel, train: Data) -> Array:
    """Fit the base model as it was published: bounded least squares of the times themselves."""
    problem = Problem(base, train.points, train.logs, np.ones((1, len(train.points)), dtype=bool))

    def residuals(at: Array, _: Ids) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray((base.evaluate(problem.theta(at), train.points) - train.values) / train.values.max())

    if not base.parameters:
        return base.start
    fits = least_squares(residuals, starts_of(problem))
    return np.asarray(problem.theta(fits.at[int(np.argmin(fits.cost))]))


def run_trials(
    base: BaseModel, train: Data, test: Data, case: Case, *, trials: int = PROCEDURE.trials,
    seed: int = 0, search: EvolutionTuning | None = None, progress: Callable[[int], None] | None = None,
) -> Trials:  # fmt: skip
    """Run the published procedure on a division of the data.

    Parameters
    ----------
    base
        The model to correct.
    train, test
        Two parts of the data.
    case
        1 and 2: fixed parameters; 3 and 4: free within their bounds. 1 and 3: the base model is a terminal; 2 and 4:
        the program is added to it.
    trials, seed
        Each trial has its own random numbers, made from seed, case and its number.
    search
        Settings; the published ones by default.
    progress
        Told how many trials are done.
    """
    theta = fit_original(base, train)
    plain = base.evaluate(theta, test.points)
    found = []
    for number in range(trials):
        start = time.process_time()
        evolved = evolve(base, train.points, train.values, case, theta, spawned(seed, _TRIALS, case, number), search)
        found.append(_judged(base, evolved, train, test, time.process_time() - start))
        if progress is not None:
            progress(number + 1)
    rmse, quality = _rmse(plain, test.values), _mlogq(plain, test.values)
    return Trials(case, tuple(theta.tolist()), train, test, rmse, quality, tuple(found))


def _judged(base: BaseModel, evolved: Evolved, train: Data, test: Data, cpu_s: float) -> EvolvedTrial:
    value = evolved.evaluate(base, test.points)
    return EvolvedTrial(
        evolved,
        _rmse(evolved.evaluate(base, train.points), train.values),
        _rmse(value, test.values),
        _mlogq(value, test.values),
        int((~_is_time(value)).sum()),
        cpu_s,
    )


def _rmse(value: Array, measured: Array) -> float:
    """Return the root mean square error, infinite where a value is missing."""
    with np.errstate(all="ignore"):
        out = float(np.sqrt(np.mean(np.square(value - measured))))
    return out if np.isfinite(out) else np.inf


def _is_time(value: Array) -> NDArray[np.bool_]:
    return np.isfinite(value) & (value > 0)


def _mlogq(value: Array, measured: Array) -> float:
    """Return the mean absolute logarithm of the ratio, infinite where a value is no time."""
    return float(np.mean(np.abs(np.log(value / measured)))) if _is_time(value).all() else np.inf


def as_corrected(base: BaseModel, found: Trials, seed: int) -> Corrected:
    """Return the trial that is best in training, with the report of all of them."""
    points = found.train.points
    chosen, oracle = found.chosen, found.oracle
    notes = (
        f"{100 * found.better:.0f} % of the trials have a smaller root mean square error on the test half than the "
        f"original model",
        f"best of {len(found.trials)} trials, chosen on the test half: {oracle.test_rmse:.4g} against "
        f"{found.original_rmse:.4g} of the original model; that choice uses what it is evaluated by",
        f"{sum(trial.invalid > 0 for trial in found.trials)} trials have test points without a positive time; "
        f"{found.failed} did not converge",
    )
    reason = (
        f"case {found.case}, the trial with the smallest training error: test error {chosen.test_rmse:.4g} against "
        f"{found.original_rmse:.4g} of the original model"
    )
    trials = tuple(trial.result for trial in found.trials)
    report = CorrectionReport(False, reason, {}, {}, (), notes, len(points), seed, trials)
    low, high = tuple(points.min(axis=0).tolist()), tuple(points.max(axis=0).tolist())
    return Corrected(base, found.theta, low, high, report, evolved=chosen.evolved)
