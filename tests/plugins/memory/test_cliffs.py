"""Where a cache is outgrown: what planning makes of it, and models of few values."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from test_known_terms import known

from buran.modeling.functions.derived import DerivedValue
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import Model, ModelSet, Quality
from buran.modeling.pmnf.alternative import Alternative, with_other_growth
from buran.modeling.priors.campaign import LevelMisses, PathPrior
from buran.modeling.priors.prior import Column
from buran.planning.belief import belief_of
from buran.planning.design import DESIGN, gains
from buran.planning.observations import Observations
from buran.planning.protocol import PlanningState
from buran.planning.space import Space
from buran.plugins.memory.outgrown import Outgrown
from buran.workflow import plan

CUBE = Term((Factor(0, PowerLog(Fraction(3), 0)),))
MISSES = ModelFunction(0.0, (1.0,), (Term((Factor(0, PowerLog(Fraction(3), 0)), Factor(0, Outgrown(20.0, 30.0)))),))
SIZES = np.array([8.0, 10, 12, 14, 16, 20, 24, 32, 40])


def cliff_at_25(measured: int, seconds: float = 0.0) -> tuple[Observations, Observations, Space]:
    """A program that leaves a cache from n = 20 to 30, with and without knowing it; the first sizes are measured."""
    space = Space(("n",), SIZES[:, None], np.ones(9), np.array([64.0]), expected_s=1e-3 * SIZES**3)
    truth = 1e-3 * SIZES**3 + seconds * MISSES.evaluate(space.points)
    values = truth[None, :measured, None] * np.array([0.99, 1.01])
    prior = known(CUBE)
    misses = Column("misses", MISSES, cost=(5e-4, 1e-3), level=2)
    blind = Observations(space.points[:measured], values, values[0], (prior,))
    return replace(blind, priors=(replace(prior, columns=(*prior.columns, misses)),)), blind, space


def test_misses_that_nobody_has_seen_cost_what_the_machine_lets_expect() -> None:
    told, _, space = cliff_at_25(5)
    (model,) = told.fit.models
    assert model is not None
    at = space.target[None]
    assert model.function.evaluate(at)[0] == pytest.approx(1.5e-3 * 64**3, rel=0.02)
    low, high = model.predict_interval(at)
    assert low[0] < 1.01e-3 * 64**3 and high[0] > 2.5e-3 * 64**3
    belief = belief_of(told, space)
    assert belief is not None and belief.expected_error > 0.4
    seen, _, _ = cliff_at_25(9, seconds=2e-3)
    (model,) = seen.fit.models
    assert model is not None
    assert model.function.evaluate(at)[0] == pytest.approx(3e-3 * 64**3, rel=0.02)


def test_one_run_beyond_a_cliff_is_worth_more_than_all_before_it() -> None:
    told, blind, space = cliff_at_25(5)
    beliefs = [belief_of(each, space) for each in (told, blind)]
    assert beliefs[0] is not None and beliefs[1] is not None
    gain, unaware = (gains(belief) for belief in beliefs if belief is not None)
    assert gain[:5].max() < 0.05 and gain[6:].min() > 0.8 and unaware[6] < 0.6
    chosen = [each.index for each in DESIGN.suggest(PlanningState(told, space, 40.0)).suggestions]
    assert chosen[0] >= 6


def test_cliffs_come_from_what_was_found_in_the_order_of_the_points() -> None:
    quality = Quality(5, 0.0, 0.0, 0.0, 1.0, 0.0)
    function = ModelFunction(1.0, (2.0, 3.0), (CUBE, *MISSES.terms))
    model = Model(function, quality)
    times = ModelSet(("n", "s"), "time", "s", ("a",), (model,), "mean", "median", ())
    misses = (LevelMisses(2, MISSES, (5e-4, 0.0)),)
    work = ModelFunction(0.0, (1.0,), (CUBE,))
    said = (PathPrior("a", "counts", resilient="2 n^3 s", work=work, misses=misses),)
    (prior,) = plan._priors(said, times, ("s", "n"), None).values()
    _, effort, cliff = prior.columns
    assert effort.function.terms == (Term((Factor(1, PowerLog(Fraction(3), 0)),)),)
    at = np.array([[7.0, 40.0]])
    assert cliff.function.evaluate(at) == pytest.approx(MISSES.evaluate(at[:, ::-1]))
    assert cliff.cost is not None and cliff.level == 2 and cliff.cost[0] == 5e-4 and cliff.cost[1] > 0


def test_a_working_set_of_two_parameters_has_no_other_growth_along_one() -> None:
    """A factor of several parameters says itself how they act together."""
    points = np.array([(p, n) for p in (1.0, 2.0) for n in (8.0, 12.0, 16.0)])
    size = DerivedValue.of("size", "p**(-1/3) * n**3", ("p", "n"))
    misses = Term((Factor(1, PowerLog(Fraction(3))), Factor(1, Outgrown(500.0, 900.0), size)))
    only = Alternative(ModelFunction(1e-5, (1e-8,), (misses,)), 1.0, ((0.0, 0.0), (0.0, 0.0)), 0.0, 3)
    assert with_other_growth([[only]], points) == [(only,)]
