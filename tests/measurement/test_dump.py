"""Reading and merging of profiles that are written here, byte by byte."""

import json
import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buran.errors import FormatError, RunError
from buran.measurement.dump import HEADER, NODE, read_dump
from buran.measurement.merge_dumps import read_dumps

INFO = {
    "executable": "solver",
    "build_id": "c0ffee",
    "mode": "effort",
    "compiler": "clang 16",
    "mpi": "openmpi 4",
    "toolchain": "clang-plugin",
    "fingerprint": "f",
    "clock": "time-stamp counter",
    "visits_below_depth_limit": "2",
}
FUNCTION, MPI, ROOT = 0, 1, 2
REGIONS = [("", ROOT), ("main", FUNCTION), ("work()", FUNCTION), ("MPI_Send", MPI)]


def text(value: str) -> bytes:
    data = value.encode()
    return struct.pack("<I", len(data)) + data


def node(
    parent, region, *, visits=1, ticks=0, cpu=None, waited=0, team=(0, 0), blocks=0, sent=0, received=0, comm=(0, 0, 0)
):
    cpu = ticks - waited if cpu is None else cpu
    return (parent, region, visits, ticks, cpu, waited, *team, blocks, sent, received, *comm)


NODES = [
    node(0, 0, ticks=100, blocks=10),
    node(0, 1, ticks=300, blocks=30),
    node(1, 2, visits=5, ticks=500, blocks=60),
    node(1, 3, visits=7, ticks=100, sent=70, received=7, comm=(14, 2, 2)),
]


def seal(body: bytes) -> bytes:
    return body + b"BURANEND" + struct.pack("<I", zlib.crc32(body))


def encode(rank=0, size=1, threads=None, *, regions=REGIONS, info=INFO, flags=3, hertz=1e3, version=3) -> bytes:
    threads = {0: NODES} if threads is None else threads
    body = HEADER.pack(b"BURANDMP", version, flags, rank, size, hertz, 2 * len(info), len(regions), len(threads), 0)
    body += b"".join(text(word) for pair in info.items() for word in pair)
    for name, kind in regions:
        body += text(name) + text(f"_{name}") + text("a.cpp") + struct.pack("<II", 3, kind)
    for number, nodes in threads.items():
        body += struct.pack("<II", number, len(nodes)) + np.array(nodes, dtype=NODE).tobytes()
    return seal(body)


def put(folder, *dumps, names=None):
    for i, dump in enumerate(dumps):
        (folder / (names[i] if names else f"rank-{i:06d}.buran")).write_bytes(dump)
    return folder


def test_one_process(tmp_path):
    profile = read_dumps(put(tmp_path, encode()), 1)
    assert profile.tree.names == (
        "solver",
        "solver->main",
        "solver->main->work()",
        "solver->main->MPI_Send",
    )
    values = {name: array[:, 0].tolist() for name, array in profile.values.items()}
    assert values == {
        "visits": [1, 1, 5, 7],
        "time": [1.0, 0.9, 0.5, 0.1],
        "wall_time": [1.0, 0.9, 0.5, 0.1],
        "cpu_time": [1.0, 0.9, 0.5, 0.1],
        "basic_blocks": [10, 30, 60, 0],
        "bytes_sent": [0, 0, 0, 70],
        "bytes_received": [0, 0, 0, 7],
        "communicator_size_sum": [0, 0, 0, 14],
        "communicator_size_min": [0, 0, 0, 2],
        "communicator_size_max": [0, 0, 0, 2],
    }
    assert profile.attributes["mode"] == "effort"
    assert profile.attributes["visits_below_depth_limit"] == "2"
    assert profile.attributes["complete"] == "true"


def test_where_the_ranks_ran_is_kept(tmp_path):
    places = [("n1", "0"), ("n1", "0"), ("n2", "0-3"), ("n1", "0")]
    dumps = [encode(i, 4, info={**INFO, "host": host, "cpus": cpus}) for i, (host, cpus) in enumerate(places)]
    profile = read_dumps(put(tmp_path, *dumps), 4)
    assert json.loads(profile.attributes["placement"]) == [
        {"host": "n1", "cpus": "0", "ranks": "0-1,3"},
        {"host": "n2", "cpus": "0-3", "ranks": "2"},
    ]


@pytest.mark.parametrize(("second", "is_there"), [("9000", True), ("0", False), ("much", False)])
def test_resident_memory_stands_at_the_root_if_each_rank_knows_it(tmp_path, second, is_there):
    threads = {0: NODES, 1: [node(0, 0), node(0, 1)]}
    dumps = [encode(i, 2, threads, info={**INFO, "resident_bytes": text}) for i, text in enumerate(("7000", second))]
    profile = read_dumps(put(tmp_path, *dumps), 2)
    assert ("resident_bytes" in profile.metrics) is is_there
    if is_there:
        assert profile.values["resident_bytes"].tolist() == [[7000, 0, 9000, 0], *[[0] * 4] * (len(profile.tree) - 1)]


def test_trees_of_ranks_and_threads_are_merged(tmp_path):
    # The other rank knows its regions by other numbers, and went another way.
    regions = [("MPI_Send", MPI), ("other()", FUNCTION), ("", ROOT), ("main", FUNCTION), ("work()", FUNCTION)]
    nodes = [node(0, 2), node(0, 3), node(1, 1, visits=11), node(2, 4, visits=12), node(1, 4, visits=13)]
    worker = [node(0, 0), node(0, 2, visits=14)]
    profile = read_dumps(
        put(tmp_path, encode(0, 2, {0: NODES, 1: worker}), encode(1, 2, {0: nodes}, regions=regions)), 2
    )
    assert [(place.rank, place.thread) for place in profile.locations] == [(0, 0), (0, 1), (1, 0)]
    visits = dict(zip(profile.tree.names, profile.values["visits"].tolist(), strict=True))
    assert visits == {
        "solver": [1, 1, 1],
        "solver->main": [1, 0, 1],
        "solver->main->work()": [5, 0, 13],
        "solver->main->MPI_Send": [7, 0, 0],
        "solver->main->other()": [0, 0, 11],
        "solver->main->other()->work()": [0, 0, 12],
        "solver->work()": [0, 14, 0],
    }
    assert (profile.tree.parent[1:] < np.arange(1, len(profile.tree))).all()


def test_time_builds_have_no_blocks(tmp_path):
    assert "basic_blocks" not in read_dumps(put(tmp_path, encode(flags=1)), 1).metrics


def without(key):
    return {name: value for name, value in INFO.items() if name != key}


@pytest.mark.parametrize(
    ("dumps", "ranks", "reason"),
    [
        ([], 2, "2 of 2 ranks have left no profile: 0, 1"),
        ([encode(1, 2)], 2, "1 of 2 ranks have left no profile: 0"),
        ([encode(0, 2), encode(0, 2)], 2, "2 processes have left profiles of 1 of 2"),
        ([encode(0, 1), encode(0, 1)], 2, "2 processes have left profiles of 1 of 2"),
        ([encode(0, 1)], 2, "1 processes instead of 2"),
        ([encode(0, 2), encode(1, 2, info=INFO | {"build_id": "beef"})], 2, "beef, and c0ffee"),
        ([encode(0, 2), encode(1, 2, info=INFO | {"mode": "time"})], 2, "different binaries"),
        ([encode(info=without("build_id"))], 1, "linked without --build-id"),
        ([encode(flags=2)], 1, "without MPI_Finalize"),
        ([encode(flags=2, info=INFO | {"incomplete": "it called MPI_Abort"})], 1, "it called MPI_Abort"),
        ([encode(version=9)], 1, "version 9"),
        ([encode()[:-1]], 1, "truncated"),
        ([encode()[:20]], 1, "does not begin"),
        ([b""], 1, "does not begin"),
        ([b"\x7fELF" + encode()], 1, "not a profile"),
        ([encode().replace(b"work", b"wurk")], 1, "checksum"),
        ([encode(hertz=0.0)], 1, "0.0 Hz"),
        ([encode(hertz=float("nan"))], 1, "nan Hz"),
    ],
)
def test_what_is_not_whole_is_refused_with_file_and_reason(tmp_path, dumps, ranks, reason):
    with pytest.raises(RunError) as caught:
        read_dumps(put(tmp_path, *dumps), ranks)
    assert reason in str(caught.value)
    assert str(tmp_path) in str(caught.value)


def test_folder_that_is_missing(tmp_path):
    with pytest.raises(RunError, match="1 of 1 ranks"):
        read_dumps(tmp_path / "nowhere", 1)


def test_files_of_many_ranks_lie_in_several_folders(tmp_path):
    ranks = 2050
    for rank in range(ranks):
        place = tmp_path / f"ranks-{rank // 1024 * 1024:06d}"
        place.mkdir(exist_ok=True)
        (place / f"rank-{rank:06d}.buran").write_bytes(encode(rank, ranks))
    profile = read_dumps(tmp_path, ranks)
    assert [location.rank for location in profile.locations] == list(range(ranks))
    (tmp_path / "ranks-002048" / "rank-002049.buran").unlink()
    with pytest.raises(RunError, match=r"1 of 2050 .* 2049"):
        read_dumps(tmp_path, ranks)


def test_unfinished_files_are_not_read(tmp_path):
    put(tmp_path, encode(), b"half", names=["rank-000000.buran", ".rank-000001.77.tmp"])
    assert len(read_dumps(tmp_path, 1).locations) == 1


quick = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
WHOLE = encode(threads={0: NODES, 3: NODES})


def read_anything(folder, data):
    """Read a file that may be damaged: either a sound profile or an error meant for users."""
    put(folder, data)
    try:
        profile = read_dumps(folder, 1)
    except (RunError, FormatError):
        return None
    shape = (len(profile.tree), len(profile.locations))
    assert all(values.shape == shape for values in profile.values.values())
    assert len(profile.tree.names) == len(profile.tree)
    return profile


@quick
@given(st.integers(0, len(WHOLE) - 1))
def test_truncated_anywhere(tmp_path, length):
    assert read_anything(tmp_path, WHOLE[:length]) is None


@quick
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_one_wrong_byte_is_always_noticed(tmp_path, at, change):
    data = bytearray(WHOLE)
    data[at] ^= change
    assert read_anything(tmp_path, bytes(data)) is None


@quick
@given(st.binary(max_size=300))
def test_anything_else(tmp_path, data):
    assert read_anything(tmp_path, data) is None


@st.composite
def trees(draw):
    """Some threads' call trees over five regions, with a child's region unique below its parent."""
    out = []
    for _ in range(draw(st.integers(1, 4))):
        nodes = [(0, 0)]
        for _ in range(draw(st.integers(0, 12))):
            child = (draw(st.integers(0, len(nodes) - 1)), draw(st.integers(1, 4)))
            if child not in nodes:
                nodes.append(child)
        out.append([(parent, region, draw(st.integers(0, 1000))) for parent, region in nodes])
    return out


@quick
@given(trees())
def test_merging_agrees_with_dictionaries(tmp_path, threads):
    regions = [("", ROOT), *((name, FUNCTION) for name in "abcd")]
    wanted: dict[str, list[int]] = {}
    dumps = []
    for rank, nodes in enumerate(threads):
        names: list[str] = []
        for i, (parent, region, visits) in enumerate(nodes):
            names.append("solver" if i == 0 else f"{names[parent]}->{regions[region][0]}")
            wanted.setdefault(names[i], [0] * len(threads))[rank] += visits
        records = [node(parent, region, visits=visits) for parent, region, visits in nodes]
        dumps.append(encode(rank, len(threads), {0: records}, regions=regions))
    for old in tmp_path.iterdir():
        old.unlink()
    profile = read_dumps(put(tmp_path, *dumps), len(threads))
    got = dict(zip(profile.tree.names, profile.values["visits"].tolist(), strict=True))
    assert got == wanted
    # Pre-order: what follows a call path at greater depth is its own subtree.
    for i, parent in enumerate(profile.tree.parent.tolist()):
        assert i == 0 or profile.tree.names[i].startswith(profile.tree.names[parent] + "->")
        assert i == 0 or all(profile.tree.depth[parent + 1 : i] > profile.tree.depth[parent])


def test_read_dump_keeps_what_the_file_says(tmp_path):
    dump = read_dump(put(tmp_path, encode(rank=1, size=4)) / "rank-000000.buran")
    assert (dump.rank, dump.size, dump.ticks_per_second, dump.counts_blocks) == (1, 4, 1e3, True)
    assert dump.info == INFO
    assert dump.regions[1].file == "a.cpp" and dump.regions[1].line == 3
