"""From YAML to the campaign file's shape, with every mismatch as a mistake."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails

from buran import __version__
from buran.campaign.document import YamlDocument
from buran.campaign.identity import FIRST_NAMES
from buran.campaign.mistakes import ANY, KeyPath, Mistake, did_you_mean, listed, nearest, spelled
from buran.campaign.shape import CampaignFile, shape_of_files
from buran.features import FEATURES
from buran.profiles.metrics import BROUGHT

_SECTION = "must hold keys of its own, as in `key: value`"
_KINDS = {
    "string_type": "must be text; put it in quotes if it is meant as such",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be finite",
    "tuple_type": "must be a list, as in [1, 2, 4]",
    "dict_type": _SECTION,
    "model_type": _SECTION,
    "model_attributes_type": _SECTION,
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}
_SWITCHES = {"on": "true", "yes": "true", "off": "false", "no": "false"}


def validate(document: YamlDocument) -> tuple[CampaignFile | None, list[Mistake]]:
    """Check types, limits and names of keys.

    Returns
    -------
    tuple
        The file's content without what is wrong, if there is one without it, and the mistakes.
    """
    try:
        return shape_of_files().model_validate(document.data), []
    except ValidationError as error:
        details = error.errors(include_url=False)
    # A list whose items are all wrong counts as empty too; the items say it better.
    paths = [_key_path(detail) for detail in details]
    mistakes = [
        _mistake(path, detail)
        for path, detail in zip(paths, details, strict=True)
        if detail["type"] != "too_short" or not any(path == other[: len(path)] != other for other in paths)
    ]
    try:
        return shape_of_files().model_validate(_without(document.data, set(paths))), mistakes
    except ValidationError:  # what is wrong cannot be left out
        return None, mistakes


def _key_path(detail: ErrorDetails) -> KeyPath:
    """Return where an error stands in the file; the tags of unions are no keys."""
    return tuple(part for part in detail["loc"] if part != "[key]" and not (isinstance(part, str) and part[:1] == "<"))


def _without(data: Any, paths: set[KeyPath], parent: KeyPath = ()) -> Any:
    if isinstance(data, Mapping):
        kept = {key: value for key, value in data.items() if (*parent, key) not in paths}
        return {key: _without(value, paths, (*parent, key)) for key, value in kept.items()}
    if isinstance(data, tuple):
        return tuple(_without(item, paths, (*parent, i)) for i, item in enumerate(data))
    return data


def _mistake(path: KeyPath, detail: ErrorDetails) -> Mistake:
    kind, value = detail["type"], detail["input"]
    shown = _shown(value)
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        earlier = FIRST_NAMES.get(tuple(map(str, path)))
        hint = f"{_example(path)}; earlier versions called it {spelled(earlier)}" if earlier else _example(path)
        return Mistake(path, f"the key {spelled(path)} is missing", _said(path, "description"), hint)
    if kind == "literal_error" and str(value) in BROUGHT.missing:
        refused = BROUGHT.refusal(str(value))
        return Mistake(path, f"{shown} is not known here", refused.why, refused.hint)
    if kind == "literal_error":
        allowed = [str(word) for word in _said(path, "enum") or [_said(path, "const")]]
        numbers = " and whole numbers" if _takes(path, "integer") else ""
        why = f"allowed are: {listed(allowed)}{numbers}"
        return Mistake(path, f"{shown} is not allowed", why, did_you_mean(str(value), allowed))
    if kind == "string_pattern_mismatch":
        return Mistake(path, f"{shown} is not allowed", _said(path, "description"))
    why = _KINDS.get(kind) or detail["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    if kind.startswith("model_") and _takes(path, "string"):
        why = why.replace("must hold", "must be text or hold")
    return Mistake(path, f"{shown} is not allowed", why, _hint(path, kind, value))


def _hint(path: KeyPath, kind: str, value: object) -> str | None:
    """Say what to write instead of a value of another kind."""
    if value is None:
        return "write what belongs there, or remove the line"
    if kind == "bool_type" and str(value).lower() in _SWITCHES:
        return f"write {_SWITCHES[str(value).lower()]}"
    if isinstance(value, str) and value.strip().replace(".", "", 1).isdigit():
        return f"write {value.strip()}, without quotes"
    if kind == "tuple_type" and not isinstance(value, Mapping | str):
        return f"write [{value}]"
    return _example(path)


def _example(path: KeyPath) -> str | None:
    """Return a hint with an example of a key, or of the nearest one above it that has some."""
    for end in range(len(path), 0, -1):
        if examples := schema_at(path[:end]).get("examples"):
            return f"write for example `{path[end - 1]}: {json.dumps(examples[0])}`"
    return None


def _takes(path: KeyPath, kind: str) -> bool:
    return any(variant.get("type") == kind for variant in variants(schema_at(path)))


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return f"[{listed(value, 4)}]" if value else "the empty list"
    if isinstance(value, Mapping):
        return f"{{{listed(value, 4)}}}" if value else "the empty mapping"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _unknown_key(path: KeyPath) -> Mistake:
    word, parent = str(path[-1]), path[:-1]
    what = f"unknown key {word!r}"
    if word in FEATURES.missing and (not parent or parent[:-1] == ("environments",)):
        refused = FEATURES.refusal(word)
        return Mistake(path, f"the key {word!r} is not known here", refused.why, refused.hint)
    first = (path[0], "", *path[2:]) if path[0] == "environments" else path
    if now := next((now for now, earlier in FIRST_NAMES.items() if earlier == first), None):
        return Mistake(path, what, "earlier versions had it", f"it is called {'.'.join(filter(None, now))} now")
    keys = _said(parent, "properties") or {}
    if (close := nearest(word, keys)) is not None:
        return Mistake(path, what, hint=f"did you mean {close!r}?")
    if elsewhere := [other for other in all_keys() if other.endswith(f".{word}") or other == word]:
        return Mistake(path, what, hint=f"it belongs elsewhere: {' or '.join(elsewhere)}")
    location = f"under {spelled(parent)}" if parent else "at the top"
    hint = f"remove it, or use the version of Buran that the file was written for; this one is {__version__}"
    return Mistake(path, what, f"allowed {location} are: {', '.join(keys)}", hint)


class _SchemaOfFile(GenerateJsonSchema):
    """Keeps the order of writing, which examples in the reference need."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value


def file_schema() -> JsonSchemaValue:
    """Return the JSON schema of campaign files."""
    return schema_of(shape_of_files())


@cache
def schema_of(shape: type[CampaignFile]) -> JsonSchemaValue:
    """Return the JSON schema of a shape of campaign files."""
    return shape.model_json_schema(schema_generator=_SchemaOfFile)


def variants(schema: JsonSchemaValue) -> Iterator[JsonSchemaValue]:
    """Yield a schema, or what it refers to and offers as alternatives."""
    if "$ref" in schema:
        yield from variants(file_schema()["$defs"][schema["$ref"].rpartition("/")[2]])
    elif "anyOf" in schema or "oneOf" in schema:
        for variant in schema.get("anyOf") or schema["oneOf"]:
            yield from variants(variant)
    else:
        yield schema


def schema_at(path: KeyPath) -> JsonSchemaValue:
    """Return the schema of a key; empty for one that there is not."""
    schema = file_schema()
    for key in path:
        of_list = "items" if isinstance(key, int) else "additionalProperties"
        below = (each.get("properties", {}).get(key) or each.get(of_list) for each in variants(schema))
        schema = next((each for each in below if isinstance(each, dict)), {})
    return schema


def _said(path: KeyPath, word: str) -> Any:
    """Return what the schema of a key, or of one of its alternatives, says by a word; None if it does not."""
    schema = schema_at(path)
    return next((each[word] for each in (schema, *variants(schema)) if word in each), None)


def all_keys(path: KeyPath = (), schema: JsonSchemaValue | None = None) -> Iterator[str]:
    """Yield all keys below one, spelled out; `ANY` stands for names, and entries of lists have no numbers."""
    for variant in variants(file_schema() if schema is None else schema):
        for key, below in variant.get("properties", {}).items():
            yield spelled((*path, key))
            yield from all_keys((*path, key), below)
        if "items" in variant:
            yield from all_keys(path, variant["items"])
        elif isinstance(variant.get("additionalProperties"), Mapping) and path[-1:] != (ANY,):
            yield from all_keys((*path, ANY), variant["additionalProperties"])
