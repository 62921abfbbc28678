"""Base models in YAML files, bundled or the user's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from buran.campaign.mistakes import did_you_mean
from buran.campaign.yaml_document import read_yaml
from buran.errors import UsageError
from buran.files import JsonObject
from buran.modeling.correction.base import BaseModel, Constant, Parameter, Variable

FOLDER = Path(__file__).with_name("bases")
_KEYS = ("name", "meaning", "unit", "expression", "components", "let", "parameters", "variables", "constants")
_PARAMETER = ("value", "lower", "upper", "log", "unit", "meaning")
_VARIABLE = ("range", "scale", "thresholds", "monotone", "unit", "meaning")
_CONSTANT = ("value", "unit", "meaning")


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
    keys = _only(data, _KEYS, where)
    for key in ("expression", "variables"):
        if key not in keys:
            raise UsageError(f"a base model has the key {key!r}", where=where, why="it is missing")
    parameters = {
        name: Parameter(
            _number(entry, "value", inside),
            _number(entry, "lower", inside),
            _number(entry, "upper", inside),
            _choice(entry, "log", inside, (True, False), False),
            _text(entry, "unit", inside),
            _text(entry, "meaning", inside),
        )
        for name, entry, inside in _entries(keys, "parameters", _PARAMETER, where)
    }
    variables = {
        name: Variable(
            *_range(entry, inside),
            _choice(entry, "scale", inside, (True, False), False),
            _choice(entry, "thresholds", inside, (True, False, None), None),
            _choice(entry, "monotone", inside, ("increasing", "decreasing", None), None),
            _text(entry, "unit", inside),
            _text(entry, "meaning", inside),
        )
        for name, entry, inside in _entries(keys, "variables", _VARIABLE, where)
    }
    constants = {
        name: Constant(_number(entry, "value", inside), _text(entry, "unit", inside), _text(entry, "meaning", inside))
        for name, entry, inside in _entries(keys, "constants", _CONSTANT, where, short="value")
    }
    return BaseModel(
        expression=_formula(keys["expression"], f"{where}, expression"),
        parameters=parameters,
        variables=variables,
        components=_formulas(keys, "components", where),
        let=_formulas(keys, "let", where),
        constants=constants,
        unit=_text(keys, "unit", where) or "s",
        name=_text(keys, "name", where) or Path(where).stem,
        meaning=_text(keys, "meaning", where),
    )


def _only(data: Any, keys: tuple[str, ...], where: str) -> JsonObject:
    if not isinstance(data, Mapping):
        raise UsageError("a mapping of keys is wanted", where=where, why=f"this is {data!r}"[:80])
    for key in data:
        if key not in keys:
            hint = did_you_mean(str(key), keys) or f"the keys are {', '.join(keys)}"
            raise UsageError(f"a base model has no key {key!r} here", where=where, hint=hint)
    return data


def _entries(
    data: JsonObject, key: str, keys: tuple[str, ...], where: str, short: str | None = None
) -> list[tuple[str, JsonObject, str]]:
    entries = data.get(key) or {}
    if not isinstance(entries, Mapping):
        raise UsageError("a mapping of names is wanted", where=f"{where}, {key}")
    out = []
    for name, entry in entries.items():
        inside = f"{where}, {key}.{name}"
        if short is not None and isinstance(entry, int | float):
            entry = {short: entry}
        out.append((str(name), _only({} if entry is None else entry, keys, inside), inside))
    return out


def _formulas(data: JsonObject, key: str, where: str) -> dict[str, str]:
    entries = data.get(key) or {}
    if not isinstance(entries, Mapping):
        raise UsageError("a mapping of names to formulas is wanted", where=f"{where}, {key}")
    return {str(name): _formula(text, f"{where}, {key}.{name}") for name, text in entries.items()}


def _formula(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError("a formula is wanted", where=where, why=f"this is {value!r}")
    return str(value)


def _number(data: JsonObject, key: str, where: str) -> float:
    value = data.get(key)
    if isinstance(value, str):  # YAML 1.1 reads 1e-6, without a point, as text
        try:
            return float(value)
        except ValueError:
            pass
    if isinstance(value, bool) or not isinstance(value, int | float):
        why = f"it is {value!r}" if key in data else "it is missing"
        raise UsageError(f"{key!r} is a number", where=where, why=why)
    return float(value)


def _range(data: JsonObject, where: str) -> tuple[float | None, float | None]:
    bounds = data.get("range")
    if bounds is None:
        return None, None
    if not isinstance(bounds, list | tuple) or len(bounds) != 2:
        raise UsageError("a range is a list of two numbers", where=where, why=f"it is {bounds!r}")
    pair = dict(zip(("lower", "upper"), bounds, strict=True))
    return _number(pair, "lower", where), _number(pair, "upper", where)


def _choice(data: JsonObject, key: str, where: str, allowed: tuple[Any, ...], default: Any) -> Any:
    value = data.get(key, default)
    if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
        choices = ", ".join(str(choice).lower() for choice in allowed if choice is not None)
        raise UsageError(f"{key!r} is one of {choices}", where=where, why=f"it is {value!r}")
    return value


def _text(data: JsonObject, key: str, where: str) -> str:
    value = data.get(key, "")
    if value is None or isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError(f"{key!r} is a text", where=where, why=f"it is {value!r}")
    return str(value)
