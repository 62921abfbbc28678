"""Cost models of MPI operations become priors."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from buran.errors import UsageError
from buran.modeling.functions.terms import ModelFunction, added, multiplied, power, scaled
from buran.modeling.priors.communication import OPERATIONS, POLLS, operation_of
from buran.modeling.priors.effort import bytes_of
from buran.modeling.priors.prior import Prior, communication_prior, computation_prior

P, N, ONE, NONE = power(0, 1), power(1, 1), ModelFunction(1.0), ModelFunction(0.0)
AT = np.array([[2.0, 100.0], [16.0, 100.0], [64.0, 1000.0]])


def prior_of(name: str, sent: ModelFunction, received: ModelFunction, size: ModelFunction | None = P) -> Prior:
    operation = operation_of(name)
    assert operation is not None
    return communication_prior(operation, name=name, visits=ONE, size=size, sent=sent, received=received)


def values(prior: Prior) -> dict[str, list[float]]:
    return {column.name: column.function.evaluate(AT).tolist() for column in prior.columns}


SHARE = (AT[:, 0] - 1) / AT[:, 0]
MESSAGE = AT[:, 1]  # bytes of the cost model
EVERYBODY, MINE = multiplied(N, P), N


@pytest.mark.parametrize(
    ("name", "sent", "received", "expected"),
    [
        # Table 1 of the paper, with what Score-P's rules book as means over ranks for a message of n bytes.
        ("MPI_Send", MINE, NONE, {"B": MESSAGE}),
        ("MPI_Recv", NONE, MINE, {"B": MESSAGE}),
        ("MPI_Bcast", MINE, MINE, {"log": 1, "B": MESSAGE}),
        ("MPI_Scatter", MINE, MINE, {"log": 1, "share": MESSAGE * AT[:, 0]}),
        ("MPI_Gather", MINE, MINE, {"log": 1, "share": MESSAGE * AT[:, 0]}),
        ("MPI_Allgather", EVERYBODY, EVERYBODY, {"log": 1, "share": MESSAGE * AT[:, 0]}),
        ("MPI_Reduce", MINE, MINE, {"log": 1, "B": MESSAGE, "share": MESSAGE}),
        ("MPI_Allreduce", EVERYBODY, EVERYBODY, {"log": 1, "B": MESSAGE, "share": MESSAGE}),
        ("MPI_Barrier", NONE, NONE, {"log": 1}),
        ("MPI_Reduce_scatter_block", EVERYBODY, EVERYBODY, {"log": 1, "share": MESSAGE * AT[:, 0]}),
    ],
)
def test_table_1(name: str, sent: ModelFunction, received: ModelFunction, expected: dict[str, object]) -> None:
    found = values(prior_of(name, sent, received))
    wanted: dict[str, object] = {"constant": [1.0] * 3}
    if "log" in expected:
        wanted["calls x log2(N)"] = np.log2(AT[:, 0])
    if "B" in expected:
        wanted["B"] = expected["B"]
    if "share" in expected:
        wanted["B (N - 1) / N"] = np.asarray(expected["share"]) * SHARE
    assert set(found) == set(wanted)
    for key, each in wanted.items():
        np.testing.assert_allclose(found[key], np.asarray(each, dtype=float), rtol=1e-12)


def test_every_operation_has_a_source_and_columns() -> None:
    for name, operation in OPERATIONS.items():
        assert operation.source, name
        prior = prior_of(name, EVERYBODY, EVERYBODY)
        assert prior.columns[0].name == "constant" and np.isfinite(prior.design(AT)).all(), name


def test_beyond_the_paper() -> None:
    names = "Barrier Alltoall Alltoallv Reduce_scatter Scan Exscan Gatherv Scatterv Allgatherv Isend Irecv Wait Waitall"
    for name in [f"MPI_{word}" for word in names.split()] + ["MPI_Iallreduce", "MPI_Neighbor_alltoallv", "MPI_Send_c"]:
        assert operation_of(name) is not None, name
    assert {"MPI_Test", "MPI_Iprobe"} <= POLLS
    assert operation_of("MPI_Init") is None and operation_of("MPI_Win_fence") is None


def test_the_communicator_counts_not_the_world() -> None:
    row = scaled(power(0, Fraction(1, 2)), 2.0)  # 2 sqrt(p)
    found = values(prior_of("MPI_Allreduce", multiplied(N, row), multiplied(N, row), row))
    np.testing.assert_allclose(found["calls x log2(N)"], np.log2(2 * np.sqrt(AT[:, 0])), rtol=1e-12)
    np.testing.assert_allclose(found["B"], MESSAGE, rtol=1e-12)
    fixed = values(prior_of("MPI_Bcast", N, N, ModelFunction(4.0)))
    assert "calls x log2(N)" not in fixed  # log2(4) for each call is a constant: one column is enough


@pytest.mark.parametrize("size", [None, added((P, ONE)), power(0, 0, 1)])
def test_sizes_that_are_no_single_power_are_refused(size: ModelFunction | None) -> None:
    with pytest.raises(UsageError, match="communicator"):
        prior_of("MPI_Allreduce", EVERYBODY, EVERYBODY, size)


def test_zero_bytes_leave_latency_and_a_note() -> None:
    prior = prior_of("MPI_Bcast", NONE, NONE)
    assert [column.name for column in prior.columns] == ["constant", "calls x log2(N)"]
    assert "moves no bytes" in prior.notes[0]


def test_bytes_are_calls_times_message_times_ranks() -> None:
    points = np.array([(p, n) for p in (2, 4, 8, 16, 32) for n in (8, 16, 32, 64, 128)], dtype=float)
    p, n = points.T
    message = np.rint(300 * p ** (9 / 4) * np.log2(p))
    counts = (n * p * message)[None, :, None]  # p^(13/4) is in no search space
    effort = bytes_of(points, counts, n[None, :, None], [N], [P])
    function = effort.functions[0]
    assert function is not None
    assert function.lead(0) == (Fraction(13, 4), 1) and function.lead(1) == (1, 0)


def test_computation_takes_terms_and_signs() -> None:
    effort = added((ModelFunction(275.0), scaled(N, -1.6), scaled(multiplied(N, P), 0.48)))
    prior = computation_prior(effort)
    assert prior.text(("p", "n")) == "c0 + c1 p * n + c2 -n"
    assert [column.effort for column in prior.columns] == [275.0, 0.48, 1.6]
