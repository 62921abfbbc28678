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
from buran.modeling.numerics.tuning import NOISE
from buran.modeling.pmnf import Factor, ModelFunction, PowerLog, Term
from buran.planning.base import base_indices
from buran.planning.forecast import Forecast, predicted_s
from buran.planning.observations import Observations
from buran.planning.protocol import Budget, PlanningState
from buran.planning.simple import TWICE, Base, next_in_order, without_progress
from buran.planning.space import Array, Space
from buran.planning.strategies import base_of, strategy_of
from buran_studies.functions import terms_prior

ADAPTIVE = tuple(name for name in STRATEGIES.names if name not in ("full", "lines"))
BASE = base_indices(space()).tolist()


@pytest.mark.parametrize("name", STRATEGIES.names)
def test_everybody_begins_with_the_cheapest_lines_when_nothing_is_known(name: str) -> None:
    asked = space()
    advice = strategy_of(name).suggest(Observations.nothing(2), asked, Budget(1.0), PlanningState())
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
    budget = Budget(share * full + 1.0, 1.0)
    advice = strategy_of(name).suggest(known, asked, budget, PlanningState(most=12))
    costs = [suggestion.cost_core_hours for suggestion in advice.suggestions]
    assert sum(cost or 0.0 for cost in costs) <= budget.left * (1 + 1e-9)
    runs = Forecast.of(known, asked, PlanningState()).runs
    for suggestion in advice.suggestions:
        before = [
            other
            for other in advice.suggestions[: advice.suggestions.index(suggestion)]
            if other.index == suggestion.index
        ]
        assert suggestion.repetition == runs[suggestion.index] + len(before) + 1 <= asked.most_repetitions
    assert bool(advice.suggestions) != bool(advice.stop)


def test_lines_begin_with_the_points_that_tell_a_sum_from_a_product() -> None:
    asked = space()
    off = set(base_indices(asked)) - set(base_indices(asked, off_lines=False))
    known = measured(base_indices(asked, off_lines=False)[:2], constant)
    rich = strategy_of("lines", repetitions=1).suggest(known, asked, Budget(1e3), PlanningState())
    first = [suggestion for suggestion in rich.suggestions if suggestion.index in off]
    assert list(rich.suggestions[: len(off)]) == first and len(first) == len(off)
    assert all("added or multiplied" in suggestion.reason for suggestion in first)
    cost = max(suggestion.cost_core_hours or 0.0 for suggestion in rich.suggestions)
    poor = strategy_of("lines", repetitions=1).suggest(known, asked, Budget(1.5 * cost), PlanningState())
    assert (poor.suggestions[0].cost_core_hours or 0.0) < cost / 3  # a dearer one would leave nothing for the lines


@pytest.mark.parametrize("name", ADAPTIVE)
def test_nothing_is_asked_for_without_budget(name: str) -> None:
    advice = strategy_of(name).suggest(measured(BASE, plain), space(), Budget(1.0, 1.0), PlanningState())
    assert not advice.suggestions and advice.stop and advice.budget_reached


@pytest.mark.parametrize("name", STRATEGIES.names)
def test_failed_points_are_not_asked_for_again(name: str) -> None:
    asked = space()
    failed = frozenset({BASE[0], BASE[-1], 13})
    for known in (Observations.nothing(2), measured(BASE[1:-1], plain)):
        advice = strategy_of(name).suggest(known, asked, Budget(), PlanningState(failed=failed))
        assert advice.suggestions or (name == "lines" and advice.stop == "the lines are measured")
        assert not failed & {suggestion.index for suggestion in advice.suggestions}


@pytest.mark.parametrize("name", ADAPTIVE)
def test_the_answer_is_the_same_every_time(name: str) -> None:
    asked, strategy = space(), strategy_of(name)
    answers = [
        strategy.suggest(measured(BASE, plain), asked, Budget(2.0), PlanningState(seed=3, most=4)) for _ in range(2)
    ]
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
    advice = strategy_of(name).suggest(known, space(), Budget(5.0), PlanningState(most=3))
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
    forecast = Forecast.of(outside, asked, PlanningState())
    assert forecast.runs.sum() == known.counts.sum()
    advice = strategy_of("design").suggest(outside, asked, Budget(5.0), PlanningState(most=3))
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
    advice = strategy_of("design").suggest(measured(places, plain, own=narrow), narrow, Budget(5.0), PlanningState())
    assert advice.suggestions


def test_an_empty_space_is_refused() -> None:
    with pytest.raises(UsageError, match="no points"):
        Space(("a",), np.zeros((0, 1)), np.zeros(0), np.ones(1))


def test_a_base_that_the_budget_does_not_reach_is_cut_or_refused() -> None:
    asked, known = space(), measured(BASE[:4], plain, 1)
    tiny = Budget(1e-3)
    cut = strategy_of("cpf", base=Base(2)).suggest(known, asked, tiny, PlanningState())
    refused = strategy_of("cpf", base=Base(2, whole=True)).suggest(known, asked, tiny, PlanningState())
    assert cut.stop or all(
        suggestion.cost_core_hours and suggestion.cost_core_hours <= 1e-3 for suggestion in cut.suggestions
    )
    assert refused.stop and "base" in refused.stop and refused.budget_reached


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


def test_bases_may_spread_over_the_whole_range() -> None:
    values = np.array([1.0, 2, 3, 4, 6, 8, 16, 32, 64, 100])
    points = np.array([(a, b) for a in values for b in (1.0, 2.0)])
    own = Space(("a", "b"), points, points[:, 0], np.array([200.0, 4.0]))
    for kind, wanted in (("cheapest", {1, 2, 3, 4, 6}), ("lines", {1, 2, 3, 4, 6}), ("spread", {1, 3, 8, 32, 100})):
        chosen = own.points[base_of("design", kind).indices(own)]
        assert set(chosen[chosen[:, 1] == 1, 0]) == wanted
        assert (chosen[:, 1] == 2).sum() == (1 if kind == "lines" else 3)
    assert base_of("cpf", None).repetitions == 2 and base_of("design", None).repetitions == 1


def test_cpf_takes_the_cheapest_and_stops_at_the_first_that_does_not_fit() -> None:
    asked, known = space(), measured(TWICE.indices(space()).tolist(), plain)
    forecast = Forecast.of(known, asked, PlanningState())
    assert forecast.cost is not None
    rest = [place for place in np.argsort(forecast.cost).tolist() if forecast.runs[place] < 2]
    advice = strategy_of("cpf").suggest(known, asked, Budget(100.0), PlanningState())
    assert [suggestion.index for suggestion in advice.suggestions] == [rest[0], rest[0]]
    nothing = strategy_of("cpf").suggest(known, asked, Budget(float(forecast.cost[rest[0]]) * 0.99), PlanningState())
    assert nothing.stop


def test_patience_ends_it_without_progress() -> None:
    assert without_progress((5.0, 6.0, 7.0, 5.0), 3)
    assert not without_progress((5.0, 6.0, 7.0, 4.0), 3)
    assert not without_progress((5.0, 6.0, 7.0), 3)
    assert not without_progress((5.0,) * 9, None)
    advice = strategy_of("cpf", patience=3).suggest(
        measured(TWICE.indices(space()).tolist(), plain), space(), Budget(), PlanningState(errors=(1.0,) * 4)
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
    first = strategy_of("design").suggest(nothing, asked, Budget(), PlanningState())
    assert len(first.suggestions) < 6
    few = replace(
        measured([suggestion.index for suggestion in first.suggestions], plain, 1, 0.0),
        priors=(terms_prior(ModelFunction(0.0, (1.0, 1.0), terms), "counts"),),
    )
    model = few.fit.models[0]
    assert model is not None
    assert float(model.function.evaluate(asked.target)) == pytest.approx(float(plain(asked.target[None])[0]))


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
    advice = strategy_of(name, base=TWICE).suggest(runs, own, Budget(budget), PlanningState())
    assert advice.suggestions or advice.stop


def test_without_a_budget_the_end_is_that_every_point_is_measured() -> None:
    """Fewer runs than a point may have at most are no sign that the budget ended."""
    forecast = Forecast(np.full(4, 2), np.full(4, 0.1), np.ones(4, bool))
    advice = next_in_order(np.arange(4), forecast, Budget(np.inf, 0.0), 2, None, "next")
    assert advice.stop == "every point is measured" and not advice.budget_reached
    assert next_in_order(np.arange(4), forecast, Budget(0.05, 0.0), 3, None, "next").budget_reached
