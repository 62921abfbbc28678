"""Driving a campaign: one controller at a time, the workflow engine as a child, its jobs, its end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from buran import assets
from buran.campaign.document import read_yaml
from buran.campaign.layout import Layout
from buran.campaign.records import BuildRecord, BundleOutcome, RunKey, Status, read_record
from buran.errors import UsageError
from buran.files import remove_half_written
from buran.measurement.schedulers.base import NONE, Scheduler, scheduler_of_profile
from buran.measurement.schedulers.jobs import Job, JobEvents
from buran.measurement.store import claims, ledger, store
from buran.wording import counted
from buran.workflow.history import read_plans

_POLL_S = 0.3  # between two looks at the engine
_BEAT_S = 10.0  # between two signs of life
_ANOTHER = "another controller drives this campaign"
ENGINE_GRACE_S = 60.0  # for an engine that is to stop: its jobs end their programs and write down what was


@contextmanager
def sole_controller(layout: Layout, say: Callable[[str], None]) -> Iterator[None]:
    """Wait until nobody else drives the campaign, then hold that right.

    Parameters
    ----------
    say
        Takes whom is waited for.
    """
    claim, has_said = layout.controller_claim, False
    if claims.is_alive(claim) and (owner := claims.owner_of(claim)) is not None:
        say(f"{_ANOTHER}: {owner}; waiting for it to end (`kill {owner.pid}` on {owner.host} ends it)")
    with claims.claimed(claim), _beating(claim):
        while pids := engines(layout.root):
            if not has_said:
                say(f"{_ANOTHER}: snakemake, process {', '.join(map(str, pids))}; waiting for it to end")
                has_said = True
            time.sleep(_POLL_S)
        yield


@contextmanager
def _beating(claim: Path) -> Iterator[None]:
    """Show all the time that the owner of a claim is at work."""
    is_over = threading.Event()

    def beat() -> None:
        while not is_over.wait(_BEAT_S):
            claims.beat(claim)

    threading.Thread(target=beat, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


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
    settings = read_yaml(path).data
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
    watch: Callable[[], None] = lambda: None,
    grace_s: float = ENGINE_GRACE_S,
) -> End:
    """Run the workflow engine to its end.

    Parameters
    ----------
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


MOST_RESTARTS = 5  # of the engine, before somebody has to look
_NEWS_S, _LOOK_S = 10.0, 30.0  # between two looks for news, and at the queue
_WAIT_POLL_S = 2.0  # between two looks while it waits


@dataclass(frozen=True)
class StuckJobs:
    """Tells, once for each reason, of queued jobs that wait for something that waiting alone may never bring.

    Attributes
    ----------
    say
        Called with what is wrong and what to do.
    """

    scheduler: Scheduler
    say: Callable[[str], None]
    _reported: set[str] = field(default_factory=set)

    def look(self, queue: Iterable[Job]) -> None:
        """Look through the queue."""
        waiting = [job for job in queue if job.waits]
        numbers = Counter(job.reason.strip("()") for job in waiting)
        for job in waiting:
            reason, step = job.reason.strip("()"), self.scheduler.never_starts(job)
            if step is not None and reason not in self._reported:
                self._reported.add(reason)
                jobs = counted(numbers[reason], "job")
                self.say(f"{jobs} may never start ({reason}): {step}; `buran run --cancel` and Ctrl-C end them")


def wait_for_jobs(folder: Path, stuck: StuckJobs) -> None:
    """Wait for jobs that an earlier controller left in the queue: they measure what would be measured twice.

    Parameters
    ----------
    stuck
        Of the scheduler that is queried; is shown the queue, and says how many jobs are left.
    """
    last_news = None
    while True:
        jobs = stuck.scheduler.campaign_jobs(folder)
        if jobs == []:
            return
        stuck.look(jobs or ())
        if jobs is None:
            news = f"{stuck.scheduler.title} does not answer; waiting until it does"
        else:
            states = Counter(job.state.lower() for job in jobs)
            news = "waiting for jobs that are still in the queue: " + ", ".join(
                f"{number} {state}" for state, number in sorted(states.items())
            )
        if news != last_news:
            stuck.say(news)
            last_news = news
        time.sleep(_WAIT_POLL_S)


@dataclass
class Watchdog:
    """Says, while the workflow engine runs, what is new of its jobs, and why some may wait for ever.

    Attributes
    ----------
    stuck
        Of the scheduler that is queried; is shown the queue now and then.
    events
        Of the engine's jobs.
    """

    folder: Path
    stuck: StuckJobs
    events: JobEvents
    say: Callable[[str], None]
    _news_s: float = field(default_factory=time.monotonic)
    _looked_s: float = field(default_factory=time.monotonic)

    def look(self) -> None:
        """Look, now and then."""
        now = time.monotonic()
        if now - self._news_s >= _NEWS_S:
            self._news_s = now
            for line in self.events.news():
                self.say(line)
        if now - self._looked_s >= _LOOK_S:
            self._looked_s = now
            self.stuck.look(self.stuck.scheduler.campaign_jobs(self.folder) or ())
