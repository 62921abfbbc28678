"""Noise-resilient models: priors from exact counts, coefficients from time, and what time has beyond effort.

Gustavo de Morais, Alexander Geiss, Alexandru Calotoiu, Gregor Corbin, Ahmad Tarraf, Torsten Hoefler, Bernd Mohr and
Felix Wolf: "Denoising Application Performance Models with Noise-Resilient Priors". arXiv:2504.10996, 2025.

The five steps, in the order of the paper:

==============================================================  ====================================================
in the paper                                                    here
==============================================================  ====================================================
3.1: basic blocks and bytes, measured once                      `buran.measurement.native`, `buran.profiles.metrics`
3.2: models of these counts                                     `buran.modeling.priors.effort.effort_of`
3.2: computation prior, the model without coefficients          `prior.computation_prior`, `paths.priors_of`
3.2, Table 1: communication prior                               `communication`, `prior.communication_prior`
3.3: coefficients by regression of times on the prior           `resilient.fit_priors`, `resilient.PUBLISHED`
==============================================================  ====================================================

Where ours differs: coefficients are not negative, outliers pull less and call paths share what they tell
(`model.prior_fit: published` switches that off); each point weighs by its prediction, as noise is a share of the time;
waiting (`waiting.diagnose`), algorithms that change with ranks or bytes (`waiting.with_algorithms`) and what plug-ins
know of costs (`prior.Account`) are additions.
"""

from buran.modeling.priors.campaign import models_from_priors
from buran.modeling.priors.effort import Effort, effort_of
from buran.modeling.priors.paths import PathModel, Source, priors_of
from buran.modeling.priors.prior import Column, Prior, communication_prior, computation_prior
from buran.modeling.priors.resilient import FitOptions, Resilient, fit_priors, predictions
from buran.modeling.priors.waiting import Verdict, Waiting, diagnose

__all__ = [
    "Column",
    "Effort",
    "FitOptions",
    "PathModel",
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
