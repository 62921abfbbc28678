"""Jobs: what is handed to a scheduler, how it may refuse, what it says of them later, and how that is written."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from buran.campaign.layout import Layout
from buran.errors import ToolError
from buran.files import Stored


class JobState(Enum):
    """What can be known of a job."""

    LIVE = "live"  # queued or running, not restarted since
    ENDED = "ended"  # all its processes are gone
    LOST = "lost"  # ended without its node's word for it, or started again: processes may live on
    UNKNOWN = "unknown"  # the scheduler does not answer


@dataclass(frozen=True)
class Job:
    """A job in the queue.

    Attributes
    ----------
    state
        In the scheduler's words.
    purpose
        What it was submitted for, with the bundle or the batch of bundles at the end.
    reason
        Why it waits, in the scheduler's words; the nodes it runs on otherwise.
    waits
        Whether it has not started.
    """

    id: str
    state: str
    purpose: str
    reason: str
    waits: bool


@dataclass(frozen=True)
class JobRequest:
    """What a job asks for.

    Attributes
    ----------
    ranks_per_node
        On the fullest node.
    tasks_per_node
        As the campaign file says it, for all nodes alike; None if it leaves that open.
    memory_mb
        On each node; None for what the partition gives.
    exclusive
        Whether nobody else may be on its nodes.
    extra
        Further options of the submit command, as the user wrote them.
    """

    nodes: int
    tasks: int
    cpus_per_task: int
    ranks_per_node: int
    minutes: int
    tasks_per_node: int | None
    memory_mb: int | None
    partition: str | None
    account: str | None
    constraint: str | None
    qos: str | None
    exclusive: bool
    reservation: str | None
    extra: str | None


class Refusal(Enum):
    """What can be done about a job that was not taken."""

    FINAL = auto()  # as it is, it will never be taken
    PASSING = auto()  # the scheduler cannot do it now; it may have taken the job all the same
    FULL = auto()  # it takes no more jobs of this user until others have ended
    NO_ARRAY = auto()  # it takes no arrays of that size


class NotSubmitted(ToolError):
    """A job was not taken."""

    def __init__(self, why: str, refusal: Refusal) -> None:
        super().__init__("a job was not taken", why=why)
        self.refusal = refusal


@dataclass(frozen=True)
class Submission(Stored):
    """A job, or an array of jobs that ask for the same.

    Attributes
    ----------
    id
        By which it is found again in the queue: what it measures, or of an array a name of its own.
    names
        What it is for, task by task: bundles, or batches of bundles.
    """

    kind_of_file = "submission"

    id: str
    names: tuple[str, ...]

    @property
    def is_array(self) -> bool:
        """Whether it has tasks, with numbers from 0."""
        return len(self.names) > 1

    @property
    def purpose(self) -> str:
        """As the scheduler keeps it."""
        return f"buran_{self.id}"


def submission_in(folder: Path, identity: str) -> Submission:
    """Return a campaign's submission; only those of arrays have a file."""
    path = Layout(folder).submission(identity)
    return Submission.read(path) if path.is_file() else Submission(identity, (identity,))


def purpose_of(folder: Path, comment: str, task: str) -> str:
    """Return what a campaign's job is for by its comment; of a task of an array, what the task is for."""
    if not task.isdecimal():
        return comment
    names = submission_in(folder, comment.rpartition("_")[2]).names
    return names[int(task)] if int(task) < len(names) else comment


@dataclass(frozen=True)
class JobReport:
    """What a scheduler says of a job that was submitted.

    Attributes
    ----------
    state
        In the scheduler's words, normalised.
    is_over, succeeded
        Whether it has ended, and well.
    may_resume
        Whether submitting it again can help.
    words
        How it ended, as in "it was cancelled".
    """

    state: str
    is_over: bool
    succeeded: bool = False
    may_resume: bool = False
    words: str = ""


@dataclass(frozen=True)
class JobEnds:
    """How jobs ended that did not succeed.

    Attributes
    ----------
    may_resume
        Whether starting again can help: time can be longer, nodes others, the scheduler back.
    words
        A sentence for each, with the next step where one is known.
    """

    may_resume: bool
    words: tuple[str, ...]


class JobEvents:
    """What is to be said of the jobs of a campaign's newest engine, line by line in a file, to whoever waits for it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0

    @classmethod
    def of_engine(cls, log: Path) -> JobEvents:
        """Return those of the engine with a log."""
        return cls(log.with_name("jobs.jsonl"))

    def begin(self) -> None:
        """Begin those of a new engine."""
        self._path.unlink(missing_ok=True)
        self._read = 0

    def write(self, words: str, **what: str | bool) -> None:
        """Add a line.

        Parameters
        ----------
        what
            ``job`` and ``state`` of one that has ended, ``may_resume``; ``refused`` with the scheduler's words.
        """
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps({"words": words, **what}) + "\n")

    def news(self) -> list[str]:
        """Return the sentences since the last call that are no ends of jobs."""
        events = self._events()
        new, self._read = events[self._read :] if self._read <= len(events) else events, len(events)
        return [str(event["words"]) for event in new if not {"job", "refused"} & event.keys()]

    def outcomes(self) -> JobEnds:
        """Return how jobs ended, and which were refused."""
        final = [event for event in self._events() if "job" in event or "refused" in event]
        may_resume = bool(final) and all(event.get("may_resume") is True for event in final)
        return JobEnds(may_resume, tuple(dict.fromkeys(str(event["words"]) for event in final)))

    def _events(self) -> list[dict[str, object]]:
        if not self._path.is_file():
            return []
        events: list[dict[str, object]] = []
        for line in self._path.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):  # half written, as the disk was full
                events.append(json.loads(line))
        return events


_TRANSIENT_STATES = frozenset(("TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "PREEMPTED", "REVOKED"))
"""After these starting again can help: time can be longer, nodes others."""

_ENDED = frozenset(("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE", "PREEMPTED", "REVOKED"))
_LOST = frozenset(("NODE_FAIL", "BOOT_FAIL"))
_LIVE = frozenset(
    (
        *("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"),
        *("STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"),
    )
)
_MESSAGES = {
    "BOOT_FAIL": "lost its node, which did not boot",
    "CANCELLED": "was cancelled",
    "DEADLINE": "was ended by its deadline (--deadline)",
    "FAILED": "failed",
    "NODE_FAIL": "lost its node",
    "OUT_OF_MEMORY": "ran out of memory (resources.memory_mb)",
    "PREEMPTED": "was preempted by another job",
    "REVOKED": "was taken by another cluster",
    "TIMEOUT": "ran out of time",
}


def state_in_full(text: str) -> str:
    """Return a job's state as one word, without by whom it was cancelled (``CANCELLED by 1000``); empty for none."""
    return text.strip().upper().partition(" ")[0]


def meaning_of(state: str) -> JobState:
    """Return what is known of a job by its state; of one that has no name here, nothing."""
    word = state_in_full(state)
    if word in _LOST:
        return JobState.LOST
    if word in _ENDED:
        return JobState.ENDED
    return JobState.LIVE if word in _LIVE else JobState.UNKNOWN


def report_of(state: str) -> JobReport:
    """Return what a job's state means to whoever submitted it."""
    word, meaning = state_in_full(state), meaning_of(state)
    is_over = meaning in (JobState.ENDED, JobState.LOST)
    words = _MESSAGES.get(word, f"ended as {word}") if is_over else ""
    return JobReport(word, is_over, word == "COMPLETED", word in _TRANSIENT_STATES, words)


def expand_nodes(text: str) -> tuple[str, ...]:
    """Write a list such as ``n[01-03,7],login`` out, name by name."""
    nodes: list[str] = []
    for part in re.findall(r"(?:[^,\[]|\[[^\]]*\])+", text):
        nodes.extend(_expand(part))
    return tuple(nodes)


def _expand(part: str) -> list[str]:
    match = re.search(r"\[([^\]]*)\]", part)
    if match is None:
        return [part]
    names = []
    for span in match[1].split(","):
        first, dash, last = span.partition("-")
        numbers = [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)] if dash else [first]
        for number in numbers:
            names.extend(_expand(part[: match.start()] + number + part[match.end() :]))
    return names
