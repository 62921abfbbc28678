"""Results of Ramble: parameters, repetitions, units, and what is refused. The tests write the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from buran.errors import BuranError, FormatError
from buran.plugins.formats.ramble import read_ramble
from buran.profiles.experiment.read import detect_format, read_experiment


def experiment(
    name: str, variables: dict[str, Any], figures: list[tuple[str, Any, str]], **more: Any
) -> dict[str, Any]:
    foms = [{"name": n, "value": v, "units": u, "origin": "amg", "origin_type": "application"} for n, v, u in figures]
    contexts = [{"name": "null", "display_name": "null", "foms": foms}]
    told = {key: str(value) for key, value in variables.items()}
    return {
        "name": name,
        "RAMBLE_STATUS": "SUCCESS",
        "N_REPEATS": 0,
        "RAMBLE_VARIABLES": told,
        "CONTEXTS": contexts,
    } | more


def results(path: Path, experiments: list[dict[str, Any]]) -> Path:
    path.write_text(json.dumps({"workspace_hash": "0", "experiments": experiments}, indent=2))
    return path


def test_variables_that_differ_are_parameters_and_repeats_are_repetitions(tmp_path: Path) -> None:
    runs = [
        experiment(
            f"amg.{n}.{repeat}",
            {"n_ranks": n, "n_nodes": n, "nx": 10, "repeat_index": repeat, "experiment_index": n + repeat, "mpi": "x"},
            [("Figure of Merit (FOM)", 1e6 * n + repeat, ""), ("wall time", 1500 / n, "ms"), ("version", "v3", "")],
        )
        for n in (1, 2, 4)
        for repeat in (1, 2)
    ]
    summary = experiment("amg.1", {"n_ranks": 1, "nx": 10}, [("wall time", 9, "ms")], N_REPEATS=2)
    path = results(tmp_path / "results.latest.json", [summary, *runs])
    assert detect_format(path) == "ramble"
    table = read_experiment(path)
    assert (table.parameters, table.points.tolist()) == (("n_ranks",), [[1], [2], [4]])
    assert table.over_locations("Figure_of_Merit_FOM").tolist() == [[[n * 1e6 + 1, n * 1e6 + 2] for n in (1, 2, 4)]]
    assert table.over_locations("wall_time")[0, :, 0].tolist() == [1.5, 0.75, 0.375]
    assert table.units["wall_time"] == "sec"


def test_experiments_that_failed_are_named(tmp_path: Path) -> None:
    runs = [experiment(f"a{n}", {"n": n}, [("rate", n, "GB/s")]) for n in (1, 2)]
    runs.append(experiment("a3", {"n": 3}, [], RAMBLE_STATUS="FAILED"))
    problems: list[BuranError] = []
    assert len(read_ramble(results(tmp_path / "r.json", runs), problems).points) == 2
    assert "a3" in str(problems[0].where)
    with pytest.raises(FormatError, match="no experiment of Ramble succeeded"):
        read_ramble(results(tmp_path / "r.json", runs[2:]))


@pytest.mark.parametrize(
    ("figures", "words"),
    [
        ([("rate", 1, "GB/s"), ("rate", 2, "GB/s")], "rate is there twice"),
        ([("rate", "nan", "GB/s")], "rate is no number"),
    ],
)
def test_figures_that_are_no_metric_are_refused(
    tmp_path: Path, figures: list[tuple[str, Any, str]], words: str
) -> None:
    with pytest.raises(FormatError, match=words):
        read_ramble(results(tmp_path / "r.json", [experiment("a", {"n": 1}, figures)]))


def test_units_that_differ_are_refused(tmp_path: Path) -> None:
    runs = [experiment(unit, {"n": n}, [("rate", n, unit)]) for n, unit in enumerate(("GB/s", "MB/s"))]
    with pytest.raises(FormatError, match="rate in different units"):
        read_ramble(results(tmp_path / "r.json", runs))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = results(tmp_path / "r.json", [experiment("a", {"n": 1}, [("rate", 1, "")])])
    path.write_text(path.read_text()[:-20])
    with pytest.raises(FormatError, match="cannot be read"):
        read_ramble(path)
