"""What the runtime makes of programs that end, start others, are interrupted, load libraries or recurse."""

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest
from native_programs import HOOK_ALL, build, launch, profile_of, table, toolchain, write_filter

from buran.errors import RunError
from buran.measurement.backends.embedded import EmbeddedBackend
from buran.measurement.dump import read_dump
from buran.measurement.merge_dumps import read_dumps
from buran.measurement.toolchain.runtime import NATIVE
from patience import PATIENCE_S

pytestmark = pytest.mark.mpi

COMPILERS = ["clang", "gcc", "gcc-fallback"]


@pytest.fixture(scope="module", params=COMPILERS)
def ends(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"ends-{request.param}")
    return build(
        "ends.cpp", folder / "ends", tools=toolchain(request.param), filter_file=write_filter(folder, HOOK_ALL)
    )


@pytest.fixture(scope="module")
def clang_ends(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends-clang-only")
    return build("ends.cpp", folder / "ends", tools=toolchain("clang"), filter_file=write_filter(folder, HOOK_ALL))


def visits_of(profile, location=0):
    """Visits of the call paths that were visited, without signatures."""
    names = {path: row[location] for path, row in table(profile, "visits").items() if row[location]}
    return {re.sub(r"\([^>]*?\)(?=->|$)", "", path): count for path, count in names.items()}


def total(profile, metric):
    return sum(sum(row) for row in table(profile, metric).values())


# ---- ends


@pytest.mark.parametrize("how", ["exit", "_exit", "_Exit", "quick_exit", ""])
def test_profile_is_whole_however_the_program_leaves(ends, tmp_path, how):
    visits = visits_of(profile_of(ends, tmp_path / "run", how))
    leave = next(path for path in visits if path.startswith("main->leave") and not path.endswith("work"))
    assert visits["main"] == 1 and visits[leave] == 1 and visits[f"{leave}->work"] == 1


@pytest.mark.parametrize("how", ["abort", "segv", "kill"])
def test_killed_program_leaves_no_profile(ends, tmp_path, how):
    assert launch(ends, tmp_path / "run", how).returncode != 0
    with pytest.raises(RunError, match="1 of 1 ranks"):
        read_dumps(tmp_path / "run", 1)
    assert not list((tmp_path / "run").glob("**/*")) if (tmp_path / "run").exists() else True


def test_what_runs_before_and_after_main_is_recorded(ends, tmp_path):
    visits = visits_of(profile_of(ends, tmp_path / "run", ""))
    begin = next(path for path in visits if path.endswith("Early::begin"))
    end = next(path for path in visits if path.endswith("Early::end"))
    assert "main" not in begin and "main" not in end
    assert visits["registered->work"] == 1
    assert visits["at_unloading->work"] == 1
    assert visits[f"{begin}->work"] == visits[f"{end}->work"] == 1


def test_folder_is_meant_where_the_program_started(ends, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    launch(ends, Path("run"), "chdir")
    assert visits_of(read_dumps(tmp_path / "run", 1))["main"] == 1


# ---- other processes


@pytest.mark.parametrize("how", ["fork and exit", "fork and _exit", "fork and exec", "vfork", "system"])
def test_children_leave_no_profile_of_their_own(ends, tmp_path, how):
    profile = profile_of(ends, tmp_path / "run", how)
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["rank-000000.buran"]
    visits = visits_of(profile)
    assert visits["main"] == 1 and "main->leave" not in visits
    assert not [path for path in visits if "in_child" in path]
    assert int(profile.attributes["forks"]) == how.startswith("fork")


def test_vforked_child_does_not_bend_the_parents_call_path(ends, tmp_path):
    profile = profile_of(ends, tmp_path / "run", "vfork")
    if profile.attributes["toolchain"] == "gcc-fallback":
        pytest.skip("without a plugin, calls appear below a function that was left until the next return")
    visits = visits_of(profile)
    assert visits["main->vforks->work"] == 1
    assert visits["registered"] == 1  # not below a function that was left long ago


def test_program_that_replaces_itself_leaves_the_last_ones_profile(ends, tmp_path):
    visits = visits_of(profile_of(ends, tmp_path / "run", "exec"))
    assert visits["main"] == 1
    assert [path for path in visits if path.startswith("main->leave")]


# ---- signals


def handler_cost(binary, folder, times):
    """Blocks of one visit of the signal handler."""
    few, many = (profile_of(binary, folder / str(n), "raised", str(n)) for n in (times, 2 * times))
    return (total(many, "basic_blocks") - total(few, "basic_blocks")) / times


def test_signal_handlers_neither_lose_nor_invent_counts(clang_ends, tmp_path):
    turns = 3_000_000
    quiet = profile_of(clang_ends, tmp_path / "quiet", "interrupted", str(turns), "0")
    done = launch(clang_ends, tmp_path / "busy", "interrupted", str(turns), "30")
    handled = int(done.stdout.split()[0])
    assert handled > 50
    busy = read_dumps(tmp_path / "busy", 1)
    skipped = int(busy.attributes["visits_in_interrupted_hooks"])
    assert skipped > 0  # or the test has met no hook
    visits = visits_of(busy)
    assert visits["main->interrupted->tiny"] == turns
    assert sum(count for path, count in visits.items() if path.endswith("on_signal")) == handled - skipped / 2
    per_turn = 1  # of the loop in raised()
    each = handler_cost(clang_ends, tmp_path, 1000) - per_turn
    assert total(busy, "basic_blocks") - total(quiet, "basic_blocks") == each * handled
    assert all(path.startswith("main") or "->" not in path or "main" not in path for path in visits)


def test_jumping_out_of_a_hook(clang_ends, tmp_path):
    visits = visits_of(profile_of(clang_ends, tmp_path / "run", "jumped", "300"))
    assert visits["main->jumped_out_of"] == 1
    assert visits["main->jumped_out_of->work"] == 1
    assert visits["registered->work"] == 1
    assert visits["main->jumped_out_of->tiny"] > 300


# ---- memory


def test_instrumented_allocator(ends, tmp_path):
    visits = visits_of(profile_of(ends, tmp_path / "run", "allocates", "1000"))
    assert sum(count for path, count in visits.items() if path.endswith("on_allocation->work")) == 1000


def test_too_many_call_paths_are_no_valid_profile(ends, tmp_path, monkeypatch):
    assert len(profile_of(ends, tmp_path / "all", "fan", "8").tree) > 511
    monkeypatch.setenv("BURAN_NODE_LIMIT", "100")
    done = launch(ends, tmp_path / "run", "fan", "14")
    assert done.returncode == 0  # the program itself has done its work
    assert "BURAN_NODE_LIMIT=100" in done.stderr
    with pytest.raises(RunError, match="BURAN_NODE_LIMIT") as caught:
        read_dumps(tmp_path / "run", 1)
    assert "refinement.drop" in str(caught.value)
    (tmp_path / "stderr.log").write_text(f"its own words\n{done.stderr}\nKilled\n")  # had it failed later
    why = EmbeddedBackend(toolchain(), tmp_path / "toolchain.json").why_failed(tmp_path / "stderr.log")
    assert why is not None and "BURAN_NODE_LIMIT=100" in why and "refinement.drop" in why


def test_memory_is_reported(ends, tmp_path):
    small, large = (profile_of(ends, tmp_path / str(n), "fan", str(n)).attributes for n in (1, 12))
    assert int(small["call_paths_per_rank"]) < 60 < 8000 < int(large["call_paths_per_rank"])
    assert 10_000 < int(small["memory_bytes_per_rank"]) < 2e6
    assert int(large["memory_bytes_per_rank"]) > 88 * 8000
    assert small["call_path_limit"] == "262144"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("BURAN_NODE_LIMIT", "many"),
        ("BURAN_DEPTH_LIMIT", "0"),
        ("BURAN_DEPTH_LIMIT", "-3"),
        ("BURAN_THREAD_LIMIT", "1e3"),
        ("BURAN_RECURSION", "sometimes"),
        ("BURAN_CLOCK", "sundial"),
        ("BURAN_CPU_CLOCK", "sundial"),
    ],
)
def test_wrong_settings_stop_the_program_before_it_begins(clang_ends, tmp_path, monkeypatch, variable, value):
    monkeypatch.setenv(variable, value)
    done = launch(clang_ends, tmp_path / "run", "work")
    assert done.returncode == 2
    assert f"buran: {variable}: must be" in done.stderr
    (tmp_path / "stderr.log").write_text(done.stderr)
    backend = EmbeddedBackend(toolchain(), tmp_path / "toolchain.json")
    assert f"buran: {variable}: must be" in str(backend.why_failed(tmp_path / "stderr.log"))
    (tmp_path / "stderr.log").write_text("its own words\n")
    assert backend.why_failed(tmp_path / "stderr.log") is None


# ---- recursion


def test_recursion_unfolded_to_a_depth(ends, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_DEPTH_LIMIT", "6")
    profile = profile_of(ends, tmp_path / "run", "down", "20")
    assert profile.tree.depth.max() == 6
    assert profile.attributes["depth_limit"] == "6"
    assert int(profile.attributes["visits_below_depth_limit"]) > 20
    whole = profile_of(ends, tmp_path / "whole", "down", "3")
    assert whole.attributes["recursion"] == "unfold"
    assert visits_of(whole)["main->down->other->down->down->down"] == 1


def test_folded_recursion_keeps_all_counts(ends, tmp_path, monkeypatch):
    unfolded = profile_of(ends, tmp_path / "unfolded", "down", "60")
    monkeypatch.setenv("BURAN_RECURSION", "fold")
    folded = profile_of(ends, tmp_path / "folded", "down", "60")
    assert folded.attributes["recursion"] == "fold"
    visits = visits_of(folded)
    assert visits["main->down"] == 61 and visits["main->down->other"] == 20
    assert visits["main->down->work"] == 40 and visits["main->down->other->work"] == 20
    assert not [path for path in visits if path.count("down") > 1]
    for metric in ("visits", "basic_blocks"):
        assert total(folded, metric) == total(unfolded, metric)
    time = folded.values["time"]
    assert (folded.exclusive("time") >= -1e-9).all() and (time <= time[0] + 1e-9).all()


# ---- libraries


def library(folder, name, tools, mode="effort"):
    flags = ("-O1", "-fPIC", "-shared", f"-DNAME={name}")
    filter_file = write_filter(folder, HOOK_ALL)
    return build("plugged.c", folder / f"lib{name}.so", mode=mode, tools=tools, flags=flags, filter_file=filter_file)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_libraries_may_be_unloaded(tmp_path, compiler):
    tools = toolchain(compiler)
    filter_file = write_filter(tmp_path, HOOK_ALL)
    binary = build("ends.cpp", tmp_path / "ends", tools=tools, filter_file=filter_file)
    libraries = [str(library(tmp_path, name, tools)) for name in ("one", "two")]
    profile = profile_of(binary, tmp_path / "run", "plugged", "20", *libraries)
    visits = visits_of(profile)
    assert {path: count for path, count in visits.items() if "only_in" in path} == {
        "main->plugged->plugged_entry->only_in_one": 10,
        "main->plugged->plugged_entry->only_in_two": 10,
    }
    # Known again when they come back: they take no more memory.
    once = profile_of(binary, tmp_path / "once", "plugged", "2", *libraries)
    assert once.attributes["call_paths_per_rank"] == profile.attributes["call_paths_per_rank"]


def test_libraries_need_not_be_instrumented(clang_ends, tmp_path):
    plain = library(tmp_path, "plain", toolchain("clang"), mode="vanilla")
    visits = visits_of(profile_of(clang_ends, tmp_path / "run", "plugged", "3", str(plain)))
    assert visits["main->plugged"] == 1 and not [path for path in visits if "only_in" in path]


# ---- where the profile goes


def limited(binary, folder, command):
    return subprocess.run(
        ["bash", "-c", f'{command}; exec "$0" fan 10', str(binary)],
        env={**os.environ, "BURAN_PROFILE_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )


def test_limit_of_file_size(clang_ends, tmp_path):
    done = limited(clang_ends, tmp_path / "run", "ulimit -f 1")
    assert done.returncode == 0
    assert "buran: cannot write" in done.stderr and "File too large" in done.stderr
    assert list((tmp_path / "run").iterdir()) == []
    with pytest.raises(RunError, match="could not write"):
        read_dumps(tmp_path / "run", 1)


def test_full_disk(clang_ends, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        done = limited(clang_ends, disk / "run", ":")
        assert "buran: cannot write" in done.stderr and "No space left" in done.stderr
        assert list((disk / "run").iterdir()) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_folder_that_cannot_be_made(clang_ends, tmp_path):
    (tmp_path / "file").write_text("")
    done = launch(clang_ends, tmp_path / "file" / "run", "work")
    assert "buran: cannot create" in done.stderr and "Not a directory" in done.stderr


@pytest.mark.parametrize(
    ("rank", "size", "name"),
    [
        (0, 1, "rank-000000.buran"),
        (1023, 1024, "rank-001023.buran"),
        (0, 1025, "ranks-000000/rank-000000.buran"),
        (5000, 9000, "ranks-004096/rank-005000.buran"),
    ],
)
def test_many_ranks_do_not_write_into_one_folder(shard, tmp_path, rank, size, name):
    assert launch(shard, tmp_path / "run", str(rank), str(size)).returncode == 0
    assert [str(path.relative_to(tmp_path / "run")) for path in (tmp_path / "run").rglob("*.buran")] == [name]
    dump = read_dump(tmp_path / "run" / name)
    assert (dump.rank, dump.size) == (rank, size)


@pytest.fixture(scope="module")
def shard(tmp_path_factory):
    return build("shard.c", tmp_path_factory.mktemp("shard") / "shard", mode="time", flags=("-O1", f"-I{NATIVE}"))


# ---- the clock


@pytest.mark.parametrize("clock", ["counter", "system"])
def test_clocks_agree(clang_ends, tmp_path, monkeypatch, clock):
    monkeypatch.setenv("BURAN_CLOCK", clock)
    done = launch(clang_ends, tmp_path / "run", "work")
    if "does not run at a constant rate" in done.stderr:
        pytest.skip("no constant counter on this machine")
    profile = read_dumps(tmp_path / "run", 1)
    name = profile.attributes["clock"]
    assert (name == "CLOCK_MONOTONIC") == (clock == "system")
    hertz = float(profile.attributes["clock_hz"])
    assert hertz == 1e9 if clock == "system" else 1e6 < hertz < 1e10
    assert 0 < profile.values["time"][0, 0] < 5


def test_profile_without_a_clock_has_no_time(clang_ends, tmp_path, monkeypatch):
    timed = profile_of(clang_ends, tmp_path / "timed", "down", "30")
    monkeypatch.setenv("BURAN_CLOCK", "none")
    profile = profile_of(clang_ends, tmp_path / "run", "down", "30")
    assert "time" not in profile.metrics and profile.attributes["clock"] == "none"
    assert set(timed.metrics) - set(profile.metrics) in ({"time", "wall_time"}, {"time", "wall_time", "cpu_time"})
    for metric in ("visits", "basic_blocks"):
        assert table(profile, metric) == table(timed, metric)


def test_calibration_repeats(clang_ends, tmp_path):
    rates = []
    for name in ("a", "b"):
        launch(clang_ends, tmp_path / name, "work")
        rates.append(read_dump(tmp_path / name / "rank-000000.buran").ticks_per_second)
    assert abs(rates[0] / rates[1] - 1) < 1e-3


# ---- MPI


@pytest.fixture(scope="module")
def mpi_ends(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mpi-ends")
    return build("mpi_ends.c", folder / "ends", filter_file=write_filter(folder, HOOK_ALL))


@pytest.mark.parametrize(
    ("how", "why"), [("no finalize", "without MPI_Finalize"), ("exit", "without MPI_Finalize"), ("abort", "MPI_Abort")]
)
def test_program_that_ends_too_early_is_not_complete(mpi_ends, tmp_path, how, why):
    launch(mpi_ends, tmp_path / "run", how)
    with pytest.raises(RunError) as caught:
        read_dumps(tmp_path / "run", 1)
    assert "is not complete" in str(caught.value) and why in str(caught.value)


def test_fatal_mpi_error_is_no_complete_profile(mpi_ends, tmp_path):
    assert launch(mpi_ends, tmp_path / "run", "error", ranks=2).returncode != 0
    with pytest.raises(RunError):
        read_dumps(tmp_path / "run", 2)


def test_one_rank_aborts(mpi_ends, tmp_path):
    assert launch(mpi_ends, tmp_path / "run", "abort", ranks=2).returncode != 0
    with pytest.raises(RunError):
        read_dumps(tmp_path / "run", 2)


def test_mpi_calls_from_several_threads(mpi_ends, tmp_path):
    done = launch(mpi_ends, tmp_path / "run", "threads", ranks=2)
    if done.returncode == 77:
        pytest.skip("this MPI has no MPI_THREAD_MULTIPLE")
    assert done.returncode == 0, done.stderr
    profile = read_dumps(tmp_path / "run", 2)
    assert [location.thread for location in profile.locations] == [0, 1, 2, 3] * 2
    path = "main->from_threads->talk->exchange"
    for metric, operation, each in (
        ("visits", "MPI_Irecv", 1),
        ("visits", "MPI_Isend", 1),
        ("visits", "MPI_Waitall", 1),
        ("bytes_sent", "MPI_Isend", 16),
        ("bytes_received", "MPI_Waitall", 16),
    ):
        assert table(profile, metric)[f"{path}->{operation}"] == [0, 400 * each, 400 * each, 400 * each] * 2


def test_the_place_of_a_process_is_told(clang_ends, tmp_path, monkeypatch):
    cpu = min(os.sched_getaffinity(0))
    place = {"ranks": "0", "cpus": str(cpu)}
    bound = ["taskset", "--cpu-list", str(cpu)]
    for job, host in ((None, socket.gethostname()), ("1", "node7")):
        monkeypatch.setenv("SLURMD_NODENAME", "node7")
        monkeypatch.setenv("SLURM_JOB_ID", job) if job else monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        folder = tmp_path / host
        subprocess.run([*bound, clang_ends, "work"], env={**os.environ, "BURAN_PROFILE_DIR": str(folder)}, check=True)
        assert json.loads(read_dumps(folder, 1).attributes["placement"]) == [{"host": host, **place}]
