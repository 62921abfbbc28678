"""What an evaluation found: figures with their uncertainty, tables and curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA = 1
_ERRORS = 2.0  # standard errors within which two numbers are the same


class Kind(StrEnum):
    """Where a figure comes from."""

    MEASURED = "measured"  # programs that really ran, or data of real runs
    SIMULATED = "simulated"  # data made from known functions
    LITERATURE = "literature"  # printed in the paper that a method is from


@dataclass(frozen=True)
class Figure:
    """One number.

    Attributes
    ----------
    name
        Unique within the evaluation, words separated by blanks.
    unit
        As ``%``, ``s`` or ``core h``; empty for ratios and counts.
    value
        None if it could not be determined; `note` says why.
    standard_error
        None where it has none, as for a single run or a number of the literature.
    samples
        Number of independent samples behind it.
    goal
        What it should be, in words such as ``at least 90``.
    """

    name: str
    value: float | None
    unit: str = ""
    standard_error: float | None = None
    samples: int = 1
    kind: Kind = Kind.SIMULATED
    goal: str = ""
    note: str = ""

    def __str__(self) -> str:
        if self.value is None:
            return "none"
        error = "" if self.standard_error is None else f" ± {self.standard_error:.2g}"
        return f"{self.value:.4g}{error}{' ' if self.unit else ''}{self.unit}"


@dataclass(frozen=True)
class Table:
    """A table; cells are texts or numbers."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class Curve:
    """One line of a plot."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]
    y_error: tuple[float, ...] | None = None
    dashed: bool = False


@dataclass(frozen=True)
class Plot:
    """Curves over one pair of axes.

    Attributes
    ----------
    name
        Name of the file, without ending.
    """

    name: str
    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    log_x: bool = False
    log_y: bool = False


class Verdict(StrEnum):
    """How our number relates to that of a paper."""

    REPRODUCED = "reproduced"
    DIFFERS = "differs"
    ALONE = "not in the paper"
    MISSING = "not available"


@dataclass(frozen=True)
class Beside:
    """A number of a paper, and ours by the same protocol.

    Attributes
    ----------
    element
        What the number is of: a figure or table of the paper and its circumstances.
    published, here
        None where there is none.
    standard_error, published_error
        Standard errors of `here` and of `published`; None where they have none.
    why
        The reason of a difference, or of a number that one side does not have; empty where it is not known.
    """

    element: str
    published: float | None
    here: float | None
    unit: str = ""
    standard_error: float | None = None
    samples: int = 1
    why: str = ""
    published_error: float | None = None

    @property
    def verdict(self) -> Verdict:
        """What the numbers say: reproduced is what lies within two standard errors of the difference."""
        if self.here is None:
            return Verdict.MISSING
        if self.published is None:
            return Verdict.ALONE
        error = math.hypot(self.standard_error or 0.0, self.published_error or 0.0)
        return Verdict.REPRODUCED if abs(self.here - self.published) <= _ERRORS * error else Verdict.DIFFERS


@dataclass(frozen=True)
class Evaluation:
    """Everything an evaluation found.

    Attributes
    ----------
    beside
        Numbers of a paper with ours, of the preset ``published``.
    modeller
        What made the models that these were judged by, where there is a choice.
    cpu_s
        CPU time of all shards, programs that they started included.
    """

    title: str
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    plots: tuple[Plot, ...] = ()
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    beside: tuple[Beside, ...] = ()
    modeller: str = ""
    cpu_s: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {"schema": SCHEMA, **asdict(self)}
