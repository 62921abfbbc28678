"""Driving a campaign: one controller at a time, the workflow engine as a child, its end."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from buran import assets
from buran.budget import read_yaml_data
from buran.campaign.layout import Layout
from buran.campaign.records import BuildRecord, BundleOutcome, RunKey, Status, read_record
from buran.errors import UsageError
from buran.files import remove_half_written
from buran.measurement.schedulers.base import Scheduler
from buran.measurement.schedulers.none import NONE
from buran.measurement.schedulers.registry import scheduler_of_profile
from buran.measurement.store import claims, ledger, store
from buran.measurement.store.claims import Owner
from buran.workflow.history import read_plans

_POLL_S = 0.3  # between two looks at the engine
_NO_LOCKS = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK)
_ANOTHER = "another controller drives this campaign"
ENGINE_GRACE_S = 60.0  # for an engine that is to stop: its jobs end their programs and write down what was


@contextmanager
def sole_controller(layout: Layout, say: Callable[[str], None]) -> Iterator[int]:
    """Wait until no other controller drives the campaign, then hold that right; yields the lock's handle.

    The handle is passed on to the workflow engine, so that the right lasts as long as either lives.

    Parameters
    ----------
    say
        Takes whom is waited for.
    """
    layout.root.mkdir(parents=True, exist_ok=True)
    printed = ""
    with contextlib.ExitStack() as stack:
        handle = os.open(layout.controller_lock, os.O_RDWR | os.O_CREAT, 0o666)
        stack.callback(os.close, handle)
        if not _has_locks(handle):
            stack.enter_context(claims.claimed(layout.lockless_claim))
        while (is_locked := not _lock(handle)) or engines(layout.root):
            news = _in_words(layout, is_locked=is_locked)
            if news != printed:
                say(news)
                printed = news
            time.sleep(_POLL_S)
        os.truncate(handle, 0)
        os.pwrite(handle, json.dumps(asdict(Owner.this_process())).encode(), 0)
        yield handle


def _has_locks(handle: int) -> bool:
    """Tell whether the file system of an open file has locks; parallel ones can be mounted without."""
    try:
        fcntl.flock(handle, fcntl.LOCK_UN)
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return False
    return True


def _lock(handle: int) -> bool:
    """Take the lock, where there are locks; return whether nobody else has it."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _in_words(layout: Layout, *, is_locked: bool) -> str:
    """Say who else drives the campaign, and how to end that."""
    if not is_locked:
        pids = ", ".join(map(str, engines(layout.root)))
        return f"{_ANOTHER}: snakemake, process {pids}; waiting for it to end"
    owner = claims.read_owner(layout.controller_lock)
    if owner is None:
        return f"{_ANOTHER}; waiting for it to end (`fuser {layout.controller_lock}` shows it)"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(layout.controller_lock.stat().st_mtime))
    if claims.may_live(owner):
        how = f"`kill {owner.pid}` on {owner.host} ends it"
        return f"{_ANOTHER}: {owner}, since {since}; waiting for it to end ({how})"
    how = f"`fuser -k {layout.controller_lock}` ends it"
    return f"{_ANOTHER}: {owner}, which is gone; waiting for what it left behind to end ({how})"


def engines(folder: Path) -> list[int]:
    """Return the workflow engines that run in a folder, started by whomever."""
    pids = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().split(b"\0")
            is_engine = any(Path(os.fsdecode(word)).name == "snakemake" for word in words[:4])
            is_engine = is_engine and b"remote" not in words  # the part of an engine that runs inside a job
            if is_engine and (process / "cwd").readlink() == folder.resolve():
                pids.append(int(process.name))
    return pids


def forget_dead_engine(layout: Layout) -> None:
    """Remove the locks of an engine that was killed, and files that its jobs had half written.

    Only a sole controller may, while no job of the campaign is under way.
    """
    for lock in (layout.root / ".snakemake" / "locks").glob("*"):
        lock.unlink(missing_ok=True)
    remove_half_written(layout.folders_of_small_files())


def make_eligible(layout: Layout, campaign: str, *, retry_failed: bool) -> None:
    """Drop the pointers of bundles with something left to measure: eligible means incomplete.

    The workflow engine makes a missing file only if what was made from it is missing too.
    """
    ledger.complete(layout.store)
    _drop_incomplete(layout, retry_failed=retry_failed)
    plans, has_report = read_plans(layout, campaign), (layout.results(campaign) / "report.txt").is_file()
    needed = [layout.bundle_pointer(bundle.id) for plan in plans for bundle in plan.bundles]
    if has_report:
        made = (layout.models, layout.findings, layout.table)
        needed += [path(campaign, plan.iteration) for plan in plans if not plan.done for path in made]
    is_cut_short = has_report and not (plans and plans[-1].done)
    if is_cut_short or not all(path.is_file() for path in needed):
        forget_derived(layout, campaign)


def forget_derived(layout: Layout, campaign: str) -> None:
    """Remove plans, models and reports; they are made again from the store."""
    for folder in (layout.root / "iterations" / campaign, layout.results(campaign)):
        shutil.rmtree(folder, ignore_errors=True)


def _drop_incomplete(layout: Layout, *, retry_failed: bool) -> None:
    for pointer in layout.made_pointers("bundles"):
        outcome = BundleOutcome.read(pointer)
        failures = [run for run in outcome.runs if run.status is Status.FAILED and run.folder is not None]
        if retry_failed:
            for run in failures:
                key = RunKey.parse((layout.root / str(run.folder)).relative_to(layout.store))
                store.allow_retry(store.Slot(layout.store, replace(key, attempt=None)))
        if not outcome.complete or (retry_failed and failures):
            pointer.unlink()
    for folder in store.build_folders(layout.store):
        record = read_record(folder)
        if record.status is not Status.FAILED or not isinstance(record, BuildRecord):
            continue
        again = retry_failed or record.spec.is_for_every_point  # without which nothing can be measured
        if again and store.allow_retry(store.Slot.of_build(layout.store, record.spec.hash)):
            layout.build_pointer(record.spec.hash).unlink(missing_ok=True)


@dataclass(frozen=True)
class EngineProfile:
    """Where to measure.

    Attributes
    ----------
    scheduler
        Whose jobs measurements are, as far as Buran can follow them.
    executor
        Executor of the workflow engine.
    """

    folder: Path
    executor: str = "local"
    scheduler: Scheduler = NONE


def find_profile(name: str) -> EngineProfile:
    """Find a profile by name or folder.

    Raises
    ------
    UsageError
        There is no such profile.
    """
    folder = Path(name) if "/" in name else assets.folder("profiles") / name
    if not folder.is_dir():
        profiles = sorted(path.name for path in assets.folder("profiles").iterdir() if path.is_dir())
        raise UsageError(
            f"there is no profile {name!r}", why=f"known: {', '.join(profiles)}", hint="or give a path to a folder"
        )
    path = folder / "config.yaml"
    if not path.is_file():
        why, hint = "a profile of Snakemake has a file config.yaml", "name a folder that has one"
        raise UsageError("this folder is no profile", where=folder, why=why, hint=hint)
    settings = read_yaml_data(path)
    settings = settings if isinstance(settings, dict) else {}
    scheduler = scheduler_of_profile(settings)
    return EngineProfile(folder.resolve(), str(settings.get("executor", "local")), scheduler)


def engine_command(campaign_file: Path, layout: Layout, profile: EngineProfile, extra: Sequence[str]) -> list[str]:
    """Return the exact command line of the workflow engine."""
    return [
        *(sys.executable, "-m", "snakemake"),
        *("--snakefile", str(assets.root() / "Snakefile")),
        *("--configfile", str(campaign_file)),
        *("--directory", str(layout.root)),
        *("--workflow-profile", str(profile.folder)),
        *extra,
    ]


@dataclass(frozen=True)
class End:
    """How the workflow engine ended."""

    code: int
    interrupted: bool = False


def _cache(instead: Path) -> dict[str, str]:
    """Return the variable that names a cache for the engine, where the user has no home that can be written to."""
    with contextlib.suppress(OSError, RuntimeError):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
        cache.mkdir(parents=True, exist_ok=True)
        if os.access(cache, os.W_OK):
            return {}
    return {"XDG_CACHE_HOME": str(instead / "cache")}


def run_engine(
    command: Sequence[str],
    log: Path,
    lock: int | None = None,
    watch: Callable[[], None] = lambda: None,
    grace_s: float = ENGINE_GRACE_S,
) -> End:
    """Run the workflow engine to its end.

    Parameters
    ----------
    lock
        Open file that the engine holds as long as it lives.
    watch
        Called a few times a second meanwhile.
    grace_s
        For what the engine does when it is interrupted; none where jobs run elsewhere, which it would cancel or wait
        for.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    interrupted = False

    def forward(number: int, frame: object) -> None:
        nonlocal interrupted
        interrupted = True
        with contextlib.suppress(OSError):
            assert engine.stdin is not None
            os.write(engine.stdin.fileno(), b".")

    with log.open("w") as output:
        engine = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(__file__).with_name("supervisor.py")), str(grace_s), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **_cache(log.parents[1] / ".snakemake")},
            pass_fds=() if lock is None else (lock,),
            start_new_session=True,
        )
        before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while engine.poll() is None:
                watch()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    engine.wait(_POLL_S)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if engine.stdin is not None:
                engine.stdin.close()
    return End(engine.returncode, interrupted)
