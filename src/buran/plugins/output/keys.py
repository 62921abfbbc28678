"""Keys about the output of programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from buran.campaign.identity import Keys
from buran.campaign.mistakes import KeyPath, Mistake
from buran.campaign.values import NumberPattern, OfAnalysis, OfQueue, Text

if TYPE_CHECKING:
    from buran.campaign.shape import CampaignFile


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


class FigureKeys(Keys, title="Figure"):
    """A number that the program prints."""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, data: object) -> object:
        return {"pattern": data} if isinstance(data, str) else data

    pattern: OfAnalysis[NumberPattern] = Field(description="Regular expression with one group, around the number.")
    unit: OfAnalysis[str] = Field("", description="Its unit, for readers.", examples=["1/s"])
    better: OfAnalysis[Literal["higher", "lower", "neither"]] = Field(
        "neither", description="Which values are better, for comparisons of versions."
    )


def figures_of(config: CampaignFile) -> dict[str, FigureKeys]:
    """Return the figures that a campaign asks for, by name."""
    figures: dict[str, FigureKeys] = config.figures  # type: ignore[attr-defined]
    return figures


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
