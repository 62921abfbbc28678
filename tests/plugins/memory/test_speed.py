"""What `buran doctor --calibrate` finds: it is measured here, whatever else runs."""

from __future__ import annotations

import json
import mmap
import resource
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from buran.campaign.launcher import cpus_in
from buran.errors import FormatError, RunError, UsageError
from buran.files import write_json
from buran.plugins.memory import speed
from buran.plugins.memory.machine_file import Level, MachineFile

KIB = 1024
MACHINE = MachineFile(
    host="node1",
    cpu="a processor",
    kernel="6.1",
    compiler="cc 12",
    date="2026-01-01T00:00:00+00:00",
    cores=4,
    levels=(
        Level(32 * KIB, 1, 1e-9, 1e-9, 1e-9, 1e-9, 100e9, 100e9),
        Level(8192 * KIB, 4, 20e-9, 40e-9, 20e-9, 40e-9, 30e9, 20e9),
        Level(None, 4, 100e-9, 160e-9, 100e-9, 160e-9, 12e9, 4e9),
    ),
    flops=50e9,
    flops_busy=40e9,
    codes={"chain": 1e-9},
    spread=0.1,
)


def test_caches_and_bandwidth_are_shared_by_the_ranks_of_a_node() -> None:
    assert [MACHINE.cache_of_a_rank(0, ranks) for ranks in (1, 4)] == [32 * KIB, 32 * KIB]
    assert [MACHINE.cache_of_a_rank(1, ranks) / KIB for ranks in (1, 2, 4, 8)] == [8192, 4096, 2048, 2048]
    # four cores share 16 GB/s: one alone gets 12, two get 8 each
    assert [MACHINE.bandwidth_of(2, ranks) / 1e9 for ranks in (1, 2, 4)] == [12, 8, 4]
    assert [round(1e9 * MACHINE.latency_s_of(2, ranks)) for ranks in (1, 2, 4)] == [100, 120, 160]
    assert replace(MACHINE, cores=1).latency_s_of(2, 1) == 100e-9


@pytest.mark.slow
def test_a_calibration_is_measured_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LARGEST_SPREAD", float("inf"))  # other tests may run beside it
    found = speed.calibrate([16 * KIB, 256 * KIB])
    assert found.caches == (16 * KIB, 256 * KIB) and len(found.levels) == 3
    near, *_, memory = found.levels
    assert memory.latency_s > near.latency_s and memory.bandwidth < near.bandwidth
    assert set(found.codes) == set(speed.CODES) and found.flops > 1e8
    assert 1e-7 < found.fault_s < 1e-3 and found.fault_busy_s > 1e-7
    assert found.page_bytes >= mmap.PAGESIZE
    path = tmp_path / "machine.json"
    write_json(path, {"schema": MachineFile.schema_read, **asdict(found)})
    assert MachineFile.read(path) == found


def test_memory_is_measured_in_the_pages_that_programs_get(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_ROUNDS", 1)
    size, page = 32 << 20, speed.page_bytes()
    if not page:
        pytest.skip("nobody counts page faults here")
    kernel = speed._build(tmp_path)
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt
    kernel.seconds("gather", size, speed._one_of_each_core()[:1])
    faults = resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt - before
    assert size / page / 2 <= faults <= size / page + 2000  # the process has some of its own


@pytest.mark.slow
def test_a_busy_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "LARGEST_SPREAD", -1.0)  # no machine is as quiet
    with pytest.raises(RunError, match="too busy"):
        speed.calibrate([16 * KIB])


@pytest.mark.parametrize(("holds", "found"), [(60, 60), (1000, 480), (3, 480)])
def test_the_last_cache_is_as_large_as_streams_find_it(holds: float, found: float) -> None:
    mib = 1024 * KIB

    class Kernel(speed._Kernel):
        def seconds(self, test: str, size: float, cpus: Sequence[int]) -> float:
            return 1e-11 if size <= holds * mib else 2e-11

    sizes = [(48.0 * KIB, 1, 12), (2.0 * mib, 1, 16), (480.0 * mib, 2, 16)]
    caches = speed.measured_size(Kernel(Path("speed"), "cc", []), 0, sizes, 1920 * mib)
    assert caches[:2] == sizes[:2] and caches[2][:2] == (pytest.approx(found * mib, rel=0.07), 2)
    assert (caches == sizes) == (found == 480)


def test_caches_that_nobody_tells_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speed, "_reported_by_the_system", lambda cpus: [])
    with pytest.raises(UsageError, match="caches") as error:
        speed.calibrate()
    assert "--caches-kib" in str(error.value)
    assert speed._caches_of([0, 1], [32.0, 256.0, 1024.0]) == [(32.0, 1, None), (256.0, 1, None), (1024.0, 2, None)]
    with pytest.raises(UsageError, match="larger"):
        speed._caches_of([0], [32.0, 16.0])


def test_caches_are_as_the_system_tells_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = [
        ("Data", "1", "48K", "0", "12"),
        ("Instruction", "1", "64K", "0", "16"),
        ("Unified", "2", "2048K", "0-1", "0"),  # any lines
        ("Unified", "3", "32M", "0-7", "7"),  # no cache is like that
    ]
    for i, values in enumerate(caches):
        folder = tmp_path / "cpu0" / "cache" / f"index{i}"
        folder.mkdir(parents=True)
        names = ("type", "level", "size", "shared_cpu_list", "ways_of_associativity")
        for name, value in zip(names, values, strict=True):
            (folder / name).write_text(f"{value}\n")
    monkeypatch.setattr(speed, "_CPU", str(tmp_path / "cpu{}"))
    assert speed._caches_of([0, 1], None) == [(48 * KIB, 1, 12), (2048 * KIB, 2, None), (32768 * KIB, 2, None)]
    (tmp_path / "cpu0" / "cache" / "index0" / "ways_of_associativity").unlink()
    assert speed._caches_of([0], None)[0] == (48 * KIB, 1, None)


def test_files_of_earlier_versions_tell_neither_ways_nor_pages(tmp_path: Path) -> None:
    path, content = tmp_path / "machine.json", asdict(MACHINE)
    for level in content["levels"]:
        del level["ways"]
    del content["page_bytes"]
    path.write_text(json.dumps({"schema": MachineFile.schema_read, **content}))
    assert MachineFile.read(path) == MACHINE


def test_lists_of_cpus() -> None:
    assert cpus_in("0-2,8") == {0, 1, 2, 8} and cpus_in("") == set()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"levels": []}, "memory without one"),
        ({"flops": 0.0}, "above 0"),
        ({"fault_s": -1.0}, "no negative time"),
        ({"page_bytes": -4096}, "no negative size"),
        *(
            ({"levels": [{**asdict(MACHINE.levels[0]), "ways": n}, asdict(MACHINE.levels[2])]}, "ways")
            for n in (0, 7, 1024)
        ),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"schema": "buran-machine/9"}, "schema"),
    ],
)
def test_damaged_files_are_refused(tmp_path: Path, change: dict[str, object], why: str) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"schema": MachineFile.schema_read, **asdict(MACHINE), **change}))
    with pytest.raises(FormatError) as error:
        MachineFile.read(path)
    assert why in str(error.value)
