"""The mathematics of `design`: closed forms beside brute force."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from simulated import measured, plain, space

from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.planning.base import base_indices
from buran.planning.belief import TargetBelief, belief_of, fewer
from buran.planning.design import Design, after_run, allocate, gains, improvable, whole_runs, worthiest
from buran.planning.observations import Observations, predicted_s
from buran.planning.protocol import PlanningState
from buran.planning.space import Array, Space
from buran_studies.functions import terms_prior

BASE = base_indices(space()).tolist()


def belief(calls: int = 1, places: int = 6, directions: int = 4, seed: int = 1) -> TargetBelief:
    random = np.random.default_rng(seed)
    factors = 0.2 * random.normal(size=(calls, places + 1, directions))
    share = np.full(calls, 1 / calls)
    return TargetBelief(
        np.ones((calls, places + 1)), factors, np.zeros((calls, places + 1)), np.full(calls, 0.05), share
    )


def left_over(own: TargetBelief, runs: Array) -> float:
    """Variance at the target after runs, by the textbook formula."""
    total = 0.0
    for factors, noise, share in zip(own.factors, own.noise, own.share, strict=True):
        covariance = factors @ factors.T
        here = np.flatnonzero(runs)
        inside = covariance[np.ix_(here, here)] + np.diag(noise**2 / runs[here])
        cross = covariance[here, -1]
        total += share**2 * (covariance[-1, -1] - cross @ np.linalg.solve(inside, cross))
    return total


@pytest.mark.parametrize("calls", [1, 3])
def test_gains_and_updates_are_those_of_the_posterior(calls: int) -> None:
    own = belief(calls)
    before = float(own.share**2 @ (own.factors[:, -1] ** 2).sum(axis=1))
    for place in range(6):
        runs = np.zeros(6)
        runs[place] = 1
        after = left_over(own, runs)
        assert gains(own)[place] == pytest.approx(1 - after / before)
        new = after_run(own, place)
        assert float(new.share**2 @ (new.factors[:, -1] ** 2).sum(axis=1)) == pytest.approx(after)
    twice = after_run(after_run(own, 2), 4)
    runs = np.array([0, 0, 1, 0, 1, 0.0])
    assert float(twice.share**2 @ (twice.factors[:, -1] ** 2).sum(axis=1)) == pytest.approx(left_over(own, runs))


def test_the_plan_keeps_to_the_budget_and_no_exchange_improves_it() -> None:
    own = belief(2, seed=4)
    cost, room = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), np.full(6, 10.0)
    plan, remains = allocate(own, cost, 40.0, room)
    assert cost @ plan <= 40 * (1 + 1e-9) and (plan <= 10 * (1 + 1e-9)).all()
    best = left_over(own, np.maximum(plan, 1e-12))
    before = float(own.share**2 @ (own.factors[:, -1] ** 2).sum(axis=1))
    assert remains * before == pytest.approx(best, rel=0.05)
    random = np.random.default_rng(3)
    for _ in range(300):
        other = random.dirichlet(np.full(6, 0.3)) * 40 / cost
        if (other <= room).all():
            assert left_over(own, np.maximum(other, 1e-12)) >= 0.97 * best


def degenerate(seed: int) -> TargetBelief:
    """Return a belief with duplicate, constant, huge, tiny and missing directions and places."""
    random = np.random.default_rng(seed)
    calls, places, directions = random.integers(1, 4), random.integers(1, 9), random.integers(1, 7)
    own = belief(int(calls), int(places), int(directions), seed)
    factors = own.factors
    factors *= random.choice([0.0, 1e-12, 1.0, 1.0, 1.0, 1e12], size=(calls, 1, directions))
    factors *= random.choice([0.0, 1e-12, 1.0, 1.0, 1.0, 1e12], size=(calls, places + 1, 1))
    if directions > 1:
        factors[..., 1] = random.choice([factors[..., 0], np.ones((calls, places + 1))])
    if places > 1:
        factors[:, 1] = factors[:, 0]
    noise = random.choice([0.0, 1e-12, 0.03, 1.0, 1e6], size=calls, p=[0.05, 0.05, 0.7, 0.1, 0.1])
    share = random.choice([0.0, 1e-12, 1.0], size=calls, p=[0.1, 0.1, 0.8])
    return replace(own, noise=noise, share=share / max(share.sum(), 1e-12))


def test_every_belief_has_a_plan() -> None:
    for seed in range(500):
        own, random = degenerate(seed), np.random.default_rng(seed)
        places = own.factors.shape[1] - 1
        cost, room = 10.0 ** random.uniform(-6, 2, places), random.integers(0, 6, places).astype(float)
        budget = float(random.choice([0.0, cost.min(), cost.sum(), 10 * cost.sum()]))
        plan, remains = allocate(own, cost, budget, room)
        assert np.isfinite(plan).all() and (plan >= 0).all() and (plan <= room * (1 + 1e-9)).all()
        assert cost @ plan <= budget * (1 + 1e-9) and 0 <= remains <= 1
        gain = gains(own)
        assert np.isfinite(gain).all() and (gain >= 0).all() and (gain <= 1 + 1e-9).all()
        whole = whole_runs(own, plan, cost, budget, room)
        assert (whole >= 0).all() and (whole <= room).all() and cost @ whole <= budget * (1 + 1e-9)
        chosen = worthiest(own, whole, cost, budget)
        assert (np.bincount(chosen, minlength=places) <= whole).all()
        for place in chosen:
            before, own = own.variance, after_run(own, place)
            assert np.isfinite(own.factors).all() and own.variance <= before * (1 + 1e-9)


def test_what_remains_is_that_of_the_posterior_however_sharp_a_run_is() -> None:
    for seed in range(50):
        own = belief(2, seed=seed)
        cost, room = np.ones(6), np.full(6, 10.0)
        plan, remains = allocate(own, cost, 20.0, room)
        # after the last step the plan moves once more
        assert remains == pytest.approx(left_over(own, np.maximum(plan, 1e-12)) / own.variance, rel=0.02)
        sharp = replace(own, noise=1e-9 * own.noise)
        exact = sum(
            share**2 * np.square(rows[-1] - rows[-1] @ np.linalg.pinv(rows[:-1]) @ rows[:-1]).sum()
            for rows, share in zip(own.factors, own.share, strict=True)
        )
        assert allocate(sharp, cost, 20.0, room)[1] == pytest.approx(exact / own.variance, abs=1e-5)


def test_one_place_of_which_nothing_is_known_leaves_what_is_known_of_others() -> None:
    random = np.random.default_rng(2)
    factors = 0.1 * random.normal(size=(30, 40))
    factors[3] *= 1e12
    kept = fewer(factors, 24)
    others = np.arange(30) != 3
    before, after = (np.sqrt((each[others] ** 2).sum(axis=1)) for each in (factors, kept))
    assert (after <= before * (1 + 1e-3)).all() and after[-1] == pytest.approx(before[-1], rel=1e-3)


@pytest.mark.parametrize("seed", range(100, 110))
def test_few_runs_are_chosen_as_well_as_by_trying_all_plans(seed: int) -> None:
    own = belief(2, seed=seed)
    cost, room = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0]), np.full(6, 3.0)
    runs = whole_runs(own, allocate(own, cost, 40.0, room)[0], cost, 40.0, room)
    assert cost @ runs <= 40 and (runs <= room).all()
    every = [np.array(plan, dtype=np.float64) for plan in product(range(4), repeat=6)]
    best = min(left_over(own, plan) for plan in every if plan.any() and cost @ plan <= 40)
    before = float(own.share**2 @ (own.factors[:, -1] ** 2).sum(axis=1))
    assert before - left_over(own, runs.astype(np.float64)) >= 0.85 * (before - best)


@pytest.mark.parametrize("seed", range(5))
def test_of_a_plan_what_is_worth_most_for_its_cost_is_made_first(seed: int) -> None:
    own, cost = belief(seed=seed), np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    counts = np.array([9, 0, 2, 1, 1, 1])
    every = worthiest(own, counts, cost, part=np.inf)
    assert np.bincount(every, minlength=6).tolist() == counts.tolist()
    for place in every:
        planned = counts > 0
        assert gains(own)[place] / cost[place] == (gains(own) / cost)[planned].max()
        counts[place] -= 1
        own = after_run(own, place)
    some = worthiest(belief(seed=seed), np.array([9, 0, 2, 1, 1, 1]), cost, part=12.0)
    assert some == every[: len(some)]
    assert len(some) == 1 or cost[some].sum() <= 12.0


def test_nothing_is_planned_where_nothing_is_affordable() -> None:
    plan, remains = allocate(belief(), np.full(6, 9.0), 1.0, np.full(6, 10.0))
    assert not plan.any() and remains == 1.0


def test_a_call_path_that_no_run_improves_hides_no_other() -> None:
    own = belief(calls=3)
    factors = own.factors.copy()
    factors[0, :-1], factors[0, -1] = 0.0, 3.0  # as waiting on more ranks than the machine has
    own = replace(own, factors=factors, share=np.array([0.9, 0.099, 0.001]))
    cost, room = np.full(6, 2.0), np.full(6, 10.0)
    assert allocate(own, cost, 40.0, room)[1] > 0.99
    others = improvable(own, room)
    assert others.share.tolist() == [0.0, 0.099, 0.0]
    plan, remains = allocate(others, cost, 40.0, room)
    assert plan.any() and remains < 0.5
    nothing = improvable(replace(own, share=np.array([1.0, 0.0, 0.0])), room)
    assert allocate(nothing, cost, 40.0, room)[1] == 1.0


def test_more_runs_make_the_belief_narrower() -> None:
    one, many = belief_of(measured(BASE, plain, 1), space()), belief_of(measured(BASE, plain, 9), space())
    assert one is not None and many is not None
    assert many.expected_error < one.expected_error
    assert one.share.sum() == pytest.approx(1)


def test_hypotheses_that_agree_at_the_target_leave_less_to_learn() -> None:
    own = belief_of(measured(list(range(25)), plain, 9, 0.001), space())
    assert own is not None and own.expected_error < 0.05


def test_it_stops_when_the_prediction_is_certain_enough() -> None:
    known = measured(list(range(25)), plain, 5, 0.005)
    advice = Design(accuracy=0.3).suggest(PlanningState(known, space()))
    assert advice.stop and "within 30%" in advice.stop
    assert Design(accuracy=1e-6).suggest(PlanningState(known, space())).suggestions


def test_batches_are_limited_by_runs_and_by_points() -> None:
    known = measured(BASE, plain, 1, 0.1)
    runs = Design().suggest(PlanningState(known, space(), 3.0, most=4)).suggestions
    assert len(runs) <= 4
    points = Design().suggest(PlanningState(known, space(), 3.0, points=2)).suggestions
    assert 0 < len({point.index for point in points}) <= 2


def test_the_last_round_spends_what_is_left() -> None:
    known, asked = measured(BASE, plain, 1, 0.1), space()

    def spent(rounds_left: int) -> float:
        advice = Design().suggest(PlanningState(known, asked, 30.0, rounds_left=rounds_left))
        return sum(suggestion.cost_core_hours or 0.0 for suggestion in advice.suggestions)

    assert spent(1) > spent(10)


def test_call_paths_weigh_by_their_share_and_metrics_alike() -> None:
    known = measured(BASE, plain)
    both = replace(known, values=np.concatenate([known.values, 1e6 * known.values]), program_s=known.values[0])
    own = belief_of(both, space())
    assert own is not None and own.share[1] > 0.99
    apart = belief_of(replace(both, groups=np.array([0, 1])), space())
    assert apart is not None and apart.share == pytest.approx([0.5, 0.5])


def test_operations_of_mpi_make_more_ranks_worth_their_price() -> None:
    grid = np.array(list(product((2.0, 4, 8, 16, 32), (10.0, 20, 30, 40, 50))))
    asked = Space(("p", "n"), grid, grid[:, 0], np.array([128.0, 100.0]), ranks="p")
    points = grid[asked.indices(np.array([(2.0, 10), (2, 20), (2, 30), (4, 10), (4, 20), (8, 10)]))]
    work, barrier = points[:, 1] ** 2, 0.1 * np.log2(points[:, 0])
    square, depth = Term((Factor(1, PowerLog(Fraction(2), 0)),)), Term((Factor(0, PowerLog(Fraction(0), 1)),))
    values = np.stack([work, barrier])[:, :, None]
    priors = [terms_prior(ModelFunction(0.0, (1.0,), (term,)), "counts") for term in (square, depth)]
    known = Observations(points, values, values.sum(axis=0), priors, waits=(False, True))
    far, large = asked.indices(np.array([(32.0, 10), (8, 40)])).tolist()  # of the same price
    with_waiting, without = (belief_of(replace(known, waits=waits), asked) for waits in (known.waits, ()))
    assert with_waiting is not None and without is not None
    ratios = [gains(own)[far] / gains(own)[large] for own in (with_waiting, without)]
    assert ratios[0] > 1.1 * ratios[1]  # three numbers of ranks leave growth with them open anyway


def test_a_dear_run_waits_until_models_tell_what_it_costs() -> None:
    grid = np.array(list(product((2.0, 4, 8, 16), (1.0, 2, 3, 4, 5))))
    asked = Space(("p", "n"), grid, grid[:, 0], np.array([64.0, 10.0]), ranks="p")
    points = np.array([(2.0, 1), (2, 2), (2, 3), (4, 1), (4, 2), (4, 3), (8, 1), (8, 2)])
    seconds = np.select([points[:, 0] == 2, points[:, 0] == 4], [1.4, 2.0], 0.9) * points[:, 1] ** 3
    cube = Factor(1, PowerLog(Fraction(3), 0))
    steep = Term((Factor(0, PowerLog(Fraction(3), 2)), cube))
    known = Observations(
        points,
        seconds[None, :, None],
        seconds[:, None],
        (terms_prior(ModelFunction(0.0, (1.0, -1.0), (Term((cube,)), steep)), "counts"),),
    )
    (dear,) = asked.indices(np.array([(16.0, 5)]))
    assert known.fit.predict(grid[dear][None])[0, 0] == 0
    told = predicted_s(known, asked)
    assert told is not None and 60 < told[dear] < 200  # by powers of p and n, not that of the shortest run
    before = PlanningState(known, asked)
    assert (before.worst_cost >= before.cost * (1 - 1e-12)).all()
    left = 0.5 * float(before.worst_cost[dear])
    chosen = Design().suggest(PlanningState(known, asked, left, rounds_left=1)).suggestions
    assert chosen and dear not in {run.index for run in chosen}
    assert sum(float(before.worst_cost[run.index]) for run in chosen) <= left


def test_a_wild_prediction_does_not_hide_all_other_call_paths() -> None:
    points = np.array([(2.0, 1), (2, 2), (2, 3), (4, 1), (4, 2), (4, 3), (8, 1), (8, 2)])
    asked = Space(("p", "n"), points, points[:, 0], np.array([64.0, 10.0]))
    steep = Term((Factor(0, PowerLog(Fraction(9), 0)),))
    cube = Term((Factor(1, PowerLog(Fraction(3), 0)),))
    values = np.stack([points[:, 1] ** 3, 0.01 + 1e-9 * points[:, 0] ** 9])[:, :, None]
    own = belief_of(
        Observations(
            points,
            values,
            priors=[terms_prior(ModelFunction(0.0, (1.0,), (term,)), "counts") for term in (cube, steep)],
        ),
        asked,
    )
    assert own is not None and own.predicted[1, -1] > 1e4 * own.predicted[0, -1]
    assert own.share[0] > 0.1
