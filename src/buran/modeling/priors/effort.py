"""Effort models: how counts that noise cannot touch depend on the parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import partial

import numpy as np

from buran.errors import UsageError
from buran.modeling.fit import fit_models
from buran.modeling.functions.derived import DerivedValue
from buran.modeling.functions.powers import PowerLog, Spaces
from buran.modeling.functions.terms import Array, Factor, ModelFunction, Term, added, multiplied
from buran.modeling.numerics.least_squares import Mask, exponents
from buran.modeling.numerics.tuning import DEVIATIONS, FLOOR, MATTERS, NEARLY, OF_MEANS, STEADY
from buran.modeling.pmnf.alternative import cancels_through
from buran.modeling.pmnf.repetitions import over_repetitions

# A function with more terms must be so many times as exact. Tuned: judgement.
CLOSE = 30.0

# Of the points, at which a count is exactly what is said of it: the others are exceptions. Tuned: judgement.
MOSTLY = 2 / 3


ONE = ModelFunction(1.0)
_WHOLE = 1e-9  # of the largest message: rounding of the division


class Steadiness(StrEnum):
    """What the counts of a call path are like."""

    EXACT = "exact"  # a function of the parameters
    DATA_DEPENDENT = "data-dependent"  # nearly so: whole rounds of loops, or work that depends on data
    UNEXPLAINED = "unexplained"  # differ from point to point, and too few points say how
    UNSTEADY = "unsteady"  # differ between runs of one point: busy waiting
    NOISY = "noisy"  # a stand-in that is no exact count, such as instructions
    MISSING = "missing"


OPEN = (Steadiness.DATA_DEPENDENT, Steadiness.UNEXPLAINED, Steadiness.NOISY)
"""Counts of which more points would tell more."""


@dataclass(frozen=True, eq=False)
class Effort:
    """Effort models of many call paths.

    Attributes
    ----------
    metric
        The count they are of.
    functions
        One for each call path; None where the counts are missing or unsteady.
    steadiness
        One for each call path.
    residual
        Shape (call path,): largest relative deviation from the function; NaN without one.
    """

    metric: str
    functions: tuple[ModelFunction | None, ...]
    steadiness: tuple[Steadiness, ...]
    residual: Array

    def replaced(self, found: Mapping[int, tuple[ModelFunction, float]], points: Array, counts: Array) -> Effort:
        """Return it with other functions of some call paths, and their residuals; counts (call path, point)."""
        functions, steadiness, residual = list(self.functions), list(self.steadiness), self.residual.copy()
        for row, (function, rest) in found.items():
            functions[row], residual[row] = function, rest
            if steadiness[row] is not Steadiness.NOISY:
                steadiness[row] = steadiness_of(points, counts[row], function, rest)
        return replace(self, functions=tuple(functions), steadiness=tuple(steadiness), residual=residual)


def effort_of(
    points: Array,
    counts: Array,
    *,
    metric: str = "basic_blocks",
    exact: bool = True,
    space: Spaces | None = None,
    variables: Sequence[Sequence[DerivedValue]] = (),
) -> Effort:
    """Model the effort of each call path; one run of each point is enough.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    counts
        Shape (call path, point, repetition) or (call path, point); NaN where nothing was measured. A call path needs
        all points that any call path has.
    metric
        Name of the count.
    exact
        Whether equal runs give equal counts. Otherwise, as for processor instructions, the median of repetitions is
        modelled as times are.
    space
        Exponents to try.
    variables
        Groups of values derived from parameters that formulas may have, see `exact_models`.

    Raises
    ------
    UsageError
        If shapes do not match, or counts are negative.
    """
    values = np.asarray(counts, dtype=np.float64)
    values = values[..., None] if values.ndim == 2 else values
    if values.ndim != 3 or values.shape[1] != len(points):
        raise UsageError(
            "points and counts do not match", why=f"points have shape {np.shape(points)}, counts {np.shape(counts)}"
        )
    if (values < 0).any():
        raise UsageError("counts cannot be negative", where=metric)
    # call paths with all points that any has, whose repetitions agree
    single = over_repetitions(values, "median")
    measured = np.isfinite(single)
    used = measured.any(axis=0)
    present: Mask = np.asarray(measured[:, used].all(axis=1) & used.any())
    spread = over_repetitions(values, "max") - over_repetitions(values, "min")
    unsteady: Mask = np.asarray((np.nan_to_num(spread) > 0).any(axis=1) & exact)
    functions: list[ModelFunction | None] = [None] * len(values)
    residual = np.full(len(values), np.nan)
    rows, at = np.flatnonzero(present & ~unsteady), points[used]
    seen = single[np.ix_(rows, used)]
    fit = fit_models(at, seen, space=space, exact=np.full(len(rows), exact), variables=variables) if len(rows) else None
    # a count that no function gives exactly may run against a limit
    for row, counted, model in zip(rows.tolist(), seen, fit.models if fit else (), strict=True):
        function = ModelFunction(0.0) if model is None else model.function
        rest = misfit(at, counted[None], [function])[0]
        limit = limit_of(at, counted) if exact and rest > OF_MEANS else None
        functions[row] = function if limit is None else ModelFunction(limit)
        residual[row] = rest if limit is None else misfit(at, counted[None], [ModelFunction(limit)])[0]
    steadiness = tuple(
        Steadiness.MISSING
        if not present[row]
        else Steadiness.UNSTEADY
        if unsteady[row]
        else Steadiness.NOISY
        if not exact
        else steadiness_of(points, single[row], functions[row], float(residual[row]))
        for row in range(len(values))
    )
    return Effort(metric, tuple(functions), steadiness, residual)


def with_sums(effort: Effort, parts: Mapping[int, Iterable[ModelFunction]], points: Array, counts: Array) -> Effort:
    """Return efforts, those of some call paths as the sums of their parts' where these give the counts no worse.

    Parameters
    ----------
    effort
        Effort of the call paths.
    parts
        By number of the call path.
    points, counts
        As for `effort_of`.
    """
    single, found = over_repetitions(counts, "median"), dict[int, tuple[ModelFunction, float]]()
    for row, functions in parts.items():
        if effort.steadiness[row] in (Steadiness.EXACT, *OPEN):
            whole = added(functions)
            rest = float(misfit(points, single[[row]], [whole])[0])
            if rest <= max(MATTERS, effort.residual[row]):
                found[row] = whole, rest
    return effort.replaced(found, points, single)


def steadiness_of(points: Array, counts: Array, function: ModelFunction | None, residual: float) -> Steadiness:
    """Tell how well a function describes steady counts.

    A constant that misses counts by a tenth has not told how they grow: as a prior it would make a constant of times
    that grow, unless most counts are exactly that and the others less. Nor have terms that cancel each other to go
    through the few values of a parameter.

    Parameters
    ----------
    points
        Shape (point, parameter).
    counts
        Shape (point,); NaN where nothing was measured.
    function
        None if there is none.
    residual
        See `Effort.residual`.
    """
    if function is not None and cancels_through(function, points):
        return Steadiness.UNEXPLAINED
    if function is None or residual <= OF_MEANS:
        return Steadiness.EXACT
    if residual <= MATTERS:
        return Steadiness.DATA_DEPENDENT
    present = np.isfinite(counts)
    measured = counts[present]
    gaps = measured - function.evaluate(points[present])
    met = np.abs(gaps) <= OF_MEANS * measured
    if met.mean() >= MOSTLY and (gaps[~met] < 0).all():
        return Steadiness.DATA_DEPENDENT
    varied = float(((measured - measured.mean()) ** 2).sum())
    follows = residual <= STEADY and (gaps**2).sum() <= (1 - NEARLY) * varied
    return Steadiness.DATA_DEPENDENT if follows else Steadiness.UNEXPLAINED


def limit_of(points: Array, counts: Array) -> float | None:
    """Return the count that most points have exactly and no point exceeds, as a solver's most rounds are; else None.

    Points with less lie before all that have reached it. What differs by no more than rounding is no limit.
    """
    limit = float(counts.max())
    reached = counts == limit
    rounded = limit - counts.min() <= 1  # whole numbers are rounded by no more
    if reached.all() or reached.mean() < MOSTLY or rounded:
        return None
    beyond = (points[~reached][:, None] >= points[reached]).all(axis=2).any()
    return None if beyond else limit


def power_law(points: Array, counts: Array) -> ModelFunction | None:
    """Approximate counts that no formula explains by a product of powers, for times to be extrapolated by.

    Exponents are multiples of 1/4, as few points determine no finer ones. None where counts or parameters are not
    positive, nothing grows, or a count is missed by more than the price of work varies (`DEVIATIONS[-1]`).

    Parameters
    ----------
    points
        Shape (point, parameter).
    counts
        Shape (point,).
    """
    if not (np.isfinite(counts).all() and (counts > 0).all() and (points > 0).all()):
        return None
    powers = [Fraction(round(4 * power), 4) for power in exponents(points, counts[None])[0].tolist()]
    term = Term(tuple(Factor(p, PowerLog(power)) for p, power in enumerate(powers) if power))
    rest = np.log(counts) - np.log(term.evaluate(points)) if term.factors else np.array([])
    if not len(rest) or np.ptp(rest) / 2 > DEVIATIONS[-1]:
        return None
    return ModelFunction(0.0, (float(np.exp((rest.max() + rest.min()) / 2)),), (term,))


def misfit(points: Array, values: Array, functions: list[ModelFunction]) -> Array:
    """Return shape (call path,): the largest deviation, as `Effort.residual` says."""
    size = np.abs(values)
    floor = np.maximum(size, FLOOR * size.max(axis=1, keepdims=True, initial=0.0))
    gap = np.abs(values - np.array([function.evaluate(points) for function in functions]).reshape(values.shape))
    return np.asarray(np.divide(gap, floor, out=np.zeros_like(gap), where=floor > 0).max(axis=1, initial=0.0))


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
    whole, found = model(points, counts), dict[int, tuple[ModelFunction, float]]()
    for row, (function, calls_model) in enumerate(zip(whole.functions, calls, strict=True)):
        present = np.isfinite(counts[row]).any(axis=1)
        if function is None or calls_model is None or not (visits[row][present] > 0).all():
            continue
        choices, least = [(function, float(whole.residual[row]))], np.inf
        for size in (ONE, sizes[row]):
            if size is None:
                continue
            divisor = visits[row] * size.evaluate(points)[:, None]
            quotient = np.where(present[:, None], counts[row] / divisor, np.nan)
            if size is not ONE and np.nanmax(np.abs(quotient - np.rint(quotient))) > _WHOLE * np.nanmax(quotient):
                continue  # no rank has such a message
            least = min(least, float(np.nanmin(quotient)))
            effort = model(points, quotient[None])
            if (message := effort.functions[0]) is not None:
                choices.append((multiplied(multiplied(calls_model, message), size), float(effort.residual[0])))
        closest = min(gap for _, gap in choices)
        rounding = 1.0 / least if least > 0 else OF_MEANS  # messages have whole numbers of bytes
        good = [choice for choice in choices if choice[1] <= max(CLOSE * closest, OF_MEANS, rounding)]
        found[row] = min(good, key=lambda choice: (len(choice[0].terms) + bool(choice[0].constant), choice[1]))
    return whole.replaced(found, points, over_repetitions(counts, "median"))
