"""Bytes of an MPI call path: calls times the size of a message times, perhaps, the size of the communicator.

The product of three simple functions may have exponents that no search offers; each of the three has simple ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from buran.modeling.numerics.tuning import OF_MEANS
from buran.modeling.pmnf.derived import DerivedValue
from buran.modeling.pmnf.repetitions import over_repetitions
from buran.modeling.pmnf.space import Spaces
from buran.modeling.pmnf.terms import Array, ModelFunction
from buran.modeling.priors.algebra import multiplied
from buran.modeling.priors.effort import Effort, effort_of, steadiness_of
from buran.modeling.priors.tuning import CLOSE

_ONE = ModelFunction(1.0)
_WHOLE = 1e-9  # of the largest message: rounding of the division


def bytes_of(
    points: Array,
    counts: Array,
    visits: Array,
    calls: Sequence[ModelFunction | None],
    sizes: Sequence[ModelFunction | None],
    *,
    metric: str = "bytes_sent",
    space: Spaces | None = None,
    variables: Sequence[Sequence[DerivedValue]] = (),
) -> Effort:
    """Model the bytes of MPI call paths, means over ranks and all calls together.

    Parameters
    ----------
    points
        Shape (point, parameter).
    counts, visits
        Shape (call path, point, repetition): bytes and calls.
    calls, sizes
        Models of calls and of the communicator's size; None where there is none.
    metric
        Name of the bytes.
    space, variables
        As for `effort_of`.
    """
    model = partial(effort_of, metric=metric, space=space, variables=variables)
    whole = model(points, counts)
    functions, residual = list(whole.functions), whole.residual.copy()
    steadiness = list(whole.steadiness)
    for row, function in enumerate(whole.functions):
        calls_model = calls[row]
        present = np.isfinite(counts[row]).any(axis=1)
        if function is None or calls_model is None or not (visits[row][present] > 0).all():
            continue
        choices = [(function, float(residual[row]))]
        least = np.inf
        for size in (None, sizes[row]):
            divisor = visits[row] * (1.0 if size is None else size.evaluate(points)[:, None])
            quotient = np.where(present[:, None], counts[row] / divisor, np.nan)
            if size is not None and np.nanmax(np.abs(quotient - np.rint(quotient))) > _WHOLE * np.nanmax(quotient):
                continue  # no rank has such a message
            least = min(least, float(np.nanmin(quotient)))
            message_effort = model(points, quotient[None])
            if (message := message_effort.functions[0]) is not None:
                product = multiplied(multiplied(calls_model, message), _ONE if size is None else size)
                choices.append((product, float(message_effort.residual[0])))
        closest = min(gap for _, gap in choices)
        rounding = 1.0 / least if least > 0 else OF_MEANS  # messages have whole numbers of bytes
        good = [choice for choice in choices if choice[1] <= max(CLOSE * closest, OF_MEANS, rounding)]
        functions[row], residual[row] = min(good, key=lambda choice: (_coefficients(choice[0]), choice[1]))
        median_counts = over_repetitions(counts[row][None], "median")[0]
        steadiness[row] = steadiness_of(points, median_counts, functions[row], float(residual[row]))
    return Effort(metric, tuple(functions), tuple(steadiness), residual)


def _coefficients(function: ModelFunction) -> int:
    return len(function.terms) + bool(function.constant)
