from __future__ import annotations

import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from buran.errors import BuranError, FormatError, UsageError
from buran.files import not_synced
from buran.profiles.experiment.build import Run, experiment_from_profiles
from buran.profiles.experiment.collect import export_names, split_call_path
from buran.profiles.experiment.extrap_files import write_extrap_json, write_extrap_text
from buran.profiles.experiment.extrap_tree import list_runs, read_runs, write_extrap_tree
from buran.profiles.experiment.jsonl import read_jsonl, write_jsonl
from buran.profiles.experiment.read import detect_format, read_experiment
from buran.profiles.experiment.table import Experiment
from buran.profiles.profile import CallTree, Region
from data_of_others import folder, needs
from tables import PLAIN_NAMES as PLAIN
from tables import damage, experiments, measured_runs, profile_of, read_if_possible, same, tree_of

DATA = folder("extrap")
needs_data = needs("extrap")
reuse_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
PARAMETERS = ("p", "size_n", "q")


@reuse_folder
@given(table=experiments())
def test_json_lines_lose_nothing(table: Experiment, tmp_path: Path) -> None:
    write_jsonl(table, tmp_path / "t.jsonl")
    assert detect_format(tmp_path / "t.jsonl") == "jsonl"
    read = read_experiment(tmp_path / "t.jsonl")
    same(table, read)
    first = (tmp_path / "t.jsonl").read_bytes()
    write_jsonl(read, tmp_path / "u.jsonl")
    assert (
        sorted(first.splitlines()) == sorted((tmp_path / "u.jsonl").read_bytes().splitlines()) or len(table.tree) > 1
    ), "one call path is written in one order"


@reuse_folder
@given(table=experiments())
def test_json_lines_are_what_extra_p_reads(table: Experiment, tmp_path: Path) -> None:
    write_jsonl(table, tmp_path / "t.jsonl")
    names = export_names(table.tree)
    seen: dict[tuple[str, str, tuple[float, ...]], list[float]] = {}
    for line in (tmp_path / "t.jsonl").read_text().splitlines():
        data = json.loads(line)
        assert list(data["params"]) == list(table.parameters)
        seen.setdefault((data["callpath"], data["metric"], tuple(data["params"].values())), []).append(data["value"])
    for (name, metric, point), values in seen.items():
        at = [tuple(row) for row in table.points.tolist()].index(point)
        own = table.over_locations(metric)[names.index(name), at]
        assert values == own[~np.isnan(own)].tolist()


def without_regions(table: Experiment) -> Experiment:
    """Return what formats keep that know call paths by name: plain regions and repetitions without gaps."""
    regions = tuple(Region(region.name) for region in table.tree.regions)
    values = {}
    for metric, given_values in table.values.items():
        packed = np.full_like(given_values, np.nan)
        for i, j in np.ndindex(given_values.shape[:2]):
            there = given_values[i, j][~np.isnan(given_values[i, j, :, 0])]
            packed[i, j, : len(there)] = there
        values[metric] = packed
    return replace(table, tree=replace(table.tree, regions=regions), values=values)


@reuse_folder
@given(table=experiments(located=False, names=PLAIN, parameters=PARAMETERS))
def test_text_and_json_round_trip(table: Experiment, tmp_path: Path) -> None:
    for write, name in ((write_extrap_text, "t.txt"), (write_extrap_json, "t.json")):
        write(table, tmp_path / name)
        assert detect_format(tmp_path / name) == name.split(".")[1].replace("txt", "text")
        same(without_regions(table), read_experiment(tmp_path / name))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(runs=measured_runs())
def test_folders_of_cubex_files_lose_nothing(runs: list[Run], tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=tmp_path) as name, not_synced():
        write_extrap_tree(Path(name, "out"), runs, parameters=("p", "n"))
        same(experiment_from_profiles(iter(runs)), read_experiment(Path(name, "out")))


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("main->a->b", ("main", "a", "b")),
        ("main->P<T>::operator->() const->b", ("main", "P<T>::operator->() const", "b")),
        ("main->f(decltype((x)->y))->b", ("main", "f(decltype((x)->y))", "b")),
        ("main->operator->*->b", ("main", "operator->*", "b")),
        ("odd(->b", ("odd(", "b")),
        ("main", ("main",)),
    ],
)
def test_call_paths_split_at_calls_only(name: str, parts: tuple[str, ...]) -> None:
    assert split_call_path(name) == parts


def test_names_for_export_are_unique() -> None:
    regions = (
        Region("main", "main"),
        Region("A::A()", "_ZN1AC1Ev"),
        Region("A::A()", "_ZN1AC2Ev"),
        Region("A::A()"),
    )
    tree = CallTree(regions, np.array([0, 1, 2, 3, 3]), np.array([-1, 0, 0, 0, 0]))
    assert export_names(tree) == [
        "main",
        *("main->A::A()", "main->A::A() [_ZN1AC2Ev]", "main->A::A() [A::A()]", "main->A::A() [A::A()] #2"),
    ]  # fmt: skip


def run_folder(folder: Path) -> list[tuple[dict[str, float], int, object]]:
    a, b = tree_of("main", "main/a"), tree_of("main", "main/MPI_Send")
    runs = [
        ({"n": n, "ranks": p}, r, profile_of(tree, time=[[p * n] * p, [r] * p], visits=[[1] * p, [2] * p]))
        for n in (0.5, 1000000) for p, tree in ((2, a), (4, b)) for r in (1, 2)
    ]  # fmt: skip
    assert write_extrap_tree(folder, iter(runs), prefix="my.demo") == 8
    return runs


def test_a_folder_for_extra_p_reads_back(tmp_path: Path) -> None:
    runs = run_folder(tmp_path / "out")
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names[0] == "my_demo.n0.5nranks2.r1" and names[-1] == "my_demo.n1000000nranks4.r2"
    read = read_experiment(tmp_path / "out")
    direct = experiment_from_profiles(runs)
    same(replace(direct, parameters=("n", "nranks")), read)
    trees = {profile.tree.names for _, _, profile in read_runs(tmp_path / "out")}
    assert trees == {("main", "main->a", "main->MPI_Send")}, "all profiles have all call paths"


def test_a_folder_for_extra_p_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    good = profile_of(tree_of("main"), time=[[1.0]])
    bad = profile_of(tree_of("main"), time=[[-1.0]])
    with pytest.raises(BuranError):
        write_extrap_tree(tmp_path / "out", [({"p": 1}, 1, good), ({"p": 2}, 1, bad)])
    assert not list(tmp_path.iterdir())
    with pytest.raises(UsageError, match="twice"):
        write_extrap_tree(tmp_path / "out", [({"p": 1}, 1, good), ({"p": 1.0}, 1, good)])
    with pytest.raises(UsageError, match="no runs"):
        write_extrap_tree(tmp_path / "out", [])
    with pytest.raises(UsageError, match="same name"):
        write_extrap_tree(tmp_path / "out", [({"n1": 1, "n2": 1}, 1, good)])
    (tmp_path / "full").mkdir()
    (tmp_path / "full/stale").touch()
    with pytest.raises(UsageError, match="not empty"):
        write_extrap_tree(tmp_path / "full", [({"p": 1}, 1, good)])


def test_a_run_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    run_folder(tmp_path / "out")
    broken = tmp_path / "out/my_demo.n0.5nranks4.r2/profile.cubex"
    broken.write_bytes(broken.read_bytes()[:700])
    with pytest.raises(FormatError, match="cannot be read"):
        read_experiment(tmp_path / "out")
    problems: list[BuranError] = []
    table = read_experiment(tmp_path / "out", problems=problems)
    assert [problem.where for problem in problems] == [str(broken)]
    assert np.isnan(table.over_locations("time")[:, 1, 1]).all()
    assert np.isnan(table.over_locations("time")).sum() == 3


def test_folders_that_are_no_runs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no profiles"):
        read_experiment(tmp_path)
    run_folder(tmp_path / "out")
    (tmp_path / "out/notes").mkdir()
    assert len(list_runs(tmp_path / "out")) == 8, "folders without profiles do not matter"
    source = tmp_path / "out/my_demo.n0.5nranks4.r2"
    for name, reason in (
        ("my_demo.n0.5nranks4.r1_ABCD", "repetition"),
        ("other.n0.50nranks4.r2", "so has"),
        ("my_demo.n0.5.r1", "nranks"),
        ("t.size50.pofi.r1", "sequence"),
    ):
        own = source.with_name(name)
        own.mkdir()
        (own / "profile.cubex").write_bytes((source / "profile.cubex").read_bytes())
        with pytest.raises(FormatError) as caught:
            read_experiment(tmp_path / "out")
        assert reason in str(caught.value)
        (own / "profile.cubex").unlink()
    for name in ("a.cubex", "b.cubex"):
        (source / name).write_bytes((source / "profile.cubex").read_bytes())
    assert len(list_runs(tmp_path / "out")) == 8, "profile.cubex counts"
    (source / "profile.cubex").unlink()
    with pytest.raises(FormatError, match="several"):
        list_runs(tmp_path / "out")


JSONL = '{"params":{"x":4},"callpath":"main","metric":"time","value":1.5}\n'


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [
        ("", None, "empty"),
        ("hello", "line 1", "hello"),
        (JSONL + "{", "line 2", "JSON"),
        (JSONL + "\n\n[1]", "line 4", "object"),
        (JSONL + JSONL.replace('"x"', '"y"'), "line 2", "the parameters are y"),
        (JSONL + JSONL.replace("1.5", '"1.5"'), "line 2, value.0", "number"),
        (JSONL + JSONL.replace("1.5", "Infinity"), "line 2", "finite"),
        (JSONL + JSONL.replace("1.5", "1e999"), "line 2", "finite"),
        (JSONL + JSONL.replace("1.5", "true"), "line 2, value.0", "number"),
        (JSONL + JSONL.replace(',"value":1.5', ""), "line 2, value", "required"),
        (JSONL.replace("4", "NaN"), "line 1, params.x", "finite"),
        (JSONL.replace('"time"', "3"), "line 1, metric", "string"),
        (JSONL.replace("}\n", ',"repetition":0}\n') * 2, "line 2", "twice"),
        (JSONL.replace("}\n", ',"repetition":-1}\n'), "line 1, repetition", "0"),
        (JSONL.replace("}\n", ',"locations":{"middle":1}}\n'), "line 1, locations", "median"),
        (JSONL.replace("}\n", ',"path":[{"name":"a","line":"b"}]}\n'), "line 1, path.0", ""),
        (JSONL.replace("}\n", ',"path":[{"name":"a","paradigm":"b"}]}\n'), "line 1, path.0", ""),
        ("PARAMETER x\nPOINTS 1 2\nREGION a\nDATA 1\nDATA 1\nDATA 1\n", "line 6", "more DATA lines"),
        ("PARAMETER x\nPOINTS 1 2\nREGION a\nDATA 1 b\n", "line 4", "could not convert"),
        ("PARAMETER x\nPOINTS 1 2\nREGION a\nDATA 1 inf\n", "line 4", "finite"),
        ("PARAMETER x y\nPOINTS ( 1 2 ) ( 3 )\nDATA 1\n", "line 2", "1 numbers"),
        ("PARAMETER x y\nPOINTS ( 1 2 ) 3\nDATA 1\n", "line 2", "outside"),
        ("PARAMETER x x\n", "line 1", "'x', 'x'"),
        ("POINTS 1\n", "line 1", "before parameters"),
        ("PARAMETER x\nPOINTS nan\n", "line 2", "finite"),
        ("PARAMETER x\nPOINTS 1\nPARAMETER y", "line 3", "behind points"),
        ("PARAMETER x\nPOINTS 1\nREGION\n", "line 3", "nothing behind"),
        ("PARAMETER x\nPOINTS 1\nDATUM 3\n", "line 3", "DATUM"),
        ("PARAMETER x\nPOINTS 1\nREGION a\nMETRIC b\n", None, "no DATA"),
        ('{\n"parameters": ["x"],\n"measurements": }', "line 3", "JSON"),
        ('{"parameters": ["x"]}', "measurements", "required"),
        ('{"parameters": ["x", "x"], "measurements": {}}', "parameters", "'x', 'x'"),
        ('{"parameters": ["x"], "measurements": {}}', "measurements", "no values"),
        ('{"parameters": ["x"], "measurements": {"a": {"t": [{"point": [1, 2], "values": [1]}]}}}',
         "measurements.a.t.0", "2 numbers"),
        ('{"parameters": ["x"], "measurements": {"a": {"t": [{"point": [1]}]}}}',
         "measurements.a.t.0.values", "required"),
        ('{"parameters":["x"],"measurements":{"a":{"t":[{"point":[1],"values":["1"]}]}}}',
         "measurements.a.t.0.values.0", "number"),
        ('{"parameters": ["x"], "measurements": {"a": [1]}}', "measurements.a", "object"),
    ],
)  # fmt: skip
def test_mistakes_are_named_with_their_place(content: str, place: str | None, reason: str, tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text(content)
    with pytest.raises(FormatError) as caught:
        read_experiment(file)
    assert str(file) in str(caught.value.where)
    assert place is None or place in str(caught.value.where)
    assert reason in str(caught.value.why)
    assert caught.value.hint


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["text", "json", "jsonl"]),
    cut=st.integers(0, 400),
    insert=st.text(max_size=4) | st.sampled_from(['"', "}", "null", "1e999", "\n", "DATA", "(", "nan"]),
    length=st.integers(0, 30),
)
def test_damaged_text_gives_an_error_or_a_table(kind: str, cut: int, insert: str, length: int, tmp_path: Path) -> None:
    table = experiment_from_profiles(
        ({"p": p, "n": 5}, r, profile_of(tree_of("main", "main/a"), time=[[p], [r]])) for p in (1, 2) for r in (0, 1)
    )
    file = tmp_path / "input"
    {"text": write_extrap_text, "json": write_extrap_json, "jsonl": write_jsonl}[kind](table, file)
    damage(file, cut, insert, length)
    read_if_possible(file, kind)


def test_incomplete_data_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_text(
        "PARAMETER x\nPOINTS 1 2 3\nREGION a->b\nMETRIC time\nDATA 5 6\nDATA nan\nREGION a->c\nDATA 7 7 7\n"
    )
    table = read_experiment(file)
    assert table.tree.names == ("a", "a->b", "a->c")
    values = table.over_locations("time")
    assert values.shape == (3, 3, 3)
    assert np.isnan(values).sum() == 27 - 5
    assert np.isnan(table.values["time"][..., -1]).all(), "no sum over locations is known"
    write_extrap_text(table, tmp_path / "again")
    assert np.array_equal(read_experiment(tmp_path / "again").values["time"], table.values["time"], equal_nan=True)


def test_lines_may_come_in_any_order(tmp_path: Path) -> None:
    table = experiment_from_profiles(
        ({"p": p}, r, profile_of(tree_of("main", "main/a"), time=[[p], [r]])) for p in (1, 2) for r in (0, 1)
    )
    write_jsonl(table, tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    (tmp_path / "b.jsonl").write_text("\n".join(reversed(lines)))
    read = read_jsonl(tmp_path / "b.jsonl")
    at = [read.tree.names.index(name) for name in table.tree.names]
    assert np.array_equal(read.values["time"][at], table.values["time"])


def test_text_has_limits(tmp_path: Path) -> None:
    profile = profile_of(tree_of("main"), time=[[1]])
    for names in ("abcde", ["my n"]):
        table = experiment_from_profiles([(dict.fromkeys(names, 1), 1, profile)])
        with pytest.raises(UsageError, match="cannot hold"):
            write_extrap_text(table, tmp_path / "t.txt")
    assert not list(tmp_path.iterdir())


def test_formats_that_do_not_exist_and_single_profiles(tmp_path: Path) -> None:
    (tmp_path / "p.cubex").touch()
    with pytest.raises(UsageError, match="single profile"):
        read_experiment(tmp_path / "p.cubex")
    with pytest.raises(UsageError, match="unknown format"):
        read_experiment(tmp_path, "csv")
    with pytest.raises(FormatError, match="cannot be read"):
        read_experiment(tmp_path / "none.txt")


@needs_data
@pytest.mark.parametrize(
    ("name", "parameters", "points", "values", "first"),
    [
        ("json/input1.json", "x", 5, 25, 3.5),
        ("jsonl/complete_matrix_2p.jsonl", "xy", 25, 125, 1.007912824061828),
        ("jsonl/incomplete_matrix_2p.jsonl", "xy", 7, 35, 1.007912824061828),
        ("jsonl/matrix_4p.jsonl", "abcd", 17, 20, 1.0),
        ("text/one_parameter_1.txt", "x", 5, 30, 82.00848518948744),
        ("text/three_parameter_1.txt", "xyz", 125, 625, None),
        ("text/two_parameter_3.txt", "xy", 25, 500, 1.007912824061828),
        ("cube/multi_parameter", "xyz", 27, 27 * 4 * 9, None),
        ("cube/simple_threaded", "f", 5, 5 * 5 * 3, None),
    ],
)
def test_files_of_extra_p(name: str, parameters: str, points: int, values: int, first: float | None) -> None:
    table = read_experiment(DATA / name)
    assert table.parameters == tuple(parameters)
    assert len(table.points) == points
    assert sum((~np.isnan(value[..., 0])).sum() for value in table.values.values()) == values
    if first is not None:
        assert next(iter(table.values.values()))[0, 0, 0, 0] == first
