"""Threads: a location for each, below the call path that started it, with nothing lost."""

import shutil

import pytest
from native_programs import HOOK_ALL, build, launch, profile_of, table, toolchain, write_filter

from buran.measurement.merge_dumps import read_dumps
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex

pytestmark = pytest.mark.mpi

COMPILERS = ["clang", "gcc", "gcc-fallback"]


def compiled(source, compiler, folder, *flags):
    if compiler == "clang" and not shutil.which("clang-16"):
        pytest.skip("no clang on this machine")
    return build(
        source,
        folder / source.split(".")[0],
        tools=toolchain(compiler),
        flags=("-O2", *flags),
        filter_file=write_filter(folder, HOOK_ALL),
    )


@pytest.fixture(scope="module", params=COMPILERS)
def openmp(request, tmp_path_factory):
    return compiled("openmp.c", request.param, tmp_path_factory.mktemp(f"openmp-{request.param}"), "-fopenmp")


def run_openmp(binary, folder, threads, monkeypatch, *arguments):
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    monkeypatch.setenv("OMP_MAX_ACTIVE_LEVELS", "2")
    monkeypatch.setenv("OMP_DYNAMIC", "false")
    return profile_of(binary, folder, *arguments)


def totals(profile, metric):
    return {path: sum(row) for path, row in table(profile, metric).items()}


def test_openmp_counts_add_up_to_those_of_one_thread(openmp, tmp_path, monkeypatch):
    one, *more = (run_openmp(openmp, tmp_path / str(n), n, monkeypatch) for n in (1, 2, 3))
    assert len(one.locations) == 1
    for threads, profile in enumerate(more, start=2):
        assert len(profile.locations) >= threads  # nested regions make more
        # Bodies of parallel regions are visited once by each thread; functions they call are visited as often.
        same = [path for path in totals(one, "visits") if path.endswith("->work") or path == "main"]
        assert len(same) == 9
        for metric in ("visits", "basic_blocks"):
            expected, got = totals(one, metric), totals(profile, metric)
            assert {path: got[path] for path in same} == {path: expected[path] for path in same}
            assert set(got) == set(expected)
        # What a parallel region costs by itself: some blocks for each thread of each region.
        blocks, alone = totals(profile, "basic_blocks"), totals(one, "basic_blocks")
        # Except where chunks are dealt out: how many blocks that takes depends on who asks when.
        assert {path for path in alone if abs(blocks[path] - alone[path]) > 60 * threads} <= {"main->dynamic"}


def test_openmp_threads_work_below_the_call_path_that_forked_them(openmp, tmp_path, monkeypatch):
    profile = run_openmp(openmp, tmp_path / "run", 2, monkeypatch, "1000", "400")
    visits = table(profile, "visits")
    assert visits["main->fixed->work"][:2] == [500, 500]
    assert sum(visits["main->orphaned->shared_loop->work"]) == 1000
    assert visits["main->orphaned->shared_loop"][:2] == [1, 1]
    assert sum(visits["main->nested->inner->work"]) == 4 * 20
    assert sum(visits["main->nested->inner"]) == 4
    assert {row[1] for path, row in visits.items() if path in ("main", "main->fixed", "main->nested")} == {0}
    assert not [path for path in visits if not path.startswith("main") and path]
    # Between two regions a thread belongs to nobody, and is idle for nobody.
    for metric in ("time", "wall_time"):
        time = table(profile, metric)
        assert time[""][1] == time["main"][1]
    assert time["main"][0] > 0.4 and time["main"][0] - time["main"][1] > 0.39  # it sleeps alone
    idle, imbalance = table(profile, "team_idle_time"), table(profile, "team_imbalance")
    assert (
        idle["main->fixed"][0] > 0 and idle["main->fixed"][1] == 0 and idle["main->fixed->work"] == [0] * len(idle[""])
    )
    assert 0 <= imbalance["main->fixed"][0] <= idle["main->fixed"][0]


def test_openmp_tasks_work_for_those_who_made_them(openmp, tmp_path, monkeypatch):
    path = "main->tasks" + "->tree" * 6 + "->work"
    for threads in (1, 2):
        visits = totals(run_openmp(openmp, tmp_path / str(threads), threads, monkeypatch), "visits")
        assert visits[path] == 2**5
        assert visits["main->tasks->tree->tree->tree"] == 4
        assert visits["main->task_reduction->work"] == 20
        assert visits["main->handed_over->make->work"] == 1


def test_openmp_profile_survives_cubex(openmp, tmp_path, monkeypatch):
    profile = run_openmp(openmp, tmp_path / "run", 2, monkeypatch)
    write_cubex(profile, tmp_path / "profile.cubex")
    again = read_cubex(tmp_path / "profile.cubex")
    assert again.locations == profile.locations
    assert again.tree.names == profile.tree.names
    for metric, values in profile.values.items():
        assert (again.values[metric] == values).all()


@pytest.fixture(scope="module", params=COMPILERS)
def threads(request, tmp_path_factory):
    return compiled("threads.cpp", request.param, tmp_path_factory.mktemp(f"threads-{request.param}"))


def by_path(profile, suffix):
    """Visits of the call paths that end with a function, without the signature of `run`."""
    return {
        path.replace("run(void* (*)(void*), long)", "run"): row
        for path, row in table(profile, "visits").items()
        if path.endswith(suffix) and any(row)
    }


def test_threads_hang_below_the_call_path_that_created_them(threads, tmp_path):
    found = by_path(profile_of(threads, tmp_path / "run", "paths"), "->work(long)")
    assert found == {
        "main->from_here(long)->run->plain(void*)->work(long)": [0, 1, 0, 0, 0],
        "main->from_there(long)->run->plain(void*)->work(long)": [0, 0, 1, 0, 0],
        "main->run->starting_another(void*)->from_there(long)->run->plain(void*)->work(long)": [0, 0, 0, 0, 1],
    }


def test_thread_that_leaves_from_deep_in_its_call_path(threads, tmp_path):
    profile = profile_of(threads, tmp_path / "run", "leaving")
    assert by_path(profile, "leave_from_deep(long)->work(long)") == {
        "main->run->leaving(void*)->leave_from_deep(long)->work(long)": [0, 1]
    }
    # Its counter dies with it, and has been copied.
    blocks = {path: row[1] for path, row in table(profile, "basic_blocks").items() if row[1]}
    assert sum(blocks.values()) > 50
    assert [count for path, count in blocks.items() if path.endswith("leave_from_deep(long)") and count > 50]


def test_destructors_of_a_threads_data_are_recorded(threads, tmp_path):
    profile = profile_of(threads, tmp_path / "run", "destructor")
    visits = {path: row for path, row in table(profile, "visits").items() if "at_end(void*)" in path}
    assert sorted(row[1] for row in visits.values()) == [1, 1]
    blocks = {
        path: row[1]
        for path, row in table(profile, "basic_blocks").items()
        if path.endswith("at_end(void*)->work(long)")
    }
    assert sum(blocks.values()) > 40


def test_cpp_threads(threads, tmp_path):
    profile = profile_of(threads, tmp_path / "run", "cpp")
    work = {path: row for path, row in table(profile, "visits").items() if path.endswith("work(long)")}
    assert len(profile.locations) == 3
    assert all(path.startswith("main->cpp_threads(long)->") for path in work)
    assert [sum(row[i] for row in work.values()) for i in range(3)] == [0, 1, 1]


def test_thread_that_still_runs_at_the_end(threads, tmp_path):
    profile = profile_of(threads, tmp_path / "run", "detached")
    row = table(profile, "visits")["main->not_joined()->endless(void*)"]
    assert row == [0, 1]
    assert profile.attributes["threads_running_at_exit"] == "1"


def test_main_may_leave_before_its_threads(threads, tmp_path):
    profile = profile_of(threads, tmp_path / "run", "main leaves")
    assert table(profile, "visits")["main->plain(void*)->work(long)"] == [0, 1]
    assert table(profile, "visits")["main"] == [1, 0]


def test_threads_without_end_share_locations(threads, tmp_path, monkeypatch):
    separate = profile_of(threads, tmp_path / "separate", "many", "20")
    assert len(separate.locations) == 21
    assert separate.attributes["threads_sharing_a_location"] == "0"
    monkeypatch.setenv("BURAN_THREAD_LIMIT", "4")
    shared = profile_of(threads, tmp_path / "shared", "many", "20")
    assert len(shared.locations) == 4
    assert shared.attributes["threads_sharing_a_location"] == "17"
    for metric in ("visits", "basic_blocks"):
        assert totals(shared, metric) == totals(separate, metric)


def test_instrumented_threads_do_not_change_the_program(openmp, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    original = build("openmp.c", tmp_path / "original", mode="vanilla", flags=("-O2", "-fopenmp"))
    assert launch(openmp, tmp_path / "run").stdout == launch(original, tmp_path / "none").stdout
    assert len(read_dumps(tmp_path / "run", 1).locations) >= 2
