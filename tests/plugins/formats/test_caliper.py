"""Files of Caliper: what its columns mean, what runs have in common, and what is refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from caliper_files import cali

from buran.errors import BuranError, FormatError, ToolError
from buran.plugins.formats.caliper import read_caliper
from buran.profiles.experiment.read import read_experiment, read_single_run

pytest.importorskip("caliperreader")


def value(path: Path, call_path: str, metric: str = "time") -> list[float]:
    table = read_experiment(path)
    return table.values[metric][table.tree.names.index(call_path), 0, 0].tolist()


def test_exclusive_times_are_taken_as_they_are(tmp_path: Path) -> None:
    rows = [((), {"sum#sum#time.duration": 0.5}), (("a",), {"sum#sum#time.duration": 2.0})]
    path = cali(tmp_path / "r.cali", rows, {"n": 8, "executablepath": "/x/solver"})
    assert value(path, "solver->a")[:4] == [2.0] * 4
    assert read_experiment(path).parameters == ("n",)
    assert value(path, "solver") == pytest.approx([0.5, 0.5, 0.5, 0.5, np.nan], nan_ok=True)


def test_inclusive_values_over_ranks_lose_their_callees_and_extremes(tmp_path: Path) -> None:
    names = [f"{each}#inclusive#sum#time.duration" for each in ("min", "max", "avg", "sum")]
    rows = [
        (("a",), dict(zip(names, (1, 9, 5, 20), strict=True))),
        (("a", "b"), dict(zip(names, (1, 3, 2, 8), strict=True))),
    ]
    path = cali(tmp_path / "r.cali", rows, {"jobsize": 4})
    assert value(path, "program->a") == pytest.approx([3, np.nan, np.nan, np.nan, 12], nan_ok=True)
    assert value(path, "program->a->b") == pytest.approx([2, np.nan, np.nan, np.nan, 8], nan_ok=True)


def test_values_of_ranks_become_statistics(tmp_path: Path) -> None:
    rows = [(("a",), {"sum#time.duration.ns": 1e9 * rank, "mpi.rank": rank}) for rank in range(4)]
    units = {"sum#time.duration.ns": "nsec"}
    path = cali(tmp_path / "r.cali", rows, {"jobsize": 4}, units)
    assert value(path, "program->a") == [1.5, 1.5, 0.0, 3.0, 6.0]


def test_a_call_path_that_is_there_twice_is_one_and_a_recursive_one_is_not(tmp_path: Path) -> None:
    rows = [(path, {"sum#time.duration": 1.0}) for path in (("f",), ("f",), ("f", "f"), ("f", "f", "f"))]
    table = read_experiment(cali(tmp_path / "r.cali", rows, {"n": 1}))
    assert table.tree.names == ("program", "program->f", "program->f->f", "program->f->f->f")
    assert table.over_locations("time")[1:, 0, 0].tolist() == [2, 1, 1]


def test_runs_of_a_folder_get_their_parameters_from_metadata(tmp_path: Path) -> None:
    for ranks in (2, 4):
        for repetition in range(2):
            told = {"jobsize": ranks, "mpi.world.size": ranks, "launchdate": 10 * ranks + repetition, "n": 30}
            rows = [(("a",), {"avg#sum#time.duration": ranks}), (("b",), {"avg#sum#time.duration": 1})][: ranks // 2]
            cali(tmp_path / f"{ranks}-{repetition}.cali", rows, told)
    table = read_experiment(tmp_path)
    assert table.parameters == ("jobsize",)
    assert table.points.tolist() == [[2], [4]]
    assert table.over_locations("time")[table.tree.names.index("program->b")].tolist() == [[0, 0], [1, 1]]
    assert table.units["time"] == "sec"


def test_metadata_that_some_runs_lack_are_named(tmp_path: Path) -> None:
    rows = [(("a",), {"sum#time.duration": 1})]
    cali(tmp_path / "1.cali", rows, {"n": 1})
    cali(tmp_path / "2.cali", rows, {"other": 2})
    with pytest.raises(FormatError, match="has no n"):
        read_experiment(tmp_path)


def test_units_that_differ_are_refused(tmp_path: Path) -> None:
    for number, unit in enumerate(("W", "J")):
        rows = [(("a",), {"sum#energy": 1})]
        cali(tmp_path / f"{number}.cali", rows, {"n": number}, {"sum#energy": unit})
    with pytest.raises(FormatError, match="energy in"):
        read_experiment(tmp_path)


def test_runs_without_metadata_cannot_be_told_apart(tmp_path: Path) -> None:
    for name in "ab":
        cali(tmp_path / f"{name}.cali", [(("a",), {"sum#time.duration": 1})], {"user": "somebody"})
    with pytest.raises(FormatError, match="varied"):
        read_experiment(tmp_path)


def test_a_run_alone_needs_no_parameters(tmp_path: Path) -> None:
    path = cali(tmp_path / "a.cali", [(("a",), {"sum#time.duration": 1})], {"user": "somebody"})
    assert read_single_run(path).exclusive("time").sum() == 1


@pytest.mark.parametrize(
    ("rows", "words"),
    [([(("a",), {"sum#time.duration": "nan"})], "no number"), ([(("a",), {})], "has no values")],
)
def test_what_is_no_number_is_refused(
    tmp_path: Path, rows: list[tuple[Sequence[str], Mapping[str, object]]], words: str
) -> None:
    with pytest.raises(FormatError, match=words):
        read_caliper(cali(tmp_path / "a.cali", rows, {"n": 1}))


def test_a_damaged_file_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    for number in (1, 2):
        cali(tmp_path / f"{number}.cali", [(("a",), {"sum#time.duration": number})], {"n": number})
    (tmp_path / "3.cali").write_text("__rec=ctx,ref=77,attr=99,data=1\n")
    problems: list[BuranError] = []
    assert len(read_caliper(tmp_path, problems).points) == 2
    assert "3.cali" in str(problems[0].where)


def test_without_the_package_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = cali(tmp_path / "a.cali", [(("a",), {"sum#time.duration": 1})], {"n": 1})
    monkeypatch.setitem(sys.modules, "caliperreader", None)
    with pytest.raises(ToolError) as caught:
        read_experiment(path)
    assert caught.value.hint == "pip install 'buran[caliper]'"


def json_split(
    path: Path, rows: Sequence[Sequence[object]], *, unit: str = "", metadata: Mapping[str, str] = {}
) -> Path:
    """Write a file as Caliper does with format=json-split."""
    document = {
        "data": rows,
        "columns": ["mpi.rank", "sum#time.duration", "path"],
        "column_metadata": [
            {"is_value": True},
            {"is_value": True, **({"attribute.unit": unit} if unit else {})},
            {"is_value": False},
        ],
        "nodes": [{"label": "main", "column": "path"}, {"label": "solve", "column": "path", "parent": 0}],
        **metadata,
    }
    path.write_text(json.dumps(document, indent=1))
    return path


def test_json_split_is_read_as_cali_is_and_needs_no_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "caliperreader", None)
    rows = [[0, 5.0, None], [1, 5.0, None], [0, 1.0, 0], [1, 3.0, 0], [0, 7.0, 1]]
    for n in (10, 20):
        told = {"n": str(n), "jobsize": "2", "executablepath": "/x/solver"}
        json_split(tmp_path / f"{n}.json", rows, unit="sec", metadata=told)
    table = read_experiment(tmp_path)
    assert (table.parameters, table.points.tolist()) == (("n",), [[10], [20]])
    assert value(tmp_path, "solver->main") == [2.0, 2.0, 1.0, 3.0, 4.0]
    assert value(tmp_path, "solver->main->solve") == [3.5, 3.5, 0.0, 7.0, 7.0]


def test_json_split_of_old_versions_is_in_microseconds(tmp_path: Path) -> None:
    path = json_split(tmp_path / "a.json", [[0, 2e6, 0]])
    assert value(path, "program->main")[0] == 2.0
    assert (
        value(json_split(tmp_path / "b.json", [[0, 2e6, 0]], unit="usec", metadata={"n": "1"}), "program->main")[0] == 2
    )


@pytest.mark.parametrize("rows", [[[0, 1.0]], [[0, 1.0, 7]], [[0, float("nan"), 0]]])
def test_damaged_json_split_is_refused(tmp_path: Path, rows: Sequence[Sequence[object]]) -> None:
    with pytest.raises(FormatError):
        read_experiment(json_split(tmp_path / "a.json", rows))


def test_repetitions_that_differ_in_a_word_are_noted(tmp_path: Path) -> None:
    for number, variant in enumerate(("Base_Seq", "Base_OpenMP")):
        cali(tmp_path / f"{number}.cali", [(("a",), {"sum#time.duration": 1})], {"n": "8.000", "variant": variant})
    table = read_experiment(tmp_path)
    assert table.points.tolist() == [[8]]
    assert len(table.notes) == 1 and "Base_OpenMP and" in table.notes[0]
