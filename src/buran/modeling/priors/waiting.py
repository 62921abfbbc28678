"""What times have beyond their priors: other algorithms of MPI, and waiting, which grows with the processes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cached_property

import numpy as np

from buran.modeling.functions.terms import Array, ModelFunction, Term, added, power, product, scaled, summed
from buran.modeling.numerics.least_squares import SINGULAR, Mask, orthogonal_part, span, unit_columns
from buran.modeling.numerics.tuning import FEW, MATTERS
from buran.modeling.pmnf.repetitions import PointNoise
from buran.modeling.price.regression import OUTLIERS, Fitted, regress
from buran.modeling.priors.prior import Column, Prior

# By which terms of other MPI algorithms must lower the Bayesian information criterion. Tuned: of 0, 4, 8 and 14: with
# 4, 2 of 100 models without these terms get them at 75 % noise.
GAIN = 4.0

# Draws of noise alone, which waiting is compared with. Tuned: judgement.
DRAWS = 999

# How often a call path without waiting may be named. Tuned: judgement.
LEVEL = 0.01

# How waiting grows with the processes: trees; wavefronts on grids of three dimensions and of two; shared queues and
# chains that let one process through at a time.
WAITING: tuple[tuple[Fraction, int], ...] = tuple(
    (Fraction(power), log) for power, log in (("0", 1), ("1/3", 0), ("1/2", 0), ("2/3", 0), ("1", 0), ("1", 1))
)


def alike(priors: Sequence[Prior | None], key: Callable[[Prior], Hashable]) -> list[tuple[list[int], list[Prior]]]:
    """Return the call paths whose priors have the same key: their rows and their priors."""
    keys = {id(prior): key(prior) for prior in priors if prior is not None}  # hashing them takes long
    groups: dict[Hashable, tuple[list[int], list[Prior]]] = {}
    by_prior = {number: groups.setdefault(each, ([], [])) for number, each in keys.items()}
    for row, prior in enumerate(priors):
        if prior is not None:
            rows, members = by_prior[id(prior)]
            rows.append(row)
            members.append(prior)
    return list(groups.values())


def with_algorithms(points: Array, values: Array, priors: Sequence[Prior | None]) -> list[Prior | None]:
    """Give priors of MPI operations the columns of other algorithms where times are explained much better by them.

    An MPI switches between algorithms by ranks and bytes. Coefficients are never negative, so that points on both sides
    of a switch take from each algorithm what they need. What is returned has no further columns to choose from, so that
    it is not looked at again.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    values
        Shape (call path, point): times; NaN where nothing was measured.
    priors
        One for each call path; None for those without.
    """
    out = list(priors)
    several = [prior if prior is not None and prior.others else None for prior in priors]
    for rows, members in alike(several, lambda prior: (prior.widened.functions, len(prior.columns))):
        wide = members[0].widened.design(points)
        pays = others_pay(wide[:, : len(members[0].columns)], wide, values[rows])
        for row, prior, better in zip(rows, members, pays.tolist(), strict=True):
            out[row] = prior.widened if better else replace(prior, others=())
    return out


def others_pay(usual: Array, wide: Array, values: Array) -> Mask:
    """Return shape (call path,): whether a design with more columns explains values (call path, point) much better."""
    points = np.isfinite(values).sum(axis=1)
    enough = points > wide.shape[1] + 1  # with fewer, the correction for few points has no value
    out = np.zeros(len(values), dtype=np.bool_)
    if enough.any():
        some = values[enough]
        out[enough] = _criterion(usual, some) - _criterion(wide, some) > GAIN
    return out


def _criterion(design: Array, values: Array) -> Array:
    """Return the Bayesian information criterion for few points, of noise that is a share of the prediction (gamma)."""
    fitted = regress(design, values, nonnegative=True, outliers=OUTLIERS)
    points = np.isfinite(values).sum(axis=1)
    deviance = 2 * np.nanmean(fitted.deviance(design, values), axis=1) + MATTERS**2
    used = (fitted.coefficients > 0).sum(axis=1)
    few = points / (points - design.shape[1] - 1)  # the correction of Hurvich and Tsai (1989)
    return np.asarray(points * np.log(deviance) + np.log(points) * few * used)


class Verdict(StrEnum):
    """What the test for waiting says."""

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
    share
        Of the waiting part in the model at the largest point.
    """

    verdict: Verdict
    p_value: float
    effort_part: ModelFunction
    waiting_part: ModelFunction
    term: Term | None = None
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
    out: list[Waiting | None] = [None] * len(priors)
    for row, prior in enumerate(priors):
        present = np.isfinite(values[row])
        if prior is not None and present.any() and (can_wait is None or can_wait[row]):
            own = None if noise is None else PointNoise(noise.deviation[[row]][:, present], noise.degrees[[row]])
            out[row] = _Tested(points[present], values[[row]][:, present], prior, processes, own).tested(
                companions, seed
            )
    return tuple(out)


@dataclass(frozen=True, eq=False)
class _Tested:
    """Times of one call path, shape (1, point), at points (point, parameter); with their noise where it is known."""

    points: Array
    values: Array
    prior: Prior
    processes: int | None
    noise: PointNoise | None

    @cached_property
    def design(self) -> Array:
        """Of the prior, shape (point, column)."""
        return self.prior.design(self.points)

    @cached_property
    def worth(self) -> Array:
        """Weights of the points, shape (1, point)."""
        return np.ones(self.values.shape) if self.noise is None else self.noise.worth

    def tested(self, companions: Sequence[Term], seed: int) -> Waiting:
        """Return the verdict."""
        base = regress(self.design, self.values, nonnegative=True, worth=self.worth)
        effort = self.prior.function(base.coefficients[0])
        nothing = Waiting(Verdict.NONE, float("nan"), effort, ModelFunction(0.0))
        terms = self.candidates(companions)
        degrees = len(self.points) - span(self.design).shape[1]
        known = 0.0 if self.noise is None else float(self.noise.degrees[0])
        if not terms or degrees < (1 if known >= FEW else FEW):
            return nothing if degrees >= FEW else replace(nothing, verdict=Verdict.UNKNOWN)
        random, weights = np.random.default_rng(seed), base.weights[0]
        columns = np.stack([waited(term, self.processes).evaluate(self.points) for term in terms], axis=1)
        along, total = self.along(columns, weights, weights * self.values[0])
        far, of_noise = self.along(columns, weights, random.normal(size=(DRAWS, len(self.points))))
        if self.noise is not None and known >= FEW:
            unsure = np.sqrt(known / random.chisquare(known, DRAWS))
            found, by_chance = along[0].max(), self.noise.deviation.min() * unsure * np.abs(far).max(axis=1)
        else:  # shares of the squares
            found, by_chance = (along[0] ** 2 / total[0] * (along[0] > 0)).max(), (far**2 / of_noise).max(axis=1)
        p_value = float((1 + (by_chance >= found).sum()) / (1 + DRAWS))
        return self.named(terms, p_value) if p_value <= LEVEL else replace(nothing, p_value=p_value)

    def candidates(self, companions: Sequence[Term]) -> list[Term]:
        """List terms that the prior does not hold, whose values are defined and differ.

        One number of ranks above 1 shows no growth with the ranks: the weakest is assumed, that of a tree, which waits
        for work as it is divided among the ranks.
        """
        processes = self.processes
        if processes is None:
            return []
        several = ranks_above_one(self.points, processes) > 1
        others = set[Term]()
        for known in (*(term for function in self.prior.functions for term in function.terms), *companions):
            kept = [f for f in known.factors if (f.parameter != processes) != f.basis.falls]
            kept = [f for f in kept if f.parameter != processes or not several]
            others |= {Term(tuple(kept))} if kept else set()
        work = [None, *sorted(others, key=lambda term: term.growth_order)]
        growths = [power(processes, *each).terms[0] for each in (WAITING if several else WAITING[:1])]
        terms = dict.fromkeys(product(term, growth) for growth in growths for term in work)
        lowest, basis = self.points.min(axis=0), span(self.design)
        chosen: list[Term] = []
        for term in terms:
            if term is None or not all(f.basis.is_defined(lowest[f.parameter]) for f in term.factors):
                continue
            column = waited(term, processes).evaluate(self.points)
            length = np.linalg.norm(column)
            if length and np.linalg.norm(orthogonal_part(column, basis)) > SINGULAR * length:
                chosen.append(term)
        return chosen

    def along(self, columns: Array, weights: Array, targets: Array) -> tuple[Array, Array]:
        """Return how far weighted targets go along columns (point, column), beyond the prior, and their squares.

        Shapes (target, column), the sign of the coefficient with its size, and (target, 1).
        """
        basis = span(self.design * weights[:, None])
        extra = unit_columns(orthogonal_part(columns * weights[:, None], basis))[0]
        rest = orthogonal_part(np.atleast_2d(targets).T, basis).T
        return rest @ extra, np.maximum((rest**2).sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def named(self, terms: Sequence[Term], p_value: float) -> Waiting:
        """Fit prior and waiting together, by the likeliest term."""
        fits: list[tuple[float, Fitted, Term]] = []
        for term in terms:
            design = np.column_stack([self.design, waited(term, self.processes).evaluate(self.points)])
            fitted = regress(design, self.values, nonnegative=True, worth=self.worth)
            fits.append((float((self.worth**2 * fitted.deviance(design, self.values)).sum()), fitted, term))
        _, fitted, term = min(fits, key=lambda fit: fit[0])
        effort = self.prior.function(fitted.coefficients[0, :-1])
        waiting = scaled(waited(term, self.processes), float(fitted.coefficients[0, -1]))
        largest = self.points.max(axis=0)
        total = float(added((effort, waiting)).evaluate(largest))
        share = float(waiting.evaluate(largest)) / total if total > 0 else float("nan")
        return Waiting(Verdict.WAITING, p_value, effort, waiting, term, share)


def ranks_above_one(points: Array, processes: int) -> int:
    """Return how many numbers of ranks above 1 the points have: growth with the ranks shows from two on."""
    return int((np.unique(points[:, processes]) > 1).sum())


def waited(term: Term, processes: int | None) -> ModelFunction:
    """Return the term without what it is with one process, which waits for nobody: ``p^(1/2) n - n``.

    What falls with the processes is work that is divided among them.
    """
    leads = [factor.basis for factor in term.factors if factor.parameter == processes]
    alone = 0.0 if any(basis.falls for basis in leads) or not leads else 1.0
    for basis in leads:
        alone *= float(basis.evaluate(np.ones(1))[0]) if basis.is_defined(1.0) else 0.0
    rest = Term(tuple(factor for factor in term.factors if factor.parameter != processes))
    return summed([(1.0, term), (-alone, rest if rest.factors else None)])


def with_waiting(prior: Prior, term: Term, processes: int | None) -> Prior:
    """Return the prior with a column for waiting."""
    return replace(prior, columns=(*prior.columns, Column("waiting", waited(term, processes))), others=())
