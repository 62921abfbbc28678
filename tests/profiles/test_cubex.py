from __future__ import annotations

import gzip
import io
import random
import re
import tarfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pycubexr import CubexParser

from buran.errors import FormatError, RunError
from buran.profiles.cubex_read import BELOW_ZERO, SKIPPED, SKIPPED_LOCATIONS, read_cubex, read_hosts
from buran.profiles.cubex_write import LARGEST_COUNT, NOTHING_LARGE, wide_order, write_cubex
from buran.profiles.metrics import METRICS, Metric
from buran.profiles.profile import CallTree, Location, Profile, Region
from data_of_others import folder, needs
from profiles import profiles

SCOREP = Path(__file__).parents[1] / "data" / "scorep"
reuse_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def small(**changes: object) -> Profile:
    regions = (
        Region("app", "app", paradigm="measurement", role="artificial"),
        Region("main", "main", "main.c", 3),
        Region("MPI_Send", "MPI_Send", paradigm="mpi", role="point2point"),
    )
    tree = CallTree(regions, np.array([0, 1, 2, 1, 2]), np.array([-1, 0, 1, 1, 0]))
    locations = (Location(0), Location(1), Location(1, 1))
    values: dict[str, np.ndarray] = {
        "visits": np.arange(15, dtype=np.uint64).reshape(5, 3),
        "time": np.arange(15, 0, -1).reshape(5, 3) / 7,
        "bytes_sent": np.zeros((5, 3), dtype=np.uint64),
    }
    profile = Profile(tree, locations, {name: METRICS[name] for name in values}, values, {"b": "1", "a": "2"})
    return replace(profile, **changes)  # type: ignore[arg-type]


def changed(metric: str, value: float, dtype: type = np.float64) -> Profile:
    values = dict(small().values)
    values[metric] = values[metric].astype(dtype)
    values[metric][2, 1] = value
    return small(values=values)


def same(a: Profile, b: Profile) -> None:
    assert a.tree.names == b.tree.names
    assert np.array_equal(a.tree.parent, b.tree.parent)
    assert [a.tree.regions[i] for i in a.tree.region] == [b.tree.regions[i] for i in b.tree.region]
    assert a.locations == b.locations
    assert dict(a.metrics) == dict(b.metrics)
    assert list(a.metrics) == list(b.metrics)
    for name in a.metrics:
        assert a.values[name].dtype == b.values[name].dtype
        assert np.array_equal(a.values[name], b.values[name]), name


@reuse_folder
@given(profile=profiles(), compress=st.booleans())
def test_what_is_written_is_read(profile: Profile, compress: bool, tmp_path: Path) -> None:
    file = tmp_path / "profile.cubex"
    write_cubex(profile, file, compress=compress)
    read = read_cubex(file)
    metrics = {name: replace(metric, title=metric.title or name) for name, metric in profile.metrics.items()}
    same(replace(profile, metrics=metrics), read)
    assert profile.attributes.items() <= read.attributes.items()
    first = file.read_bytes()
    write_cubex(read, file, compress=compress)
    assert file.read_bytes() == first, "writing what was read changes nothing"
    assert list(tmp_path.iterdir()) == [file]


@reuse_folder
@given(profile=profiles(max_roots=1), compress=st.booleans())
def test_pycubexr_reads_value_for_value(profile: Profile, compress: bool, tmp_path: Path) -> None:
    file = tmp_path / "profile.cubex"
    write_cubex(profile, file, compress=compress)
    with CubexParser(file) as parser:
        assert [parser.get_region(parser.get_cnode(i)).name for i in range(len(profile.tree))] == [
            profile.tree.regions[i].name for i in profile.tree.region
        ]
        for name in profile.metrics:
            stored = parser.get_metric_values(parser.get_metric_by_name(name))
            for i, row in enumerate(profile.values[name]):
                if profile.metrics[name].dtype == "MAXDOUBLE" and not row.any():
                    row = np.full_like(row, NOTHING_LARGE)  # for Cube's library
                assert np.array_equal(stored.cnode_values(parser.get_cnode(i)).astype(row.dtype), row)


def sizes(file: Path) -> dict[str, int]:
    with tarfile.open(file) as archive:
        return {member.name: member.size for member in archive.getmembers()}


def test_no_head_has_a_size_that_cubelib_misreads(tmp_path: Path) -> None:
    file = tmp_path / "p.cubex"
    write_cubex(small(attributes={"note": ""}), file)
    missing = -sizes(file)["anchor.xml"] % 512
    found = []
    for length in range(missing + 512 - 2, missing + 512 + 3):
        write_cubex(small(attributes={"note": "x" * length}), file)
        found.append(sizes(file)["anchor.xml"] % 512)
        assert list(sizes(file))[-1] == "anchor.xml"
        assert read_cubex(file).attributes["note"] == "x" * length
    assert found == [510, 511, 1, 1, 2]


def test_no_compressed_member_has_a_size_that_cubelib_misreads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = zlib.compress
    monkeypatch.setattr(zlib, "compress", lambda data, level: stored(data, 0))  # sizes that can be foreseen
    row = 24 + len(zlib.compress(bytes(8), 0))
    size = next(size for size in range(2, 600) if (19 + size * row) % 512 == 0)
    parent = np.array([-1] + [0] * (size - 1))
    tree = CallTree((Region("f", "f"),), np.zeros(size, dtype=np.int64), parent)
    values = {"visits": np.arange(size, dtype=np.uint64)[:, None]}
    profile = Profile(tree, (Location(0),), {"visits": METRICS["visits"]}, values, {})
    write_cubex(profile, tmp_path / "p.cubex", compress=True)
    assert sizes(tmp_path / "p.cubex")["0.data"] == 19 + size * row + 1
    assert np.array_equal(read_cubex(tmp_path / "p.cubex").values["visits"], values["visits"])


def test_the_wide_order_is_depth_first_by_families() -> None:
    #   0 -> 1 -> (2, 3 -> 4);  0 -> 5 -> 6
    parent = np.array([-1, 0, 1, 1, 3, 0, 5])
    tree = CallTree((Region("f"),), np.zeros(7, dtype=np.int64), parent)
    assert wide_order(tree).tolist() == [0, 1, 5, 2, 3, 4, 6]


def test_control_characters_are_spelled_out(tmp_path: Path) -> None:
    regions = (Region("a\x00b\tc\nd\x1b\ud800\ufffe", "m"),)
    tree = CallTree(regions, np.array([0]), np.array([-1]))
    values = {"visits": np.ones((1, 1), dtype=np.uint64)}
    profile = Profile(tree, (Location(0),), {"visits": METRICS["visits"]}, values, {"k\n": "v\r"})
    write_cubex(profile, tmp_path / "p.cubex")
    read = read_cubex(tmp_path / "p.cubex")
    assert read.tree.names == (r"a\x00b\x09c\x0ad\x1b\xd800\xfffe",)
    assert read.attributes[r"k\x0a"] == r"v\x0d"


@pytest.mark.parametrize(
    ("profile", "reason"),
    [
        (changed("time", np.nan), "finite"),
        (changed("time", np.inf), "finite"),
        (changed("time", -1e-9), "negative"),
        (changed("visits", LARGEST_COUNT + 1, np.uint64), str(LARGEST_COUNT)),
        (changed("visits", -1, np.int64), "negative"),
        (changed("visits", 0.5), "whole"),
        (changed("visits", 2.0**60), "whole"),
        (changed("visits", np.nan), "whole"),
    ],
)
def test_a_value_that_cannot_be_right_is_refused(profile: Profile, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RunError) as caught:
        write_cubex(profile, tmp_path / "p.cubex")
    assert reason in str(caught.value)
    assert "app->main->MPI_Send, rank 1, thread 0" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_the_largest_count_survives(tmp_path: Path) -> None:
    write_cubex(changed("visits", LARGEST_COUNT, np.uint64), tmp_path / "p.cubex")
    assert read_cubex(tmp_path / "p.cubex").values["visits"][2, 1] == LARGEST_COUNT


def test_arrays_must_fit(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shape"):
        write_cubex(small(values={**small().values, "time": np.zeros((5, 2))}), tmp_path / "p")
    with pytest.raises(ValueError, match="sorted"):
        write_cubex(small(locations=(Location(1), Location(0), Location(2))), tmp_path / "p")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\x1f\x8b" + b"garbage" * 99,
        # Without the time of day: tests named by it differ from one process to the next.
        gzip.compress(b"no tar", mtime=0),
        b"\0" * 10240,
        b"<?xml version='1.0'?><cube/>",
    ],
    ids=["empty", "text", "broken gzip", "gzip without tar", "zeros", "XML"],
)
def test_foreign_files_are_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "p.cubex"
    file.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        read_cubex(file)
    assert str(file) in str(caught.value) and "why:" in str(caught.value)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="cannot be read"):
        read_cubex(tmp_path / "none.cubex")
    with pytest.raises(FormatError, match="cannot be read"):
        read_cubex(tmp_path)


def members(file: Path) -> dict[str, bytes]:
    with tarfile.open(file) as archive:
        return {name: archive.extractfile(name).read() for name in archive.getnames()}  # type: ignore[union-attr]


def pack(file: Path, content: dict[str, bytes]) -> Path:
    with tarfile.open(file, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in content.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return file


def test_truncated_files_are_refused_at_every_block(tmp_path: Path) -> None:
    file = tmp_path / "p.cubex"
    write_cubex(small(), file)
    content = file.read_bytes()
    with tarfile.open(file) as archive:
        end = max(member.offset_data + member.size for member in archive.getmembers())
    cuts = {*range(0, end, 256), *(cut + 1 for cut in range(0, end, 512)), end - 1}
    for cut in sorted(cuts):
        file.write_bytes(content[:cut])
        with pytest.raises(FormatError):
            read_cubex(file)


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(compress=st.booleans(), seed=st.integers(0, 2**32), flips=st.integers(1, 4))
def test_flipped_bytes_give_an_error_or_a_profile(compress: bool, seed: int, flips: int, tmp_path: Path) -> None:
    file = tmp_path / "p.cubex"
    write_cubex(small(), file, compress=compress)
    content = bytearray(file.read_bytes())
    chance = random.Random(seed)
    for _ in range(flips):
        content[chance.randrange(len(content))] = chance.randrange(256)
    file.write_bytes(content)
    try:
        profile = read_cubex(file)
    except FormatError:
        return
    shape = (len(profile.tree), len(profile.locations))
    assert len(profile.metrics) == 3, "a metric is never lost without a word"
    for name, values in profile.values.items():
        assert values.shape == shape
        assert not np.isnan(values.astype(float)).any()
        if profile.metrics[name].unit == "sec":
            assert (values >= 0).all()


def test_a_damaged_header_in_the_middle_is_not_the_end(tmp_path: Path) -> None:
    # The head first, as other writers may put it: then nothing but the metrics would be lost.
    write_cubex(small(), tmp_path / "p.cubex")
    content = members(tmp_path / "p.cubex")
    file = pack(tmp_path / "q.cubex", {"anchor.xml": content.pop("anchor.xml"), **content})
    same(read_cubex(tmp_path / "p.cubex"), read_cubex(file))
    damaged = bytearray(file.read_bytes())
    with tarfile.open(file) as archive:
        damaged[archive.getmember("2.data").offset] ^= 1
    file.write_bytes(damaged)
    with pytest.raises(FormatError, match="cannot be read") as caught:
        read_cubex(file)
    assert "behind what" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "change", "reason"),
    [
        ("0.index", lambda data: None, "only one of"),
        ("1.data", lambda data: None, "only one of"),
        ("0.index", lambda data: data[:-4], ""),
        ("0.index", lambda data: data[:14] + b"\3" + data[15:18], ""),  # the dense format
        ("0.index", lambda data: data[:-4] + b"\xff\xff\0\0", ""),
        ("0.data", lambda data: data[:-8], ""),
        ("0.data", lambda data: data + bytes(8), ""),
        ("1.data", lambda data: data[:-8] + np.float64(-1).tobytes(), "negative time"),
        ("1.data", lambda data: data[:-8] + np.float64(np.nan).tobytes(), "not finite"),
        ("0.data", lambda data: data[:-8] + b"\xff" * 8, "above"),
        ("anchor.xml", lambda data: data.replace(b'<metric id="0"', b'<metric id="9"'), "not declared"),
        ("anchor.xml", lambda data: data.replace(b">visits<", b">time<"), "same name"),
        ("anchor.xml", lambda data: data.replace(b'calleeId="2"', b'calleeId="7"'), ""),
        ("anchor.xml", lambda data: data.replace(b'<cnode id="2"', b'<cnode id="1"'), "id 1"),
        ("anchor.xml", lambda data: data.replace(b"<name>main</name>", b"<name></name>"), "no name"),
        ("anchor.xml", lambda data: data.replace(b"<rank>1</rank>", b"<rank>x</rank>"), ""),
        ("anchor.xml", lambda data: data.replace(b"1</rank>\n<type>th", b"0</rank>\n<type>th"), "locations"),
        ("anchor.xml", lambda data: data.replace(b"EXCLUSIVE", b"POSTDERIVED"), ""),
        ("anchor.xml", lambda data: data.replace(b' type="EXCLUSIVE"', b""), ""),
        ("anchor.xml", lambda data: data[:-20], ""),
        # As Score-P writes it for ranks whose command lines differ.
        ("anchor.xml", lambda d: d.replace(b"</program>", b'<cnode id="9" calleeId="0"/></program>'), "2 call trees"),
    ],
)  # fmt: skip
def test_inconsistent_files_are_refused(name, change, reason, tmp_path: Path) -> None:
    write_cubex(small(), tmp_path / "p.cubex")
    content = members(tmp_path / "p.cubex")
    new = change(content[name])
    assert new != content[name]
    if new is None:
        del content[name]
    else:
        content[name] = new
    with pytest.raises(FormatError) as caught:
        read_cubex(pack(tmp_path / "q.cubex", content))
    assert reason in str(caught.value)


def test_what_is_no_plain_number_or_no_thread_is_named(tmp_path: Path) -> None:
    write_cubex(small(), tmp_path / "p.cubex")
    content = members(tmp_path / "p.cubex")
    anchor = content["anchor.xml"].replace(b"<dtype>DOUBLE<", b"<dtype>TAU_ATOMIC<")
    old = b"<name>OMP thread 1</name>\n<rank>1</rank>\n<type>thread<"
    assert old in anchor
    content["anchor.xml"] = anchor.replace(old, b"<name>GPU</name>\n<rank>0</rank>\n<type>gpu<")
    read = read_cubex(pack(tmp_path / "q.cubex", content))
    assert list(read.metrics) == ["visits", "bytes_sent"]
    assert read.attributes[SKIPPED] == "time (TAU_ATOMIC)"
    assert read.attributes[SKIPPED_LOCATIONS] == "1"
    assert read.locations == (Location(0), Location(1))
    assert np.array_equal(read.values["visits"], small().values["visits"][:, :2])


def of_gpus(file: Path) -> dict[str, bytes]:
    """Members of a profile with two threads on two ranks, whose second ones are to be streams."""
    root = Region("program", paradigm="measurement", role="artificial")
    kernels = Region("KERNELS", paradigm="user", role="artificial")
    idle = Region("COMPUTE IDLE", paradigm="user", role="artificial")
    regions = (root, Region("solve"), kernels, idle, Region("relax<2>", paradigm="user"))
    tree = CallTree(regions, region=np.arange(5), parent=np.array([-1, 0, 0, 2, 2]))
    locations = tuple(Location(rank, thread) for rank in (0, 1) for thread in (0, 1))
    values = {
        "time": np.array([[3.0, 9.0, 4.0, 9.0], [1, 0, 2, 0], [0, 9, 0, 9], [0, 8.5, 0, 8.25], [0, 0.5, 0, 0.75]]),
        "visits": np.array([[1, 40, 1, 50], [7, 0, 8, 0], [0] * 4, [0, 3, 0, 4], [0, 20, 0, 30]], dtype=np.uint64),
        "min_time": np.array([[3.0, 0.1, 4.0, 0.1], [0.1, 0, 0.2, 0], [9] * 4, [9, 1, 9, 1], [9, 0.01, 9, 0.02]]),
        "max_time": np.array([[3.0, 0.1, 4.0, 0.1], [0.1, 0, 0.2, 0], [0] * 4, [0, 2, 0, 2], [0, 0.3, 0, 0.4]]),
    }
    write_cubex(Profile(tree, locations, {name: METRICS[name] for name in values}, values, {}), file)
    return members(file)


def stream(number: int, name: str, group: int) -> bytes:
    """A context of a GPU with one stream, as Score-P 8 writes it."""
    return (
        f'<locationgroup Id="{group}"><name>CUDA Context</name><rank>{group}</rank><type>accelerator</type>'
        f'<attr key="Creating location group" value="{name}"/>'
        f'<location Id="{number}"><name>CUDA[0:7]</name><rank>0</rank><type>accelerator stream</type></location>'
        "</locationgroup>"
    ).encode()


@pytest.mark.parametrize("version", [7, 8])
def test_kernels_are_call_paths_of_the_process_that_started_them(tmp_path: Path, version: int) -> None:
    content = of_gpus(tmp_path / "p.cubex")
    anchor = content["anchor.xml"].replace(b"<name>node<", b"<name>node n1<")
    if version == 7:
        anchor = anchor.replace(b"<rank>1</rank>\n<type>thread<", b"<rank>1</rank>\n<type>gpu<")
    else:  # groups of their own, in one numbering with the processes
        old = re.compile(
            rb'<location Id="(\d)">\n<name>OMP thread 1</name>\n<rank>1</rank>\n<type>thread</type>\n</location>\n'
        )
        assert old.findall(anchor) == [b"1", b"3"]
        anchor = old.sub(b"", anchor).replace(
            b"<name>MPI Rank 1</name>\n<rank>1<", b"<name>MPI Rank 1</name>\n<rank>2<"
        )
        anchor = anchor.replace(b'<locationgroup Id="1">', b'<locationgroup Id="2">')
        groups = stream(1, "MPI Rank 0", 1) + stream(3, "MPI Rank 1", 3)
        anchor = anchor.replace(
            b"</locationgroup>\n</systemtreenode>", b"</locationgroup>\n" + groups + b"</systemtreenode>", 1
        )
    assert anchor != content["anchor.xml"]
    file = pack(tmp_path / "q.cubex", content | {"anchor.xml": anchor})
    read = read_cubex(file)
    assert read.locations == (Location(0), Location(1))
    assert SKIPPED_LOCATIONS not in read.attributes
    assert read.exclusive("time").tolist() == [[2, 2], [1, 2], [0, 0], [0, 0], [0.5, 0.75]]
    assert read.values["visits"].tolist() == [[1, 1], [7, 8], [0, 0], [0, 0], [20, 30]]
    assert read.values["min_time"][[1, 4]].tolist() == [[0.1, 0.2], [0.01, 0.02]]
    assert read.values["max_time"][[0, 4]].tolist() == [[3, 4], [0.3, 0.4]]
    assert [region.paradigm for region in read.tree.regions] == ["measurement", "compiler", "gpu", "gpu", "gpu"]
    assert read_hosts(file) == {0: "n1", 1: "n1"}


def test_streams_of_an_unknown_process_are_named(tmp_path: Path) -> None:
    content = of_gpus(tmp_path / "p.cubex")
    old = b"</locationgroup>\n</systemtreenode>"
    anchor = content["anchor.xml"].replace(
        b'<location Id="3">\n<name>OMP thread 1</name>\n<rank>1</rank>\n<type>thread</type>\n</location>\n', b""
    )
    anchor = anchor.replace(old, b"</locationgroup>\n" + stream(3, "MPI Rank 7", 2) + b"</systemtreenode>", 1)
    read = read_cubex(pack(tmp_path / "q.cubex", content | {"anchor.xml": anchor}))
    assert read.attributes[SKIPPED_LOCATIONS] == "1"
    assert read.locations == (Location(0), Location(0, 1), Location(1))


BELOW = 2**64  # as Score-P stores a difference of -n: as a count without a sign


@pytest.mark.parametrize(
    ("numbers", "fell"),
    [
        ((9, 9, 4, 4, 0), False),
        ((9, 8, BELOW - 2000, 4, 0), True),  # stored, in a callee
        ((5, 7, 4, 4, 0), True),  # a callee has more than its caller, callees included
        ((BELOW - 2000, 0, 0, 0, 0), True),
    ],
)
def test_a_counter_that_fell_below_zero_is_left_out_and_the_rest_is_read(
    numbers: tuple[int, ...], fell: bool, tmp_path: Path
) -> None:
    """Published profiles hold such counters of PAPI: what they say elsewhere is worth no more."""
    whole = small()
    counts = np.zeros((5, 3), dtype=np.uint64)
    counts[:, 1] = numbers
    counter = Metric("PAPI_L2_DCM", "#", "inclusive", "UINT64")
    metrics = {**whole.metrics, counter.name: counter}
    write_cubex(small(metrics=metrics, values={**whole.values, counter.name: counts}), tmp_path / "p.cubex")
    read = read_cubex(tmp_path / "p.cubex")
    assert (counter.name in read.values, read.attributes.get(BELOW_ZERO)) == (
        (False, counter.name) if fell else (True, None)
    )
    assert set(read.metrics) == set(read.values) >= set(whole.values)
    for name in whole.values:
        assert np.array_equal(read.values[name], whole.values[name])


def test_values_follow_the_ids_of_locations_and_call_paths(tmp_path: Path) -> None:
    write_cubex(small(), tmp_path / "p.cubex")
    content = members(tmp_path / "p.cubex")
    anchor = content["anchor.xml"]
    for element, old, new in (
        (b"location Id", b"0", b"X"),
        (b"location Id", b"1", b"0"),
        (b"location Id", b"X", b"1"),
        (b"cnode id", b"2", b"77"),
    ):
        before = b'<%s="%s"' % (element, old)
        assert before in anchor
        anchor = anchor.replace(before, b'<%s="%s"' % (element, new))
    content["anchor.xml"] = anchor
    read = read_cubex(pack(tmp_path / "q.cubex", content))
    for name, values in small().values.items():
        assert np.array_equal(read.values[name], values[:, [1, 0, 2]])


def test_a_metric_without_data_is_zero(tmp_path: Path) -> None:
    write_cubex(small(), tmp_path / "p.cubex")
    content = members(tmp_path / "p.cubex")
    del content["0.index"], content["0.data"]
    read = read_cubex(pack(tmp_path / "q.cubex", content))
    assert not read.values["visits"].any() and read.values["visits"].shape == (5, 3)


def test_deep_call_trees(tmp_path: Path) -> None:
    depth = 3000
    tree = CallTree((Region("f", "f"),), np.zeros(depth, dtype=np.int64), np.arange(-1, depth - 1))
    values = {"time": np.arange(depth, 0, -1, dtype=float)[:, None]}
    profile = Profile(tree, (Location(0),), {"time": METRICS["time"]}, values, {})
    write_cubex(profile, tmp_path / "p.cubex")
    assert np.array_equal(read_cubex(tmp_path / "p.cubex").values["time"], values["time"])


def test_other_metrics_of_all_types(tmp_path: Path) -> None:
    kinds = [
        ("i", "INT64", np.int64, [-3, 2**62]),
        ("d", "DOUBLE", np.float64, [-1.5, 1e300]),
        ("mi", "MINDOUBLE", np.float64, [np.inf, 3]),
        ("ma", "MAXDOUBLE", np.float64, [-np.inf, 3]),
    ]
    metrics = {name: Metric(name, "#", "exclusive", dtype, name) for name, dtype, _, _ in kinds}
    values = {name: np.array([given], dtype=dtype) for name, _, dtype, given in kinds}
    tree = CallTree((Region("f", "f"),), np.array([0]), np.array([-1]))
    profile = Profile(tree, (Location(0), Location(1)), metrics, values, {})
    write_cubex(profile, tmp_path / "p.cubex")
    same(profile, read_cubex(tmp_path / "p.cubex"))


def check_values(files: list[Path], tmp_path: Path) -> None:
    for file in files:
        profile = read_cubex(file)
        with CubexParser(file) as parser:
            for name, values in profile.values.items():
                metric = parser.get_metric_by_name(name)
                if f"{metric.id}.data" not in members(file):
                    assert not values.any()
                    continue
                stored = parser.get_metric_values(metric)
                for i in range(len(profile.tree)):
                    assert np.array_equal(stored.cnode_values(parser.get_cnode(i)).astype(float), values[i])
        write_cubex(profile, tmp_path / "p.cubex")
        again = read_cubex(tmp_path / "p.cubex")
        assert again.tree.names == profile.tree.names
        for name, values in profile.values.items():
            assert np.array_equal(values, again.values[name])


def test_profiles_of_score_p(tmp_path: Path) -> None:
    files = sorted(SCOREP.glob("**/*.cubex"))
    assert len(files) == 14
    check_values(files, tmp_path)


@needs("extrap")
def test_profiles_that_come_with_extra_p(tmp_path: Path) -> None:
    files = sorted((folder("extrap") / "cube").glob("*/*/*.cubex"))
    assert len(files) == 32
    check_values(files, tmp_path)
    last = read_cubex(files[-1])
    assert last.locations == (Location(0), Location(0, 1), Location(1), Location(1, 1))
    assert last.tree.names[0] == "main"
