"""Algorithms of MPI operations: terms of others where times pay for them, and doubt beyond the measured ranks."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from prior_tables import POINTS, N, P, table

from buran.modeling.experiments import model_experiment
from buran.modeling.functions.terms import Array, ModelFunction, power, scaled
from buran.modeling.pmnf.model import prediction_interval
from buran.modeling.priors.campaign import OTHERS_FOLLOW, models_from_priors, noise_resilient
from buran.modeling.priors.communication import operation_of
from buran.modeling.priors.prior import Prior, communication_prior
from buran.modeling.priors.resilient import fit_priors, predictions
from buran.modeling.priors.waiting import with_algorithms

ONE, RANKS, BYTES = ModelFunction(1.0), power(0, 1), power(1, 1)
FAR = np.array([[64.0, 160.0]])
TREE = np.log2(P) * (1.0 + 0.02 * N)  # all of the message at each level
RING = (P - 1) + 0.02 * N


def prior_of(name: str, size: ModelFunction = RANKS) -> Prior:
    operation = operation_of(name)
    assert operation is not None
    return communication_prior(operation, name=name, visits=ONE, size=size, sent=BYTES, received=BYTES)


def decided(prior: Prior) -> Prior:
    return replace(prior, others=())


def noisy(times: Array, share: float, count: int) -> Array:
    return np.asarray(times * np.random.default_rng(3).normal(1.0, share, size=(count, len(times))))


def test_an_algorithm_that_is_not_the_usual_one_is_found() -> None:
    prior = prior_of("MPI_Bcast")
    assert [column.name for column in prior.others] == ["calls x (N - 1)", "B log2(N)"]
    switched = np.where(N < 60, TREE, RING)
    (wide,) = with_algorithms(POINTS, switched[None], [prior])
    assert wide is not None and wide.columns == (*prior.columns, *prior.others) and not wide.others
    told = predictions(POINTS, np.stack([TREE, RING]), [prior, prior], FAR)[:, 0]
    np.testing.assert_allclose(told, [6 * (1 + 0.02 * 160), 63 + 0.02 * 160], rtol=1e-3)


def test_the_usual_algorithm_needs_no_other_even_under_noise() -> None:
    prior = prior_of("MPI_Bcast")
    times = noisy(3.0 * np.log2(P) + 0.1 * N, 0.2, 100)
    wide = [given != decided(prior) for given in with_algorithms(POINTS, times, [prior] * 100)]
    assert np.mean(wide) <= 0.05
    exact = (3.0 * np.log2(P) + 0.1 * N)[None]
    assert with_algorithms(POINTS, exact, [prior]) == [decided(prior)]


def test_few_points_pay_for_no_other_algorithm() -> None:
    prior, few = prior_of("MPI_Bcast"), np.arange(0, 25, 4)[:6]
    assert len(few) <= len(prior.widened.columns) + 1
    assert with_algorithms(POINTS[few], RING[None, few], [prior]) == [decided(prior)]
    hidden = np.where(np.isin(np.arange(25), few), RING, np.nan)
    assert with_algorithms(POINTS, hidden[None], [prior]) == [decided(prior)]


@pytest.mark.parametrize(("size", "doubled"), [(RANKS, 1.0), (scaled(power(0, Fraction(1, 2)), 2.0), 0.5)])
def test_beyond_the_measured_ranks_another_algorithm_may_follow(size: ModelFunction, doubled: float) -> None:
    prior = prior_of("MPI_Barrier", size)
    assert prior.switches == ((0, doubled),)
    at = np.array([[32.0, 160.0], [64.0, 160.0], [32.0, 320.0]])
    (fitted,) = fit_priors(POINTS, 2.0 * prior.columns[-1].function.evaluate(POINTS)[None], [prior])
    assert fitted is not None
    low, high = (ends[0] for ends in prediction_interval([fitted.model], at, of="mean"))
    width = (high - low) / 2 / fitted.model.function.evaluate(at)
    assert width[0] < width[1] < 0.5  # more ranks than measured


def test_messages_between_two_have_one_algorithm() -> None:
    prior = prior_of("MPI_Recv")
    assert not prior.others and not prior.switches


@pytest.mark.parametrize(("ranks", "said"), [(32, False), (64, True)])
def test_the_report_says_where_another_algorithm_may_follow(ranks: int, said: bool) -> None:
    path = "main->MPI_Barrier"
    counts = {"visits": np.ones(25), "communicator_size_sum": P, "communicator_size_max": P}
    counts |= {"bytes_sent": np.zeros(25), "bytes_received": np.zeros(25)}
    timed = table({"main": {"time": N}, path: {"time": np.log2(P)}})
    made = models_from_priors(timed, table({"main": {"visits": np.ones(25)}, path: counts}), processes="p")
    _, statements = noise_resilient(made, model_experiment(timed)["time"], (ranks, 160))
    assert [OTHERS_FOLLOW in statement.notes for statement in statements] == [False, said]


def test_bytes_of_chains_and_roots() -> None:
    gather = {column.name: column.function.evaluate(POINTS) for column in prior_of("MPI_Gather").others}
    np.testing.assert_allclose(gather["B / N"], N)
    scan = {column.name: column.function.evaluate(POINTS) for column in prior_of("MPI_Scan").others}
    np.testing.assert_allclose(scan["B (N - 1)"], 2 * N * (P - 1) / P)
