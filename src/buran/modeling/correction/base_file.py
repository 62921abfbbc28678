"""Base models in YAML files, bundled or the user's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
    top = _Section.of(data, _KEYS, where)
    for key in ("expression", "variables"):
        if key not in top.keys:
            raise UsageError(f"a base model has the key {key!r}", where=where, why="it is missing")
    parameters = {
        name: Parameter(
            entry.number("value"),
            entry.number("lower"),
            entry.number("upper"),
            entry.choice("log", (True, False), False),
            entry.text("unit"),
            entry.text("meaning"),
        )
        for name, entry in top.entries("parameters", _PARAMETER)
    }
    variables = {
        name: Variable(
            *entry.bounds(),
            entry.choice("scale", (True, False), False),
            entry.choice("thresholds", (True, False, None), None),
            entry.choice("monotone", ("increasing", "decreasing", None), None),
            entry.text("unit"),
            entry.text("meaning"),
        )
        for name, entry in top.entries("variables", _VARIABLE)
    }
    constants = {
        name: Constant(entry.number("value"), entry.text("unit"), entry.text("meaning"))
        for name, entry in top.entries("constants", _CONSTANT, short="value")
    }
    return BaseModel(
        expression=_formula(top.keys["expression"], f"{where}, expression"),
        parameters=parameters,
        variables=variables,
        components=top.formulas("components"),
        let=top.formulas("let"),
        constants=constants,
        unit=top.text("unit") or "s",
        name=top.text("name") or Path(where).stem,
        meaning=top.text("meaning"),
    )


@dataclass(frozen=True)
class _Section:
    """A mapping of keys in the file, and where it stands: each method checks a value and returns it with its type."""

    keys: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, data: Any, keys: tuple[str, ...], where: str) -> _Section:
        if not isinstance(data, Mapping):
            raise UsageError("a mapping of keys is wanted", where=where, why=f"this is {data!r}"[:80])
        for key in data:
            if key not in keys:
                hint = did_you_mean(str(key), keys) or f"the keys are {', '.join(keys)}"
                raise UsageError(f"a base model has no key {key!r} here", where=where, hint=hint)
        return cls(data, where)

    def entries(self, key: str, keys: tuple[str, ...], short: str | None = None) -> list[tuple[str, _Section]]:
        """Return the sections of a key by their names; a number alone is that of the key `short`."""
        out = []
        for name, entry in self._named(key, "a mapping of names is wanted"):
            if short is not None and isinstance(entry, int | float):
                entry = {short: entry}
            inside = f"{self.where}, {key}.{name}"
            out.append((str(name), _Section.of({} if entry is None else entry, keys, inside)))
        return out

    def formulas(self, key: str) -> dict[str, str]:
        entries = self._named(key, "a mapping of names to formulas is wanted")
        return {str(name): _formula(text, f"{self.where}, {key}.{name}") for name, text in entries}

    def _named(self, key: str, wanted: str) -> Iterable[tuple[Any, Any]]:
        entries = self.keys.get(key) or {}
        if not isinstance(entries, Mapping):
            raise UsageError(wanted, where=f"{self.where}, {key}")
        return entries.items()

    def number(self, key: str) -> float:
        value = self.keys.get(key)
        if isinstance(value, str):  # YAML 1.1 reads 1e-6, without a point, as text
            try:
                return float(value)
            except ValueError:
                pass
        if isinstance(value, bool) or not isinstance(value, int | float):
            why = f"it is {value!r}" if key in self.keys else "it is missing"
            raise UsageError(f"{key!r} is a number", where=self.where, why=why)
        return float(value)

    def bounds(self) -> tuple[float | None, float | None]:
        bounds = self.keys.get("range")
        if bounds is None:
            return None, None
        if not isinstance(bounds, list | tuple) or len(bounds) != 2:
            raise UsageError("a range is a list of two numbers", where=self.where, why=f"it is {bounds!r}")
        pair = _Section(dict(zip(("lower", "upper"), bounds, strict=True)), self.where)
        return pair.number("lower"), pair.number("upper")

    def choice(self, key: str, allowed: tuple[Any, ...], default: Any) -> Any:
        value = self.keys.get(key, default)
        if not any(value is choice or (isinstance(value, str) and value == choice) for choice in allowed):
            choices = ", ".join(str(choice).lower() for choice in allowed if choice is not None)
            raise UsageError(f"{key!r} is one of {choices}", where=self.where, why=f"it is {value!r}")
        return value

    def text(self, key: str) -> str:
        value = self.keys.get(key, "")
        if value is None or isinstance(value, bool) or not isinstance(value, str | int | float):
            raise UsageError(f"{key!r} is a text", where=self.where, why=f"it is {value!r}")
        return str(value)


def _formula(value: Any, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise UsageError("a formula is wanted", where=where, why=f"this is {value!r}")
    return str(value)
