"""Algorithms of a known MPI: predicted where no run has shown them."""

from __future__ import annotations

import json
from math import inf

import numpy as np
import pytest
from prior_tables import POINTS, N, P, table

from buran.modeling.experiments import model_experiment
from buran.modeling.functions.terms import Array, Cases, ModelFunction, power, scaled
from buran.modeling.pmnf.model import prediction_interval
from buran.modeling.pmnf.text import format_function, growth_class
from buran.modeling.priors.campaign import models_from_priors, noise_resilient
from buran.modeling.priors.communication import operation_of
from buran.modeling.priors.prior import Prior, communication_prior
from buran.modeling.priors.resilient import fit_priors, predictions
from buran.plugins.simgrid.switches import _COSTS, KnownAlgorithms, _thresholds

NAMES = ("p", "n")
ONE, RANKS, BYTES = ModelFunction(1.0), power(0, 1), power(1, 1)
OMPI = KnownAlgorithms("ompi", leaf=32)


def at(*ranks: float, bytes_: float = 100.0) -> Array:
    return np.array([[p, bytes_] for p in ranks])


Parts = dict[str, ModelFunction]


def parts_of(
    operation: str, mpi: KnownAlgorithms = OMPI, volume: ModelFunction | None = BYTES
) -> dict[str, ModelFunction]:
    return mpi.parts(operation, ONE, volume, RANKS, NAMES)


def prior_of(
    operation: str, mpi: KnownAlgorithms | None, sent: ModelFunction = BYTES, size: ModelFunction = RANKS
) -> Prior:
    model = operation_of(operation)
    assert model is not None
    return communication_prior(
        model, name=operation, visits=ONE, size=size, sent=sent, received=sent, mpi=mpi, parameters=NAMES
    )


def test_every_algorithm_of_the_table_has_a_cost_and_the_last_case_no_end() -> None:
    for flavour, table_ in _thresholds().items():
        assert table_["source"], flavour
        for operation, rows in table_.items():
            if operation == "source":
                continue
            assert list(rows) == sorted(rows) and list(rows)[-1] == inf
            for algorithms in rows.values():
                assert list(algorithms) == sorted(algorithms) and list(algorithms)[-1] == inf
                assert {name.removeprefix("root ").removeprefix("segments ") for name in algorithms.values()} <= {
                    *_COSTS[operation],
                    *_COSTS["MPI_Bcast"],
                }
        assert all(parts_of(operation, KnownAlgorithms(flavour)) for operation in table_ if operation != "source")


def test_messages_one_after_the_other_are_those_of_the_algorithm() -> None:
    steps = parts_of("MPI_Allreduce", KnownAlgorithms("ompi"))["calls x steps"].evaluate
    # doubling, halving and doubling again, doubling; of few bytes, and from 128 ranks on, by a root
    assert steps(at(8, 32, 64, bytes_=200)).tolist() == [3, 10, 6]
    assert steps(at(16, 32, bytes_=8)).tolist() == [4 + 2, 5 + 2.5]
    assert steps(at(128)).tolist() == pytest.approx([7 + 7 - 2 + 4.5 / 128])
    way = parts_of("MPI_Allgather", volume=scaled(power(1, 1), 1.0))["B x way"]
    assert way.evaluate(at(4)).tolist() == pytest.approx([3 * 25])  # blocks of 25 bytes


def test_messages_between_leaf_switches_pass_twice_as_many_links() -> None:
    barrier = parts_of("MPI_Barrier", volume=None)["calls x steps"].evaluate
    assert barrier(at(16, 32, 64, 128)).tolist() == [4, 5, 12, 14]
    doubling = parts_of("MPI_Allreduce")["calls x steps"].evaluate
    assert doubling(at(64)).tolist() == [6 + 1]
    neighbours = parts_of("MPI_Allgather")["calls x steps"].evaluate(at(64, bytes_=64_000.0))
    assert neighbours.tolist() == [32 + 16]
    assert parts_of("MPI_Barrier", KnownAlgorithms("mpich"), None) == {"calls x steps": power(0, 0, 1)}


def test_an_algorithm_that_no_run_has_shown_is_predicted() -> None:
    known = prior_of("MPI_Allreduce", OMPI, scaled(power(0, 1), 1.0))
    truth = 1e-6 * known.columns[1].function.evaluate(POINTS) + 2e-7
    far = at(128.0, bytes_=160.0)
    expected = 1e-6 * known.columns[1].function.evaluate(far) + 2e-7
    told = predictions(POINTS, truth[None], [known], far)
    np.testing.assert_allclose(told, expected[None], rtol=1e-3)
    unknown = predictions(POINTS, truth[None], [prior_of("MPI_Allreduce", None, scaled(power(0, 1), 1.0))], far)
    assert abs(unknown[0, 0] / expected[0] - 1) > 0.15


def test_where_the_mpi_or_the_communicator_is_not_known_the_prior_is_the_usual_one() -> None:
    usual = prior_of("MPI_Allreduce", None)
    assert prior_of("MPI_Allreduce", KnownAlgorithms("mpich", ranks_per_node=2)) == usual
    assert prior_of("MPI_Allreduce", KnownAlgorithms("impi")) == usual
    assert not usual.known and prior_of("MPI_Allreduce", OMPI).known
    assert prior_of("MPI_Scan", OMPI) == prior_of("MPI_Scan", None)
    assert prior_of("MPI_Allreduce", OMPI, size=ModelFunction(8.0)) == prior_of(
        "MPI_Allreduce", None, size=ModelFunction(8.0)
    )


def test_the_usual_parts_are_those_of_other_algorithms() -> None:
    known, usual = prior_of("MPI_Bcast", OMPI), prior_of("MPI_Bcast", None)
    assert [column.name for column in known.columns] == ["constant", "calls x steps", "B x way"]
    assert {*usual.columns[1:], *usual.others} == set(known.others)


def test_cases_are_written_read_and_moved() -> None:
    function = parts_of("MPI_Allreduce")["B x way"]
    assert format_function(function, NAMES) == "way(Allreduce) * n"
    assert growth_class(function, NAMES) == "n"  # in halves, all bytes pass twice
    assert growth_class(parts_of("MPI_Allreduce")["calls x steps"], NAMES) == "log2(p)"
    assert growth_class(parts_of("MPI_Scatter")["B x way"], NAMES) == "n"
    data = json.loads(json.dumps(function.to_json()))
    assert ModelFunction.from_json(data) == function
    points = np.array([[p, n] for p in (4.0, 16.0, 33.0, 64.0, 200.0, 5000.0) for n in (8.0, 5000.0, 1e6)])
    python = format_function(function, NAMES, "python")
    told = [eval(python, {"log2": np.log2, "p": p, "n": n}) for p, n in points.tolist()]
    np.testing.assert_allclose(told, function.evaluate(points))
    np.testing.assert_allclose(function.moved([1, 0]).evaluate(points[:, ::-1]), function.evaluate(points))
    del data["terms"][0]["factors"][0]["variable"]["cases"][-1]
    with pytest.raises(ValueError, match="ends"):
        ModelFunction.from_json(data)


def test_cases_grow_as_the_last_of_them() -> None:
    size = power(0, 1)
    cases = ((8.0, inf, ModelFunction(1.0)), (inf, 4.0, power(0, 1)), (inf, inf, power(0, 0, 1)))
    value = Cases("steps", "p", ("p", "n"), (0, 1), (size, power(1, 1), ModelFunction(2.0)), cases)
    assert value.evaluate(np.array([[4.0, 1.0], [16.0, 7.0], [16.0, 8.0]])).tolist() == [1.0, 16.0, 4.0]
    assert value.lead(0) == (0, 1) and value.lead(1) == (0, 0)
    function = prior_of("MPI_Allreduce", OMPI).columns[1].function
    assert function.lead(0) == (0, 1)


@pytest.mark.parametrize("operation", ["MPI_Bcast", "MPI_Barrier", "MPI_Recv"])
def test_beyond_the_measured_bytes_another_algorithm_may_follow(operation: str) -> None:
    prior = prior_of(operation, None)
    far = np.array([[32.0, 160.0], [32.0, 320.0]])
    exact = sum(column.function.evaluate(POINTS) for column in prior.columns)
    (fitted,) = fit_priors(POINTS, np.asarray(exact)[None], [prior])
    assert fitted is not None
    low, high = (ends[0] for ends in prediction_interval([fitted.model], far, of="mean"))
    width = (high - low) / 2 / fitted.model.function.evaluate(far)
    assert width[0] < 0.1 < width[1] < 0.5


def test_models_of_tables_know_the_mpi() -> None:
    path = "main->MPI_Barrier"
    counts = {"visits": np.ones(25), "communicator_size_sum": P, "communicator_size_max": P}
    counts |= {"bytes_sent": np.zeros(25), "bytes_received": np.zeros(25)}
    timed = table(
        {"main": {"time": N}, path: {"time": 1e-6 * parts_of("MPI_Barrier")["calls x steps"].evaluate(POINTS)}}
    )
    made = models_from_priors(timed, table({"main": {"visits": np.ones(25)}, path: counts}), processes="p", mpi=OMPI)
    _, statements = noise_resilient(made, model_experiment(timed)["time"], (64, 160))
    assert statements[1].prior == "c0 + c1 steps(Barrier)"
    assert statements[1].at_target_s == pytest.approx(12e-6, rel=1e-3)
