"""Strategies: what they ask for, that they keep to the budget, and what they do with strange measurements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import constant, full_space, measured, plain, space

from buran.campaign.strategies import STRATEGIES
from buran.errors import UsageError
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.numerics.tuning import NOISE
from buran.planning.base import TWICE, Base, base_indices
from buran.planning.observations import Observations, predicted_s
from buran.planning.protocol import PlanningState
from buran.planning.space import Array, Space
from buran.planning.strategies import base_of, strategy_of
from buran.planning.unguided import next_in_order, without_progress
from buran_studies.functions import terms_prior

ADAPTIVE = tuple(name for name in STRATEGIES.names if not strategy_of(name).abilities.all_at_once)
BASE = base_indices(space()).tolist()


@pytest.mark.parametrize("name", STRATEGIES.names)
def test_everybody_begins_with_the_cheapest_lines_when_nothing_is_known(name: str) -> None:
    asked = space()
    advice = strategy_of(name).suggest(PlanningState(Observations.nothing(2), asked, 1.0))
    assert advice.suggestions and advice.stop is None
    assert all(suggestion.cost_core_hours is None for suggestion in advice.suggestions)
    if name in ADAPTIVE:
        places = [suggestion.index for suggestion in advice.suggestions]
        assert set(places) <= set(base_of(name).indices(asked)) and (asked.points[places, 0] <= 16).all()
        assert all(suggestion.repetition == 1 for suggestion in advice.suggestions)


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize("share", [0.02, 0.3, 5.0])
def test_suggestions_fit_into_the_budget_and_are_numbered(name: str, share: float) -> None:
    asked, known = space(), measured(BASE, plain)
    full = float(asked.core_hours(plain(asked.points)).sum())
    state = PlanningState(known, asked, share * full + 1.0, 1.0, most=12)
    advice = strategy_of(name).suggest(state)
    costs = [suggestion.cost_core_hours for suggestion in advice.suggestions]
    assert sum(cost or 0.0 for cost in costs) <= state.left * (1 + 1e-9)
    for suggestion in advice.suggestions:
        before = [
            other
            for other in advice.suggestions[: advice.suggestions.index(suggestion)]
            if other.index == suggestion.index
        ]
        assert suggestion.repetition == state.runs[suggestion.index] + len(before) + 1 <= asked.most_repetitions
    assert bool(advice.suggestions) != bool(advice.stop)


def test_lines_begin_with_the_points_that_tell_a_sum_from_a_product() -> None:
    asked = space()
    off = set(base_indices(asked)) - set(base_indices(asked, off_lines=False))
    known = measured(base_indices(asked, off_lines=False)[:2], constant)
    rich = strategy_of("lines", repetitions=1).suggest(PlanningState(known, asked, 1e3))
    first = [suggestion for suggestion in rich.suggestions if suggestion.index in off]
    assert list(rich.suggestions[: len(off)]) == first and len(first) == len(off)
    assert all("added or multiplied" in suggestion.reason for suggestion in first)
    cost = max(suggestion.cost_core_hours or 0.0 for suggestion in rich.suggestions)
    poor = strategy_of("lines", repetitions=1).suggest(PlanningState(known, asked, 1.5 * cost))
    assert (poor.suggestions[0].cost_core_hours or 0.0) < cost / 3  # a dearer one would leave nothing for the lines


@pytest.mark.parametrize("name", ADAPTIVE)
def test_nothing_is_asked_for_without_budget(name: str) -> None:
    advice = strategy_of(name).suggest(PlanningState(measured(BASE, plain), space(), 1.0, 1.0))
    assert not advice.suggestions and advice.stop and advice.budget_reached


@pytest.mark.parametrize("name", STRATEGIES.names)
def test_failed_points_are_not_asked_for_again(name: str) -> None:
    asked = space()
    failed = frozenset({BASE[0], BASE[-1], 13})
    for known in (Observations.nothing(2), measured(BASE[1:-1], plain)):
        advice = strategy_of(name).suggest(PlanningState(known, asked, failed=failed))
        assert advice.suggestions or (name == "lines" and advice.stop and not advice.budget_reached)
        assert not failed & {suggestion.index for suggestion in advice.suggestions}


@pytest.mark.parametrize("name", ADAPTIVE)
def test_the_answer_is_the_same_every_time(name: str) -> None:
    asked, strategy = space(), strategy_of(name)
    answers = [strategy.suggest(PlanningState(measured(BASE, plain), asked, 2.0, seed=3, most=4)) for _ in range(2)]
    assert answers[0] == answers[1]


def falling(points: Array) -> Array:
    return np.asarray(1 + 400 / points[:, 0] + 5 * np.sin(points[:, 1]))


@pytest.mark.parametrize("name", ADAPTIVE)
@pytest.mark.parametrize("truth", [constant, falling])
@pytest.mark.parametrize(("noise", "repetitions"), [(0.0, 2), (0.02, 1), (0.0, 1)])
def test_strange_run_times_have_answers(
    name: str, truth: Callable[[Array], Array], noise: float, repetitions: int
) -> None:
    known = measured(BASE, truth, repetitions, noise)
    advice = strategy_of(name).suggest(PlanningState(known, space(), 5.0, most=3))
    assert advice.suggestions or advice.stop
    assert all(suggestion.cost_core_hours and suggestion.cost_core_hours > 0 for suggestion in advice.suggestions)


def test_a_negative_prediction_costs_what_the_shortest_run_did() -> None:
    asked = space()

    def diving(points: Array) -> Array:
        return np.asarray(100.0 - 0.9 * points[:, 1] - points[:, 0])

    known = measured(BASE, diving, noise=0.0)
    model = known.program_fit.models[0]
    assert model is not None and model.function.evaluate(asked.points).min() < 0
    seconds = predicted_s(known, asked)
    assert seconds is not None and seconds.min() == pytest.approx(known.program_means_s.min())


def test_measured_points_outside_the_space_are_used_and_not_asked_for() -> None:
    asked = space()
    known = measured(BASE, plain)
    outside = Observations(
        np.vstack([known.points, [[3.0, 7.0]]]), np.concatenate([known.values, np.full((1, 1, 2), 9.0)], axis=1)
    )
    assert PlanningState(outside, asked).runs.sum() == known.counts.sum()
    advice = strategy_of("design").suggest(PlanningState(outside, asked, 5.0, most=3))
    assert advice.suggestions


def test_two_values_of_a_parameter_are_enough_for_advice_and_said_to_be_few() -> None:
    full = space()
    narrow = Space(
        full.parameters,
        full.points[np.isin(full.points[:, 0], (4, 8))],
        full.cores[np.isin(full.points[:, 0], (4, 8))],
        full.target,
    )
    assert any("a has 2 values" in note and "straight lines" in note for note in narrow.notes())
    places = base_indices(narrow).tolist()
    assert len(places) == 5 + 2 - 1 + 2
    advice = strategy_of("design").suggest(PlanningState(measured(places, plain, own=narrow), narrow, 5.0))
    assert advice.suggestions


def test_an_empty_space_is_refused() -> None:
    with pytest.raises(UsageError, match="no points"):
        Space(("a",), np.zeros((0, 1)), np.zeros(0), np.ones(1))


def test_a_base_that_the_budget_does_not_reach_is_cut() -> None:
    cut = strategy_of("cpf", base=Base(2)).suggest(PlanningState(measured(BASE[:4], plain, 1), space(), 1e-3))
    assert cut.stop or all(
        suggestion.cost_core_hours and suggestion.cost_core_hours <= 1e-3 for suggestion in cut.suggestions
    )


@pytest.mark.parametrize(("parameters", "points"), [(2, 9), (3, 13), (4, 17)])
def test_bases_have_the_sizes_of_the_paper_and_points_off_the_lines(parameters: int, points: int) -> None:
    own = full_space(parameters)
    assert len(base_indices(own, off_lines=False)) == points
    off = set(base_indices(own)) - set(base_indices(own, off_lines=False))
    assert len(off) == parameters
    assert all((own.points[place] != own.points[0]).sum() >= 2 for place in off)


def test_points_off_the_lines_have_more_ranks_than_the_lines_where_these_begin_with_two() -> None:
    points = np.array([(p, n) for p in (1.0, 2, 4, 8, 16) for n in (1.0, 2, 3, 4, 5)])
    own = Space(("p", "n"), points, points[:, 0], np.array([64.0, 10.0]), ranks="p")
    lines = set(base_indices(own, off_lines=False).tolist())
    cheap = own.points[:, 0] * own.points[:, 1] <= 8
    off = [own.points[place].tolist() for place in base_indices(own, affordable=cheap).tolist() if place not in lines]
    assert sorted(off) == [[4, 2]]
    two = Space(("p", "n"), points[:10], points[:10, 0], np.array([4.0, 10.0]), ranks="p")
    lines = set(base_indices(two, off_lines=False).tolist())
    assert {two.points[place, 0] for place in base_indices(two).tolist() if place not in lines} == {1}


def test_bases_have_the_cheapest_values_and_points_off_the_lines_or_none() -> None:
    values = np.array([1.0, 2, 3, 4, 6, 8, 16, 32, 64, 100])
    points = np.array([(a, b) for a in values for b in (1.0, 2.0)])
    own = Space(("a", "b"), points, points[:, 0], np.array([200.0, 4.0]))
    for kind in ("cheapest", "lines"):
        chosen = own.points[base_of("design", kind).indices(own)]
        assert set(chosen[chosen[:, 1] == 1, 0]) == {1, 2, 3, 4, 6}
        assert (chosen[:, 1] == 2).sum() == (1 if kind == "lines" else 3)
    assert base_of("cpf", None).repetitions == 2 and base_of("design", None).repetitions == 1


def test_cpf_takes_the_cheapest_and_stops_at_the_first_that_does_not_fit() -> None:
    asked, known = space(), measured(TWICE.indices(space()).tolist(), plain)
    before = PlanningState(known, asked)
    rest = [place for place in np.argsort(before.cost).tolist() if before.runs[place] < 2]
    advice = strategy_of("cpf").suggest(PlanningState(known, asked, 100.0))
    assert [suggestion.index for suggestion in advice.suggestions] == [rest[0], rest[0]]
    nothing = strategy_of("cpf").suggest(PlanningState(known, asked, float(before.cost[rest[0]]) * 0.99))
    assert nothing.stop


def test_patience_ends_it_without_progress() -> None:
    def ends(errors: tuple[float, ...], patience: int | None) -> bool:
        return without_progress(PlanningState(Observations.nothing(2), space(), errors=errors), patience) is not None

    assert ends((5.0, 6.0, 7.0, 5.0), 3)
    assert not ends((5.0, 6.0, 7.0, 4.0), 3)
    assert not ends((5.0, 6.0, 7.0), 3)
    assert not ends((5.0,) * 9, None)
    advice = strategy_of("cpf", patience=3).suggest(
        PlanningState(measured(TWICE.indices(space()).tolist(), plain), space(), errors=(1.0,) * 4)
    )
    assert advice.stop and "3 rounds" in advice.stop


def test_unknown_strategies_and_goals_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown strategy 'best'"):
        strategy_of("best")
    with pytest.raises(UsageError, match="accuracy"):
        strategy_of("cpf", accuracy=0.05)


def test_known_terms_need_a_smaller_base() -> None:
    terms = (Term((Factor(0, PowerLog(1, 1)),)), Term((Factor(1, PowerLog(2, 0)),)))  # type: ignore[arg-type]
    asked = space()
    nothing = replace(Observations.nothing(2), priors=(terms_prior(ModelFunction(0.0, (1.0, 1.0), terms), "counts"),))
    first = strategy_of("design").suggest(PlanningState(nothing, asked))
    assert len(first.suggestions) < 6
    few = replace(
        measured([suggestion.index for suggestion in first.suggestions], plain, 1, 0.0),
        priors=(terms_prior(ModelFunction(0.0, (1.0, 1.0), terms), "counts"),),
    )
    model = few.fit.models[0]
    assert model is not None
    assert float(model.function.evaluate(asked.target)) == pytest.approx(float(plain(asked.target[None])[0]))


def repeating(points: Array) -> Array:
    return np.asarray(0.1 + 1e-7 * points[:, 0] ** 3 * points[:, 1])


def with_steps() -> Space:
    """Sizes and steps of a space whose target, n = 64 with 600 steps, may be run with 30 and 120."""
    points = np.array([[n, s] for n in (16.0, 20, 24, 32, 40) for s in (30.0, 120, 600)] + [[64.0, 30], [64.0, 120]])
    points = points[np.argsort(repeating(points))]
    return Space(("n", "s"), points, np.ones(len(points)), np.array([64.0, 600]), steps=("s",))


@pytest.mark.parametrize(
    ("seen", "budget_s", "wanted"),
    [
        ([(16, 30), (16, 120), (20, 30)], 20.0, True),
        ([(16, 30), (16, 120), (20, 30)], 0.5, False),  # does not fit
        ([(16, 30), (16, 120), (16, 600)], 20.0, False),  # nobody knows yet what a larger size costs
        ([(16, 30), (20, 30), (24, 30)], 20.0, False),  # nor what more steps cost
        ([(16, 30), (16, 120), (20, 30), (64, 30)], 20.0, False),  # once is enough for the start
    ],
)
def test_the_target_with_few_steps_is_run_as_soon_as_it_fits(
    seen: list[tuple[int, int]], budget_s: float, wanted: bool
) -> None:
    own = with_steps()
    found = measured(own.indices(np.array(seen, dtype=float)).tolist(), repeating, 1, 0.0, own)
    work = Term((Factor(0, PowerLog(3, 0)), Factor(1, PowerLog(1, 0))))  # type: ignore[arg-type]
    known = replace(found, priors=(terms_prior(ModelFunction(0.0, (1.0,), (work,)), "counts"),))
    advice = strategy_of("design").suggest(PlanningState(known, own, budget_s / 3600))
    chosen = [tuple(own.points[suggestion.index].tolist()) for suggestion in advice.suggestions]
    assert (chosen == [(64.0, 30.0)]) == wanted
    for state in (PlanningState(known, replace(own, steps=()), budget_s), PlanningState(found, own, budget_s)):
        others = strategy_of("design").suggest(state).suggestions  # no steps, and nothing counted
        assert [tuple(own.points[suggestion.index].tolist()) for suggestion in others] != [(64.0, 30.0)]


def test_noise_is_never_taken_for_nothing() -> None:
    silent = measured(BASE, plain, 3, 0.0)
    assert 0 < silent.noise[0] < NOISE
    assert measured(BASE, plain, 3, 0.2).noise[0] > 3 * silent.noise[0]
    assert np.isnan(measured(BASE, plain, 1).noise_percent)


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.integers(1, 64), st.integers(1, 64)), min_size=1, max_size=25, unique=True),
    st.sampled_from(("design", "cpf", "gpr", "random")),
    st.floats(0.01, 100),
)
def test_any_space_has_an_answer(pairs: list[tuple[int, int]], name: str, budget: float) -> None:
    points = np.array(sorted(pairs), dtype=float)
    own = Space(("a", "b"), points, points[:, 0], points.max(axis=0))
    runs = measured(base_indices(own).tolist(), plain, 1, own=own)
    advice = strategy_of(name, base=TWICE).suggest(PlanningState(runs, own, budget))
    assert advice.suggestions or advice.stop


def test_without_a_budget_the_end_is_that_every_point_is_measured() -> None:
    """Fewer runs than a point may have at most are no sign that the budget ended."""
    points = np.array([[1.0], [2.0], [4.0], [8.0]])
    asked = Space(("n",), points, np.ones(4), np.array([16.0]))
    state = PlanningState(Observations(points, np.full((1, 4, 2), 360.0)), asked)
    assert not next_in_order(np.arange(4), state, 2, "next").budget_reached
    assert next_in_order(np.arange(4), replace(state, budget=0.05), 3, "next").budget_reached
