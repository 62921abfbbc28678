"""The errors a user can cause or meet, each with the exit code the command line ends with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from pathlib import Path


class Exit(IntEnum):
    """Exit codes of the ``buran`` command."""

    DONE = 0
    SOME_RUNS_FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    BUDGET_REACHED = 4
    GROWN = 5
    CHANGED = 6
    CRASHED = 70
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        """What it tells the user."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.DONE: "done",
    Exit.SOME_RUNS_FAILED: "some builds or runs failed; `buran status` names them",
    Exit.USAGE: "a mistake in the command line or the campaign file",
    Exit.ENVIRONMENT: "something is missing on this machine, or the workflow stopped early",
    Exit.BUDGET_REACHED: "done, but short of what was requested: the budget pays for the first runs only, the accuracy "
    "or the target is out of reach, or effort depends on the run; the reason says which",
    Exit.GROWN: "`buran report --compare --fail-on`: something grew since the earlier campaign",
    Exit.CHANGED: "`buran history --check`: a count changed, or a time is outside the interval of earlier versions",
    Exit.CRASHED: "a bug in Buran; the message names a file with details",
    Exit.INTERRUPTED: "interrupted; `buran run` resumes",
}


class BuranError(Exception):
    """Base of all errors that are shown to the user without a traceback.

    Parameters
    ----------
    what
        What went wrong, in one sentence.
    where
        File, line and key, or the run, that it concerns.
    why
        The reason, with the offending value and what is allowed.
    hint
        What to do next.
    """

    exit_code: Exit = Exit.ENVIRONMENT

    def __init__(
        self, what: str, *, where: str | Path | None = None, why: str | None = None, hint: str | None = None
    ) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.why = why
        self.hint = hint
        super().__init__(what)

    @property
    def line(self) -> str:
        """What went wrong and why, on one line."""
        return " ".join((f"{self.what}: {self.why}" if self.why else self.what).split())

    def __str__(self) -> str:
        labelled = (("where", self.where), ("why", self.why), ("next", self.hint))
        lines = [self.what]
        for label, text in labelled:
            if text:
                first, *rest = text.splitlines()
                lines.append(f"  {label + ':':<7}{first}")
                lines.extend(f"         {line}" for line in rest)
        return "\n".join(lines)


class UsageError(BuranError):
    """A command line or a request that cannot be carried out as written."""

    exit_code = Exit.USAGE


class ConfigError(UsageError):
    """A mistake in a campaign file."""


class FormatError(UsageError):
    """An input file that is truncated, foreign or not what it claims to be."""


class ToolError(BuranError):
    """A compiler, an MPI or another tool that is missing or does not work."""


class PluginError(BuranError):
    """Something that another package brings for Buran and that does not work."""


class BuildError(BuranError):
    """A target that does not build."""


class RunError(BuranError):
    """A run whose result cannot be trusted: crashed, timed out, incomplete."""


class MetricError(RunError):
    """A profile without a metric that every run of the build would lack.

    Parameters
    ----------
    metric
        Its name.
    """

    def __init__(
        self, metric: str, *, where: str | Path | None = None, why: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(f"the profile has no {metric}", where=where, why=why, hint=hint)
        self.metric = metric


class CrashError(BuranError):
    """An error that nobody foresaw."""

    exit_code = Exit.CRASHED


class StorageError(BuranError):
    """A file system that is full, read-only, away or closed to this user."""


def check_coordinates(point: Mapping[str, object], names: Sequence[str], option: str = "") -> None:
    """Check that a point has a value for each name and for no other.

    Parameters
    ----------
    option
        Option of the command line, that the point was given with.

    Raises
    ------
    UsageError
        With the names that are missing, and those that there are not.
    """
    missing, unknown = [name for name in names if name not in point], [name for name in point if name not in names]
    problems = [f"no value of {', '.join(missing)}"] if missing else []
    problems += [f"there is no {', '.join(unknown)}"] if unknown else []
    if problems:
        example = ",".join(f"{name}=..." for name in names)
        why = f"it has {'; '.join(problems)}" if missing else problems[0]
        text = ",".join(
            f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in point.items()
        )
        raise UsageError(f"{option} {text} is no point of these parameters".lstrip(), why=why, hint=f"write {example}")
