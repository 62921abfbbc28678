"""Counters of the processor and the kernel: numbers where there are some, a reason where there are none."""

import errno
import os
import subprocess

import numpy as np
import pytest
from native_programs import HOOK_ALL, build, launch, profile_of, table, toolchain, write_filter
from test_dump import INFO, NODES, REGIONS, put, seal, text

from buran.measurement.dump import HEADER, NODE, VERSION
from buran.measurement.merge_dumps import read_dumps
from buran.profiles.cubex_read import read_cubex
from buran.profiles.cubex_write import write_cubex

HARDWARE = ("instructions", "cycles", "cache_misses", "branch_misses")
SOFTWARE = ("page_faults", "task_clock", "context_switches")


@pytest.fixture(scope="module", params=["clang", "gcc", "gcc-fallback"])
def counted(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(f"counted-{request.param}")
    tools = toolchain(request.param)
    return build("counted.c", folder / "counted", tools=tools, filter_file=write_filter(folder, HOOK_ALL), mode="time")


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    """What this machine says of an event, asked for without the runtime."""
    folder = tmp_path_factory.mktemp("probe")
    (folder / "probe.c").write_text(PROBE)
    subprocess.run(["cc", folder / "probe.c", "-o", folder / "probe"], check=True)

    def is_there(kind, number, kernel):
        return subprocess.run([folder / "probe", str(kind), str(number), str(kernel)]).returncode == 0

    return is_there


PROBE = r"""
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct perf_event_attr event = {.size = sizeof event, .type = atoi(argv[1]), .config = atoi(argv[2]),
                                    .exclude_kernel = !atoi(argv[3]), .exclude_hv = 1};
    return syscall(SYS_perf_event_open, &event, 0, -1, -1, 0) < 0;
}
"""


@pytest.fixture
def needs_page_faults(probe):
    if not probe(1, 2, 0):
        pytest.skip("this machine allows no counters at all")


def exclusive(profile, metric):
    """Sums over locations by call path, without those of callees."""
    names = ["->".join(name.split("->")[1:]) for name in profile.tree.names]
    return dict(zip(names, profile.exclusive(metric).sum(axis=1).tolist(), strict=True))


@pytest.mark.mpi
def test_resident_memory_is_the_most_at_a_time(counted, tmp_path):
    few, many = (
        profile_of(counted, tmp_path / pages, pages, "in turn").values["resident_bytes"] for pages in ("10", "10010")
    )
    assert few[0, 0] > 100_000
    assert not few[1:].any() and not few[:, 1:].any()
    # The second thread has three times as many pages; the others have given theirs back by then.
    page = os.sysconf("SC_PAGESIZE")
    assert 29_000 * page < many[0, 0] - few[0, 0] < 33_000 * page


@pytest.mark.mpi
@pytest.mark.usefixtures("needs_page_faults")
def test_counters_of_the_kernel_belong_to_the_call_path_that_caused_them(counted, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_COUNTERS", "page_faults,task_clock")
    profile = profile_of(counted, tmp_path / "run", "1000")
    assert profile.metrics["task_clock"].unit == "sec" and profile.metrics["page_faults"].unit == "occ"
    assert "counters_unavailable" not in profile.attributes
    faults = table(profile, "page_faults")
    # Two visits; each may need some pages for other things.
    assert 2000 <= sum(faults["main->pages"]) < 2060
    assert sum(faults["main->works"]) < 30 and sum(faults["main->sleeps"]) < 30
    clock, time = exclusive(profile, "task_clock"), exclusive(profile, "wall_time")
    assert 0.03 < clock["main->works"] < 0.1
    assert time["main->sleeps"] > 0.04
    assert clock["main->sleeps"] < time["main->sleeps"] / 2
    # Its own time is contained in that of its callers.
    inclusive = table(profile, "task_clock")
    assert inclusive["main"][0] >= inclusive["main->works"][0] + inclusive["main->sleeps"][0]


@pytest.mark.mpi
@pytest.mark.usefixtures("needs_page_faults")
def test_each_thread_counts_for_itself(counted, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_COUNTERS", "page_faults")
    faults = table(profile_of(counted, tmp_path / "run", "1000"), "page_faults")["main->in_thread->pages"]
    assert faults[0] == 0
    assert 2000 <= faults[1] < 2030 and 3000 <= faults[2] < 3030


@pytest.mark.mpi
@pytest.mark.usefixtures("needs_page_faults")
def test_threads_that_share_a_location_count_together(counted, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_COUNTERS", "page_faults")
    monkeypatch.setenv("BURAN_THREAD_LIMIT", "2")
    profile = profile_of(counted, tmp_path / "run", "1000", "in turn")
    assert profile.attributes["threads_sharing_a_location"] == "1"
    faults = table(profile, "page_faults")["main->in_thread->pages"]
    assert len(faults) == 2 and 5000 <= faults[1] < 5060


@pytest.mark.mpi
@pytest.mark.usefixtures("needs_page_faults")
def test_what_comes_after_the_last_hook_is_counted(counted, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_COUNTERS", "page_faults,task_clock")
    profile = profile_of(counted, tmp_path / "run", "1000", "leaves")
    assert 2000 <= sum(table(profile, "page_faults")["main->pages"]) < 2060


@pytest.mark.mpi
def test_context_switches_are_counted_or_missing_but_not_zero(counted, tmp_path, monkeypatch, probe):
    monkeypatch.setenv("BURAN_COUNTERS", "context_switches")
    profile = profile_of(counted, tmp_path / "run", "10")
    if probe(1, 3, 1):
        assert sum(table(profile, "context_switches")["main->sleeps"]) >= 20
    else:
        assert "context_switches" not in profile.metrics
        assert "perf_event_paranoid" in profile.attributes["counters_unavailable"]


@pytest.mark.mpi
def test_what_the_machine_lacks_is_said_and_no_metric(counted, tmp_path, monkeypatch, probe):
    names = (*HARDWARE, *SOFTWARE)
    monkeypatch.setenv("BURAN_COUNTERS", ",".join(names))
    profile = profile_of(counted, tmp_path / "run", "1000")
    missing = [line.split(": ")[0] for line in profile.attributes.get("counters_unavailable", "").split("; ")]
    for name in names:
        assert (name in profile.metrics) != (name in missing), name
    lacking = [name for name, number in zip(HARDWARE, (1, 0, 3, 5), strict=True) if not probe(0, number, 0)]
    assert set(lacking) <= set(missing)
    for name in set(profile.metrics) & {"instructions", "cycles"}:
        assert sum(table(profile, name)["main->works"]) > 100_000


@pytest.mark.mpi
@pytest.mark.usefixtures("needs_page_faults")
def test_counter_that_one_thread_cannot_open_is_no_metric(counted, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_COUNTERS", "page_faults,task_clock")
    profile = profile_of(counted, tmp_path / "run", "10", "threads without files")
    assert not set(SOFTWARE) & set(profile.metrics)
    assert f"page_faults: {os.strerror(errno.EMFILE)}" in profile.attributes["counters_unavailable"]
    assert sum(table(profile, "visits")["main->in_thread->pages"]) == 2


@pytest.mark.mpi
def test_nothing_changes_without_the_variable(counted, tmp_path, monkeypatch):
    monkeypatch.delenv("BURAN_COUNTERS", raising=False)
    profile = profile_of(counted, tmp_path / "run", "10")
    assert not {*HARDWARE, *SOFTWARE} & set(profile.metrics)
    assert "counters_unavailable" not in profile.attributes


@pytest.mark.mpi
@pytest.mark.parametrize("names", ["flops", "cycles,", ",cycles", "page_faults cycles", "cycle"])
def test_unknown_counters_are_refused(counted, tmp_path, monkeypatch, names):
    monkeypatch.setenv("BURAN_COUNTERS", names)
    done = launch(counted, tmp_path / "run")
    assert done.returncode == 2
    assert "BURAN_COUNTERS" in done.stderr


@pytest.mark.mpi
@pytest.mark.usefixtures("needs_page_faults")
def test_counters_survive_cubex(counted, tmp_path, monkeypatch):
    monkeypatch.setenv("BURAN_COUNTERS", "page_faults,task_clock")
    profile = profile_of(counted, tmp_path / "run", "100")
    write_cubex(profile, tmp_path / "profile.cubex")
    again = read_cubex(tmp_path / "profile.cubex")
    for metric in ("page_faults", "task_clock"):
        assert (again.values[metric] == profile.values[metric]).all()


# ---- reading


def with_counters(names, counts, rank=0, size=1, info=INFO):
    """A dump as `encode` makes it, with counters."""
    body = HEADER.pack(b"BURANDMP", VERSION, 1, rank, size, 1e3, 2 * len(info), len(REGIONS), 1, len(names))
    body += b"".join(text(word) for pair in info.items() for word in pair)
    body += b"".join(text(name) for name in names)
    for name, kind in REGIONS:
        body += text(name) + text(f"_{name}") + text("a.cpp") + np.array([3, kind], "<u4").tobytes()
    body += np.array([0, len(NODES)], "<u4").tobytes() + np.array(NODES, dtype=NODE).tobytes()
    return seal(body + np.array(counts, "<u8").tobytes())


COUNTS = [[10, 5_000_000_000], [20, 1_000_000_000], [30, 500_000_000], [2**60, 0]]


def test_counts_are_read_as_metrics(tmp_path):
    profile = read_dumps(put(tmp_path, with_counters(("cycles", "task_clock"), COUNTS)), 1)
    assert profile.values["cycles"][:, 0].tolist() == [10, 20, 30, 2**60]
    assert profile.values["task_clock"][:, 0].tolist() == pytest.approx([6.5, 1.5, 0.5, 0.0])


def test_counter_that_one_rank_lacks_is_no_metric(tmp_path):
    info = INFO | {"counters_unavailable": "cycles: Permission denied"}
    first = with_counters(("cycles", "task_clock"), COUNTS, 0, 2)
    second = with_counters(("task_clock",), [row[1:] for row in COUNTS], 1, 2, info)
    profile = read_dumps(put(tmp_path, first, second), 2)
    assert "cycles" not in profile.metrics and "task_clock" in profile.metrics
    assert profile.values["task_clock"].shape == (4, 2)
    assert profile.attributes["counters_unavailable"] == f"{info['counters_unavailable']} (rank 1)"


# ---- counters that are shared


# Stands before the system call: gives what a processor with too few counters would.
SHARED = r"""
#include <dlfcn.h>
#include <stdint.h>
#include <sys/types.h>
#include <unistd.h>
ssize_t read(int file, void *data, size_t size) {
    static ssize_t (*next)(int, void *, size_t);
    if (!next)
        next = (ssize_t(*)(int, void *, size_t))dlsym(RTLD_NEXT, "read");
    ssize_t got = next(file, data, size);
    if (file > 100 && got == 32)
        ((uint64_t *)data)[2] /= 2;
    return got;
}
"""


@pytest.mark.mpi
@pytest.mark.usefixtures("needs_page_faults")
def test_counts_of_a_part_of_the_time_are_not_scaled_but_refused(counted, tmp_path, monkeypatch):
    (tmp_path / "shared.c").write_text(SHARED)
    library = tmp_path / "shared.so"
    command = ["cc", "-D_GNU_SOURCE", "-shared", "-fPIC", tmp_path / "shared.c", "-o", library, "-ldl"]
    subprocess.run(command, check=True)
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("BURAN_COUNTERS", "page_faults")
    profile = profile_of(counted, tmp_path / "run", "10")
    assert "page_faults" not in profile.metrics
    assert profile.attributes["counters_unavailable"].startswith("page_faults: ")
