"""What gprof and perf print."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from buran.errors import FormatError, UsageError
from buran.files import not_synced
from buran.modeling.experiments import model_experiment
from buran.plugins.formats.gprof import read_gprof
from buran.plugins.formats.perf_stat import read_perf_stat
from buran.profiles.experiment.read import read_experiment, read_single_run
from buran.workflow.session import open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import models_of, write_campaign

PERF = """# started on Mon Nov 23 06:39:39 2026

<not supported>,,instructions:u,0,100.00,,
5.46,msec,task-clock,5464167,100.00,0.817,CPUs utilized
62,,page-faults,5464167,100.00,11.347,K/sec
6688950,ns,duration_time,6688950,100.00,1.224,G/sec
12,MiB,ext/read-bytes/,6688950,100.00,,
"""
GPROF = """Flat profile:

Each sample counts as 0.01 seconds.
  %   cumulative   self              self     total
 time   seconds   seconds    calls  ms/call  ms/call  name
 90.17      0.45     0.45        4   112.69   112.69  leaf
  9.00      0.50     0.05                             main
  0.00      0.50     0.00        1     0.00   338.06  ns::mid(int, char const*)
"""


def test_perf_stat_is_read_with_our_names_and_units(tmp_path: Path) -> None:
    path = tmp_path / "perf.csv"
    path.write_text(PERF)
    table = read_experiment(path)
    values = {name: table.over_locations(name).item() for name in table.metrics}
    assert values == pytest.approx(
        {"task_clock": 5.46e-3, "page_faults": 62, "duration_time": 6.68895e-3, "ext_read_bytes_": 12}
    )
    assert table.units["task_clock"] == table.units["duration_time"] == "sec"
    assert table.units["ext_read_bytes_"] == "MiB"


def test_gprof_is_read_as_functions_of_the_program(tmp_path: Path) -> None:
    path = tmp_path / "profile.txt"
    path.write_text(GPROF)
    table = read_experiment(path)
    names = table.tree.names
    seconds = dict(zip(names, table.over_locations("time")[:, 0, 0], strict=True))
    visits = dict(zip(names, table.over_locations("visits")[:, 0, 0], strict=True))
    assert seconds["program->leaf"] == 0.45
    assert visits["program->leaf"] == 4
    assert seconds["program->main"] == 0.05
    assert visits["program->ns::mid(int, char const*)"] == 1
    assert read_single_run(path).values["time"][0, 0] == pytest.approx(0.5)


def test_folders_have_a_file_for_each_rank(tmp_path: Path) -> None:
    for n, ranks in ((1, 1), (2, 2)):
        (tmp_path / f"runs.n{n}.r1").mkdir()
        for rank in range(ranks):
            (tmp_path / f"runs.n{n}.r1" / f"{rank}.txt").write_text(
                GPROF.replace("0.45        4", f"0.45        {4 + rank}")
            )
    table = read_experiment(tmp_path)
    leaf = table.tree.names.index("program->leaf")
    assert table.parameters == ("n",)
    assert table.over_locations("visits")[leaf, :, 0].tolist() == [4, 4.5]
    assert table.over_locations("visits", "sum")[leaf, :, 0].tolist() == [4, 9]


def test_ranks_with_other_events_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,,cycles,0,100.00,,\n2,,instructions,0,100.00,,\n")
    (tmp_path / "b.csv").write_text("1,,cycles,0,100.00,,\n<not counted>,,instructions,0,0.00,,\n")
    with pytest.raises(FormatError, match="instructions"):
        read_experiment(tmp_path)


def test_one_run_makes_no_model(tmp_path: Path) -> None:
    path = tmp_path / "perf.csv"
    path.write_text(PERF)
    with pytest.raises(UsageError, match="different parameters"):
        model_experiment(read_experiment(path))


@pytest.mark.parametrize(
    ("read", "text", "words"),
    [
        (read_perf_stat, "<not supported>,,cycles,0,100.00,,\n", "perf counted nothing"),
        (read_perf_stat, "1,,cycles,0,100.00,,\nnonsense\n", "line 2"),
        (read_perf_stat, "1,,cycles,0,100.00,,\n1,,cycles:u,0,100.00,,\n", "twice"),
        (read_gprof, "Flat profile:\n\nno time accumulated\n", "empty"),
        (read_gprof, GPROF + GPROF.splitlines()[-1] + "\n", "twice"),
    ],
)
def test_output_of_a_tool_that_cannot_be_used_is_refused(
    tmp_path: Path, read: Callable[[Path], object], text: str, words: str
) -> None:
    path = tmp_path / "output.txt"
    path.write_text(text)
    with pytest.raises(FormatError, match=words):
        read(path)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gprof") is None, reason="gprof is not installed")
def test_a_program_measured_with_gprof(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = {
        "extra_flags": "-pg",
        "afterwards": 'gprof -b -p "$BURAN_BINARY" gmon.out > profile.txt',
        "profile": "profile.txt",
    }
    program = {"source": "source", "build": "{cc} {flags} -o loops loops.c", "binary": "loops", "run": "{binary} {n}"}
    sizes = {"n": {"role": "size", "values": [20, 40, 60, 80, 100]}}
    path = write_campaign(tmp_path, command, program=program, parameters=sizes, metrics=["time", "visits"])
    (tmp_path / "source" / "loops.c").write_text(
        "#include <stdlib.h>\nvolatile double s;\n"
        "__attribute__((noinline)) void turn(void) { for (int i = 0; i < 400000; i++) s += i; }\n"
        "int main(int c, char **v) { for (int i = atoi(v[1]); i > 0; i--) turn(); return 0; }\n"
    )
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    with not_synced():
        session = open_session(path)
        carry_out(session)
    visits = models_of(session)["visits"]
    turn = visits.models[visits.call_paths.index("program->turn")]
    assert turn.function.lead(0) == (1, 0)
