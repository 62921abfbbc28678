"""Strategies guided by Gaussian processes: the paper's GPR, its hybrid, and Bayesian optimisation."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from buran.campaign.strategies import Abilities
from buran.numerics.gaussian_process import Process
from buran.select.observations import Observations
from buran.select.outlook import Outlook
from buran.select.protocol import Advice, Budget, PlanningState, Settings, Strategy
from buran.select.simple import TWICE, Base, CheapestFirst, base_or_end, nothing_left, suggestions
from buran.select.space import Array, Ids, Space
from buran.select.tuning import PROCESSES
from buran_studies.selection.strategies.likelihood import fit_process


def repetition_weight(noise_percent: float, runs: Array | Ids) -> Array:
    """Return w_c of Eq. 8, the weight of a cost: small for new points at low noise, for repetitions at high noise.

    Parameters
    ----------
    noise_percent
        Mean deviation of repetitions from their mean, 0 to 100 %.
    runs
        Runs that each point has already; the equation holds from 1 to 10.
    """
    noise = -np.tanh(np.clip(noise_percent, 0, 100) / 4 - 2.5)
    return np.asarray(noise + 2 ** (np.clip(runs, 1, 10) / 2 - 0.5))


@dataclass(frozen=True)
class GPR:
    """The strategy of section III-B: the least weighted cost, Eq. 7, of a run next.

    The process is fitted to all measured points after every round, on logarithms of parameters scaled to 1 with a
    length scale for each, and on logarithms of times; several call paths weigh by their share of the run time.

    Attributes
    ----------
    literal
        The paper's words instead: times and parameters as they are (parameters scaled by their largest value), one
        length scale.
    patience
        Lambda: so many rounds without a better fit end it; None for never.
    """

    base: Base = TWICE
    literal: bool = False
    patience: int | None = None

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return Abilities(patience=True, base_repetitions=self.base.repetitions)

    def configured(self, settings: Settings) -> GPR:
        """Return it with another base, and a patience."""
        return replace(self, base=settings.base or self.base, patience=settings.patience)

    def suggest(self, measured: Observations, space: Space, budget: Budget, state: PlanningState) -> Advice:
        """Return the best rated runs."""
        look = Outlook.of(measured, space, state)
        own = base_or_end(self.base, look, space, budget, state.errors, self.patience)
        if own is not None:
            return own
        assert look.cost is not None
        possible = look.free & (look.cost <= budget.left)
        if not possible.any():
            return nothing_left(look, budget)
        variance = self._variance(measured, space)
        noise = measured.noise_percent
        weights = repetition_weight(0.0 if np.isnan(noise) else noise, look.runs)
        floor = np.finfo(np.float64).tiny
        logs = np.log(np.maximum(variance, floor))  # the quotient itself may be too large for a number
        rating = 2 * np.log(np.maximum(look.cost, floor)) + np.log(weights) - logs
        order = np.argsort(np.where(possible, rating, np.inf), kind="stable")[: int(possible.sum())].tolist()
        chosen = order[: state.most or 1]
        scores = [-float(rating[place]) for place in chosen]
        why = ["repeats an uncertain point" if look.runs[place] else "new and uncertain" for place in chosen]
        return Advice(suggestions(chosen, look, scores, why, budget))

    def _variance(self, measured: Observations, space: Space) -> Array:
        """Predictive variance without noise at each place, call paths weighing by their share."""
        out = np.zeros(len(space.points))
        for call, share in largest(measured):
            out += (
                share * self._process(measured, space, call).predict(_scaled(space.points, space, self.literal))[1] ** 2
            )
        return out

    def _process(self, measured: Observations, space: Space, call: int) -> Process:
        here = (measured.runs[call] > 0) & (measured.means[call] > 0)
        values, runs = measured.means[call, here], measured.runs[call, here]
        inputs = _scaled(measured.points[here], space, self.literal)
        noise = measured.noise[call]
        if self.literal:
            return fit_process(inputs, values, (noise * values) ** 2 / runs, isotropic=True)
        return fit_process(inputs, np.log(values), noise**2 / runs)


@dataclass(frozen=True)
class Hybrid:
    """Begins with one strategy and goes on with another.

    Attributes
    ----------
    switch
        Points beyond the base that the first one chooses.
    """

    first: Strategy
    then: Strategy
    base: Base = TWICE
    switch: int = 3

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return Abilities(patience=self.then.abilities.patience, base_repetitions=self.base.repetitions)

    def configured(self, settings: Settings) -> Hybrid:
        """Return it with another base, other repetitions at first, and a patience afterwards."""
        base = settings.base or self.base
        first = self.first.configured(replace(settings, base=base, patience=None))
        return replace(self, first=first, then=self.then.configured(replace(settings, base=base)), base=base)

    def suggest(self, measured: Observations, space: Space, budget: Budget, state: PlanningState) -> Advice:
        """Ask the strategy whose turn it is."""
        look = Outlook.of(measured, space, state)
        own = self.base.advice(look, space, budget)
        if own is not None:
            return own
        base = len(self.base.places(space))
        turn = self.first if (look.runs > 0).sum() < base + self.switch else self.then
        advice = turn.suggest(measured, space, budget, state)
        return self.then.suggest(measured, space, budget, state) if advice.stop and turn is self.first else advice


@dataclass(frozen=True)
class Bayes:
    """Bayesian optimisation of where the models err most.

    The surrogate is a process over the absolute relative errors of the program's model at the measured points; the
    acquisition function finds where a larger error is to be expected, per core hour.

    Attributes
    ----------
    acquisition
        ``ei``: expected improvement; ``ucb``: upper confidence bound.
    """

    acquisition: str = "ei"
    base: Base = TWICE

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        return Abilities(base_repetitions=self.base.repetitions)

    def configured(self, settings: Settings) -> Bayes:
        """Return it with another base."""
        return replace(self, base=settings.base or self.base)

    def suggest(self, measured: Observations, space: Space, budget: Budget, state: PlanningState) -> Advice:
        """Return the runs with the largest acquisition."""
        look = Outlook.of(measured, space, state)
        own = self.base.advice(look, space, budget)
        if own is not None:
            return own
        assert look.cost is not None
        model = measured.program_fit.models[0]
        possible = look.free & (look.cost <= budget.left)
        if not possible.any() or model is None:
            return nothing_left(look, budget)
        here = (measured.counts > 0) & (measured.program_means_s > 0)
        seen = measured.program_means_s[here]
        errors = np.abs(model.function.evaluate(measured.points[here]) / seen - 1)
        noise = float(measured.noise.mean()) ** 2 / measured.counts[here]
        process = fit_process(_scaled(measured.points[here], space, False), errors, noise)
        mean, deviation = process.predict(_scaled(space.points, space, False))
        if self.acquisition == "ei":
            rating = expected_improvement(mean, deviation, float(errors.max()))
        else:
            rating = np.maximum(mean + PROCESSES.curious * deviation, 0.0)
        rating = rating / look.cost
        order = np.argsort(np.where(possible, -rating, np.inf), kind="stable")[: int(possible.sum())].tolist()
        chosen = order[: state.most or 1]
        why = ["a large error is expected"] * len(chosen)
        return Advice(suggestions(chosen, look, [float(rating[place]) for place in chosen], why, budget))


def expected_improvement(mean: Array, deviation: Array, best: float) -> Array:
    """Return by how much a value is expected to exceed `best`."""
    safe = np.where(deviation > 0, deviation, 1.0)
    z = (mean - best) / safe
    improvement = (mean - best) * ndtr(z) + safe * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return np.asarray(np.where(deviation > 0, improvement, np.maximum(mean - best, 0.0)))


def largest(measured: Observations) -> list[tuple[int, float]]:
    """Return the call paths with the largest shares of the measured time, with these shares."""
    total = np.nansum(np.where(measured.runs > 0, np.abs(measured.means), 0.0), axis=1)
    total = total / total.sum() if total.sum() > 0 else np.full(len(total), 1 / len(total))
    usable = (np.where(measured.runs > 0, measured.means, 0.0) > 0).sum(axis=1) >= 2
    order = [call for call in np.argsort(-total, kind="stable").tolist() if usable[call]][: PROCESSES.most_calls]
    return [(call, float(total[call])) for call in order]


def _scaled(points: Array, space: Space, literal: bool) -> Array:
    """Scale parameters: logarithms to a span of 1, or by the largest value."""
    if literal:
        return np.asarray(points / space.points.max(axis=0))
    tiny = np.finfo(np.float64).tiny
    logs, inner = np.log(np.maximum(points, tiny)), np.log(np.maximum(space.points, tiny))
    span = np.ptp(inner, axis=0)
    return np.asarray((logs - inner.min(axis=0)) / np.where(span > 0, span, 1.0))


PROCESS, LITERAL = GPR(), GPR(literal=True)
HYBRID = Hybrid(CheapestFirst(), GPR())
IMPROVEMENT, CONFIDENCE = Bayes("ei"), Bayes("ucb")
