"""Kernels of GPUs: tables of Nsight Systems and rocprof of several versions, exports to SQLite, and what is refused."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import pytest

from buran.errors import FormatError
from buran.profiles.experiment.read import detect_format, read_experiment, read_single_run
from buran.profiles.experiment.table import Experiment

NEW = """Generating SQLite file a.sqlite from a.nsys-rep
Processing [a.sqlite] with [cuda_gpu_kern_sum.py]...

 ** CUDA GPU Kernel Summary (cuda_gpu_kern_sum):

Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name
75.0,"6,000,000",100,60000.0,60000,50000,70000,1000.0,"void relax<2, false>(char const*, ""x"")"
25.0,2000000,50,40000.0,40000,20000,60000,100.0,copy

Processing [a.sqlite] with [cuda_gpu_mem_size_sum.py]...
"""
OLD = "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name\n99.9,7000,7,1e3,1000,1000,copy\n"
IN_MS = "Time (%),Total Time (ms),Instances,Avg (ms),Name\n100.0,2.5,5,0.5,copy\n"
STATISTICS = '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n'
ROCPROF = STATISTICS + '"copy(float*, int) [clone .kd]",3,6000,2000,100.0\n'
ROCPROF_3 = (
    '"Name","Calls","TotalDurationNs","AverageNs","Percentage","MinNs","MaxNs","StdDev"\n'
    '"copy(float*, int)",3,6000,2000.000000,100.00,1000,3000,1.0e+02\n'
)
LAUNCHES = (
    "Index,KernelName,gpu-id,DispatchNs,BeginNs,EndNs,CompleteNs,DurationNs\n"
    '0,"copy(float*, int) [clone .kd]",0,90,100,300,400,200\n1,copy.kd,0,90,100,300,400,200\n'
)
TRACE = (
    '"Kind","Agent_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp"\n'
    '"KERNEL_DISPATCH","Agent 4","copy",1,1000,3000\n"KERNEL_DISPATCH","Agent 4","copy",2,4000,5000\n'
)


def kernels(table: Experiment) -> dict[str, tuple[float, float]]:
    """Return seconds and launches by name."""
    seconds, launches = (table.over_locations(name)[:, 0, 0] for name in ("time", "visits"))
    names = [name.removeprefix("KERNELS->") for name in table.tree.names]
    return {name: pair for name, *pair in zip(names, seconds, launches, strict=True) if name != "KERNELS"}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "reader", "found"),
    [
        (NEW, "nsight", {'relax<2, false>(char const*, "x")': [6e-3, 100], "copy": [2e-3, 50]}),
        ("\ufeff" + OLD, "nsight", {"copy": [7e-6, 7]}),
        (IN_MS, "nsight", {"copy": [2.5e-3, 5]}),
        (ROCPROF, "rocprof", {"copy(float*, int)": [6e-6, 3]}),
        (ROCPROF_3, "rocprof", {"copy(float*, int)": [6e-6, 3]}),
        (LAUNCHES, "rocprof", {"copy(float*, int)": [2e-7, 1], "copy": [2e-7, 1]}),
        (TRACE, "rocprof", {"copy": [3e-6, 2]}),
    ],
    ids=["nsys 2024", "nsys 2021", "nsys in ms", "rocprof", "rocprofv3", "rocprof's launches", "rocprofv3's launches"],
)
def test_kernels_are_call_paths_with_times_and_visits(
    tmp_path: Path, text: str, reader: str, found: Mapping[str, list[float]]
) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(text)
    assert detect_format(path) == reader
    table = read_experiment(path)
    assert kernels(table) == {name: pytest.approx(values, rel=1e-12) for name, values in found.items()}
    assert {region.paradigm for region in table.tree.regions} == {"gpu", "measurement"}
    assert read_single_run(path).values["time"][0, 0] == pytest.approx(sum(values[0] for values in found.values()))


HEADER = "Time (%),Total Time (ns),Instances,Name\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (HEADER, "its table has no rows"),
        ("Processing\nSKIPPED: a.sqlite does not contain CUDA kernel data.\n", "no kernels"),
        (HEADER + "1,2,3,a\n1,2,3\n", "line 3.*it has 3 cells, the header 4"),
        (HEADER + "1,2,3,a(int, int)\n", "line 2.*it has 5 cells"),
        (HEADER + "1,2x,3,a\n", "line 2.*totaltime is '2x'"),
        (HEADER + "1,-2,3,a\n", "line 2.*totaltime is '-2'"),
        (HEADER + "1,nan,3,a\n", "line 2.*totaltime is 'nan'"),
        (HEADER + "1,2,,a\n", "line 2.*instances is ''"),
        (HEADER + "1,2,3,\n", "line 2.*no name"),
        (HEADER + '1,2,3,"a\n', "line 2"),
        (HEADER + '1,2,3,"a"b\n', "line 2"),
        (HEADER.replace("(ns)", "(weeks)") + "1,2,3,a\n", "line 1.*times are in 'weeks'"),
        (TRACE.replace("1000,3000", "3000,1000"), "line 2.*begins at 3000 and ends at 1000"),
        (TRACE.replace("1000,3000", "0,3000"), "line 2.*begins at 0"),
    ],
)
def test_damaged_tables_are_refused_with_the_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "kernels.csv"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_experiment(path, None, [])
    assert re.search(words, str(caught.value).replace("\n", " "))


@pytest.mark.parametrize("name", ["results.hip_stats.csv", "7_hip_api_stats.csv", "7_domain_stats.csv"])
def test_statistics_of_calls_are_no_kernels(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(STATISTICS + "hipMemcpy,2,583182462,291591231,99.78\n")
    with pytest.raises(FormatError):
        read_experiment(path)


@pytest.mark.parametrize(("name", "how"), [("a.nsys-rep", "nsys export"), ("a_results.db", "rocprofv3 --output")])
def test_files_that_must_be_exported_first_are_refused_with_the_command(tmp_path: Path, name: str, how: str) -> None:
    if name.endswith("db"):
        sqlite3.connect(tmp_path / name).execute("CREATE TABLE rocpd_string_1 (id INTEGER)").connection.close()
    else:
        (tmp_path / name).write_bytes(b"QUADD\0\0\1")
    for path in (tmp_path / name, tmp_path):
        with pytest.raises(FormatError, match=how):
            read_experiment(path)


def export(path: Path, launches: list[tuple[int, int, int, int]], **changes: str) -> Path:
    """Write an export with launches: process, name, start and end."""
    database = sqlite3.connect(path)
    columns = changes.get("columns", "start INTEGER, end INTEGER, demangledName INTEGER, globalPid INTEGER")
    database.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    database.executemany("INSERT INTO StringIds VALUES (?, ?)", [(1, "void relax<2>(int)"), (2, "copy")])
    database.execute(f"CREATE TABLE {changes.get('table', 'CUPTI_ACTIVITY_KIND_KERNEL')} ({columns})")
    if not changes:
        rows = [(start, end, name, process) for process, name, start, end in launches]
        database.executemany("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?)", rows)
    database.commit()
    database.close()
    return path


def test_an_export_has_the_processes_as_ranks(tmp_path: Path) -> None:
    path = export(tmp_path / "a ?#.sqlite", [(7, 1, 0, 3000), (7, 1, 5000, 6000), (7, 2, 0, 10), (8, 1, 0, 2000)])
    assert detect_format(path) == "nsight"
    table = read_experiment(path)
    assert kernels(table) == {"relax<2>(int)": pytest.approx([3e-6, 1.5]), "copy": pytest.approx([5e-9, 0.5])}
    assert table.over_locations("time", "max")[1, 0, 0] == pytest.approx(4e-6)


def test_exports_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    damaged = export(tmp_path / "damaged.sqlite", [(1, 1, 0, 10)] * 3000)
    damaged.write_bytes(damaged.read_bytes()[:9000])
    text = tmp_path / "text.sqlite"
    text.write_text("no database")
    for path, words in (
        (export(tmp_path / "empty.sqlite", []), "its table has no rows"),
        (export(tmp_path / "no table.sqlite", [], table="OTHER"), "it has no table CUPTI"),
        (export(tmp_path / "no names.sqlite", [], columns="start INTEGER"), "no times or names"),
        (export(tmp_path / "backwards.sqlite", [(1, 1, 9, 3)]), "ends before it begins"),
        (export(tmp_path / "nameless.sqlite", [(1, 5, 3, 9)]), "has no name"),
        (damaged, "cannot be read"),
    ):
        with pytest.raises(FormatError) as caught:
            read_experiment(path)
        assert words in str(caught.value), path
        assert str(path) in str(caught.value)
    with pytest.raises(FormatError):
        read_experiment(text)


def test_folders_named_for_a_point_are_runs_and_files_are_ranks(tmp_path: Path) -> None:
    for p in (1, 2, 4):
        for rank in range(p):
            folder = tmp_path / f"sweep.p{p}.r1" / f"host{rank % 2}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{rank}_kernel_stats.csv").write_text(ROCPROF_3.replace("6000", str(1000 * (rank + 1))))
            (folder / f"{rank}_kernel_trace.csv").write_text(TRACE)  # says the same
            (folder / f"{rank}_hip_api_stats.csv").write_text(STATISTICS + "hipMalloc,1,1,1,1\n")
    table = read_experiment(tmp_path)
    assert table.parameters == ("p",)
    assert table.over_locations("time")[1, :, 0] == pytest.approx([1e-6, 1.5e-6, 2.5e-6])
    assert table.over_locations("time", "sum")[1, :, 0] == pytest.approx([1e-6, 3e-6, 10e-6])
    assert (table.over_locations("visits")[1] == 3).all()


def test_a_damaged_run_leaves_the_others(tmp_path: Path) -> None:
    for n in (1, 2, 3):
        (tmp_path / f"sweep.n{n}").mkdir()
        (tmp_path / f"sweep.n{n}" / "a.csv").write_text(OLD if n != 2 else OLD + "cut,1\n")
    problems: list[Exception] = []
    assert len(read_experiment(tmp_path, None, problems).points) == 2  # type: ignore[arg-type]
    assert "sweep.n2/a.csv, line 3" in str(problems[0])
