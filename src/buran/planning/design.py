"""The strategy `design`: measure what the models need.

Every round plans the use of all that is left of the budget: of the numbers of runs at all points, those are found that
make the prediction at the target most certain (c-optimal design for a linear model with prior, the costs being core
hours). Only the part of that plan that is worth most for its cost is carried out before the models are made again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from buran.campaign.strategies import Abilities
from buran.modeling.numerics.tuning import HALF, MATTERS, NEARLY, STEPS
from buran.planning.base import BASE, ONCE, Base, missing_points
from buran.planning.belief import TargetBelief, belief_of
from buran.planning.observations import Observations, known_share
from buran.planning.protocol import CAREFUL, ROUND_SHARE, Advice, PlanningState, Settings
from buran.planning.space import Array, Ids, Mask, Space

# Of what is left, that a run of the base may take. Tuned: judgement.
BASE_SHARE = 1 / 8


@dataclass(frozen=True)
class Design:
    """Chooses the runs that make the prediction at the target most certain for what they cost.

    Attributes
    ----------
    accuracy
        Relative half width of the 90 % interval at the target that is narrow enough; None to go on to the budget.
    part
        Of what is left, that one round spends before there are new models.
    """

    base: Base = ONCE
    accuracy: float | None = None
    part: float = ROUND_SHARE

    @property
    def abilities(self) -> Abilities:
        """What it can do."""
        repetitions = self.base.repetitions
        return Abilities(weighs_runs=True, accuracy=True, base_repetitions=repetitions, gain="variance removed")

    def configured(self, settings: Settings) -> Design:
        """Return it with another base, and an accuracy to stop at."""
        return settings.given_to(self)

    def suggest(self, state: PlanningState) -> Advice:
        """Return the next part of the plan, what is worth most for its cost first."""
        measured, space = state.measured, state.space
        base = Base(1, 2) if known_share(measured) >= NEARLY else self.base
        # with few rounds left, the base must not take many of them
        together = BASE_SHARE if state.rounds_left is None else HALF
        opening = _at_target(state) or self._first(state)
        if opening is None and not _seen_at_target(state):
            opening = base.advice(state, BASE_SHARE, together)
        if opening:
            return opening
        belief = belief_of(measured, space)
        if belief is None or not state.has_costs:
            return Advice(stop="nothing was measured that a model could be made of")
        error = belief.expected_error
        if self.accuracy is not None and _width(measured, space, belief) <= self.accuracy:
            return Advice(stop=f"the prediction at the target is within {self.accuracy:.0%}", expected_error=error)
        cost = CAREFUL * state.cost
        affordable = state.free & (CAREFUL * state.worst_cost <= state.left)
        if not affordable.any():
            return state.nothing_left()
        left = state.left if np.isfinite(state.left) else float((cost * state.free).sum() * space.most_repetitions)
        room = np.where(affordable, space.most_repetitions - state.runs, 0).astype(np.float64)
        found = _helpful_plan(measured, space, belief, cost, left, room)
        if found is None:
            return Advice(stop=_no_run_helps(measured, space), expected_error=error)
        belief, plan = found
        counts = whole_runs(belief, plan, cost, left, room)
        chosen = self._now(belief, counts, cost, left, state)
        gain = gains(belief)
        usual = np.where(_distinguishes(belief), "distinguishes hypotheses", "makes coefficients certain").tolist()
        reasons = [_new_values(measured, space, index) or usual[index] for index in chosen]
        out = state.suggestions(chosen, [float(gain[index]) for index in chosen], reasons)
        return Advice(out, expected_error=error) if out else state.nothing_left()

    def _now(self, belief: TargetBelief, counts: Ids, cost: Array, left: float, state: PlanningState) -> list[int]:
        """Return the runs of a plan (point,) to make before there are new models, as far as a round may go."""
        one = np.ones(len(cost))
        if state.points is not None:
            kept = set(worthiest(belief, np.minimum(counts, 1), one, state.points))
            counts = np.where(np.isin(np.arange(len(counts)), list(kept)), counts, 0)
        if state.most is not None:
            return worthiest(belief, counts, one, state.most)
        part = max(self.part, 1 / state.rounds_left) if state.rounds_left else self.part
        return worthiest(belief, counts, cost, part * left)

    def _first(self, state: PlanningState) -> Advice | None:
        """Return the points without which models tell nothing, as far as costs are known and allow it."""
        if not state.has_costs:
            return None
        order = np.argsort(state.cost, kind="stable")
        order = order[state.free[order] & (state.runs[order] == 0)]
        indices = missing_points(state.space.points, np.flatnonzero(state.runs).tolist(), order.tolist())
        total = np.cumsum(CAREFUL * state.cost[indices])
        most = max(ROUND_SHARE * state.left, float(total[0])) if indices else 0.0
        chosen = [index for index, sum_ in zip(indices, total.tolist(), strict=True) if sum_ <= most]
        out = state.suggestions(chosen, [0.0] * len(chosen), [BASE] * len(chosen))
        return Advice(out) if out else None

    def width_at_target(self, measured: Observations, space: Space) -> float | None:
        """Return half of the widest 90 % interval at the target over its prediction, of the call paths above 1 %.

        None without models; infinite where an interval has no ends.
        """
        belief = belief_of(measured, space)
        return None if belief is None else _width(measured, space, belief)


DESIGN = Design()


def _all_but_steps(space: Space) -> Mask:
    """Return shape (point,): whether a point is the target with another number of steps."""
    others = [column for column, name in enumerate(space.parameters) if name not in space.steps]
    same = (space.points[:, others] == space.target[others]).all(axis=1)
    return np.asarray(same & bool(space.steps))


def _seen_at_target(state: PlanningState) -> bool:
    """Tell whether the target was run with few steps: smaller points then only show that work repeats."""
    return bool((state.runs[_all_but_steps(state.space)] > 0).any())


def _at_target(state: PlanningState) -> Advice | None:
    """Return the target with the fewest steps as soon as it fits: no smaller point shows as much of what a step takes.

    Its cost is extrapolated by counts, from two values of each parameter at least.
    """
    if not state.has_costs or _seen_at_target(state) or known_share(state.measured) <= 1 / 2:
        return None
    measured = state.space.points[state.runs > 0]
    worst = CAREFUL * state.worst_cost
    fits = _all_but_steps(state.space) & state.free & (worst <= state.left)
    if not (measured != measured[:1]).any(axis=0).all() or not fits.any():
        return None
    index = int(np.where(fits, worst, np.inf).argmin())
    out = state.suggestions([index], [0.0], ["few steps at the target"])
    return Advice(out) if out else None


def _helpful_plan(
    measured: Observations, space: Space, belief: TargetBelief, cost: Array, left: float, room: Array
) -> tuple[TargetBelief, Array] | None:
    """Return the best numbers of runs (point,), with the belief they are for; None where no run helps."""
    plan, remains = allocate(belief, cost, left, room)
    if remains > 1 - MATTERS and (informed := belief_of(measured, space, unseen=False)) is not None:
        belief = informed  # what no point can show must not hide what some can
        plan, remains = allocate(belief, cost, left, room)
    if remains > 1 - MATTERS:
        belief = improvable(belief, room)  # nor must the other call paths
        plan, remains = allocate(belief, cost, left, room)
    return None if remains > 1 - MATTERS else (belief, plan)


def _largest(measured: Observations, space: Space, beyond: Array) -> list[str]:
    """Return the largest measured values of parameters that a point (parameter,) goes beyond, as text."""
    largest = measured.points[measured.counts > 0].max(axis=0, initial=0.0)
    return [f"{space.parameters[k]} = {largest[k]:g}" for k in np.flatnonzero(beyond > largest).tolist()]


def _new_values(measured: Observations, space: Space, index: int) -> str:
    """Say that a run shows what a unit of work costs beyond the largest values; empty where it does not."""
    beyond = _largest(measured, space, np.minimum(space.points[index], space.target))
    return f"shows what a unit of work costs beyond {' and '.join(beyond)}" if beyond else ""


def _no_run_helps(measured: Observations, space: Space) -> str:
    """Say why no run makes the prediction more certain, and which one outside of the campaign's values would."""
    stop = "no run that fits into the budget makes the prediction at the target more certain"
    beyond = _largest(measured, space, space.target)
    return f"{stop}: what a unit of work costs beyond {' and '.join(beyond)} is not known" if beyond else stop


def _width(measured: Observations, space: Space, belief: TargetBelief) -> float:
    lower, upper = measured.fit.predict_interval(space.target[None], of="mean")
    modelled = np.array([model is not None for model in measured.fit.models])
    half, predicted = (upper - lower)[modelled, 0] / 2, np.abs(belief.predicted[:, -1])
    counts = belief.share >= MATTERS
    relative = np.where(predicted > 0, half / np.where(predicted > 0, predicted, 1.0), np.where(half > 0, np.inf, 0.0))
    return float(relative[counts].max(initial=0.0))


def gains(belief: TargetBelief) -> Array:
    """Share of the variance at the target that one run at each point removes, in closed form: shape (point,).

    With covariance K and noise s^2 of one run the variance falls by ``K(x, t)^2 / (K(x, x) + s^2)``.
    """
    rows = belief.information
    along = np.einsum("cpr,cr->cp", rows, belief.factors[:, -1]) ** 2
    fall = along / (1 + (rows**2).sum(axis=2))
    return np.asarray(belief.share**2 @ fall / max(belief.variance, np.finfo(np.float64).tiny))


def improvable(belief: TargetBelief, room: Array) -> TargetBelief:
    """Return the belief about the call paths above 1 % of the time that so many runs (point,) make more certain."""
    target = belief.factors[:, -1]
    # share of the variance that all runs leave: t^T (I + sum_x r_x f_x f_x^T)^-1 t over t^T t
    left = np.einsum("cr,cr->c", target, _turned(belief.information, room, target)[..., 0])
    improves = (left < (1 - MATTERS) * (target**2).sum(axis=1)) & _matters(belief.share)
    return replace(belief, share=np.where(improves, belief.share, 0.0))


def _turned(rows: Array, runs: Array, target: Array) -> Array:
    """Return (I + sum_x r_x f_x f_x^T)^-1 t, the information of the plan, shape (call path, direction, 1)."""
    normal = np.eye(rows.shape[2]) + np.matmul(rows.transpose(0, 2, 1), rows * runs[:, None])
    return np.linalg.solve(normal, target[..., None])


def allocate(belief: TargetBelief, cost: Array, budget: float, room: Array) -> tuple[Array, float]:
    """Find the numbers of runs, not rounded, that leave the least variance at the target.

    The variance is convex in the numbers of runs. Where the budget binds, the derivative per core hour is the same
    at all points of the best plan; numbers are multiplied by the root of that ratio until they settle.

    Parameters
    ----------
    belief
        Belief about all points and the target.
    cost
        Shape (point,): core hours of a run.
    budget
        Core hours.
    room
        Shape (point,): most runs.

    Returns
    -------
    runs
        Shape (point,).
    remains
        Share of the variance that remains.
    """
    out = np.zeros(len(cost))
    indices = np.flatnonzero((cost > 0) & (cost <= budget) & (room > 0))  # no weighing what the clock shows no time of
    if not len(indices):
        return out, 1.0
    rows, target = belief.information[:, indices], belief.factors[:, -1]
    price, most = cost[indices], room[indices]
    weight, before = belief.share**2, belief.variance
    runs = np.minimum(budget / len(indices) / price, most)
    if before <= 0:
        return out, 1.0
    remains = 1.0
    for _ in range(STEPS):
        # what remains is t^T (I + sum_x r_x f_x f_x^T)^-1 t over t^T t
        turned = _turned(rows, runs, target)
        remains = float(weight @ (target[:, None] @ turned)[:, 0, 0]) / before
        # -dV/dr_x = (f_x^T (...)^-1 t)^2: runs move to where a core hour takes most of the variance
        slope = weight @ (rows @ turned)[..., 0] ** 2
        runs = _within(runs * np.sqrt(slope / price), price, budget, most)
    out[indices] = runs
    return out, min(max(remains, 0.0), 1.0)


def _within(runs: Array, price: Array, budget: float, most: Array) -> Array:
    """Scale numbers of runs to the budget; where that is more than there is room for, the others get the rest."""
    full = np.zeros(len(runs), dtype=bool)
    out = np.minimum(runs, most)
    for _ in range(6):
        rest, needed = budget - float((price * most)[full].sum()), float((price * runs)[~full].sum())
        if needed <= 0 or rest <= 0:
            break
        out = np.where(full, most, runs * (rest / needed))
        over = (out > most) & ~full
        if not over.any():
            break
        full |= over
    return np.asarray(np.minimum(out, most))


def _distinguishes(belief: TargetBelief) -> Mask:
    """Return shape (point,): whether a run there would distinguish hypotheses rather than settle coefficients."""
    weight = belief.share**2
    whole = (belief.factors[:, :-1] @ belief.factors[:, -1, :, None])[..., 0]
    return np.asarray(weight @ (belief.disagreement[:, :-1] * whole) > 0.5 * (weight @ whole**2))


def whole_runs(belief: TargetBelief, plan: Array, cost: Array, budget: float, room: Array) -> Ids:
    """Turn a plan into whole numbers: rounding would never make the expensive runs of which it has a part.

    For each point that the plan spends something on, one run more than the whole ones there is followed by those that
    remove most variance for what they cost, as long as the budget reaches; the best of these plans is taken.

    Parameters
    ----------
    plan
        Shape (point,): not rounded, as `allocate` finds it.
    cost, budget, room
        As for `allocate`.

    Returns
    -------
    runs
        Shape (point,).
    """
    indices = np.flatnonzero(_matters(plan * cost) & (cost <= budget) & (plan > 0))
    heavy = _matters(belief.share**2 * (belief.factors[:, -1] ** 2).sum(axis=1))
    part = replace(
        belief, factors=belief.factors[heavy][:, [*indices, -1]], noise=belief.noise[heavy], share=belief.share[heavy]
    )
    price, most = cost[indices], room[indices]
    whole = np.floor(plan[indices]).astype(np.int64)
    for index in np.repeat(np.arange(len(indices)), whole).tolist():
        part = after_run(part, index)
    left = budget - float(price @ whole)
    # what is left buys single runs, by the gain for their cost after each possible first one
    best, least = whole, np.inf
    for first in np.flatnonzero((price <= left) & (whole < most)).tolist():
        runs, remains = _filled(part, first, price, left, most - whole)
        if remains < least:
            best, least = whole + runs, remains
    counts = np.zeros(len(cost), dtype=np.int64)
    counts[indices] = best
    return counts


def _matters(parts: Array) -> Mask:
    """Return which parts are at least a hundredth of all together, or the largest."""
    return np.asarray(parts >= min(MATTERS * parts.sum(), parts.max(initial=0.0)))


def _filled(belief: TargetBelief, first: int, price: Array, budget: float, room: Array) -> tuple[Ids, float]:
    """Return a plan (point,) that begins with one run at a point, and the variance at the target that it leaves."""
    runs = np.zeros(len(price), dtype=np.int64)
    index: int | None = first
    while index is not None:
        runs[index] += 1
        budget -= price[index]
        belief = after_run(belief, index)
        fits = (price <= budget) & (runs < room)
        index = int(np.argmax(np.where(fits, gains(belief) / price, -1.0))) if fits.any() else None
    return runs, belief.variance


def worthiest(belief: TargetBelief, counts: Ids, cost: Array, part: float) -> list[int]:
    """Return the runs to make before the next models: those of the plan that are worth most for their cost.

    Each accounts for those before it, up to a part of the budget. With cheap ones first, expensive ones would never be
    paid for: each new plan has a smaller budget, and cheap runs of its own.
    """
    rest = counts.copy()
    chosen: list[int] = []
    spent = 0.0
    while rest.any():
        index = int(np.argmax(np.where(rest > 0, gains(belief) / cost, -1.0)))
        if chosen and spent + cost[index] > part:
            break
        rest[index] -= 1
        spent += float(cost[index])
        chosen.append(index)
        belief = after_run(belief, index)
    return chosen


def after_run(belief: TargetBelief, index: int) -> TargetBelief:
    """Return the belief after one more run at a point: its covariance does not depend on what the run gives.

    With the row b of the point over the noise, ``F (1 - b b' / (1 + b'b)) F'`` is the new covariance; the middle is
    the square of ``1 - g b b'``.
    """
    row = belief.information[:, index]
    size = (row**2).sum(axis=1)
    turn = np.divide(1 - 1 / np.sqrt(1 + size), size, out=np.zeros_like(size), where=size > 0)
    along = np.einsum("cpr,cr->cp", belief.factors, row) * turn[:, None]
    return replace(belief, factors=belief.factors - along[..., None] * row[:, None])
