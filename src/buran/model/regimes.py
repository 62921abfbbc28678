"""Two regimes as hypotheses: other growth from a value of a parameter on.

An MPI library changes its algorithm, a working set leaves the cache: no sum of terms then fits both sides. Call paths
whose best hypothesis leaves more than noise are also modelled on either side of a value, and what comes of it competes
with one regime by the same score, at the price of all its coefficients and of the place where it changes. A regime is
modelled like everything else, so that it may have regimes in turn. What may be a step of a collective operation along a
tree is followed by others, of which neither regime tells: the model of one regime, which grows through them, remains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from buran.model.alternative import Alternative, LazyAlternatives, prepare
from buran.model.basis import BasisFunction
from buran.model.best_hypotheses import odds
from buran.model.candidates import Ids, Mask
from buran.model.model import Model, Quality
from buran.model.quality import adjusted_r2, rss, smape
from buran.model.regression import BOUND
from buran.model.scatter import Scatter
from buran.model.scoring import Costs, score
from buran.model.space import HypothesisSpace
from buran.model.terms import Array, Factor, ModelFunction, Term
from buran.model.together import Pairs, pairs_apart
from buran.model.tuning import REGIMES, SEARCH, UNCERTAINTY
from buran.model.within import Within

Refit = Callable[[Mask, Ids, bool], Sequence[Model | None]]
"""Models of some call paths from some of the points: of one regime, or of as many as it takes."""


@dataclass(frozen=True, eq=False)
class Cut:
    """A place where the upper regime may begin.

    Attributes
    ----------
    parameter
        Column of the points.
    at
        The smallest value of it in the upper regime. The lower one, which is never negative beyond its points, is
        carried on up to there.
    upper
        Shape (point,): the points of the upper regime.
    contrast
        Shape (direction, point), orthonormal: what a straight line on either side can follow.
    """

    parameter: int
    at: float
    upper: Mask
    contrast: Array

    def function(self, lower: ModelFunction, upper: ModelFunction) -> ModelFunction:
        """Return one function of both; the terms of the upper regime, which is carried on, come first."""
        parts = []
        for regime, within in ((upper, Within(low=self.at)), (lower, Within(high=self.at))):
            bracket = Factor(self.parameter, within)
            parts += [
                (coefficient, _during(term, bracket))
                for coefficient, term in zip(regime.coefficients, regime.terms, strict=True)
            ]
            if regime.constant:
                parts.append((regime.constant, Term((bracket,))))
        return ModelFunction(0.0, tuple(c for c, _ in parts), tuple(term for _, term in parts))


def _during(term: Term, bracket: Factor) -> Term:
    """Return the term as long as a regime holds."""
    factors = list(term.factors)
    for place, factor in enumerate(factors):
        both = bracket.basis.times(factor.basis) if factor.parameter == bracket.parameter else None
        if both is not None:
            factors[place] = Factor(bracket.parameter, both)
            return Term(tuple(factors))
    return Term(tuple(sorted((*factors, bracket))))


def cuts(points: Array) -> list[Cut]:
    """Return the places where both sides tell as much as all points (point, parameter) of the other parameters.

    The upper regime, which is carried on, reaches as far along these as all points do: growth up to some value, which
    others show to end there, would be carried on.
    """
    out = []
    apart = pairs_apart(points)
    counts = [len(np.unique(column)) for column in points.T]
    for p, column in enumerate(points.T):
        levels, level = np.unique(column, return_inverse=True)
        for at in levels[REGIMES.shortest : len(levels) - REGIMES.shortest + 1].tolist():
            upper = column >= at
            reaches = (
                np.delete(points[upper], p, axis=1).max(axis=0) == np.delete(points, p, axis=1).max(axis=0)
            ).all()
            if reaches and all(_tells(points[side], p, counts, apart) for side in (upper, ~upper)):
                lines = np.stack([upper, ~upper, level * upper, level * ~upper]).astype(np.float64)
                out.append(Cut(p, at, upper, np.linalg.qr(lines.T)[0].T))
    return out


def _tells(points: Array, parameter: int, counts: Sequence[int], apart: Pairs) -> bool:
    """Tell whether the points of a regime vary all other parameters as the whole does."""
    enough = (
        len(np.unique(column)) >= min(count, REGIMES.others)
        for p, (column, count) in enumerate(zip(points.T, counts, strict=True))
        if p != parameter
    )
    return all(enough) and set(pairs_apart(points)) <= set(apart)


def asked(points: Array, misses: Array, bends: Mask, scatter: Scatter, places: Sequence[Cut]) -> Mask:
    """Mark the call paths to look for regimes in; shape (call path, cut).

    Those whose misses follow the values of a parameter more than noise would, as an F test of their means says, and
    those that are marked; of those at most `REGIMES.tried` cuts, by what lines on either side
    explain of the misses.

    Parameters
    ----------
    points
        Shape (point, parameter).
    misses
        Shape (call path, point): what the best hypothesis leaves, as a share of the values.
    bends
        Shape (call path,): those to look at in any case.
    scatter
        What is known about the noise.
    places
        The cuts.
    """
    calls, count = misses.shape
    total = (misses**2).sum(axis=1)
    structured = bends.copy()
    for p in {cut.parameter for cut in places}:
        levels, level = np.unique(points[:, p], return_inverse=True)
        means = (np.arange(len(levels))[:, None] == level).astype(np.float64)
        between = ((misses @ (means / np.sqrt(means.sum(axis=1, keepdims=True))).T) ** 2).sum(axis=1)
        rest = count - len(levels)
        measured_twice = scatter.degrees > 0
        noise = np.where(measured_twice, scatter.share**2, np.maximum(total - between, 0.0) / max(rest, 1))
        degrees = np.where(measured_twice, scatter.degrees, rest)
        ratio = between / len(levels) / np.where(noise > 0, noise, 1.0)
        from scipy.special import fdtrc  # it takes long, and few verbs need it

        chance = fdtrc(len(levels), np.maximum(degrees, 1), ratio)
        structured |= (chance < REGIMES.chance) | (noise == 0) | (degrees == 0)
    rows = np.flatnonzero(structured)
    gain = np.stack([((misses[rows] @ cut.contrast.T) ** 2).sum(axis=1) for cut in places], axis=1)
    rank = np.argsort(np.argsort(-gain, axis=1, kind="stable"), axis=1)
    out = np.zeros((calls, len(places)), dtype=bool)
    out[rows] = rank < REGIMES.tried
    return out


def with_regimes(
    points: Array, values: Array, models: Sequence[Model], wanted: Mask, places: Sequence[Cut], costs: Costs,
    scatter: Scatter, refit: Refit,
) -> list[Model]:  # fmt: skip
    """Let two regimes compete with the models of one, where `wanted` (call path, cut).

    Parameters
    ----------
    points
        Shape (point, parameter).
    values
        Shape (call path, point).
    models
        Of one regime.
    wanted
        What `asked` says.
    places
        The cuts.
    costs
        Of hypotheses.
    scatter
        What is known about the noise.
    refit
        Models the regimes.

    Returns
    -------
    list
        A model of two regimes where it has the better score, unless one that has may be a step of a tree. All that are
        within reach are among the alternatives.
    """
    calls = np.flatnonzero(wanted.any(axis=1)).tolist()
    joined: dict[int, list[_Joined]] = {call: [] for call in calls}
    scores = {call: _score(models[call].function, models[call].quality, costs, scatter, call) for call in calls}

    def join(cut: Cut, calls: Sequence[int], several: bool) -> Iterator[tuple[int, _Joined]]:
        at = np.array(calls, dtype=np.int64)
        sides = [refit(side, at, several) if calls else () for side in (~cut.upper, cut.upper)]
        for call, lower, upper in zip(calls, *sides, strict=True):
            if lower is not None and upper is not None:
                rival = _Joined(points, values[call], costs, scatter, call, cut, lower, upper)
                if not _passes_through(rival.function, cut.parameter, len(np.unique(points[:, cut.parameter]))):
                    yield call, rival

    for number, cut in enumerate(places):
        for call, rival in join(cut, np.flatnonzero(wanted[:, number]).tolist(), False):
            joined[call].append(rival)
    joined = {
        call: rivals
        for call, rivals in joined.items()
        if rivals and not any(rival.score < scores[call] and rival.is_step for rival in rivals)
    }
    best = {call: min(rivals, key=lambda rival: rival.score) for call, rivals in joined.items()}
    for cut in places:  # at the best place regimes may have regimes in turn, if there are values for three
        if len(np.unique(points[:, cut.parameter])) < 3 * REGIMES.shortest:
            continue
        for call, rival in join(cut, [call for call, rival in best.items() if rival.cut is cut], True):
            if rival.score < best[call].score:
                joined[call].append(rival)
    hypotheses = _Rivals(models, scores, joined)
    out = list(models)
    for call, rivals in joined.items():
        first = min(rivals, key=lambda rival: rival.score)
        model = first.model if first.score < scores[call] else models[call]
        out[call] = replace(model, alternatives=LazyAlternatives(hypotheses, call))
    return out


def powers_through_two(points: Array, values: Array, space: HypothesisSpace, scatter: Scatter) -> list[Model]:
    """Return models ``c * f(x)`` of values at two points of one parameter: no constant can be told beside them.

    Parameters
    ----------
    points
        Shape (2, 1).
    values
        Shape (call path, 2).
    space
        Of functions f.
    scatter
        What is known about the noise.
    """
    functions = space.of_two_values.candidates(points[:, 0])
    columns = np.stack([np.ones(2), *(function.evaluate(points[:, 0]) for function in functions)])
    largest = np.abs(values).max(axis=1, keepdims=True)
    scaled = values / np.where(largest > 0, largest, 1.0)
    weights = 1 / np.maximum(np.abs(scaled), SEARCH.floor)
    relative = columns * weights[:, None]  # call path, function, point
    target = scaled * weights
    squares = (relative**2).sum(axis=2)
    coefficients = np.einsum("cfp,cp->cf", relative, target) / squares
    left = target[:, None] - coefficients[..., None] * relative
    others = relative[..., ::-1] ** 2 / squares[..., None]  # 1 less the leverage: that of the other point
    alone = others < BOUND
    errors = np.where(alone.any(axis=2), np.inf, np.abs(left / np.where(alone, 1.0, others)).mean(axis=2))
    costs = np.array([0.0] + [Costs.extra_plain_term if f.is_plain else Costs.extra_term for f in functions])
    scores = score(errors, costs, 2, 1, scatter)
    noise = np.where((scatter.degrees > 0)[:, None], scatter.share[:, None], np.sqrt((left**2).sum(axis=2)))
    likely = odds(scores, 2) ** UNCERTAINTY.doubt
    out = []
    terms = [None, *(Term((Factor(0, function),)) for function in functions)]
    for call, best in enumerate(np.argmin(scores, axis=1).tolist()):
        order = [best, *(k for k in np.flatnonzero(likely[call] > UNCERTAINTY.least).tolist() if k != best)]
        total = float(likely[call, order].sum())
        hypotheses = []
        for k in order:
            c, term = float(coefficients[call, k] * largest[call, 0]), terms[k]
            variance = float((noise[call, k] * largest[call, 0]) ** 2 / squares[call, k])
            function = ModelFunction(c) if term is None else ModelFunction(0.0, (c,), (term,))
            covariance = ((variance,),) if term is None else ((0.0, 0.0), (0.0, variance))
            degrees = max(int(scatter.degrees[call]), 1)
            share = float(noise[call, k])
            hypotheses.append(Alternative(function, float(likely[call, k]) / total, covariance, share, degrees))
        chosen = hypotheses[0].function
        predicted = chosen.evaluate(points)
        figures = (float(smape(predicted, values[call])), 100 * float(errors[call, best]), float(errors[call, best]))
        quality = Quality(2, *figures, np.nan, float(rss(predicted, values[call])))
        out.append(Model(chosen, quality, hypotheses[0].covariance, hypotheses))
    return out


@dataclass(frozen=True, eq=False)
class _Joined:
    """A lower and an upper regime, which compete for a call path.

    Attributes
    ----------
    points, values
        Shapes (point, parameter) and (point,).
    costs, scatter, call
        What it is scored with.
    cut, lower, upper
        The models of the regimes and where they meet.
    """

    points: Array
    values: Array
    costs: Costs
    scatter: Scatter
    call: int
    cut: Cut
    lower: Model
    upper: Model

    @cached_property
    def function(self) -> ModelFunction:
        """One function of both."""
        return self.cut.function(self.lower.function, self.upper.function)

    @cached_property
    def _quality(self) -> Quality:
        """Means over the points; without an R2, which takes longest and is no part of the score."""
        both = self.lower.quality, self.upper.quality
        shares = np.array([quality.points for quality in both]) / len(self.points)
        smapes, left_out, errors = (
            float(shares @ [getattr(quality, name) for quality in both]) for name in ("smape", "loo_smape", "error")
        )
        return Quality(len(self.points), smapes, left_out, errors, np.nan, sum(quality.rss for quality in both))

    @cached_property
    def score(self) -> float:
        """How it compares with others."""
        return _score(self.function, self._quality, self.costs, self.scatter, self.call)

    @cached_property
    def is_step(self) -> bool:
        """Whether a tree may have grown by a level: values change more than in either regime, but do not double.

        From one level to two is the largest step. Where as many values follow as one step takes, no other did.
        """
        p, levels = self.cut.parameter, np.unique(self.points[:, self.cut.parameter])
        first = int(np.searchsorted(levels, self.cut.at))
        beside = levels[first - REGIMES.shortest : first + REGIMES.shortest]
        others = np.unique(np.delete(self.points, p, axis=1), axis=0)
        values = np.stack([self.function.evaluate(np.insert(others, p, level, axis=1)) for level in beside])
        values = values[:, ((values > 0) & np.isfinite(values)).all(axis=0)]
        if not values.size or beside[0] <= 0:  # nothing grows from 0 by a factor
            return False
        changes = np.diff(np.log(values), axis=0) / np.diff(np.log(beside))[:, None]
        below, across, above = np.median(changes, axis=1) * np.log(beside[2] / beside[1])
        excess = across - below, across - above
        size = min(map(abs, excess)) if excess[0] * excess[1] > 0 else 0.0
        return bool(REGIMES.jump < size < REGIMES.doubling and levels[-1] <= REGIMES.branches * beside[1])

    @cached_property
    def model(self) -> Model:
        """Of all points."""
        r2 = adjusted_r2(self.function.evaluate(self.points), self.values, np.array(len(self.function.terms)))
        covariance = _covariance(self.lower.function, self.lower.covariance, self.upper.function, self.upper.covariance)
        return Model(self.function, replace(self._quality, adjusted_r2=float(r2)), covariance)

    def alternatives(self) -> list[Alternative]:
        """Return the hypotheses behind it: those of the upper regime, which is carried on."""
        return [
            replace(
                one,
                function=self.cut.function(self.lower.function, one.function),
                covariance=_covariance(self.lower.function, self.lower.covariance, one.function, one.covariance),
            )
            for one in self.upper.alternatives
        ]


def _score(function: ModelFunction, quality: Quality, costs: Costs, scatter: Scatter, call: int) -> float:
    """Return `buran.model.scoring.score` of a model; infinite where nothing is left to judge by."""
    coefficients = len(function.terms) + (function.constant != 0)
    if not np.isfinite(quality.error) or quality.points <= coefficients:
        return np.inf
    error, cost = np.array([quality.error]), np.array([_cost(function, costs)])
    return float(score(error, cost, quality.points, coefficients, scatter.of(slice(call, call + 1)))[0])


@dataclass(frozen=True, eq=False)
class _Rivals:
    """Where alternatives come from: the models of one regime, with their scores, and by call path those of two."""

    models: Sequence[Model]
    scores: Mapping[int, float]
    joined: Mapping[int, Sequence[_Joined]]

    def alternatives(self, calls: Sequence[int]) -> list[tuple[Alternative, ...]]:
        """Weigh them; what no hypothesis says is taken from the model of one regime."""
        near = [self._near(call) for call in calls]
        regimes = [rival.upper.alternatives for group in near for _, rival in group if rival is not None]
        prepare([*(self.models[call].alternatives for call in calls), *regimes])
        out = []
        for call, group in zip(calls, near, strict=True):
            doubt = self.models[call].alternatives[0].discrepancy
            parts = [
                (weight, one)
                for weight, rival in group
                for one in (self.models[call].alternatives if rival is None else rival.alternatives())
            ]
            total = sum(weight * one.weight for weight, one in parts)
            out.append(
                tuple(replace(one, weight=weight * one.weight / total, discrepancy=doubt) for weight, one in parts)
            )
        return out

    def _near(self, call: int) -> list[tuple[float, _Joined | None]]:
        """Return those within reach of the best with their odds, the best first; None for one regime."""
        scored: list[tuple[float, _Joined | None]] = [(self.scores[call], None)]
        scored += [(rival.score, rival) for rival in self.joined[call]]
        scored.sort(key=lambda pair: pair[0])
        scores = np.array([[score for score, _ in scored]])
        weights = (odds(scores, self.models[call].quality.points)[0] ** UNCERTAINTY.doubt).tolist()
        pairs = zip(weights, scored, strict=True)
        return [(weight, rival) for weight, (_, rival) in pairs if weight > UNCERTAINTY.least]


def _passes_through(function: ModelFunction, parameter: int, values: int) -> bool:
    """Tell whether regimes follow so many values of a parameter just as they are, whatever these are.

    Beside the same part of the other parameters, a regime follows as many values as it has coefficients. Points that
    share a value would hide that. One value must be left over for the exponents, and one for where a regime begins.
    """
    sizes: dict[BasisFunction, Counter[tuple[Factor, ...]]] = {}
    for term in function.terms:
        along = [factor.basis for factor in term.factors if factor.parameter == parameter]
        bracket = next(basis for basis in along if isinstance(basis, Within))
        others = tuple(factor for factor in term.factors if factor.parameter != parameter)
        sizes.setdefault(bracket, Counter())[others] += 1
    return sum(max(counter.values()) for counter in sizes.values()) > values - REGIMES.spare


def _covariance(
    lower: ModelFunction,
    lower_covariance: Sequence[Sequence[float]],
    upper: ModelFunction,
    upper_covariance: Sequence[Sequence[float]],
) -> tuple[tuple[float, ...], ...]:
    """Return the covariance of a function of two regimes, which are independent."""
    if not lower_covariance or not upper_covariance:
        return ()
    upper_size, size = len(upper_covariance), 1 + len(upper_covariance) + len(lower_covariance)
    both = np.zeros((size, size))
    both[1 : 1 + upper_size, 1 : 1 + upper_size] = upper_covariance
    both[1 + upper_size :, 1 + upper_size :] = lower_covariance
    order, first = [0], 1
    for regime in (upper, lower):
        order += [first + 1 + term for term in range(len(regime.terms))] + [first] * (regime.constant != 0)
        first += 1 + len(regime.terms)
    return tuple(map(tuple, both[np.ix_(order, order)].tolist()))


def _cost(function: ModelFunction, costs: Costs) -> float:
    """Return what a function pays for its freedom, in nats; a place where a regime begins costs a coefficient."""
    coefficients = len(function.terms) + (function.constant != 0)
    out = costs.coefficient * (coefficients - 1)
    factors = {factor for term in function.terms for factor in term.factors}
    for p in {factor.parameter for factor in factors}:
        bases = [factor.basis for factor in factors if factor.parameter == p]
        ends = {end for basis in bases if isinstance(basis, Within) for end in (basis.low, basis.high)}
        growing = [basis for basis in bases if not isinstance(basis, Within)]
        extra = max(len(growing) - 1, 0)
        dear = min(sum(not basis.is_plain for basis in growing), extra)
        out += costs.parameter + costs.extra_term * dear + costs.extra_plain_term * (extra - dear)
        out += REGIMES.place * sum(np.isfinite(end) for end in ends)
    return float(out)
