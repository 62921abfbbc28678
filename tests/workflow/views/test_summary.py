"""Where a program said why it failed."""

from __future__ import annotations

from pathlib import Path

from buran.workflow.views.summary import output_of, words_in

LAUNCHER = f"{'-' * 74}\nmpiexec detected that one or more processes exited.\n  Exit code:    1\n{'-' * 74}\n"


def test_what_launchers_add_is_no_reason(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_text("step 1\nError: 292 negative side volumes\n")
    (tmp_path / "stderr.log").write_text(2 * LAUNCHER)
    assert output_of(tmp_path) == "stdout.log"
    assert words_in(tmp_path / "stdout.log")[-1] == "Error: 292 negative side volumes"
    (tmp_path / "stderr.log").write_text(f"out of memory\n{LAUNCHER}")
    assert output_of(tmp_path) == "stderr.log" and words_in(tmp_path / "stderr.log") == ["out of memory"]


def test_what_simgrid_logs_is_no_reason(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_text("** Error ** [pe 0] DRIVER; CODE = -1\n")
    logged = (
        "[node0:0:(1) 0.000197] ./src/smpi/bindings/smpi_pmpi.cpp:138: [smpi_pmpi/WARNING] MPI_Abort was called",
        "[0.000197] ./src/kernel/EngineImpl.cpp:718: [ker_engine/CRITICAL] Oops! Deadlock detected",
    )
    (tmp_path / "stderr.log").write_text("\n".join(logged))
    assert output_of(tmp_path) == "stdout.log"
    (tmp_path / "stderr.log").write_text("\n".join([*logged, "[1] wrong input"]))
    assert words_in(tmp_path / "stderr.log") == ["[1] wrong input"]


def test_a_run_that_said_nothing_points_to_its_errors(tmp_path: Path) -> None:
    assert output_of(tmp_path) == "stderr.log" and words_in(tmp_path / "stderr.log") == []
