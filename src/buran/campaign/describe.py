"""What the keys of a campaign file mean: types, defaults and examples as text, from its schema."""

from __future__ import annotations

import difflib
import json
import re
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic.json_schema import JsonSchemaValue

from buran.campaign.document import RENAMED, todays_name
from buran.campaign.identity import DECIDES, Decides
from buran.campaign.mistakes import spelled
from buran.campaign.validation import all_keys, schema_at, variants
from buran.errors import UsageError
from buran.features import FEATURES

_WIDTH = 78


def explained(key: str) -> str:
    """Return what a key takes, means, and causes when it is changed.

    Parameters
    ----------
    key
        Its path, as ``target``; NAME, or any name, stands for that of a parameter or an environment.

    Raises
    ------
    UsageError
        There is no such key, or it belongs to a plug-in that is not installed.
    """
    written = key = re.sub(r"\[\d+\]", "", key.strip())  # messages number the entries of lists
    earlier = {old[-1]: new for old, new in RENAMED.items() if old != ("refinement", "target")}
    now = todays_name(tuple(key.split("."))) or earlier.get(key)
    if now is not None:
        key = spelled(now)
    elif not schema_at(tuple(key.split("."))):
        found = [other for other in all_keys() if other.rpartition(".")[2] == key]
        missing = [word for word in key.split(".") if word in FEATURES.missing]
        if missing and not found:
            raise FEATURES.refusal(missing[0])
        if len(found) != 1:
            near = found or _near(key)
            hint = f"did you mean {' or '.join(near)}?" if near else "docs/reference/campaign.md lists all keys"
            raise UsageError(f"there is no key {key!r}", why="campaign files know no such key", hint=hint)
        key = found[0]
    schema = schema_at(tuple(key.split(".")))
    default = default_of(schema)
    lines = [f"{written} is called {key} now"] if now is not None else []
    lines += [f"{key}: {type_of(schema)}{f', default {default}' if default else ''}".replace("`", "")]
    lines += textwrap.wrap(schema.get("description", ""), _WIDTH, initial_indent="  ", subsequent_indent="  ")
    lines += [f"  example: {key.rpartition('.')[2]}: {literal(each)}" for each in schema.get("examples", ())]
    causes = {kind.word: kind.effect for kind in Decides}.get(str(schema.get(DECIDES)))
    below = [name for variant in variants(schema) for name in variant.get("properties", ())]
    if below:
        lines += textwrap.wrap(f"keys: {', '.join(below)}", _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return "\n".join([*lines, *([f"  a change: {causes}"] if causes else [])])


def _near(key: str) -> list[str]:
    """Return the keys that a misspelt one may mean, by their last words or how these begin, best first."""

    def likeness(word: str, other: str) -> float:
        return difflib.SequenceMatcher(None, word.lower(), other.lower()).ratio()

    last, alike = key.rpartition(".")[2], {}
    for other in all_keys():
        word = other.rpartition(".")[2]
        if max(likeness(last, word), likeness(last, word[: len(last) + 1])) >= 0.75:
            alike[other] = likeness(last, word) + likeness(key, other)
    best = sorted(alike, key=lambda other: -alike[other])[:3]
    return [other for other in best if alike[other] > alike[best[0]] - 0.5]


def default_of(schema: JsonSchemaValue) -> str:
    """Return the default of a key as it would stand in a campaign file; empty where there is none."""
    default = schema.get("default")
    return f"`{literal(default)}`" if default is not None and not isinstance(default, Mapping) else ""


def literal(value: Any) -> str:
    """Write a value as it would stand in a campaign file."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {literal(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    if isinstance(value, str):
        return f'"{value}"' if any(sign in value for sign in " {}(%*'") else value
    return json.dumps(value)


def type_of(schema: JsonSchemaValue) -> str:
    """Return what a key takes, as text."""
    names = dict.fromkeys(_type_name(variant) for variant in variants(schema))
    names.pop("null", None)
    return " or ".join(names)


def _type_name(schema: JsonSchemaValue) -> str:
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if "x-takes" in schema:
        return str(schema["x-takes"])
    kinds = schema.get("type", "object")
    if kinds == "array":
        of = type_of(schema["items"])
        return f"list of {_PLURALS.get(of, of)}"
    if isinstance(kinds, list):
        return "number or expression" if "number" in kinds else "text"
    if isinstance(values := schema.get("additionalProperties"), dict):
        return "point" if "exclusiveMinimum" in values else _by_name(type_of(values))
    if kinds in ("integer", "number"):
        return _number(schema, "integer" if kinds == "integer" else "number")
    return {"string": "text", "boolean": "`true`, `false`", "object": "section"}.get(str(kinds), str(kinds))


_PLURALS = {
    "point": "points",
    "section": "sections",
    "positive number": "positive numbers",
    "positive integer": "positive integers",
}
_NO_LIMIT = 1_000_000  # limits from here on only keep out typing errors


def _by_name(kind: str) -> str:
    return kind if kind.endswith("by name") else f"{_PLURALS.get(kind, kind)} by name"


def _number(schema: JsonSchemaValue, kind: str) -> str:
    """Spell a number and its limits."""
    above, least, below, most = (
        schema.get(word) for word in ("exclusiveMinimum", "minimum", "exclusiveMaximum", "maximum")
    )
    most = None if most is not None and most >= _NO_LIMIT else most
    if least is not None and most is not None:
        return f"{kind}, {least} to {most}"
    if most is None and below is None and (above == 0 or (least == 1 and kind == "integer")):
        return f"positive {kind}"
    limits = [
        f"{sign} {limit}"
        for sign, limit in ((">", above), ("≥", least), ("<", below), ("≤", most))
        if limit is not None
    ]
    return " ".join([kind, ", ".join(limits)]).rstrip()
