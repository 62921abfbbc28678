"""The procedure as published: trials of the evolutionary search on one half of the data, judged by the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from buran.errors import UsageError
from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import Corrected, CorrectionReport, TrialResult
from buran.modeling.correction.data import Data, spawned
from buran.modeling.correction.fit import Problem, least_squares, starts_of
from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.search import Evolution, EvolutionTuning
from buran.modeling.correction.mecp.trees import Case, Evolved, Ids

# Of a case. Published: in the text.
TRIALS = 30

_SPLIT, _TRIALS = 2, 3  # first numbers of the seeds' keys


@dataclass(frozen=True)
class EvolvedTrial:
    """One run of the search: what was found, what files say of it, and the CPU time, which no file has."""

    evolved: Evolved
    result: TrialResult
    cpu_s: float


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
        return min(self.trials, key=lambda trial: trial.result.train_rmse)

    @property
    def oracle(self) -> EvolvedTrial:
        """The best on the test half: chosen on the test half, as published, so that its error is no prediction."""
        return min(self.trials, key=lambda trial: trial.result.test_rmse)

    @property
    def better(self) -> float:
        """Share of converged trials with a smaller test error than the original model."""
        errors = [trial.result.test_rmse for trial in self.trials if np.isfinite(trial.result.train_rmse)]
        return float(np.mean([error < self.original_rmse for error in errors])) if errors else 0.0

    @property
    def failed(self) -> int:
        """Number of trials that did not converge: none of their programs had a value at all training points."""
        return sum(not np.isfinite(trial.result.train_rmse) for trial in self.trials)


def correct_as_published(
    base: BaseModel, data: Data, case: Case, trials: int, seed: int, progress: Callable[[int], None]
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

    fits = least_squares(residuals, starts_of(problem))
    return np.asarray(problem.theta(fits.at[int(np.argmin(fits.cost))]))


def run_trials(
    base: BaseModel, train: Data, test: Data, case: Case, *, trials: int = TRIALS,
    seed: int = 0, search: EvolutionTuning | None = None, progress: Callable[[int], None] = lambda _: None,
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
        random = spawned(seed, _TRIALS, case, number)
        evolved = Evolution(base, train.points, train.values, case, theta, random, search).run()
        found.append(_judged(base, evolved, train, test, time.process_time() - start))
        progress(number + 1)
    return Trials(case, tuple(theta.tolist()), train, test, *_errors(plain, test.values), tuple(found))


def _judged(base: BaseModel, evolved: Evolved, train: Data, test: Data, cpu_s: float) -> EvolvedTrial:
    value = evolved.evaluate(base, test.points)
    train_rmse, _ = _errors(evolved.evaluate(base, train.points), train.values)
    invalid = int((~(np.isfinite(value) & (value > 0))).sum())
    return EvolvedTrial(
        evolved,
        TrialResult(evolved.program.tokens, evolved.theta, train_rmse, *_errors(value, test.values), invalid),
        cpu_s,
    )


def _errors(value: Array, measured: Array) -> tuple[float, float]:
    """Return the root mean square error and the mean absolute logarithm of the ratio; infinite without all values."""
    with np.errstate(all="ignore"):
        rmse, mlogq = np.sqrt(np.mean(np.square(value - measured))), np.mean(np.abs(np.log(value / measured)))
    rmse, mlogq = np.nan_to_num([rmse, mlogq], nan=np.inf, posinf=np.inf).tolist()
    return rmse, mlogq


def as_corrected(base: BaseModel, found: Trials, seed: int) -> Corrected:
    """Return the trial that is best in training, with the report of all of them."""
    points = found.train.points
    chosen, oracle = found.chosen, found.oracle
    notes = (
        f"{100 * found.better:.0f} % of the trials have a smaller root mean square error on the test half than the "
        f"original model",
        f"best of {len(found.trials)} trials, chosen on the test half: {oracle.result.test_rmse:.4g} against "
        f"{found.original_rmse:.4g} of the original model; that choice uses what it is evaluated by",
        f"{sum(trial.result.invalid > 0 for trial in found.trials)} trials have test points without a positive time; "
        f"{found.failed} did not converge",
    )
    reason = (
        f"case {found.case}, the trial with the smallest training error: test error {chosen.result.test_rmse:.4g} "
        f"against {found.original_rmse:.4g} of the original model"
    )
    trials = tuple(trial.result for trial in found.trials)
    report = CorrectionReport(False, reason, {}, {}, (), notes, len(points), seed, trials)
    return replace(Corrected.of(base, found.theta, points, report), evolved=chosen.evolved)
