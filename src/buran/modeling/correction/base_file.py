"""Base models in YAML files, bundled or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from buran.campaign.mistakes import did_you_mean
from buran.campaign.yaml_document import read_yaml
from buran.errors import UsageError
from buran.files import JsonObject, decode
from buran.modeling.correction.base import BaseModel, Constant, Parameter, Variable

FOLDER = Path(__file__).with_name("bases")


def bundled() -> tuple[str, ...]:
    """Return the names of the bundled base models."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.yaml")))


def load_base(model: str | Path) -> BaseModel:
    """Read a base model from a YAML file, or a bundled one by its name.

    Raises
    ------
    UsageError
        If there is none, or it is not what a base model should be; names file and key.
    """
    path = Path(model)
    if not path.exists() and str(model) in bundled():
        path = FOLDER / f"{model}.yaml"
    elif not path.exists():
        raise UsageError(
            "there is no such base model",
            where=path,
            hint=f"name a YAML file, or one of {', '.join(bundled())}",
        )
    return base_from(read_yaml(path).data, str(path))


def base_from(data: JsonObject, where: str) -> BaseModel:
    """Make a base model of the keys of its file; see `load_base`."""
    top = _checked(data, BaseModel, where)
    for key in ("expression", "variables"):
        if key not in top:
            raise UsageError(f"a base model has the key {key!r}", where=where, why="it is missing")
    top = {"name": Path(where).stem, "parameters": {}} | top
    for key, cls in (("parameters", Parameter), ("variables", Variable), ("constants", Constant)):
        entries = _mapping(top.get(key) or {}, f"{where}, {key}")
        top[key] = {name: _checked(entry, cls, f"{where}, {key}.{name}") for name, entry in entries.items()}
    try:
        return decode(BaseModel, top)
    except ValueError as error:
        raise UsageError("a base model cannot be used", where=where, why=str(error)) from None


def _mapping(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise UsageError("a mapping of keys is wanted", where=where, why=f"this is {value!r}"[:80])
    return value


def _checked(entry: Any, cls: type, where: str) -> dict[str, Any]:
    """Return the keys of an entry, which the class has all; a constant's number alone is its value."""
    if cls is Constant and isinstance(entry, int | float):
        entry = {"value": entry}
    keys = dict(_mapping({} if entry is None else entry, where))
    known = [field.name for field in fields(cls)]
    for key in keys:
        if key not in known:
            hint = did_you_mean(str(key), known) or f"the keys are {', '.join(known)}"
            raise UsageError(f"a base model has no key {key!r} here", where=where, hint=hint)
    return keys
