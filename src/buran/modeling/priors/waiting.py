"""Waiting: the part of a time that grows with the processes and that effort does not have, distinguished from noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction

import numpy as np

from buran.errors import UsageError
from buran.modeling.numerics.least_squares import SINGULAR, orthogonal_part, span, unit_columns
from buran.modeling.numerics.tuning import FEW
from buran.modeling.pmnf.powers import PowerLog
from buran.modeling.pmnf.terms import Array, Factor, ModelFunction, Term
from buran.modeling.price.noise import PointNoise
from buran.modeling.price.regression import Fitted, regress
from buran.modeling.priors.algebra import added, product, scaled
from buran.modeling.priors.prior import Column, Prior

# Draws of noise alone, which waiting is compared with. Tuned: judgement.
DRAWS = 999

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
    candidates
        What the second part may be, with weights that add up to 1, likeliest first; empty without a finding.
    noise
        Standard deviation of a measurement around the model, as a share of the value.
    share, share_error
        Of the waiting part in the model at the largest point, and its standard error.
    """

    verdict: Verdict
    p_value: float
    effort_part: ModelFunction
    waiting_part: ModelFunction
    candidates: tuple[tuple[Term, float], ...] = ()
    noise: float = float("nan")
    share: float = 0.0
    share_error: float = float("nan")

    @property
    def term(self) -> Term | None:
        """The likeliest term of the waiting part."""
        return self.candidates[0][0] if self.candidates else None


def diagnose(
    points: Array,
    values: Array,
    priors: Sequence[Prior | None],
    processes: int | None,
    *,
    companions: Sequence[Term] = (),
    level: float = 0.01,
    seed: int = 0,
    noise: PointNoise | None = None,
    can_wait: Sequence[bool] | None = None,
) -> tuple[Waiting | None, ...]:
    """Test whether times need a term that the effort does not have.

    The best of many candidate terms is added to the prior. How much better noise alone would make a fit by the best of
    these terms is known from drawn noise; the finding must be rarer than `level`. Candidates are what waiting grows
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
    level
        How often a call path without waiting may be named.
    seed
        Seed of the drawn noise.
    noise
        Noise of the values, from repetitions.
    can_wait
        Whether a call path can wait for others at all, as MPI and locks do; a computation cannot. By default all can.

    Returns
    -------
    tuple
        None for call paths without a prior or without values, and for those that cannot wait.
    """
    if not 0 < level < 1:
        raise UsageError("the level of a test lies between 0 and 1", why=f"it is {level:g}")
    out: list[Waiting | None] = [None] * len(priors)
    groups: dict[tuple[tuple[ModelFunction, ...], bytes], list[int]] = {}
    for row, prior in enumerate(priors):
        present = np.isfinite(values[row])
        if prior is not None and present.any() and (can_wait is None or can_wait[row]):
            groups.setdefault((prior.functions, present.tobytes()), []).append(row)
    for rows in groups.values():
        prior = priors[rows[0]]
        present = np.isfinite(values[rows[0]])
        assert prior is not None
        group_noise = None if noise is None else PointNoise(noise.deviation[np.ix_(rows, present)], noise.degrees[rows])
        group_verdicts = _diagnose_group(
            points[present],
            values[np.ix_(rows, present)],
            prior,
            processes,
            companions,
            level,
            seed,
            group_noise,
        )
        for row, waiting in zip(rows, group_verdicts, strict=True):
            out[row] = waiting
    return tuple(out)


def _diagnose_group(
    points: Array,
    values: Array,
    prior: Prior,
    processes: int | None,
    companions: Sequence[Term],
    level: float,
    seed: int,
    point_noise: PointNoise | None,
) -> list[Waiting]:
    design = prior.design(points)
    worth = np.ones(values.shape) if point_noise is None else point_noise.worth
    base = regress(design, values, nonnegative=True, worth=worth)
    rank = span(design).shape[1]
    plain = [prior.function(row) for row in base.coefficients]

    def without(row: int, verdict: Verdict, p_value: float = float("nan")) -> Waiting:
        return Waiting(verdict, p_value, plain[row], ModelFunction(0.0), noise=float(base.noise[row]))

    terms = _candidates(points, design, prior, processes, companions)
    waits = [waited(term, processes) for term in terms]
    degrees = len(points) - rank
    sure = point_noise is not None and point_noise.degrees.max(initial=0) >= FEW
    if degrees < (1 if sure else FEW) or not terms:
        verdict = Verdict.UNKNOWN if degrees < FEW else Verdict.NONE
        return [without(row, verdict) for row in range(len(plain))]
    columns = np.stack([wait.evaluate(points) for wait in waits], axis=1)
    random = np.random.default_rng(seed)
    drawn = random.normal(size=(DRAWS, len(points)))
    out = []
    for row in range(len(plain)):
        gains, along = _gains(design, columns, base.weights[row], base.weights[row] * values[row])
        chance, far = _gains(design, columns, base.weights[row], drawn)
        ratio = gains[0] * (along[0] > 0)
        if point_noise is not None and point_noise.degrees[row] >= FEW:
            freedom = point_noise.degrees[row]
            unsure = np.sqrt(freedom / random.chisquare(freedom, DRAWS))
            p_value = _rarity(along[0].max(), point_noise.deviation[row].min() * unsure * np.abs(far).max(axis=1))
        elif degrees >= FEW:
            p_value = _rarity(ratio.max(), chance.max(axis=1))
        else:
            out.append(without(row, Verdict.UNKNOWN))
            continue
        if p_value > level:
            out.append(without(row, Verdict.NONE, p_value))
            continue
        out.append(_named(points, values[row], prior, terms, p_value, processes, degrees, worth[row]))
    return out


def _rarity(gain: float, chance: Array) -> float:
    """Return how often chance alone reaches what was found."""
    return float((1 + (chance >= gain).sum()) / (1 + DRAWS))


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
    degrees: int,
    worth: Array,
) -> Waiting:
    """Fit prior and waiting together; weigh the terms it may be by their likelihood."""
    fits: list[tuple[Term, Fitted, float]] = []
    for term in terms:
        design = np.column_stack([prior.design(points), waited(term, processes).evaluate(points)])
        fitted = regress(design, values[None], nonnegative=True, worth=worth[None])
        # deviance of noise that is a share of the prediction (gamma)
        predicted = np.maximum(fitted.coefficients[0] @ design.T, np.finfo(float).tiny)
        ratio = np.maximum(values / predicted, 1e-12)
        fits.append((term, fitted, float((worth**2 * (ratio - 1 - np.log(ratio))).sum())))
    lowest = min(deviance for _, _, deviance in fits)
    scale = max(lowest / max(degrees - 1, 1), 1e-30)
    weights = np.array([np.exp(-(deviance - lowest) / scale) for _, _, deviance in fits])
    weights = weights / weights.sum()
    order = np.argsort(-weights, kind="stable")
    term, fitted, _ = fits[int(order[0])]
    effort = prior.function(fitted.coefficients[0, :-1])
    waits = waited(term, processes)
    waiting = scaled(waits, float(fitted.coefficients[0, -1]))
    largest = points.max(axis=0)
    total = float(added((effort, waiting)).evaluate(largest))
    part = float(waiting.evaluate(largest)) / total if total > 0 else float("nan")
    error = (
        float(np.sqrt(fitted.covariance[0, -1, -1]) * waits.evaluate(largest)) / total if total > 0 else float("nan")
    )
    return Waiting(
        Verdict.WAITING,
        p_value,
        effort,
        waiting,
        tuple((fits[int(i)][0], float(weights[i])) for i in order if weights[i] >= 0.01),
        float(fitted.noise[0]),
        part,
        error,
    )


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
