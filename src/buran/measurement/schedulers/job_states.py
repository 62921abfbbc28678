"""States of jobs, by the names that are best known, whichever the scheduler: what they mean and how they are said."""

from __future__ import annotations

from buran.measurement.schedulers.base import JobState
from buran.measurement.schedulers.submission import JobReport

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
