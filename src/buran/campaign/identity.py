"""What each key of a campaign file decides, and the form of a file in which two that ask the same are equal."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from buran.files import JsonObject

DECIDES = "x-decides"
"""Name, in the JSON schema, of what a key decides."""


class Decides(Enum):
    """What a key decides, and so what a change of it causes; stands in the key's type, as ``Annotated[int, PLAN]``."""

    TARGET = "target"
    RUN = "run"
    PLAN = "plan"
    ANALYSIS = "analysis"
    QUEUE = "queue"
    FOLDER = "place"

    @property
    def changes_the_question(self) -> bool:
        """Whether campaigns that differ in such a key are different ones."""
        return self not in (Decides.QUEUE, Decides.FOLDER)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Say it in the JSON schema."""
        return {**handler(schema), DECIDES: self.value}


class Keys(BaseModel):
    """Base of all groups of keys in files: immutable, no unknown keys, no silent conversion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Describe each key as the section ``Attributes`` of the docstring does."""
        out = handler(schema)
        described = handler.resolve_ref_schema(out)
        text, _, attributes = inspect.cleandoc(cls.__doc__ or "").partition("\n\nAttributes\n----------\n")
        described["description"] = text
        for key, meaning in re.findall(r"^(\w+)\n((?: +.*\n?)+)", attributes, re.MULTILINE):
            described["properties"][key]["description"] = " ".join(meaning.split())
        return out


def decides(field: FieldInfo) -> Decides | None:
    """Return what a key decides; None where only the keys below it do."""
    return next((entry for entry in field.metadata if isinstance(entry, Decides)), None)


def requested(section: Keys) -> dict[str, Any]:
    """Return, as plain data, what a section asks for: its keys that are not at their default and change the question.

    So a key that is new in Buran changes no campaign that does not use it.
    """
    keys: dict[str, Any] = {}
    for name, field in type(section).model_fields.items():
        value, decided = getattr(section, name), decides(field)
        if decided is not None and not decided.changes_the_question:
            continue
        if value == field.get_default(call_default_factory=True):
            continue
        plain = _plain(value)
        if plain or not isinstance(value, Keys):  # a section whose keys do not count does not count
            keys[name] = plain
    return keys


def _plain(value: Any) -> Any:
    if isinstance(value, Keys):
        return requested(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


FIRST_NAMES: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("target",): ("refinement", "target"),
    ("resources", "time_limit"): ("resources", "time_limit_s"),
    ("resources", "expected_time"): ("resources", "expected_s"),
    ("refinement", "threshold"): ("refinement", "threshold_s"),
    ("figures",): ("command", "figures_of_merit"),
    ("environments", "", "machine", "run_limit"): ("environments", "", "machine", "run_limit_s"),
    ("program",): ("target",),
}
"""Keys that earlier versions called otherwise; the name of an environment is left empty."""


def with_first_names(keys: JsonObject) -> dict[str, Any]:
    """Return keys by their first names, which identities keep, so that measured campaigns are found again."""
    out = copy.deepcopy(dict(keys))
    for path, first in FIRST_NAMES.items():
        section, other = out, out
        for part in path[:-1]:
            section = section.get(part, {})
        if path[-1] in section:
            value = section.pop(path[-1])
            for part in first[:-1]:
                other = other.setdefault(part, {})
            other[first[-1]] = value
    return out
