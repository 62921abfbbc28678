"""Profiles of TAU and HPCToolkit: values, parameters, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from profiles_of_tools import hpctoolkit, tau

from buran.errors import BuranError, FormatError, ToolError
from buran.profiles.experiment.read import detect_format, read_experiment
from buran.profiles.experiment.table import Experiment

pytest.importorskip("hatchet")

MAIN, SOLVE, SEND = ("main",), ("main", "solve"), ("main", "solve", "MPI_Send()")


def values(table: Experiment, call_path: str, metric: str = "time") -> list[float]:
    return table.values[metric][table.tree.names.index(call_path), 0, 0].tolist()


def test_profiles_of_tau_have_ranks_and_calls(tmp_path: Path) -> None:
    folder = tau(tmp_path / "run", [{MAIN: 100, SOLVE: 30}, {MAIN: 300}])
    table = read_experiment(folder)
    assert detect_format(folder) == "tau"
    assert values(table, ".TAU application->main") == pytest.approx([2e-4, 2e-4, 1e-4, 3e-4, 4e-4])
    solve = values(table, ".TAU application->main->solve")
    assert solve == pytest.approx([1.5e-5, 1.5e-5, 0, 3e-5, 3e-5]), "a rank that was not there counts as 0"
    assert values(table, ".TAU application->main->solve", "visits")[4] == 2
    assert table.units == {"time": "sec", "visits": "occ"}


def test_databases_of_hpctoolkit_have_seconds_of_ranks(tmp_path: Path) -> None:
    folder = hpctoolkit(tmp_path / "run", [(1, 2, 30), (3, 4, 0)])
    table = read_experiment(folder)
    assert detect_format(folder) == "hpctoolkit"
    assert table.tree.names == ("entry", "entry->main", "entry->main->solve")
    # By hand: the lines of main and of its loop are main's, 1 + 2 and 3 + 4 s; the second rank never came to solve.
    assert values(table, "entry") == [0, 0, 0, 0, 0]
    assert values(table, "entry->main") == pytest.approx([5, 5, 3, 7, 10])
    assert values(table, "entry->main->solve") == pytest.approx([15, 15, 0, 30, 30])
    assert (table.parameters, table.points.tolist(), table.units["time"]) == (("ranks",), [[2]], "sec")


def test_databases_of_hpctoolkit_that_are_damaged_are_refused(tmp_path: Path) -> None:
    folder = hpctoolkit(tmp_path / "run", [(1, 2, 30)])
    whole = (folder / "cct.db").read_bytes()
    (folder / "cct.db").write_bytes(whole[:-8])
    with pytest.raises(FormatError, match="HPCToolkit"):
        read_experiment(folder)
    (folder / "cct.db").unlink()
    with pytest.raises(FormatError, match="HPCToolkit") as caught:
        read_experiment(folder)
    assert "cct.db" in str(caught.value.why)
    with pytest.raises(FormatError, match="no number"):
        read_experiment(hpctoolkit(tmp_path / "nan", [(1, np.nan, 30)]))


def test_parameters_are_numbers_in_names_then_metadata_then_ranks(tmp_path: Path) -> None:
    named, told, alone = tmp_path / "named", tmp_path / "told", tmp_path / "alone"
    for size in (10, 20):
        for repetition in (1, 2):
            tau(named / f"tau.n{size}.r{repetition}", [{MAIN: size}])
        tau(told / f"run{size}", [{MAIN: size}], {"edge": size, "CPU Cores": size, "Starting Timestamp": size})
    for ranks in (1, 2, 4):
        hpctoolkit(alone / f"db{ranks}", [(1, 1, 1)] * ranks)
    table = read_experiment(named)
    assert (table.parameters, table.points.tolist()) == (("n",), [[10], [20]])
    assert table.over_locations("time").shape[2] == 2
    assert (read_experiment(told).parameters, read_experiment(told).points.tolist()) == (("edge",), [[10], [20]])
    assert read_experiment(alone).points.tolist() == [[1], [2], [4]]


def test_runs_with_different_trees_have_the_union_of_call_paths(tmp_path: Path) -> None:
    tau(tmp_path / "runs/a.n1", [{MAIN: 10}])
    tau(tmp_path / "runs/a.n2", [{MAIN: 10, SOLVE: 10, SEND: 5}])
    table = read_experiment(tmp_path / "runs")
    send = table.tree.names.index(".TAU application->main->solve->MPI_Send()")
    assert table.over_locations("time")[send, :, 0].tolist() == [0.0, pytest.approx(5e-6)]


def test_recursive_call_paths_stay_apart(tmp_path: Path) -> None:
    paths = [("f",), ("f", "f"), ("f", "f", "f")]
    table = read_experiment(tau(tmp_path / "run", [dict.fromkeys(paths, 1)]))
    assert table.tree.names[1:] == (
        ".TAU application->f", ".TAU application->f->f", ".TAU application->f->f->f",
    )  # fmt: skip
    assert table.over_locations("time")[1:, 0, 0] == pytest.approx(1e-6)


@pytest.mark.parametrize("clocks", [("TIME", "CPU_TIME"), ("CPU_TIME", "TIME")])
def test_two_clocks_of_tau_are_two_metrics(tmp_path: Path, clocks: tuple[str, str]) -> None:
    for clock in clocks:  # the order in which folders are made must not decide which one is the time
        own = 500 if clock == "TIME" else 20
        tau(tmp_path / "run" / f"MULTI__{clock}", [{MAIN: own, SOLVE: 2 * own}] * 2)
    table = read_experiment(tmp_path / "run")
    assert table.units == {"time": "sec", "cpu_time": "sec", "visits": "occ"}
    assert values(table, ".TAU application->main->solve")[0] == pytest.approx(1e-3)
    assert values(table, ".TAU application->main->solve", "cpu_time")[0] == pytest.approx(4e-5)
    assert values(table, ".TAU application->main->solve", "visits")[0] == 2


def test_functions_that_tau_has_no_names_for_are_one(tmp_path: Path) -> None:
    # As TAU wrote them for a position-independent program: other addresses in each rank, two functions below main.
    first = {MAIN: 3, ("main", "addr=<5654e3f200e0> [{/a} {0,0}]"): 5, ("main", "addr=<5654e3f202b0> [{/a} {0,0}]"): 7}
    second = {MAIN: 3, ("main", "addr=<0x55b3d8e660e0> [{(unknown)} {0,0}]"): 8}
    table = read_experiment(tau(tmp_path / "run", [first, second]))
    assert table.tree.names[1:] == (".TAU application->main", ".TAU application->main->unresolved address")
    assert values(table, ".TAU application->main->unresolved address") == pytest.approx(
        [1e-5, 1e-5, 8e-6, 1.2e-5, 2e-5]
    )


def test_two_nodes_of_a_name_are_one_call_path(tmp_path: Path) -> None:
    here, there = "solve [{a.c} {1,1}-{2,1}]", "solve [{a.c} {8,1}-{9,1}]"
    table = read_experiment(tau(tmp_path / "run", [{MAIN: 1, ("main", here): 5, ("main", there): 7}]))
    assert values(table, ".TAU application->main->solve")[0] == pytest.approx(12e-6)


def test_what_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no number"):
        read_experiment(tau(tmp_path / "tau", [{MAIN: 1, SOLVE: np.nan}]))


def test_flat_profiles_are_refused_with_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no call paths") as caught:
        read_experiment(tau(tmp_path / "run", [{MAIN: 1, ("solve",): 2}], flat=True))
    assert "TAU_CALLPATH=1" in str(caught.value.hint)


def test_runs_that_differ_in_nothing_are_repetitions_and_missing_metadata_are_named(tmp_path: Path) -> None:
    for number in range(2):
        tau(tmp_path / f"same/run{number}", [{MAIN: 1}] * 2)
        tau(tmp_path / f"lacking/run{number}", [{MAIN: 1}], {"edge": 4} if number else {})
    same = read_experiment(tmp_path / "same")
    assert same.points.tolist() == [[2]]
    assert same.over_locations("time").shape[2] == 2
    with pytest.raises(FormatError, match="no edge"):
        read_experiment(tmp_path / "lacking")


def test_a_damaged_run_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    for size in (1, 2):
        hpctoolkit(tmp_path / f"runs/a.n{size}", [(1, 1, 1)])
    (hpctoolkit(tmp_path / "runs/a.n3", [(1, 1, 1)]) / "cct.db").write_bytes(b"")
    problems: list[BuranError] = []
    assert len(read_experiment(tmp_path / "runs", None, problems).points) == 2
    assert "a.n3" in str(problems[0].where)
    with pytest.raises(FormatError, match="HPCToolkit"):
        read_experiment(tmp_path / "runs")


def test_without_the_package_its_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tau(tmp_path / "run", [{MAIN: 1}])
    monkeypatch.setitem(sys.modules, "hatchet", None)
    with pytest.raises(ToolError, match="hatchet") as caught:
        read_experiment(folder)
    assert caught.value.hint == "pip install 'buran[hatchet]'"
