"""Tables as data frames, data sets and Parquet files, and back."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import buran
from buran.cli import main
from buran.errors import FormatError, ToolError, UsageError
from buran.modeling.experiments import model_experiment
from buran.plugins.formats.frames import from_dataframe, read_parquet, to_dataframe, to_dataset
from buran.profiles.experiment.read import read_experiment
from buran.profiles.experiment.table import AGGREGATES, Experiment
from tables import experiments, same, tree_of

pandas = pytest.importorskip("pandas")
reuse_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)


def table() -> Experiment:
    tree = tree_of("main", "main/solve", "main/solve/MPI_Send")
    points = np.array([[2.0, 10.0], [4.0, 10.0], [4.0, 20.0]])
    values = np.arange(3 * 3 * 2 * 5, dtype=float).reshape(3, 3, 2, 5)
    values[1, 2, 1] = np.nan
    return Experiment(("p", "n"), points, tree, {"time": values}, {"time": "sec"})


@given(measured=experiments())
@settings(max_examples=60, deadline=None)
def test_frames_lose_nothing(measured: Experiment) -> None:
    same(measured, from_dataframe(to_dataframe(measured)))


@reuse_folder
@given(measured=experiments())
def test_parquet_loses_nothing(measured: Experiment, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from buran.plugins.formats.frames import write_parquet

    write_parquet(measured, tmp_path / "t.parquet", "mean")
    same(measured, read_experiment(tmp_path / "t.parquet"))


def test_a_frame_is_tidy() -> None:
    frame = to_dataframe(table())
    assert list(frame.columns) == ["call_path", "metric", "unit", "p", "n", "repetition", *AGGREGATES]
    assert len(frame) == 3 * 3 * 2 - 1
    row = frame[(frame.call_path == "main->solve") & (frame.p == 4) & (frame.n == 20)]
    assert row["mean"].tolist() == [table().values["time"][1, 2, 0, 0]]
    assert frame.groupby(["p", "n"], observed=True)["mean"].size().sum() == len(frame)


def test_frames_of_others_need_few_columns() -> None:
    frame = pandas.DataFrame({"call_path": ["a->b", "a->b", "a"], "n": [1, 2, 1], "value": [3.0, 4.0, 1.0]})
    read = from_dataframe(frame)
    assert read.parameters == ("n",)
    assert read.metrics == ("time",)
    assert read.units == {"time": "sec"}
    at = read.tree.names.index("a->b")
    assert read.over_locations("time")[at].tolist() == [[3.0], [4.0]]
    assert np.isnan(read.over_locations("time", "sum")).all()


def test_rows_of_a_point_are_repetitions() -> None:
    frame = pandas.DataFrame({"call_path": ["a"] * 4, "n": [1, 1, 2, 2], "value": [1.0, 2.0, 3.0, np.nan]})
    read = from_dataframe(frame)
    assert read.over_locations("time")[0] == pytest.approx(np.array([[1.0, 2.0], [3.0, np.nan]]), nan_ok=True)


def test_another_order_of_rows_is_the_same_table() -> None:
    frame = to_dataframe(table())
    same(table(), from_dataframe(frame.sample(frac=1, random_state=3)))
    part = frame[frame.p == 4]
    assert np.isnan(from_dataframe(part).over_locations("time")[:, 0]).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda frame: frame.drop(columns="call_path"), "no column 'call_path'"),
        (lambda frame: frame.drop(columns="p"), "no column 'p'"),
        (lambda frame: frame.drop(columns="mean"), "no column 'mean'"),
        (lambda frame: frame.iloc[:0], "no rows"),
        (lambda frame: pandas.concat([frame, frame.iloc[3:4]]), "a row is there twice"),
        (lambda frame: frame.assign(p=np.nan), "no finite number"),
        (lambda frame: frame.assign(unit=["sec", "ms"] + ["sec"] * (len(frame) - 2)), "different units"),
        (lambda frame: frame.assign(call_path=None), "call_path is missing"),
        (lambda frame: frame.assign(repetition=-1), "twice|below 0"),
    ],
)
def test_frames_that_are_no_tables_are_refused(change, words: str) -> None:
    frame = to_dataframe(table())
    attributes = dict(frame.attrs)
    changed = change(frame)
    changed.attrs = attributes
    with pytest.raises(FormatError, match=words):
        from_dataframe(changed)


def test_a_parameter_with_the_name_of_a_column_is_refused() -> None:
    with pytest.raises(UsageError, match="'mean'"):
        to_dataframe(replace(table(), parameters=("p", "mean")))


def test_a_data_set_has_units_and_parameters() -> None:
    pytest.importorskip("xarray")
    data = to_dataset(table())
    assert data["time"].attrs == {"units": "sec"}
    assert data["time"].dims == ("call_path", "point", "repetition", "statistic")
    grid = data.set_index(point=["p", "n"]).unstack("point")
    mean = grid["time"].sel(call_path="main->solve", p=4.0, n=10.0, statistic="mean")
    assert mean.values.tolist() == table().values["time"][1, 1, :, 0].tolist()


def test_models_become_a_frame() -> None:
    points = np.array([[2.0], [4.0], [8.0], [16.0], [32.0]])
    times = np.stack([points**2, np.full_like(points, np.nan)])[..., None] * np.ones(5)
    measured = Experiment(("p",), points, tree_of("main", "main/rest"), {"time": times}, {"time": "sec"})
    models = model_experiment(measured, ["time"])["time"]
    frame = models.to_dataframe()
    assert frame["growth"][0] == "p^2"
    assert frame["model"].isna().tolist() == [False, True]
    assert frame["points"][0] == 5
    assert "p^2" in models._repr_html_()


def test_notebooks_show_what_a_table_holds() -> None:
    named = replace(table(), units={"time": "<sec>"})
    assert "3 points of p, n" in named._repr_html_()
    assert "&lt;sec&gt;" in named._repr_html_()


def test_convert_writes_and_reads_parquet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "t.txt").write_text("PARAMETER x\nPOINTS 1 2\nREGION a\nMETRIC time\nDATA 1\nDATA 2\n")
    assert main(["convert", str(tmp_path / "t.txt"), str(tmp_path / "t.parquet")]) == 0
    assert main(["convert", str(tmp_path / "t.parquet"), str(tmp_path / "u.jsonl")]) == 0
    same(read_experiment(tmp_path / "t.txt"), read_experiment(tmp_path / "u.jsonl"))
    assert "2 points" in capsys.readouterr().out


def test_a_damaged_parquet_file_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 and nothing else PAR1")
    with pytest.raises(FormatError, match="Parquet"):
        read_parquet(tmp_path / "t.parquet")
    pandas.DataFrame({"a": [1]}).to_parquet(tmp_path / "u.parquet")
    with pytest.raises(FormatError, match="no column") as caught:
        read_parquet(tmp_path / "u.parquet")
    assert "u.parquet" in str(caught.value.where)


@pytest.mark.parametrize(
    ("module", "use"),
    [
        ("pandas", lambda: to_dataframe(table())),
        ("xarray", lambda: to_dataset(table())),
        ("pyarrow", lambda: read_parquet(Path("t.parquet"))),
    ],
)
def test_without_a_package_its_extra_is_named(monkeypatch: pytest.MonkeyPatch, module: str, use) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ToolError) as caught:
        use()
    assert caught.value.hint == "pip install 'buran[frames]'"


def test_there_is_nothing_to_open_without_results(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no results"):
        buran.open(tmp_path)
