"""Numbers that tune a method say what they mean and where they are from.

Every package of methods has a module `tuning` with frozen dataclasses of such numbers. A number that decides nothing
but rounding, memory or overflow stays where it is used, with a comment.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeVar

T = TypeVar("T")

JUDGED = "judgement when first written; unchanged since, no record of tuning"
MODELLER = "no record of its own; all was tuned on seeds other than the reported ones (evidence/models.md)"
CORRECTIONS = "no record of its own; choices were made on the seeds 7001 and 7003 (evidence/correction.md)"
TENSORS = "no record of its own; choices were made under seeds other than the reported one (evidence/tensor.md)"


def tuned(value: T, meaning: str, origin: str) -> T:
    """Declare a number of a frozen dataclass: its value, what it means and where it is from."""
    return field(default=value, metadata={"meaning": meaning, "origin": origin})
