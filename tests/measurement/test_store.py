"""The write-once store: nothing is lost, overwritten or made twice."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import time
from pathlib import Path

import pytest
from competitors import count_up, fill, hold, slot_in, take_over
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.campaign.records import RECORD, RunKey, Status, read_record, read_run
from buran.errors import RunError, StorageError
from buran.files import check_room, storage_error
from buran.measurement.schedulers.jobs import JobState
from buran.measurement.schedulers.slurm import SLURM
from buran.measurement.store import claims, store

PLACE = RunKey("b", "n=1", "c", "rep-00").folders[-1]


def test_a_run_appears_whole_and_is_sealed(tmp_path: Path) -> None:
    slot = slot_in(tmp_path)
    with store.reserve(slot) as folder:
        assert folder is not None
        fill(folder)
        (folder / store.OUTPUT / "sub").mkdir(parents=True)
        (folder / store.OUTPUT / "sub" / "kept.log").write_text("kept")
        assert slot.verdict() is None
        store.commit(slot, folder)
    assert slot.verdict() == tmp_path / PLACE / "rep-00"
    assert list(store.damage(slot.folder)) == []
    assert "output/sub/kept.log" in (slot.folder / store.SUMS).read_text()
    assert not (slot.folder / "stdout.log").stat().st_mode & 0o222
    assert not slot.claim.exists()


def test_a_settled_run_is_not_reserved_again(tmp_path: Path) -> None:
    slot = slot_in(tmp_path)
    with store.reserve(slot) as folder:
        assert folder is not None
        fill(folder)
        store.commit(slot, folder)
    with store.reserve(slot) as folder:
        assert folder is None


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    slot = slot_in(tmp_path)
    with store.reserve(slot) as folder:
        assert folder is not None
        fill(folder, content="first")
        slot.folder.mkdir()
        (slot.folder / "precious").touch()
        with pytest.raises(RunError):
            store.commit(slot, folder)
    assert (slot.folder / "precious").exists()


def test_a_failure_is_kept_and_settles_the_run_until_a_retry(tmp_path: Path) -> None:
    slot = slot_in(tmp_path)
    for attempt in range(2):
        with store.reserve(slot) as folder:
            assert folder is not None
            fill(folder, Status.FAILED)
            store.keep_failure(slot, folder)
        assert slot.verdict() == tmp_path / PLACE / "failed" / f"rep-00.a{attempt}"
        with store.reserve(slot) as folder:
            assert folder is None
        assert store.allow_retry(slot)
        assert slot.verdict() is None
    assert len(slot.attempts()) == 2


def test_an_interrupted_attempt_settles_nothing(tmp_path: Path) -> None:
    slot = slot_in(tmp_path)
    with store.reserve(slot) as folder:
        assert folder is not None
        fill(folder, Status.INTERRUPTED)
        store.keep_failure(slot, folder)
    assert slot.verdict() is None
    assert len(slot.attempts()) == 1


def test_a_new_generation_stands_beside_the_old_one(tmp_path: Path) -> None:
    for generation in range(2):
        slot = slot_in(tmp_path, store.current_generation(tmp_path, slot_in(tmp_path).key))
        with store.reserve(slot) as folder:
            assert folder is not None
            fill(folder, content=str(generation))
            store.commit(slot, folder)
        store.new_generation(tmp_path, slot.key)
    assert (tmp_path / PLACE / "rep-00" / "stdout.log").read_text() == "0"
    assert (tmp_path / PLACE / "rep-00-g1" / "stdout.log").read_text() == "1"


@settings(max_examples=25)
@given(st.binary(min_size=1, max_size=200), st.data())
def test_damage_is_noticed(tmp_path_factory: pytest.TempPathFactory, content: bytes, data: st.DataObject) -> None:
    slot = slot_in(tmp_path_factory.mktemp("store"))
    with store.reserve(slot) as folder:
        assert folder is not None
        fill(folder)
        (folder / "profile.cubex").write_bytes(content)
        store.commit(slot, folder)
    victim = slot.folder / "profile.cubex"
    position = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[position] ^= data.draw(st.integers(1, 255))
    victim.chmod(0o644)
    victim.write_bytes(bytes(changed))
    assert len(list(store.damage(slot.folder))) == 1
    victim.unlink()
    assert len(list(store.damage(slot.folder))) == 1


def start_holder(point: Path, ready: Path) -> multiprocessing.Process:
    process = multiprocessing.get_context("spawn").Process(target=hold, args=(point, str(ready)))
    process.start()
    while not ready.exists():
        assert process.is_alive()
        time.sleep(0.01)
    return process


def test_a_killed_owner_is_succeeded_and_its_leftovers_are_kept(tmp_path: Path) -> None:
    point, ready = tmp_path / "point", tmp_path / "ready"
    process = start_holder(point, ready)
    slot = slot_in(point)
    assert claims.is_alive(slot.claim)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert not claims.is_alive(slot.claim)
    with store.reserve(slot) as folder:
        assert folder is not None
        fill(folder)
        store.commit(slot, folder)
    assert slot.is_measured()
    (leftover,) = slot.attempts()
    assert (leftover / "stdout.log").read_text() == "half a run"
    assert read_record(leftover).status is Status.INTERRUPTED


def test_processes_that_compete_make_every_run_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=count_up, args=(tmp_path, 20)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    started = (tmp_path / "started").read_text().split()
    assert sorted(map(int, started)) == list(range(20))


def test_a_claim_of_another_host_lives_by_its_heartbeat(tmp_path: Path) -> None:
    claim = tmp_path / "rep-00.claim"
    claim.write_text(json.dumps({"host": "elsewhere", "pid": 1, "started": 1, "boot": "x", "slurm_job": None}))
    assert claims.is_alive(claim)
    long_ago = time.time() - claims.HEARTBEAT_TIMEOUT_S - 1
    os.utime(claim, (long_ago, long_ago))
    assert not claims.is_alive(claim)
    with claims.claimed(claim):
        assert claims.is_alive(claim)
    assert not claim.exists()


def test_a_reused_process_number_does_not_keep_a_claim_alive(tmp_path: Path) -> None:
    claim = tmp_path / "rep-00.claim"
    own = claims.Owner.this_process()
    text = {"host": own.host, "pid": own.pid, "started": own.started + 1, "boot": own.boot, "slurm_job": None}
    claim.write_text(json.dumps(text))
    assert not claims.is_alive(claim)


def claim_of(folder: Path, **changes: object) -> Path:
    claim = folder / "rep-00.claim"
    plain = {"host": "elsewhere", "pid": 1, "started": 1, "boot": "x", "nonce": "dead"}
    claim.write_text(json.dumps({**plain, **changes}))
    return claim


@pytest.mark.parametrize("names", [{"scheduler": "slurm", "job": "12"}, {"slurm_job": "12"}])
@pytest.mark.parametrize(
    ("state", "fresh", "alive"),
    [
        (JobState.LIVE, False, True),
        (JobState.UNKNOWN, False, True),
        (JobState.ENDED, True, False),
        (JobState.LOST, True, True),
        (JobState.LOST, False, False),
    ],
)
def test_a_claim_of_a_slurm_job_lives_as_long_as_slurm_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: JobState, fresh: bool, alive: bool, names: dict[str, str]
) -> None:
    monkeypatch.setattr(SLURM, "is_available", lambda: True)
    monkeypatch.setattr(SLURM, "job_state", lambda job, restarts: state)
    claims._live_jobs.clear()
    claim = claim_of(tmp_path, **names)
    assert "Slurm job 12" in str(claims.owner_of(claim))
    if not fresh:
        long_ago = time.time() - claims.HEARTBEAT_TIMEOUT_S - 1
        os.utime(claim, (long_ago, long_ago))
    assert claims.is_alive(claim) is alive


def test_a_claim_of_this_process_names_its_scheduler_and_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "12")
    monkeypatch.setattr(SLURM, "restarts", lambda job: 3)
    claims._restarts.cache_clear()
    claim = tmp_path / "rep-00.claim"
    with claims.claimed(claim):
        written = json.loads(claim.read_text())
    assert (written["scheduler"], written["job"], written["restarts"]) == ("slurm", "12", 3)
    monkeypatch.delenv("SLURM_JOB_ID")
    with claims.claimed(claim):
        written = json.loads(claim.read_text())
    assert (written["scheduler"], written["job"], written["restarts"]) == (None, None, 0)


def test_a_claim_of_a_scheduler_that_is_not_known_here_is_waited_for_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claim = claim_of(tmp_path, scheduler="moon", job="7")
    os.utime(claim, (1, 1))
    assert claims.is_alive(claim), "nobody can be asked"
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            claim.unlink()

    monkeypatch.setattr(time, "sleep", pause)
    with claims.claimed(claim):
        assert len(pauses) == 3
    (said,) = capsys.readouterr().err.splitlines()
    assert str(claim) in said and "moon job 7" in said
    assert "'moon'" in said


def test_clocks_of_hosts_may_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claim = claim_of(tmp_path)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    assert claims.is_alive(claim), "the file system's clock counts, not this host's"


def test_somebody_alive_is_an_error_for_those_who_do_not_wait(tmp_path: Path) -> None:
    claim = claim_of(tmp_path)
    with pytest.raises(RunError, match="measured elsewhere"), claims.claimed(claim, wait=False):
        pytest.fail("two owners")


def test_the_last_heartbeat_of_a_lost_job_is_waited_out_by_those_who_do_not_wait_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next job for what a node measured that died: nobody else will, and its processes may live on for a while."""
    monkeypatch.setattr(SLURM, "is_available", lambda: True)
    monkeypatch.setattr(SLURM, "job_state", lambda job, restarts: JobState.LOST)
    claim = claim_of(tmp_path, scheduler="slurm", job="12")
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            long_ago = time.time() - claims.HEARTBEAT_TIMEOUT_S - 1
            os.utime(claim, (long_ago, long_ago))

    monkeypatch.setattr(time, "sleep", pause)
    with claims.claimed(claim, wait=False):
        assert len(pauses) == 3 and claims.owner_of(claim) != claims.read_owner(claim)


def test_nobody_follows_an_owner_who_took_the_claim_after_the_dead_one_was_seen(tmp_path: Path) -> None:
    claim = tmp_path / "a.claim"
    late = claims.Owner.this_process()
    with claims.claimed(claim):
        assert not claims._succeed(claim, late)
        assert [path.name for path in tmp_path.iterdir()] == ["a.claim"]
    assert list(tmp_path.iterdir()) == []


def test_the_dead_have_one_successor_at_a_time(tmp_path: Path) -> None:
    """Four processes fall upon dead claims, each with a successor that died too, and unreadable ones."""
    rounds = 30
    for number in range(rounds):
        claim = tmp_path / f"{number}.claim"
        dead = {"host": claims.host_name(), "pid": 1, "started": 1, "boot": "x", "nonce": f"a{number}"}
        claim.write_text(json.dumps(dead) if number % 3 else "")
        if number % 3 == 2:
            (tmp_path / f".{claim.name}.a{number}.next").write_text(json.dumps({**dead, "nonce": f"b{number}"}))
        if number % 3 == 0:
            os.utime(claim, (1, 1))
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=take_over, args=(tmp_path, rounds)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0, "two owners at once"
    assert len((tmp_path / "log").read_text().split()) == 4 * rounds
    assert [path.name for path in tmp_path.iterdir()] == ["log"], "nothing is left behind"


@pytest.mark.parametrize(("number", "step"), [(errno.ENOSPC, "make room"), (errno.EROFS, "mounted for writing")])
def test_a_file_system_that_takes_no_files_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, step: str
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError) as caught:
        check_room(tmp_path)
    shown = str(storage_error(caught.value))
    assert os.strerror(number) in shown and step in shown and str(tmp_path) in shown
    assert not list(tmp_path.iterdir())
    assert storage_error(FileNotFoundError(errno.ENOENT, "no such file")) is None


@pytest.mark.parametrize("job", [None, "12"])
def test_a_run_of_version_01_tells_its_scheduler(tmp_path: Path, job: str | None) -> None:
    """The name of the scheduler was part of the keys."""
    given = None if job is None else {"cpus": 4}
    record = {"schema": 1, "status": "measured", "reason": None, "build": "b", "target": "t", "mode": "time"}
    record |= {"point": {"p": 2}, "repetition": 0, "clock": "real", "cores": 2, "slurm_job": job, "slurm": given}
    (tmp_path / RECORD).write_text(json.dumps(record))
    run = read_run(tmp_path)
    assert (run.scheduler, run.job, run.allocation) == (job and "slurm", job, given)


def test_without_hard_links_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(source: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "Operation not permitted", str(source), None, str(target))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(StorageError, match="no hard links"), claims.claimed(tmp_path / "a.claim"):
        pytest.fail("nobody may measure")
    assert list(tmp_path.iterdir()) == []
