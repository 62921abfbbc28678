"""Noise-resilient models: priors from exact counts, coefficients from time, and what time has beyond effort."""

from buran.prior.effort import Effort, effort_of
from buran.prior.paths import PathPriors, Source, priors_of
from buran.prior.prior import Column, Prior, communication_prior, computation_prior
from buran.prior.resilient import FitOptions, Resilient, fit_priors, predictions
from buran.prior.tables import PathModel, models_from_priors
from buran.prior.waiting import Verdict, Waiting, diagnose

__all__ = [
    "Column",
    "Effort",
    "FitOptions",
    "PathModel",
    "PathPriors",
    "Prior",
    "Resilient",
    "Source",
    "Verdict",
    "Waiting",
    "communication_prior",
    "computation_prior",
    "diagnose",
    "effort_of",
    "fit_priors",
    "models_from_priors",
    "predictions",
    "priors_of",
]
