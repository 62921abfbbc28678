"""Points: one value for each parameter, with a canonical spelling that identifies them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from buran.wording import Category, word_of

Value = int | float


def canonical(value: Value | str) -> Value:
    """Return whole numbers as ``int``, so that 4 and 4.0 are one value, and words as `Category`."""
    if isinstance(value, str):
        return Category(value)
    if isinstance(value, bool):
        raise TypeError(f"a parameter value must be a number, not {value!r}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return word_of(value) or value


def plain_value(value: Value) -> Value | str:
    """Return a word as text, and numbers as they are."""
    return value.label if isinstance(value, Category) else value


@dataclass(frozen=True, order=True)
class Point(Mapping[str, Value]):
    """One value for each parameter; hashable, ordered, independent of the order of writing.

    Attributes
    ----------
    items_
        Pairs of name and canonical value, sorted by name.
    """

    items_: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, values: Mapping[str, Value | str]) -> Point:
        """Make a point from a mapping of parameter names to numbers and words."""
        return cls(tuple(sorted((name, canonical(value)) for name, value in values.items())))

    @property
    def key(self) -> str:
        """Canonical spelling, as in ``n=1000,p=4``; part of paths in the store."""
        return ",".join(f"{name}={value!r}" for name, value in self.items_)

    @property
    def plain(self) -> dict[str, Value | str]:
        """As plain data, from which `of` makes it again: words are text."""
        return {name: plain_value(value) for name, value in self.items_}

    def __getitem__(self, name: str) -> Value:
        for parameter, value in self.items_:
            if parameter == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items_)

    def __len__(self) -> int:
        return len(self.items_)

    def __str__(self) -> str:
        return self.key


FEWEST = 10
"""A full run of fewer steps is hardly more expensive than the few that would stand for it."""
_SHARES = (20, 5)
"""Shares of the full number: what happens every k steps is linear at these if it is at the full number."""


def step_values(full: int) -> tuple[Value, ...]:
    """Return the numbers of steps to run: about a twentieth, a fifth, and the full number."""
    few = max(2, round(full / _SHARES[0]))
    return few, max(few + 1, round(full / _SHARES[1])), full


def has_all_steps(point: Point, full: Mapping[str, Value]) -> bool:
    """Tell whether a point has the full number of each of these parameters."""
    return all(point[name] == number for name, number in full.items())
