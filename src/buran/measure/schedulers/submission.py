"""Submitting jobs: what is handed to a scheduler, how it may refuse, and what it says of them later."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from buran.campaign.layout import Layout
from buran.errors import ToolError
from buran.files import Stored
from buran.measure.schedulers.base import JobRequest


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
        """Whether it has tasks with numbers from 0."""
        return len(self.names) > 1


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
        How it ended, after "job 7".
    """

    state: str
    is_over: bool
    succeeded: bool = False
    may_resume: bool = False
    words: str = ""


def purpose_of(folder: Path, comment: str, task: str | None) -> str:
    """Return what a job of a campaign is for by its comment; of an array what one of its tasks is for."""
    if task is None or not task.isdecimal():
        return comment
    path = Layout(folder).submission(comment.rpartition("_")[2])
    names = Submission.read(path).names if path.is_file() else ()
    return names[int(task)] if int(task) < len(names) else comment


def script_of(command: str) -> str:
    """Return the script of a job that becomes a command."""
    return f"#!/bin/sh\nexec {command}\n"


__all__ = ["JobReport", "JobRequest", "NotSubmitted", "Refusal", "Submission", "purpose_of", "script_of"]
