"""Numbers that tune a method say what they mean and where they are from.

Every package of methods has a module `tuning` with frozen dataclasses of such numbers, and
`docs/development/tuning.md` lists them all. A number that decides nothing but rounding, memory or overflow stays where
it is used, with a comment.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, is_dataclass
from types import ModuleType
from typing import Any, TypeVar

T = TypeVar("T")

JUDGED = "judgement when first written; unchanged since, no record of tuning"
MODELLER = "no record of its own; all was tuned on seeds other than the reported ones (reference/modeller.md)"
CORRECTIONS = "no record of its own; choices were made on the seeds 7001 and 7003 (reference/correction.md)"
TENSORS = "no record of its own; choices were made under seeds other than the reported one (reference/tensor.md)"


def tuned(value: T, meaning: str, origin: str) -> T:
    """Declare a number of a frozen dataclass: its value, what it means and where it is from."""
    return field(default=value, metadata={"meaning": meaning, "origin": origin})


@dataclass(frozen=True)
class TunedNumber:
    """A number that tunes a method.

    Attributes
    ----------
    method
        Name of the dataclass.
    name, value, meaning, origin
        Of the field; empty where nothing is said.
    """

    method: str
    name: str
    value: object
    meaning: str
    origin: str


def tuned_numbers(module: ModuleType) -> Iterator[TunedNumber]:
    """Yield the numbers of a module's dataclasses: of all in a module `tuning`, elsewhere of those with origins."""
    for name, kind in inspect.getmembers(module, inspect.isclass):
        if kind.__module__ == module.__name__ and is_dataclass(kind):
            said: list[Any] = [each.metadata for each in fields(kind)]
            if module.__name__.endswith(".tuning") or any("origin" in each for each in said):
                for each, own in zip(fields(kind), said, strict=True):
                    yield TunedNumber(name, each.name, each.default, own.get("meaning", ""), own.get("origin", ""))
