"""Where something sets in: the place of a hinge, and how well the measurements know it."""

from __future__ import annotations

import numpy as np

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.corrected import Threshold
from buran.modeling.correction.terms import CorrectionTerm, Growth, Problem, TermModel, refit
from buran.modeling.numerics.tuning import COMBINATIONS

_LIKELIHOOD = 3.84  # 95 % point of chi squared with one degree of freedom


def find_thresholds(problem: Problem, model: TermModel) -> tuple[Threshold, ...]:
    """Return the thresholds of a model's hinges, each moved while all else is fitted again.

    The interval holds the places whose likelihood ratio to the best one is not below that of 95 %, widened to the
    neighbours of the grid they were tried on.
    """
    out = []
    base: BaseModel = problem.base
    for number, term in enumerate(model.terms):
        if term.growth.shape != "hinge":
            continue
        i = term.growth.variable
        values = np.unique(problem.points[problem.used[0], i])
        candidates = np.unique([*np.geomspace(values[0], values[-1], COMBINATIONS)[:-1], term.growth.number])
        others = [other for k, other in enumerate(model.terms) if k != number]
        tried = [CorrectionTerm(term.carrier, Growth("hinge", i, float(at)), term.coefficient) for at in candidates]
        costs = np.array([other.cost for other in refit(problem, model.theta, [[*others, other] for other in tried])])
        best = int(np.argmin(costs))
        count = int(problem.used[0].sum())
        inside = np.flatnonzero(count * np.log(costs / costs[best]) <= _LIKELIHOOD)
        low, high = candidates[max(inside[0] - 1, 0)], candidates[min(inside[-1] + 1, len(candidates) - 1)]
        name = list(base.variables)[i]
        out.append(Threshold(name, base.carrier_names[term.carrier], float(candidates[best]), float(low), float(high)))
    return tuple(out)
