"""Bytes, visits and communicator sizes of MPI operations, computed here once more by hand."""

import pytest
from native_programs import build, launch, profile_of, table, toolchain

from buran.errors import RunError
from buran.measurement.merge_dumps import read_dumps

pytestmark = pytest.mark.mpi

N, INT, DOUBLE = 100, 4, 8


def expected(p: int, me: int) -> dict[str, tuple[int, int, int, int]]:
    """By call path: visits, bytes sent, bytes received, summed communicator size."""
    root = me == 0
    block = N * INT
    counts = [i + 1 for i in range(p)]
    own, everything = counts[me] * INT, sum(counts) * INT
    others = everything - own

    def at_root(value: int) -> int:
        return value if root else 0

    def elsewhere(value: int) -> int:
        return 0 if root else value

    both = sum(me + q + 1 for q in range(p)) * INT
    even = (p + 1) // 2
    half = even if me % 2 == 0 else p - even
    one_of = {
        "collectives": {
            "Barrier": (0, 0),
            "Bcast": (at_root(p * block), block),
            "Reduce": (block, at_root(p * block)),
            "Allreduce": (p * block, p * block),
            "Gather": (block, at_root(p * block)),
            "Gatherv": (own, at_root(everything)),
            "Scatter": (at_root(p * block), block),
            "Scatterv": (at_root(everything), own),
            "Allgather": (p * block, p * block),
            "Allgatherv": (p * own, everything),
            "Alltoall": (p * block, p * block),
            "Alltoallv": (both, both),
            "Scan": ((p - me) * N * DOUBLE, (me + 1) * N * DOUBLE),
            "Exscan": ((p - me - 1) * N * DOUBLE, me * N * DOUBLE),
            "Reduce_scatter_block": (p * block, p * block),
            "Reduce_scatter": (everything, p * own),
        },
        "in_place": {
            "Reduce": (elsewhere(block), at_root((p - 1) * block)),
            "Allreduce": ((p - 1) * block, (p - 1) * block),
            "Gather": (elsewhere(block), at_root((p - 1) * block)),
            "Gatherv": (elsewhere(own), at_root(others)),
            "Scatter": (at_root((p - 1) * block), elsewhere(block)),
            "Scatterv": (at_root(others), elsewhere(own)),
            "Allgather": ((p - 1) * block, (p - 1) * block),
            "Allgatherv": ((p - 1) * own, others),
            "Alltoall": ((p - 1) * block, (p - 1) * block),
            "Scan": ((p - 1 - me) * block, me * block),
        },
        "non_blocking": {
            "Ibarrier": (0, 0),
            "Ibcast": (0, 0),  # booked where they complete
            "Iallreduce": (0, 0),
            "Ialltoall": (0, 0),
        },
    }
    table = {
        f"main->{function}->MPI_{operation}": (1, sent, received, p)
        for function, rows in one_of.items()
        for operation, (sent, received) in rows.items()
    }
    many = 3 * 700
    table |= {
        "main->MPI_Init": (1, 0, 0, p),
        "main->MPI_Finalize": (1, 0, 0, p),
        "main->non_blocking->MPI_Wait": (4, at_root(p * block) + 2 * p * block, block + 2 * p * block, 0),
        "main->point_to_point->MPI_Irecv": (2, 0, 0, 2 * p),
        "main->point_to_point->MPI_Send": (2, block // 2, 0, 2 * p),
        "main->point_to_point->MPI_Isend": (2, block + 9 * INT, 0, 2 * p),
        "main->point_to_point->MPI_Wait": (2, 0, block // 2, 0),
        "main->point_to_point->MPI_Waitall": (1, 0, block, 0),
        "main->point_to_point->MPI_Sendrecv": (1, 7 * DOUBLE, 7 * DOUBLE, p),
        "main->point_to_point->MPI_Sendrecv_replace": (1, 5 * INT, 5 * INT, p),
        "main->point_to_point->MPI_Recv": (2, 0, 9 * INT, 2 * p),
        "main->completions->MPI_Send": (6, 210 * INT, 0, 6 * p),
        "main->completions->MPI_Irecv": (7, 0, 0, 7 * p),
        "main->completions->MPI_Waitany": (1, 0, 10 * INT, 0),
        "main->completions->MPI_Wait": (1, 0, 0, 0),  # of a cancelled receive
        "main->completions->MPI_Cancel": (1, 0, 0, 0),
        "main->persistent->MPI_Recv_init": (1, 0, 0, p),
        "main->persistent->MPI_Send_init": (1, 0, 0, p),
        "main->persistent->MPI_Startall": (3, 3 * block // 4, 0, 3 * p),
        "main->persistent->MPI_Start": (2, block // 4, 0, 2 * p),
        "main->persistent->MPI_Waitall": (4, 0, block, 0),
        "main->persistent->MPI_Request_free": (2, 0, 0, 0),
        "main->many_requests->MPI_Irecv": (many, 0, 0, many * p),
        "main->many_requests->MPI_Send": (many, many * INT, 0, many * p),
        "main->many_requests->MPI_Waitall": (3, 0, many * INT, 0),
        "main->communicators->MPI_Comm_split": (1, 0, 0, p),
        "main->communicators->MPI_Allreduce": (2, (half + p) * DOUBLE, (half + p) * DOUBLE, half + p),
        "main->communicators->MPI_Comm_dup": (1, 0, 0, half),
        "main->communicators->MPI_Comm_free": (3, 0, 0, 2 * half + p),
        "main->communicators->MPI_Cart_create": (1, 0, 0, p),
    }
    return table


# How often a program polls depends on chance; the bytes do not.
POLLING = {"Waitsome": 50 * INT, "Test": 40 * INT, "Testall": 50 * INT, "Testany": 60 * INT}


@pytest.fixture(scope="module", params=["auto", pytest.param("gcc", marks=pytest.mark.slow)])
def program(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpi")
    return build("mpi_bytes.c", folder / "mpi_bytes", tools=toolchain(request.param))


@pytest.mark.parametrize("p", [1, 2, 3, 4])
def test_operations_follow_the_rules(program, tmp_path, p):
    profile = profile_of(program, tmp_path / "run", ranks=p)
    assert [location.rank for location in profile.locations] == list(range(p))
    metrics = ("visits", "bytes_sent", "bytes_received", "communicator_size_sum")
    columns = [table(profile, metric) for metric in metrics]
    operations = {name for name in columns[0] if name.rpartition("->")[2].startswith("MPI_")}
    polling = {f"main->completions->MPI_{operation}" for operation in POLLING}
    for me in range(p):
        wanted = expected(p, me)
        assert operations - polling == set(wanted)
        got = {name: tuple(column[name][me] for column in columns) for name in wanted}
        assert got == wanted
        for operation, received in POLLING.items():
            name = f"main->completions->MPI_{operation}"
            assert columns[0][name][me] >= 1
            assert (columns[1][name][me], columns[2][name][me]) == (0, received)


def test_communicator_sizes_and_roles(program, tmp_path):
    profile = profile_of(program, tmp_path / "run", ranks=3)
    name = "main->communicators->MPI_Allreduce"
    assert table(profile, "communicator_size_min")[name] == [2, 1, 2]
    assert table(profile, "communicator_size_max")[name] == [3, 3, 3]
    assert table(profile, "communicator_size_min")["main->non_blocking->MPI_Wait"] == [0, 0, 0]
    roles = {region.name: (region.paradigm, region.role) for region in profile.tree.regions}
    assert roles["MPI_Allreduce"] == ("mpi", "all2all")
    assert roles["MPI_Iallreduce"] == ("mpi", "all2all")
    assert roles["MPI_Ibcast"] == ("mpi", "one2all")
    assert roles["MPI_Send"] == ("mpi", "point2point")
    assert roles["MPI_Ibarrier"] == ("mpi", "barrier")
    assert roles["main"] == ("compiler", "function")


def test_counts_of_blocks_do_not_depend_on_the_run(program, tmp_path):
    first, second = (profile_of(program, tmp_path / name, ranks=2) for name in "ab")
    fixed = [name for name in table(first, "basic_blocks") if "completions" not in name]
    assert "main->many_requests" in fixed
    for name in fixed:
        assert table(first, "basic_blocks")[name] == table(second, "basic_blocks")[name]


def test_process_that_leaves_without_finalize_makes_the_run_incomplete(program, tmp_path):
    launch(program, tmp_path / "run", "leave", ranks=2)
    with pytest.raises(RunError) as caught:
        read_dumps(tmp_path / "run", 2)
    assert "rank-00000" in str(caught.value) or "left no profile" in str(caught.value)


def test_lost_rank(program, tmp_path):
    launch(program, tmp_path / "run", ranks=3)
    (tmp_path / "run" / "rank-000001.buran").unlink()
    with pytest.raises(RunError, match=r"1 of 3 .*: 1\n"):
        read_dumps(tmp_path / "run", 3)
    with pytest.raises(RunError, match="3 processes instead of 2"):
        read_dumps(tmp_path / "run", 2)
