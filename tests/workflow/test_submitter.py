"""Submitting jobs and following them, with a scheduler and a clock that are played."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from buran.campaign.layout import Layout
from buran.measurement.schedulers.base import Scheduler
from buran.measurement.schedulers.jobs import (
    Job,
    JobEvents,
    JobReport,
    JobRequest,
    NotSubmitted,
    Refusal,
    Submission,
    purpose_of,
    report_of,
)
from buran.workflow.engine.submitter import Submitter, Task, cancel_all

REQUEST = JobRequest(
    nodes=1, tasks=2, cpus_per_task=1, ranks_per_node=2, minutes=5, tasks_per_node=None, memory_mb=None,
    partition=None, account=None, constraint=None, qos=None, exclusive=True, reservation=None, extra=None,
)  # fmt: skip


@dataclass
class Played(Scheduler):
    """Takes at most so many jobs at a time; `states` is what it says of them, None that it says nothing."""

    room: int = 1000
    array: int = 100
    states: dict[str, str] | None = field(default_factory=dict)
    purposes: dict[str, str] = field(default_factory=dict)
    refusals: list[NotSubmitted] = field(default_factory=list)
    keeps_silent_after: bool = False  # takes the job, but the answer is lost
    queries: int = 0
    name: str = "played"
    title: str = "Played"

    def largest_array(self) -> int:
        return self.array

    def submit(self, folder: Path, request: JobRequest, submission: Submission, script: Path) -> str:
        if self.refusals and not self.keeps_silent_after:
            raise self.refusals.pop(0)
        assert self.states is not None
        busy = sum(not report_of(state).is_over for state in self.states.values())
        if busy + len(submission.names) > self.room:
            raise NotSubmitted("AssocMaxSubmitJobLimit", Refusal.FULL)
        number = str(len(self.purposes) + 1)
        names = submission.names
        numbers = self.task_numbers(number, len(names)) if submission.is_array else [number]
        for job, name in zip(numbers, names, strict=True):
            self.states[job], self.purposes[job] = "PENDING", f"buran_{name}"
        if self.refusals:
            raise self.refusals.pop(0)
        return number

    def reports(self, jobs: Sequence[str]) -> Mapping[str, JobReport] | None:
        self.queries += 1
        states = self.states
        return None if states is None else {job: report_of(states[job]) for job in jobs if job in states}

    def campaign_jobs(self, folder: Path) -> list[Job] | None:
        if self.states is None:
            return None
        return [
            Job(job, state, self.purposes[job], "", waits=state == "PENDING")
            for job, state in self.states.items()
            if not report_of(state).is_over
        ]

    def cancel(self, jobs: Sequence[Job]) -> None:
        assert self.states is not None
        for job in jobs:
            self.states[job.id] = "CANCELLED"


@dataclass
class Bench:
    folder: Path
    scheduler: Played = field(default_factory=Played)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.events = JobEvents(self.folder / "logs" / "jobs.jsonl")
        self.events.begin()
        self.submitter = Submitter(self.scheduler, self.folder, "buran-job {}".format, self.events, lambda: self.now)

    def task(self, name: str, request: JobRequest = REQUEST, command: str | None = None) -> Task:
        return Task(name, request, command, (self.folder / name,))

    def add(self, *names: str, request: JobRequest = REQUEST) -> None:
        for name in names:
            self.submitter.add(self.task(name, request))

    def step(self, wait_s: float = 100.0) -> dict[str, str]:
        """Words by task that has ended; empty words for success."""
        self.now += wait_s
        return {result.task.name: result.words or "done" for result in self.submitter.step()}

    def set(self, state: str | None, *jobs: str) -> None:
        states = self.scheduler.states
        assert states is not None
        for job in jobs or states:
            states[job] = state or "PENDING"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_tasks_that_ask_for_the_same_are_one_array_and_one_query_asks_about_all(bench: Bench) -> None:
    bench.add("a", "b", "c")
    bench.add("d", request=replace(REQUEST, minutes=9))
    assert bench.step() == {}
    assert bench.scheduler.states == {"1_0": "PENDING", "1_1": "PENDING", "1_2": "PENDING", "4": "PENDING"}
    assert bench.scheduler.queries == 1
    scripts = sorted((bench.folder / "jobs").glob("*.sh"))
    assert (bench.folder / "jobs" / "d.sh").read_text().endswith("|| exit 1\nexec buran-job d\n") and len(scripts) == 2
    (array,) = (bench.folder / "jobs").glob("*.json")
    assert Submission.read(array).names == ("a", "b", "c")
    assert purpose_of(bench.folder, f"buran_{array.stem}", "1") == "b"
    assert purpose_of(bench.folder, "buran_d", "") == "buran_d"
    bench.set("COMPLETED", "1_1", "4")
    assert bench.step() == {"b": "done", "d": "done"}
    bench.set("COMPLETED")
    assert bench.step() == {"a": "done", "c": "done"} and bench.step() == {}


def test_a_command_of_the_engines_own_is_never_part_of_an_array(bench: Bench) -> None:
    bench.submitter.add(bench.task("plan-1", command="cd x && python -m snakemake"))
    bench.submitter.add(bench.task("plan-2", command="true"))
    bench.step()
    assert set(bench.scheduler.states or ()) == {"1", "2"}
    assert "cd x && python -m snakemake" in (bench.folder / "jobs" / "plan-1.sh").read_text()


def test_a_limit_of_submitted_jobs_is_learned_and_waited_for(bench: Bench) -> None:
    bench.scheduler.room = 3
    bench.add(*"abcdefgh")
    done: dict[str, str] = {}
    for _ in range(20):
        done |= bench.step()
        assert len([state for state in (bench.scheduler.states or {}).values() if state == "PENDING"]) <= 3
        bench.set("COMPLETED")
    assert done == dict.fromkeys("abcdefgh", "done")
    assert any("no more jobs" in line for line in bench.events.news())
    assert bench.events.outcomes().words == ()


def test_a_site_without_arrays_gets_single_jobs(bench: Bench) -> None:
    bench.scheduler.refusals = [NotSubmitted("Invalid job array specification", Refusal.NO_ARRAY) for _ in range(2)]
    bench.add("a", "b", "c")
    bench.step()
    assert set(bench.scheduler.states or ()) == {"1", "2", "3"}


def test_an_outage_is_waited_for_and_told_once(bench: Bench) -> None:
    bench.scheduler.refusals = [NotSubmitted("Unable to contact slurm controller", Refusal.PASSING) for _ in range(3)]
    bench.add("a")
    for _ in range(3):
        assert bench.step() == {} and bench.scheduler.states == {}
    bench.step()
    assert bench.scheduler.states == {"1": "PENDING"}
    (line,) = bench.events.news()
    assert "Unable to contact" in line
    jobs, bench.scheduler.states = bench.scheduler.states, None
    for _ in range(5):
        assert bench.step() == {}
    bench.scheduler.states = jobs
    bench.set("COMPLETED")
    assert bench.step() == {"a": "done"}
    silent, back = bench.events.news()
    assert "does not answer" in silent and "answers again" in back


def test_tries_at_a_silent_scheduler_become_rarer(bench: Bench) -> None:
    bench.scheduler.refusals = [NotSubmitted("Connection refused", Refusal.PASSING) for _ in range(100)]
    bench.add("a")
    for _ in range(600):
        bench.step(1.0)
    assert 100 - len(bench.scheduler.refusals) < 20


def test_a_job_whose_answer_was_lost_is_not_submitted_again(bench: Bench) -> None:
    bench.scheduler.refusals = [NotSubmitted("Socket timed out", Refusal.PASSING)]
    bench.scheduler.keeps_silent_after = True
    bench.add("a", "b")
    bench.step()
    bench.step()
    assert bench.scheduler.states == {"1_0": "PENDING", "1_1": "PENDING"}
    bench.set("COMPLETED")
    assert bench.step() == {"a": "done", "b": "done"}


def test_jobs_of_an_earlier_engine_are_followed(bench: Bench) -> None:
    bench.add("a")
    bench.step()
    later = Bench(bench.folder, bench.scheduler)
    later.add("a", "b")
    later.step()
    assert set(bench.scheduler.purposes.values()) == {"buran_a", "buran_b"} and len(bench.scheduler.purposes) == 2


def test_what_is_refused_for_good_is_told_and_the_others_go_on(bench: Bench) -> None:
    bench.scheduler.refusals = [NotSubmitted("Invalid qos specification: see resources.qos", Refusal.FINAL)]
    bench.add("a")
    bench.add("b", request=replace(REQUEST, qos="normal"))
    assert list(bench.step()) == ["a"]
    ends = bench.events.outcomes()
    assert len(ends.words) == 1 and ends.words[0].endswith("see resources.qos") and not ends.may_resume
    assert list((bench.scheduler.purposes).values()) == ["buran_b"]


@pytest.mark.parametrize(
    ("state", "words", "may_resume"),
    [
        ("CANCELLED by 1000", "was cancelled", False),
        ("PREEMPTED", "was preempted", True),
        ("TIMEOUT", "ran out of time", True),
        ("NODE_FAIL", "lost its node", True),
        ("BOOT_FAIL", "did not boot", True),
        ("OUT_OF_MEMORY", "resources.memory_mb", False),
        ("DEADLINE", "deadline", False),
        ("FAILED", "failed", False),
    ],
)
def test_every_end_has_its_words(bench: Bench, state: str, words: str, may_resume: bool) -> None:
    bench.add("a")
    bench.step()
    bench.set(state)
    (said,) = bench.step().values()
    ends = bench.events.outcomes()
    assert words in said and ends.words == (said,) and ends.may_resume is may_resume


def test_one_end_that_stays_is_enough_to_stop(bench: Bench) -> None:
    bench.add("a", "b")
    bench.step()
    bench.set("TIMEOUT", "1_0")
    bench.set("CANCELLED", "1_1")
    bench.step()
    assert not bench.events.outcomes().may_resume


def test_whatever_becomes_of_a_job_what_it_has_made_counts(bench: Bench) -> None:
    bench.add("a")
    bench.step()
    (bench.folder / "a").touch()
    bench.set("CANCELLED")
    assert bench.step() == {"a": "done"} and bench.events.outcomes().words == ()


def test_a_job_that_nobody_remembers_is_over_after_a_while_unless_nobody_answers(bench: Bench) -> None:
    bench.add("a")
    bench.step()
    bench.scheduler.states = None
    for _ in range(10):
        assert bench.step() == {}
    bench.scheduler.states = {}
    assert bench.step(1.0) == {}
    assert "nobody knows" in bench.step(100.0)["a"]
    assert bench.events.outcomes().may_resume


def test_a_job_that_nobody_remembers_and_that_has_made_everything_is_done_at_once(bench: Bench) -> None:
    """Schedulers without a history forget jobs in the moment of their end."""
    bench.add("a")
    bench.step()
    (bench.folder / "a").touch()
    bench.scheduler.states = {}
    assert bench.step(1.0) == {"a": "done"}


def test_a_job_that_has_made_everything_is_not_waited_for_for_ever(bench: Bench) -> None:
    bench.add("a")
    bench.step()
    bench.set("COMPLETING")
    (bench.folder / "a").touch()
    assert bench.step() == {}
    assert bench.step(400.0) == {"a": "done"}


def test_a_job_that_is_started_anew_is_told(bench: Bench) -> None:
    bench.add("a")
    bench.step()
    bench.set("RUNNING")
    bench.step()
    bench.set("PENDING")
    assert bench.step() == {}
    assert [line.endswith("requeued (pending)") for line in bench.events.news()] == [True]


def test_news_are_told_once_and_damaged_lines_are_passed_over(bench: Bench) -> None:
    bench.events.write("one")
    assert bench.events.news() == ["one"] and bench.events.news() == []
    with (bench.folder / "logs" / "jobs.jsonl").open("a") as file:
        file.write('{"words": "half')
    assert bench.events.news() == [] and bench.events.outcomes().words == ()


def test_a_new_engine_begins_without_the_news_of_the_one_before(bench: Bench) -> None:
    for job in ("1", "2"):
        bench.events.write(
            f"Played job {job} was preempted by another job", job=job, state="PREEMPTED", may_resume=True
        )
    assert len(bench.events.outcomes().words) == 2 and bench.events.news() == []
    bench.events.begin()
    assert bench.events.outcomes().words == () and bench.events.news() == [], "the next engine begins with none"


def test_cancelling_leaves_nothing_behind(bench: Bench) -> None:
    bench.add("a", "b", "c")
    bench.step()
    said: list[str] = []
    states, calls = bench.scheduler.states, []
    late = {"9": "PENDING"}
    bench.scheduler.purposes["9"] = "buran_z"

    class Slow(Played):
        def campaign_jobs(self, folder: Path) -> list[Job] | None:
            calls.append(1)
            if len(calls) == 1:
                return None
            if len(calls) == 4:
                assert self.states is not None
                self.states |= late
            return super().campaign_jobs(folder)

    slow = Slow(states=states, purposes=bench.scheduler.purposes)
    assert cancel_all(slow, bench.folder, said.append, pause_s=0.0) == 4
    assert set((slow.states or {}).values()) == {"CANCELLED"} and len(said) == 1
    bench.submitter.cancel()


def test_many_tasks_are_submitted_in_arrays(bench: Bench) -> None:
    """No step looks at all of them more than once for each array."""
    bench.scheduler.array, bench.scheduler.room = 1000, 20_000
    bench.add(*(f"{number:05d}" for number in range(20_000)))
    bench.step()
    assert len(bench.scheduler.states or ()) == 20_000
    assert json.loads(next((bench.folder / "jobs").glob("*.json")).read_text())["names"]
    assert Layout(bench.folder).submission("x").name == "x.json"


def test_no_more_jobs_are_in_the_queue_than_the_profile_says(bench: Bench) -> None:
    bench.submitter.most = 3
    bench.add(*"abcde")
    bench.step()
    assert len(bench.scheduler.purposes) == 3
    bench.set("COMPLETED", "1_0")
    assert bench.step() == {"a": "done"}
    bench.step()
    assert len(bench.scheduler.purposes) == 4, "one has ended"
    bench.set("COMPLETED")
    assert len(bench.step()) == 3
    bench.step()
    bench.set("COMPLETED")
    assert bench.step() == {"e": "done"}
