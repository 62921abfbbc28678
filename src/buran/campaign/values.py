"""Types of the values in a campaign file: what is allowed, how it is refused, and what a key of the type decides."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    StringConstraints,
    WithJsonSchema,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticKnownError, core_schema

from buran.campaign.identity import Decides
from buran.campaign.point import canonical
from buran.campaign.strategies import BACKENDS, STRATEGIES
from buran.errors import UsageError
from buran.exponents import MOST_LOGS, MOST_POWER, read_exponents
from buran.profiles.metrics import requested_by
from buran.wording import Category

LARGEST = 2**53  # beyond it, models in floating point would not see the number that was run


@dataclass(frozen=True)
class OneOf:
    """A text out of names that are looked up when a file is checked; to a reader it is as a `Literal` of them."""

    names: Callable[[], Sequence[str]]

    def __get_pydantic_core_schema__(self, source: object, handler: object) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.checked)

    def __get_pydantic_json_schema__(self, schema: object, handler: object) -> JsonSchemaValue:
        return {"enum": [*self.names()], "type": "string"}

    def checked(self, value: object) -> object:
        """Return an allowed value; raise as a `Literal` does."""
        names = self.names()
        if value not in names:
            raise PydanticKnownError("literal_error", {"expected": " or ".join(map(repr, names))})
        return value


@dataclass(frozen=True)
class OrText:
    """Says in the JSON schema that a section has a short form, which is text."""

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": "string"}]}


MetricName = Annotated[str, OneOf(partial(requested_by, "metrics"))]
CounterName = Annotated[str, OneOf(partial(requested_by, "counters"))]
StrategyName = Annotated[str, OneOf(lambda: STRATEGIES.possible_names)]
BackendName = Annotated[str, OneOf(lambda: BACKENDS.possible_names)]


def _whole_text(value: object) -> object:
    """Let whole numbers stand for text, so that ``OMP_NUM_THREADS: 4`` needs no quotes."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    if not math.isfinite(value):
        raise ValueError("must be finite")
    if not 0 < value <= LARGEST:
        raise ValueError("must be greater than zero" if value <= 0 else "must be at most 2**53")
    return canonical(value)


WORD = r"[A-Za-z_][A-Za-z0-9_.+-]{0,63}"


def _value(value: object) -> object:
    if not isinstance(value, str):
        return _number(value)
    if not re.fullmatch(WORD, value) or value.lower() in ("nan", "inf", "infinity"):
        raise ValueError("must be a number, or a word: a letter, then up to 63 letters, digits and any of _ . + -")
    return Category(value)


def _formula(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError("must be a number or an expression over parameters")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("must be finite")
    return value


def _not_blank(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise ValueError("must not contain a NUL character" if value.strip() else "must not be empty")
    return value


def _no_option(value: str) -> str:
    if value.startswith("-"):
        raise ValueError("must not begin with a dash")
    return value


def _inside(value: str) -> str:
    if PurePosixPath(value).is_absolute() or ".." in PurePosixPath(value).parts:
        raise ValueError("must be a path inside the folder of the build or the run")
    return value


def _options(value: str) -> str:
    try:
        return shlex.join(shlex.split(value))  # the executor gives it to a shell
    except ValueError:
        raise ValueError("must be options with closed quotes") from None


def _no_term_twice(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        terms = [f"{power} {log}" for line in value for power, log in read_exponents(line)]
    except UsageError:
        what = "must be powers, each with powers of its logarithm, as in 4 0 1 or 7/2 0"
        limits = f"those of the logarithm from 0 to {MOST_LOGS}, and a power up to {MOST_POWER}"
        raise ValueError(f"{what}; {limits}") from None
    if twice := [term for term in terms if terms.count(term) > 1]:
        raise ValueError(f"must not have the term {twice[0]} twice")
    if "0 0" in terms:
        raise ValueError("must not have 0 0, which is no term")
    return value


def _not_twice(value: tuple[str, ...]) -> tuple[str, ...]:
    if twice := [name for name in value if value.count(name) > 1]:
        raise ValueError(f"must not name {twice[0]} twice")
    return value


def _compiled(value: str) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from error


def _named_groups(value: str) -> str:
    if not set(_compiled(value).groupindex) - {"repetition"}:
        raise ValueError("must have a named group for each parameter, as (?P<n>[0-9]+)")
    return value


def _one_number(value: str) -> str:
    if _compiled(value).groups != 1:
        raise ValueError("must have one group, around the number, as in rate: (\\S+) MB/s")
    return value


_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SOME = r"[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"
_WITH_UNIT = re.compile(rf"-?(?:\s*{_SOME}\s*[A-Za-z]+\s*)+")
_DURATION = re.compile(rf"(?:{_SOME}(?:{'|'.join(_UNITS)})(?![A-Za-z]))+")
_PARTS = re.compile(rf"({_SOME})([A-Za-z]+)")
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")


def seconds_in(text: str) -> float:
    """Return the seconds of a duration such as ``10min`` or ``1h30min``; ValueError for what is none."""
    text = "".join(text.split())
    if text.startswith("-"):
        raise ValueError("must be greater than zero")
    if not _DURATION.fullmatch(text):
        raise ValueError(f"must be a number and one of the units {', '.join(_UNITS)}; write for example 10min or 2h")
    return sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(text))


def budget_in(text: str) -> tuple[str, float]:
    """Return the key of a budget such as ``2h`` or ``20%``, and its value; ValueError for what is none."""
    if share := _PERCENT.fullmatch(text.strip()):
        return "percent_of_full_matrix", float(share[1])
    try:
        return "core_hours", seconds_in(text) / 3600
    except ValueError as error:
        raise ValueError(f"core hours {error}. Or give a share of the full matrix, as in 20%") from None


def _duration(value: object) -> object:
    """Turn a duration with a unit into seconds; a number is seconds, and so is an expression's value."""
    if not isinstance(value, str) or not _WITH_UNIT.fullmatch(value):
        return _formula(value)
    return canonical(seconds_in(value))


def _seconds(value: object) -> object:
    """Turn a duration with a unit into seconds; what is no text is left to be checked as a number."""
    return seconds_in(value) if isinstance(value, str) else value


_NUMBER_SCHEMA = {"type": "number", "exclusiveMinimum": 0, "maximum": LARGEST}
_VALUE_SCHEMA = {"type": ["number", "string"], "x-takes": "number or word"}
_FORMULA_SCHEMA = {"type": ["number", "string"], "description": "number, or expression over parameters"}
_DURATION_SCHEMA = {"type": ["number", "string"], "x-takes": "seconds, duration or expression"}
_SECONDS_SCHEMA = {"type": ["number", "string"], "x-takes": "seconds or duration"}

Text = Annotated[str, AfterValidator(_not_blank), Field(min_length=1)]
Argument = Annotated[Text, AfterValidator(_no_option)]
Inside = Annotated[Text, AfterValidator(_inside)]
JobOptions = Annotated[Text, AfterValidator(_options)]
Pattern = Annotated[str, AfterValidator(_named_groups)]
NumberPattern = Annotated[str, AfterValidator(_one_number)]
Identifier = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.,:@+-]*$")]
Plain = Annotated[str, BeforeValidator(_whole_text), WithJsonSchema({"type": ["string", "integer"]})]
Number = Annotated[int | float, BeforeValidator(_number), WithJsonSchema(_NUMBER_SCHEMA)]
ParameterValue = Annotated[int | float, PlainValidator(_value), WithJsonSchema(_VALUE_SCHEMA)]
Formula = Annotated[int | float | str, BeforeValidator(_formula), WithJsonSchema(_FORMULA_SCHEMA)]
Duration = Annotated[int | float | str, BeforeValidator(_duration), WithJsonSchema(_DURATION_SCHEMA)]
Seconds = Annotated[float, BeforeValidator(_seconds), Field(gt=0, le=1e12), WithJsonSchema(_SECONDS_SCHEMA)]
PointMapping = dict[str, ParameterValue]

Terms = Annotated[tuple[str, ...], AfterValidator(_no_term_twice), Field(min_length=1)]

T = TypeVar("T")
Distinct = Annotated[T, AfterValidator(_not_twice)]
OfTarget = Annotated[T, Decides.TARGET]
OfRun = Annotated[T, Decides.RUN]
OfPlan = Annotated[T, Decides.PLAN]
OfAnalysis = Annotated[T, Decides.ANALYSIS]
OfQueue = Annotated[T, Decides.QUEUE]
OfPlace = Annotated[T, Decides.FOLDER]
