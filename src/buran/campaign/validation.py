"""From YAML to the campaign file's shape, with every mismatch as a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails

from buran import __version__
from buran.campaign.identity import Keys
from buran.campaign.mistakes import ANY, KeyPath, Mistake, listed, nearest, spelled
from buran.campaign.shape import CampaignFile, shape_of_files
from buran.campaign.strategies import STRATEGIES
from buran.campaign.yaml_document import YamlDocument
from buran.features import FEATURES
from buran.profiles.metrics import BROUGHT

MINIMAL = {
    "name": "name: my-campaign",
    "program": "program: {source: ., build: 'make CC={mpicc}', binary: program, run: '{binary} {n}'}",
    "parameters": "parameters: {p: [1, 2, 4], n: [100, 200, 300]}",
}
"""The least that keys which every file needs may hold."""

_KINDS = {
    "string_type": "must be text; put it in quotes if it is meant as such",
    "bool_type": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be finite",
    "tuple_type": "must be a list, as in [1, 2, 4]",
    "dict_type": "must hold keys of its own, as in `key: value`",
    "model_type": "must hold keys of its own, as in `key: value`",
    "model_attributes_type": "must hold keys of its own, as in `key: value`",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}


_SWITCHES = {"on": "true", "yes": "true", "off": "false", "no": "false"}
_THOUSANDS = re.compile(r"\s*(\d+(?:\.\d+)?)([kKmM])\s*")
_SPAN = re.compile(r"\s*(\d+)\s*(?:\.{2,3}|-|:)\s*(\d+)\s*")  # 1..8, 1-8, 1:8
_PIRA = "the rules of PIRA II are `refinement: {strategy: filter-and-expand, start: statements}`"
_PRIOR_FIT = "how priors are fitted is a key of its own: write model: {prior_fit: published}"
_OTHER_NAMES: Mapping[tuple[KeyPath, str], str] = {
    **{
        (path, word): _PIRA
        for path in (("refinement",), ("refinement", "strategy"))
        for word in ("rules", "pira", "pira2")
    },
    **{
        (("strategy", "name"), before): f"it is called {now} now: write {now}"
        for before, now in STRATEGIES.renamed.items()
    },
}
"""Hints for values that others, or earlier versions, call so, by key path."""


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
        _mistake(detail)
        for detail, path in zip(details, paths, strict=True)
        if detail["type"] != "too_short" or not any(path == other[: len(path)] != other for other in paths)
    ]
    cleaned = _without(document.data, {_key_path(detail) for detail in details})
    try:
        return shape_of_files().model_validate(cleaned), mistakes
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


def _mistake(detail: ErrorDetails) -> Mistake:
    path, kind = _key_path(detail), detail["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path)
    if kind == "missing":
        least = "role: size" if path[-1] == "role" else MINIMAL.get(spelled(path))
        return Mistake(
            path, f"the key {spelled(path)} is missing", _meaning(path), least and f"write for example `{least}`"
        )
    shown = _shown(detail["input"])
    if kind == "literal_error" and str(detail["input"]) in BROUGHT.missing:
        refused = BROUGHT.refusal(str(detail["input"]))
        return Mistake(path, f"{shown} is not known here", refused.why, refused.hint)
    if kind == "literal_error":
        allowed = list(_schema_at(path, "enum") or [_schema_at(path, "const")])
        close = nearest(str(detail["input"]), allowed)
        hint = _OTHER_NAMES.get((path, str(detail["input"]))) or _belongs(detail["input"], path)
        if path == ("model", "priors") and isinstance(detail["input"], Mapping):
            hint = _PRIOR_FIT
        hint = hint or (None if close is None else f"did you mean {close!r}?")
        numbers = " and whole numbers" if _takes(path, "integer") else ""
        return Mistake(path, f"{shown} is not allowed", f"allowed are: {listed(allowed)}{numbers}", hint)
    if kind == "string_pattern_mismatch":
        return Mistake(path, f"{shown} is not allowed", _meaning(path))
    why = _KINDS.get(kind) or detail["msg"].replace("Input should be", "must be")
    if kind.startswith("model_") and _takes(path, "string"):
        why = why.replace("must hold", "must be text or hold")
    return Mistake(path, f"{shown} is not allowed", why, _kind_hint(path, kind, detail["input"]))


def _takes(path: KeyPath, kind: str) -> bool:
    return any(variant.get("type") == kind for variant in variants(schema_at(path)))


def _belongs(value: object, path: KeyPath) -> str | None:
    """Name the key at the top whose list takes a value that stands in the list of another one."""
    for key in _keys_at(()):
        if key != path[0] and value in (_schema_at((key, 0), "enum") or ()):
            return f"{value!r} belongs to another key: `{key}: [{value}]`"
    return None


def _kind_hint(path: KeyPath, kind: str, value: object) -> str | None:
    """Say what to write instead of a value of another kind."""
    if value is None:
        return "write what belongs there, or remove the line"
    if path == ("budget",) and isinstance(value, int | float):
        return f"write `budget: {value}h` for core hours, or `budget: {value}%` for a share of the full matrix"
    if path == ("target",):
        return "write a value of each parameter, as in `target: {p: 1024, n: 6000}`"
    if path[:-1] == ("parameters",) and isinstance(value, int | float | str):
        return _values_hint(str(path[-1]), value)
    if hint := _OTHER_NAMES.get((path, value)) if isinstance(value, str) else None:
        return hint
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return _section_hint(path, value)
    if kind == "tuple_type":
        return _list_hint(path, value)
    if kind == "string_type" and isinstance(value, tuple) and all(isinstance(word, str) for word in value):
        return f"write them as one text: '{' '.join(value)}'"
    if kind == "number" and isinstance(value, bool) and path[-2:-1] == ("values",):
        return f"put it in quotes if it is a word of a choice: '{str(value).lower()}'"
    return _word_hint(kind, value) if isinstance(value, str) else None


def _values_hint(name: str, value: float | str) -> str:
    if isinstance(value, str) and (span := _SPAN.fullmatch(value)):
        role = "ranks" if name in ("p", "ranks") else "size"
        keys = f"{{role: {role}, range: {{start: {span[1]}, stop: {span[2]}, step: 1}}}}"
        return f"write `{name}: {keys}`, or `factor: 2` for `step`"
    return f"write at least two values, as in `{name}: [{value}, ...]`; what never varies is no parameter"


def _section_hint(path: KeyPath, value: object) -> str | None:
    if isinstance(value, tuple):
        pairs = [word.partition("=") for word in value if isinstance(word, str) and "=" in word]
        return f"write {{{', '.join(f'{name}: {text}' for name, _, text in pairs)}}}" if pairs else None
    keys = list(_keys_at(path))
    if not keys or not isinstance(value, int | float | str):
        return None
    if path == ("strategy",):
        value = nearest(str(value), STRATEGIES.names) or value
    return f"write `{path[-1]}: {{{keys[0]}: {_SWITCHES.get(str(value).lower(), value)}}}`"


def _list_hint(path: KeyPath, value: object) -> str | None:
    keys, kind = list(_keys_at((*path, 0))), _schema_at((*path, 0), "type")
    if keys:
        return f"begin the list with `- {keys[0]}: {value}`" if isinstance(value, str) else None
    if isinstance(value, Mapping) or kind in ("object", None):
        return "write each in braces, as in `[{p: 4, n: 100}]`"
    return None if isinstance(value, str) and kind == "integer" else f"write [{value}]"


def _word_hint(kind: str, text: str) -> str | None:
    if kind == "bool_type" and text.lower() in _SWITCHES:
        return f"write {_SWITCHES[text.lower()]}"
    if kind not in ("number", "word", "int_type", "float_type"):
        return None
    if thousands := _THOUSANDS.fullmatch(text):
        return f"write {float(thousands[1]) * 1000 ** (1 + 'km'.index(thousands[2].lower())):.15g}"
    plain = text.strip().replace("_", "").replace(",", "").lstrip("0")
    is_number = plain and plain.replace(".", "", 1).isdigit()
    return f"write {plain}, without quotes, separators or leading zeros" if is_number else None


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
    if word in FEATURES.missing and (not parent or parent[:-1] == ("environments",)):
        refused = FEATURES.refusal(word)
        return Mistake(path, f"the key {word!r} is not known here", refused.why, refused.hint)
    if not parent and word in ("zip", "zips"):
        return Mistake(path, f"unknown key {word!r}", hint="values that go together: `values: {steps: {n: [8, 4, 2]}}`")
    keys = list(_keys_at(parent))
    elsewhere = [other for other in all_keys() if other.endswith(f".{word}") or other == word]
    close = nearest(word, keys)
    what = f"unknown key {word!r}"
    if close is not None:
        return Mistake(path, what, hint=f"did you mean {close!r}?")
    if elsewhere:
        return Mistake(path, what, hint=f"it belongs elsewhere: {' or '.join(elsewhere)}")
    location = f"under {spelled(parent)}" if parent else "at the top"
    hint = f"remove it, or use the version of Buran that the file was written for; this one is {__version__}"
    return Mistake(path, what, f"allowed {location} are: {', '.join(keys)}", hint)


_TITLES = {keys.__name__: keys.model_config.get("title") or keys.__name__ for keys in Keys.__subclasses__()}


class _SchemaOfFile(GenerateJsonSchema):
    """Keeps the order of writing, which examples in the reference need, and calls sections by their titles."""

    def sort(self, value: JsonSchemaValue, parent_key: str | None = None) -> JsonSchemaValue:
        return value

    def normalize_name(self, name: str) -> str:
        return super().normalize_name(_TITLES.get(name, name))


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


def _below(schema: JsonSchemaValue, key: str | int) -> JsonSchemaValue | None:
    for variant in variants(schema):
        if "items" in variant:  # in messages their numbers are left out
            return variant["items"] if isinstance(key, int) else _below(variant["items"], key)
        if key in variant.get("properties", {}):
            return variant["properties"][key]  # type: ignore[no-any-return]
        if isinstance(variant.get("additionalProperties"), Mapping):
            return variant["additionalProperties"]  # type: ignore[no-any-return]
    return None


def schema_at(path: KeyPath) -> JsonSchemaValue:
    """Return the schema of a key; empty for one that there is not."""
    schema = file_schema()
    for key in path:
        schema = _below(schema, key) or {}
    return schema


def _schema_at(path: KeyPath, word: str) -> Any:
    return next((variant[word] for variant in variants(schema_at(path)) if word in variant), None)


def _keys_at(path: KeyPath) -> Iterator[str]:
    for variant in variants(schema_at(path)):
        yield from variant.get("properties", {})


def _meaning(path: KeyPath) -> str | None:
    text = schema_at(path).get("description")
    return None if text is None else str(text)


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
