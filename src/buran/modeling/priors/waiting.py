"""Waiting: the part of a time that grows with the processes and that effort does not have, distinguished from noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

import numpy as np

from buran.modeling.numerics.least_squares import SINGULAR, orthogonal_part, span, unit_columns
from buran.modeling.numerics.tuning import FEW
from buran.modeling.pmnf.powers import PowerLog
from buran.modeling.pmnf.repetitions import PointNoise
from buran.modeling.pmnf.terms import Array, Factor, ModelFunction, Term
from buran.modeling.price.regression import Fitted, regress
from buran.modeling.exact.algebra import added, product, scaled
from buran.modeling.priors.prior import Column, Prior

# Draws of noise alone, which waiting is compared with. Tuned: judgement.
DRAWS = 999

# How often a call path without waiting may be named. Tuned: judgement.
LEVEL = 0.01

# How waiting grows with the processes: trees; wavefronts on grids of three dimensions and of two; shared queues and
# chains that let one process through at a time.
WAITING: tuple[tuple[Fraction, int], ...] = tuple(
    (Fraction(power), log) for power, log in (("0", 1), ("1/3", 0), ("1/2", 0), ("2/3", 0), ("1", 0), ("1", 1))
)


class Verdict(StrEnum):
    """What the test says."""

    NONE = "none"  # effort and noise explain the times
    WAITING = "waiting"  # a part grows with the processes, and effort does not have it
    UNKNOWN = "unknown"  # too few points to tell


@dataclass(frozen=True)
class Waiting:
    """The verdict on one call path.

    Attributes
    ----------
    verdict
        See there.
    p_value
        How often noise alone makes such a difference, the choice of the term included; NaN if not known.
    effort_part, waiting_part
        Add up to the model of time; the second is zero without a finding.
    term
        What the second part grows with, likeliest; None without a finding.
    noise
        Standard deviation of a measurement around the model, as a share of the value.
    share
        Of the waiting part in the model at the largest point.
    """

    verdict: Verdict
    p_value: float
    effort_part: ModelFunction
    waiting_part: ModelFunction
    term: Term | None = None
    noise: float = float("nan")
    share: float = 0.0


def diagnose(
    points: Array,
    values: Array,
    priors: Sequence[Prior | None],
    processes: int | None,
    *,
    companions: Sequence[Term] = (),
    noise: PointNoise | None = None,
    can_wait: Sequence[bool] | None = None,
    seed: int = 0,
) -> tuple[Waiting | None, ...]:
    """Test whether times need a term that the effort does not have.

    The best of many candidate terms is added to the prior. How much better noise alone would make a fit by the best of
    these terms is known from drawn noise; the finding must be rarer than `LEVEL`. Candidates are what waiting grows
    with (`WAITING`), alone and times the work that is waited for. The size of the noise is known from repetitions,
    where points were measured repeatedly, so that a misfit of many points is not taken for noise; else from residuals.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    values
        Shape (call path, point): times; NaN where nothing was measured.
    priors
        One for each call path; None for those without.
    processes
        Column of the points that counts processes; None if there is none.
    companions
        Terms of the work of other call paths, which somebody may wait for.
    noise
        Noise of the values, from repetitions.
    can_wait
        Whether a call path can wait for others at all, as MPI and locks do; a computation cannot. By default all can.
    seed
        Seed of the drawn noise.

    Returns
    -------
    tuple
        None for call paths without a prior or without values, and for those that cannot wait.
    """
    out: list[Waiting | None] = []
    for row, prior in enumerate(priors):
        present = np.isfinite(values[row])
        if prior is None or not present.any() or not (can_wait is None or can_wait[row]):
            out.append(None)
            continue
        own = None if noise is None else PointNoise(noise.deviation[[row]][:, present], noise.degrees[[row]])
        out.append(_diagnosed(points[present], values[[row]][:, present], prior, processes, companions, own, seed))
    return tuple(out)


def _diagnosed(
    points: Array,
    values: Array,
    prior: Prior,
    processes: int | None,
    companions: Sequence[Term],
    noise: PointNoise | None,
    seed: int,
) -> Waiting:
    """Test one call path, values of shape (1, point)."""
    design = prior.design(points)
    worth = np.ones(values.shape) if noise is None else noise.worth
    base = regress(design, values, nonnegative=True, worth=worth)
    effort = prior.function(base.coefficients[0])
    nothing = Waiting(Verdict.NONE, float("nan"), effort, ModelFunction(0.0), noise=float(base.noise[0]))
    terms = _candidates(points, design, prior, processes, companions)
    degrees = len(points) - span(design).shape[1]
    known = 0.0 if noise is None else float(noise.degrees[0])
    if not terms or degrees < (1 if known >= FEW else FEW):
        return nothing if degrees >= FEW else replace(nothing, verdict=Verdict.UNKNOWN)
    columns = np.stack([waited(term, processes).evaluate(points) for term in terms], axis=1)
    random = np.random.default_rng(seed)
    drawn = random.normal(size=(DRAWS, len(points)))
    gains, along = _gains(design, columns, base.weights[0], base.weights[0] * values[0])
    chance, far = _gains(design, columns, base.weights[0], drawn)
    if noise is not None and known >= FEW:
        unsure = np.sqrt(known / random.chisquare(known, DRAWS))
        found, by_chance = along[0].max(), noise.deviation.min() * unsure * np.abs(far).max(axis=1)
    else:
        found, by_chance = (gains[0] * (along[0] > 0)).max(), chance.max(axis=1)
    p_value = float((1 + (by_chance >= found).sum()) / (1 + DRAWS))
    if p_value > LEVEL:
        return replace(nothing, p_value=p_value)
    return _named(points, values, prior, terms, p_value, processes, worth)


def ranks_above_one(points: Array, processes: int) -> int:
    """Return how many numbers of ranks above 1 the points have: growth with the ranks shows from two on."""
    return int((np.unique(points[:, processes]) > 1).sum())


def _candidates(
    points: Array, design: Array, prior: Prior, processes: int | None, companions: Sequence[Term]
) -> list[Term]:
    """List terms that the prior does not hold, whose values are defined and differ.

    One number of ranks above 1 shows no growth with the ranks: the weakest is assumed, that of a tree, which waits for
    work as it is divided among the ranks.
    """
    several = processes is None or ranks_above_one(points, processes) > 1
    others = {
        Term(kept)
        for term in (*(t for column in prior.columns for t in column.function.terms), *companions)
        if (
            kept := tuple(
                f
                for f in term.factors
                if (f.parameter != processes and not f.basis.falls)
                or (not several and f.parameter == processes and f.basis.falls)
            )
        )
    }
    work: list[Term | None] = [None, *sorted(others, key=lambda term: term.growth_order)]
    terms: list[Term] = []
    if processes is not None:
        for power, log in WAITING if several else WAITING[:1]:
            growth = Term((Factor(processes, PowerLog(power, log)),))
            joint = (growth if term is None else product(term, growth) for term in work)
            terms += [term for term in joint if term is not None]
    lowest = points.min(axis=0)
    basis = span(design)
    chosen: list[Term] = []
    for term in dict.fromkeys(terms):
        if not all(f.basis.is_defined(lowest[f.parameter]) for f in term.factors):
            continue
        column = waited(term, processes).evaluate(points)
        length = np.linalg.norm(column)
        if length and np.linalg.norm(orthogonal_part(column, basis)) > SINGULAR * length:
            chosen.append(term)
    return chosen


def _gains(design: Array, columns: Array, weights: Array, targets: Array) -> tuple[Array, Array]:
    """Return how much each column explains of what the design leaves of the weighted targets.

    Returns
    -------
    gain, along
        Shape (target, column): share of the squares, and the sign of the coefficient with its size.
    """
    basis = span(design * weights[:, None])
    extra = unit_columns(orthogonal_part(columns * weights[:, None], basis))[0]
    rest = orthogonal_part(np.atleast_2d(targets).T, basis).T
    along = rest @ extra
    total = np.maximum((rest**2).sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return along**2 / total, along


def _named(
    points: Array,
    values: Array,
    prior: Prior,
    terms: Sequence[Term],
    p_value: float,
    processes: int | None,
    worth: Array,
) -> Waiting:
    """Fit prior and waiting together, by the likeliest term."""
    fits: list[tuple[float, Fitted, Term]] = []
    for term in terms:
        design = np.column_stack([prior.design(points), waited(term, processes).evaluate(points)])
        fitted = regress(design, values, nonnegative=True, worth=worth)
        # deviance of noise that is a share of the prediction (gamma)
        predicted = np.maximum(fitted.coefficients[0] @ design.T, np.finfo(float).tiny)
        ratio = np.maximum(values[0] / predicted, 1e-12)
        fits.append((float((worth[0] ** 2 * (ratio - 1 - np.log(ratio))).sum()), fitted, term))
    _, fitted, term = min(fits, key=lambda fit: fit[0])
    effort = prior.function(fitted.coefficients[0, :-1])
    waiting = scaled(waited(term, processes), float(fitted.coefficients[0, -1]))
    largest = points.max(axis=0)
    total = float(added((effort, waiting)).evaluate(largest))
    share = float(waiting.evaluate(largest)) / total if total > 0 else float("nan")
    return Waiting(Verdict.WAITING, p_value, effort, waiting, term, float(fitted.noise[0]), share)


def waited(term: Term, processes: int | None) -> ModelFunction:
    """Return the term without what it is with one process, which waits for nobody: ``p^(1/2) n - n``.

    What falls with the processes is work that is divided among them.
    """
    leads = [factor.basis for factor in term.factors if factor.parameter == processes]
    if any(basis.falls for basis in leads):
        leads = []
    alone = 1.0
    for basis in leads:
        alone *= float(basis.evaluate(np.ones(1))[0]) if basis.is_defined(1.0) else 0.0
    if not leads or not alone:
        return ModelFunction(0.0, (1.0,), (term,))
    rest = Term(tuple(factor for factor in term.factors if factor.parameter != processes))
    return added((ModelFunction(0.0, (1.0,), (term,)), _times(-alone, rest)))


def _times(coefficient: float, term: Term) -> ModelFunction:
    return ModelFunction(0.0, (coefficient,), (term,)) if term.factors else ModelFunction(coefficient)


def with_waiting(prior: Prior, term: Term, processes: int | None) -> Prior:
    """Return the prior with a column for waiting."""
    return replace(prior, columns=(*prior.columns, Column("waiting", waited(term, processes))), others=())
