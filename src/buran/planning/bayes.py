"""Bayesian optimisation, the rival of Gaussian process regression in the paper on cost-effective modelling (`gpr`).

The paper maximises accuracy for the cost by expected improvement; ours reads this as looking for the largest error of
the program's model, per core hour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from buran.planning.base import BeginsWithBase
from buran.planning.gpr import NOT_CONVERGED, fitted_process, scaled, variance_of
from buran.planning.protocol import Advice, PlanningState
from buran.planning.space import Array


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


IMPROVEMENT, CONFIDENCE = Bayes(), Bayes(acquisition="ucb")
