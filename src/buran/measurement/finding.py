"""The state of a part of this machine, and the consequences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Health(StrEnum):
    """How a part of the machine stands."""

    WORKS = "works"
    LIMITED = "limited"
    MISSING = "missing"
    NEEDED = "needed"  # missing, and nothing can be measured without it


@dataclass(frozen=True)
class Finding:
    """One part of the machine.

    Attributes
    ----------
    found
        What is there, or why it is not.
    costs
        What the lack costs; empty where all is well.
    remedy
        The command or the setting that helps.
    """

    part: str
    state: Health
    found: str
    costs: str = ""
    remedy: str = ""
