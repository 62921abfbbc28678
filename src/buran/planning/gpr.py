"""Choosing measurement points by Gaussian process regression, as published; its hybrid, and its Bayesian rival.

Marcus Ritter, Benedikt Naumann, Alexandru Calotoiu, Sebastian Rinke, Thorsten Reimann, Torsten Hoefler and Felix Wolf:
"Cost-Effective Empirical Performance Modeling", accepted in December 2025.

========================================  ==========================================================
in the paper                              here
========================================  ==========================================================
Eq. 5 and 6, Matern and white kernel      `fitted_process`
Eq. 7, weighted cost of a point           `GPR.next`
Eq. 8, weight of new points, repetitions  `repetition_weight`
III-B, 5 points a line and m more, twice  `buran.planning.base.base_indices`, `published`
Fig. 3, the process of selection          `buran.planning.planner`, with models after each round
lambda, rounds without a better fit       `buran.planning.unguided.without_progress`, `GPR.patience`
II, Fig. 2, cheapest points first         `buran.planning.unguided.CheapestFirst`
IV-B, hybrid strategy                     `Hybrid`
IV-B, random strategy                     `buran.planning.unguided.Random`
IV-B, grid strategy                       `buran.planning.unguided.Grid`
IV-B, Bayesian strategy                   `Bayes`
========================================  ==========================================================

Where ours differs: several call paths weigh by their share of the run time, where the paper models one kernel at a
time; parameters are divided by their largest value, so that one length scale serves all; the base is measured from its
small values upwards where no run time is known (`buran.planning.base.Base.advice`). The paper's Bayesian strategy
maximises accuracy for the cost by expected improvement; ours looks for the largest error of the program's model, per
core hour.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import ndtr, ndtri

from buran.modeling.numerics.tuning import MATTERS
from buran.planning.base import BeginsWithBase
from buran.planning.observations import Observations
from buran.planning.protocol import Advice, PlanningState
from buran.planning.space import Array, Ids, Space
from buran.planning.unguided import CheapestFirst, without_progress

if TYPE_CHECKING:
    from sklearn.gaussian_process import GaussianProcessRegressor

NOT_CONVERGED = "hyperparameters of the Gaussian process lie at a bound, or did not converge"


def repetition_weight(noise_percent: float, runs: Array | Ids) -> Array:
    """Return w_c of Eq. 8, the weight of a cost: small for new points at low noise, for repetitions at high noise.

    Parameters
    ----------
    noise_percent
        Mean deviation of repetitions from their mean, 0 to 100 %.
    runs
        Runs that each point has already; the equation holds from 1 to 10.
    """
    noise = -np.tanh(np.clip(noise_percent, 0, 100) / 4 - 2.5)
    return np.asarray(noise + 2 ** (np.clip(runs, 1, 10) / 2 - 0.5))


def fitted_process(inputs: Array, values: Array, noise: float) -> tuple[GaussianProcessRegressor, bool]:
    """Fit scikit-learn's Gaussian process with the hyperparameters of Eq. 5 and 6.

    Parameters
    ----------
    inputs
        Shape (run, parameter).
    values
        Shape (run,).
    noise
        Mean noise level, where the search for that of the white kernel begins.

    Returns
    -------
    process
        Fitted to the values.
    converged
        Whether the search for hyperparameters came to an end inside of their bounds.
    """
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import Matern, WhiteKernel

    # Eq. 5: nu = 1.5, l = 1 in [1e-5, 1e5]; Eq. 6: n
    kernel = Matern(length_scale=1.0, length_scale_bounds=(1e-5, 1e5), nu=1.5) + WhiteKernel(max(noise, 1e-5))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        process = GaussianProcessRegressor(kernel).fit(inputs, values)
    return process, not any(issubclass(each.category, ConvergenceWarning) for each in caught)


def variance_of(process: GaussianProcessRegressor, inputs: Array) -> Array:
    """Return shape (point,): the predictive variance without the white kernel's noise."""
    deviation = process.predict(inputs, return_std=True)[1]
    return np.asarray(np.maximum(deviation**2 - process.kernel_.k2.noise_level, 0.0))


@dataclass(frozen=True)
class GPR(BeginsWithBase):
    """The strategy of section III-B: the least weighted cost, Eq. 7, of a run next.

    Attributes
    ----------
    patience
        Lambda: so many rounds without a better fit end it; None for never.
    """

    patience: int | None = None

    def next(self, state: PlanningState) -> Advice:
        """Return the best rated runs."""
        if ended := without_progress(state, self.patience):
            return ended
        possible = state.free & (state.cost <= state.left)
        if not possible.any():
            return state.nothing_left()
        measured = state.measured
        noise = 0.0 if np.isnan(measured.noise_percent) else measured.noise_percent
        variance, converged = _variance(measured, state.space, noise / 100)
        weights = repetition_weight(noise, state.runs)
        # Eq. 7, C^2 w_c / k^2, as a logarithm: the quotient itself may be too large for a number
        floor = np.finfo(np.float64).tiny
        rating = 2 * np.log(np.maximum(state.cost, floor)) + np.log(weights) - 2 * np.log(np.maximum(variance, floor))
        why = {True: "repeats an uncertain point", False: "new and uncertain"}
        notes = () if converged else (NOT_CONVERGED,)
        return state.best_rated(-rating, possible, lambda at: why[bool(state.runs[at])], notes)


def _variance(measured: Observations, space: Space, noise: float) -> tuple[Array, bool]:
    """Return shape (point,), k of Eq. 7, call paths weighing by their share; and whether all processes converged."""
    out, every = np.zeros(len(space.points)), True
    for call, share in largest(measured):
        point, repetition = np.nonzero(np.nan_to_num(measured.values[call]) > 0)  # each repetition is a datum
        values = measured.values[call, point, repetition]
        process, converged = fitted_process(scaled(measured.points[point], space), values, noise)
        out += share * variance_of(process, scaled(space.points, space))
        every &= converged
    return out, every


@dataclass(frozen=True)
class Hybrid(GPR):
    """Begins with the cheapest points, and goes on by the Gaussian process.

    Attributes
    ----------
    repetitions
        Repetitions of each of the cheapest points.
    switch
        Points beyond the base that are the cheapest.
    """

    repetitions: int = 2
    switch: int = 3

    def next(self, state: PlanningState) -> Advice:
        """Return what the strategy chooses whose turn it is."""
        if (state.runs > 0).sum() < len(self.base.indices(state.space)) + self.switch:
            advice = CheapestFirst(self.base, self.repetitions).next(state)
            if not advice.stop:
                return advice
        return super().next(state)


@dataclass(frozen=True)
class Bayes(BeginsWithBase):
    """Bayesian optimisation of where the models err most.

    The surrogate is a process over the absolute relative errors of the program's model at the measured points; the
    acquisition function finds where a larger error is to be expected, per core hour.

    Attributes
    ----------
    acquisition
        ``ei``: expected improvement; ``ucb``: upper confidence bound, the upper end of the 90 % interval.
    """

    acquisition: str = "ei"

    def next(self, state: PlanningState) -> Advice:
        """Return the runs with the largest acquisition."""
        measured, space = state.measured, state.space
        model = measured.program_fit.models[0]
        possible = state.free & (state.cost <= state.left)
        if not possible.any() or model is None:
            return state.nothing_left()
        ran = (measured.counts > 0) & (measured.program_means_s > 0)
        seen = measured.program_means_s[ran]
        errors = np.abs(model.predict(measured.points[ran]) / seen - 1)
        process, converged = fitted_process(scaled(measured.points[ran], space), errors, float(measured.noise.mean()))
        mean = process.predict(scaled(space.points, space))
        deviation = np.sqrt(variance_of(process, scaled(space.points, space)))
        if self.acquisition == "ei":
            rating = expected_improvement(mean, deviation, float(errors.max()))
        else:
            rating = np.maximum(mean + ndtri(0.95) * deviation, 0.0)
        rating = rating / state.cost
        notes = () if converged else (NOT_CONVERGED,)
        return state.best_rated(rating, possible, lambda at: "a large error is expected", notes)


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return by how much a value is expected to exceed `best`."""
    safe = np.where(deviation > 0, deviation, 1.0)
    z = (mean - best) / safe
    improvement = (mean - best) * ndtr(z) + safe * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.where(deviation > 0, improvement, np.maximum(mean - best, 0.0)))


def largest(measured: Observations) -> list[tuple[int, float]]:
    """Return the call paths with shares of the measured time that matter, the largest first, with these shares."""
    total = np.nansum(np.where(measured.runs > 0, np.abs(measured.means), 0.0), axis=1)
    total = total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total))
    usable = (np.where(measured.runs > 0, measured.means, 0.0) > 0).sum(axis=1) >= 2
    order = [call for call in np.argsort(-total, kind="stable").tolist() if usable[call]]
    order = [call for call in order if total[call] >= min(MATTERS, total[order[0]])]
    return [(call, float(total[call])) for call in order]


def scaled(points: Array, space: Space) -> Array:
    """Return parameters divided by their largest value."""
    return np.asarray(points / space.points.max(axis=0))


PROCESS, HYBRID, IMPROVEMENT, CONFIDENCE = GPR(), Hybrid(), Bayes(), Bayes(acquisition="ucb")
