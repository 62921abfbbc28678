"""What sanity checks add to campaigns; the checks themselves are imported where they are made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from buran.campaign.identity import Keys
from buran.campaign.mistakes import KeyPath, Mistake
from buran.campaign.values import NumberPattern, OfQueue, Text
from buran.features import Feature, Key, Start, Watch

if TYPE_CHECKING:
    from buran.campaign.records import RunRecord
    from buran.campaign.shape import CampaignFile
    from buran.loop.history import History


class ReferenceKeys(Keys, title="Reference"):
    """A number that a program prints, and what it must be."""

    pattern: OfQueue[NumberPattern] = Field(description="Regular expression with one group, around the number.")
    value: OfQueue[float] = Field(description="The reference.")
    tolerance: OfQueue[Annotated[float, Field(ge=0)]] = Field(
        0.0, description="Largest deviation: a share of the reference, of 0 a number."
    )


class SanityKeys(Keys, title="Sanity"):
    """What the output of a run must look like for the run to count."""

    found: OfQueue[tuple[Text, ...]] = Field(
        (), description="Regular expressions, each of which must match a line of the output.", examples=[["PASSED"]]
    )
    not_found: OfQueue[tuple[Text, ...]] = Field(
        (), description="Regular expressions that must match no line.", examples=[["\\bnan\\b", "ERROR"]]
    )
    references: OfQueue[tuple[ReferenceKeys, ...]] = Field(
        (),
        description="Numbers with their references. A number that is printed several times counts each time.",
        examples=[[{"pattern": "mass = (\\S+)", "value": 1.0, "tolerance": 0.001}]],
    )


_KEY = Key(
    OfQueue[SanityKeys],
    SanityKeys(),
    "Conditions on what a program prints, on standard output or standard error of any rank. A run that does not meet "
    "them is a failed run. Runs made before a condition was added stay; the report names those that do not meet it.",
)


def pattern_mistakes(path: KeyPath, pattern: str) -> Iterator[Mistake]:
    """Refuse a pattern that cannot be read, or says nothing."""
    try:
        matches_all = re.search(pattern, "") is not None
    except re.error as error:
        yield Mistake(path, "this is no regular expression", str(error), "put a backslash before ( [ * + ? .")
        return
    if matches_all:
        hint = "write what the line has, as PASSED or 'residual = (\\S+)'"
        yield Mistake(path, f"{pattern!r} matches every line, also an empty one", "nothing follows from it", hint)


def _mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Refuse patterns that say nothing."""
    sanity = config.sanity  # type: ignore[attr-defined]
    for name in ("found", "not_found"):
        for position, pattern in enumerate(getattr(sanity, name)):
            yield from pattern_mistakes(("sanity", name, position), pattern)
    for position, reference in enumerate(sanity.references):
        yield from pattern_mistakes(("sanity", "references", position, "pattern"), reference.pattern)


@dataclass(frozen=True)
class _SanityWatch:
    """Checks the output of one run after its end."""

    keys: SanityKeys
    files: tuple[Path, ...]

    def sample(self) -> None:
        """Look at nothing while the program runs."""

    def complete(self, record: RunRecord) -> RunRecord:
        """Return the record as it is."""
        return record

    def failure(self) -> str | None:
        """Return which condition the output does not meet."""
        from buran.plugins.output.check import violations

        (violation,) = violations(self.keys, [self.files])
        return None if violation is None else f"sanity: {violation}"


def _watch(start: Start) -> Watch | None:
    keys = start.campaign.config.sanity  # type: ignore[attr-defined]
    return None if keys == _KEY.default else _SanityWatch(keys, (start.job.stdout, start.job.stderr))


def _notes(history: History) -> Iterable[str]:
    from buran.plugins.output.check import earlier_runs

    keys = history.session.campaign.config.sanity  # type: ignore[attr-defined]
    return () if keys == _KEY.default else earlier_runs(keys, history)


FEATURE = Feature("sanity", _KEY, mistakes=_mistakes, watch=_watch, notes=_notes)
