"""Base models: what a user already knows about a program, as formulas with machine parameters."""

from __future__ import annotations

import keyword
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from buran.campaign.expressions import FUNCTIONS
from buran.errors import UsageError
from buran.modeling.correction.formula import Array, Formula, Values, parse_formula

Monotone = Literal["increasing", "decreasing"]
_LINEAR = 1e-9  # relative: what a sum may differ by


@dataclass(frozen=True)
class Parameter:
    """A parameter of the machine that may be fitted.

    Attributes
    ----------
    value, lower, upper
        Start of the fit and its bounds.
    log
        Whether it is searched on a logarithmic scale, as latencies and bandwidths should be.
    unit, meaning
        For checks and for people; the empty unit is not checked, ``1`` is a plain number.
    """

    value: float
    lower: float
    upper: float
    log: bool = False
    unit: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Variable:
    """What is varied between measurements.

    Attributes
    ----------
    lower, upper
        Declared domain; None for the range of the measurements.
    scale
        Whether it says how large a run is: tested by holding out its largest values.
    thresholds
        Whether effects may set in above a value of it; by default those of `scale`.
    monotone
        Direction the time must follow.
    unit, meaning
        As for parameters.
    """

    lower: float | None = None
    upper: float | None = None
    scale: bool = False
    thresholds: bool | None = None
    monotone: Monotone | None = None
    unit: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Constant:
    """A number that is known."""

    value: float
    unit: str = ""
    meaning: str = ""


@dataclass(frozen=True)
class Parts:
    """A base model's values.

    Attributes
    ----------
    total
        Shape (..., point).
    carriers
        Shape (component + 1, ..., point): what each component adds to the total, and the factor in front of all
        of them, which a component that is missing would have too.
    """

    total: Array
    carriers: Array


@dataclass(frozen=True)
class BaseModel:
    """An analytical model.

    Attributes
    ----------
    expression
        The value, of components, abbreviations, parameters, constants and variables.
    parameters, variables, constants
        By name.
    components
        Named parts, in order; corrections are made of them.
    let
        Abbreviations, each of what stands before it.
    unit
        Unit of the value.
    name, meaning
        For people.

    Raises
    ------
    UsageError
        If a formula is not allowed, a name stands for two things, or bounds or units contradict each other.
    """

    expression: str
    parameters: Mapping[str, Parameter]
    variables: Mapping[str, Variable]
    components: Mapping[str, str] = field(default_factory=dict)
    let: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, Constant] = field(default_factory=dict)
    unit: str = "s"
    name: str = "model"
    meaning: str = ""

    def __post_init__(self) -> None:
        names = [*self.parameters, *self.variables, *self.constants, *self.let, *self.components]
        for name in names:
            if not name.isidentifier() or names.count(name) > 1 or keyword.iskeyword(name) or name in FUNCTIONS:
                why = "it stands for two things" if names.count(name) > 1 else "it is not a word of letters and digits"
                why = "it is a word of the language" if keyword.iskeyword(name) or name in FUNCTIONS else why
                raise UsageError(f"the base model cannot use the name {name!r}", where=self.name, why=why)
        if not self.variables:
            raise UsageError("the base model has no variables", where=self.name, hint="name what is varied")
        for name, parameter in self.parameters.items():
            _check_bounds(parameter, f"{self.name}, parameter {name}")
        for name, variable in self.variables.items():
            low, high = variable.lower, variable.upper
            if (low is not None and not low > 0) or (low is not None and high is not None and not low < high):
                why = f"[{low}, {high}] is not"
                raise UsageError("a variable's range rises and is positive", where=f"{self.name}, {name}", why=why)
        unused = [name for name in self.parameters if name not in self._used]
        if unused:
            why = "a parameter that changes nothing cannot be fitted"
            raise UsageError(f"the expression does not use {', '.join(unused)}", where=self.name, why=why)
        parts: tuple[Parameter | Variable | Constant, ...] = (
            *self.parameters.values(),
            *self.variables.values(),
            *self.constants.values(),
        )
        if any(part.unit for part in parts):
            from buran.modeling.correction.units import check_units

            check_units(self)

    @cached_property
    def formulas(self) -> dict[str, Formula]:
        """All formulas by name, in the order they are computed; the expression is the empty name."""
        names = [*self.parameters, *self.variables, *self.constants]
        out = {}
        for name, text in (*self.let.items(), *self.components.items()):
            out[name] = parse_formula(text, names, f"{self.name}, {name}")
            names.append(name)
        out[""] = parse_formula(self.expression, names, f"{self.name}, expression")
        return out

    @cached_property
    def _used(self) -> set[str]:
        """Names that the expression depends on."""
        used = set(self.formulas[""].names)
        for name in reversed([*self.let, *self.components]):
            if name in used:
                used |= self.formulas[name].names
        return used

    @property
    def start(self) -> Array:
        """Values of the parameters as given, shape (parameter,)."""
        return np.array([parameter.value for parameter in self.parameters.values()], dtype=np.float64)

    def points(self, data: ArrayLike | Mapping[str, ArrayLike]) -> Array:
        """Return shape (point, variable) of columns by name, or of such an array.

        Raises
        ------
        UsageError
            If a variable is missing, or a value is not positive and finite.
        """
        if isinstance(data, Mapping):
            missing = [name for name in self.variables if name not in data]
            if missing:
                raise UsageError(
                    f"the data have no column {missing[0]!r}",
                    why=f"the base model's variables are {', '.join(self.variables)}",
                    hint=f"the data have {', '.join(map(str, data)) or 'none'}",
                )
            columns = [np.asarray(data[name], dtype=np.float64) for name in self.variables]
            out = np.stack(np.broadcast_arrays(*map(np.atleast_1d, columns)), axis=-1)
        else:
            out = np.atleast_2d(np.asarray(data, dtype=np.float64))
        if out.ndim != 2 or out.shape[1] != len(self.variables):
            raise UsageError(
                "the points do not have the base model's variables",
                why=f"their shape is {out.shape}, wanted is (point, {len(self.variables)})",
            )
        if not (np.isfinite(out) & (out > 0)).all():
            raise UsageError("the values of variables are positive numbers", why="some are not")
        return out

    def evaluate(self, theta: Array, points: Array) -> Array:
        """Return values of shape (..., point) for parameters (..., parameter) at points (point, variable)."""
        values = self._environment(theta, points)
        return self._whole(values, np.shape(theta)[:-1], len(points))

    def parts(self, theta: Array, points: Array) -> Parts:
        """Return the values and what they are made of."""
        shape, number = np.shape(theta)[:-1], len(points)
        values = self._environment(theta, points)
        total = self._whole(values, shape, number)
        carriers = [self._whole({**values, name: 2 * values[name]}, shape, number) - total for name in self.components]
        if not carriers:
            carriers.append(total)
        outer = np.ones_like(total)
        if self.has_outer_factor:
            name = next(iter(self.components))
            with np.errstate(all="ignore"):
                outer = carriers[0] / values[name]
        return Parts(total, np.stack([*carriers, outer]))

    @cached_property
    def has_outer_factor(self) -> bool:
        """Whether the expression is a sum of the components times a factor in front of it.

        Found by trying: adding 1 to any component, anywhere, must change the value by the same.
        """
        if not self.components:
            return False
        random = np.random.default_rng(0)
        points = random.uniform(2.0, 100.0, (5, len(self.variables)))
        values = self._environment(self.start, points)
        changes = []
        for _ in range(2):
            values |= {name: random.uniform(0.5, 2.0, 5) for name in self.components}
            total = self.formulas[""](values)
            changes += [self.formulas[""]({**values, name: values[name] + 1}) - total for name in self.components]
        nothing = self.formulas[""]({**values, **dict.fromkeys(self.components, np.zeros(5))})
        same = all(np.allclose(change, changes[0], rtol=1e-9, atol=0) for change in changes)
        return bool(same and np.all(np.abs(nothing) <= _LINEAR * np.abs(total)))

    @property
    def carrier_names(self) -> tuple[str, ...]:
        """Names of the carriers of `parts`; the last one is the missing component."""
        return (*(self.components or ("model",)), "missing")

    def _environment(self, theta: Array, points: Array) -> dict[str, Any]:
        values: dict[str, Any] = {name: constant.value for name, constant in self.constants.items()}
        values |= {name: points[:, i] for i, name in enumerate(self.variables)}
        values |= {name: np.asarray(theta)[..., i, None] for i, name in enumerate(self.parameters)}
        for name, formula in self.formulas.items():
            if name:
                values[name] = formula(values)
        return values

    def _whole(self, values: Values, shape: tuple[int, ...], number: int) -> Array:
        return np.broadcast_to(np.asarray(self.formulas[""](values), dtype=np.float64), (*shape, number))

    def to_json(self) -> dict[str, Any]:
        """Return the keys of a base model's YAML file."""
        out: dict[str, Any] = {"name": self.name, "meaning": self.meaning, "unit": self.unit}
        out |= {"expression": self.expression, "components": dict(self.components), "let": dict(self.let)}
        out["parameters"] = {name: asdict(parameter) for name, parameter in self.parameters.items()}
        out["variables"] = {name: _variable_to_json(variable) for name, variable in self.variables.items()}
        out["constants"] = {name: asdict(constant) for name, constant in self.constants.items()}
        return out


def _variable_to_json(variable: Variable) -> dict[str, Any]:
    keys = asdict(variable)
    low, high = keys.pop("lower"), keys.pop("upper")
    return {"range": None if low is None else [low, high], **keys}


def _check_bounds(parameter: Parameter, where: str) -> None:
    value, low, high = parameter.value, parameter.lower, parameter.upper
    if not all(map(math.isfinite, (value, low, high))):
        raise UsageError("a parameter and its bounds are finite numbers", where=where)
    if not low < high:
        why = f"the lower bound {low:g} is not below the upper bound {high:g}"
        raise UsageError("the bounds of a parameter are reversed", where=where, why=why, hint="exchange them")
    if not low <= value <= high:
        raise UsageError(
            "a parameter lies outside its bounds", where=where, why=f"{value:g} is not in [{low:g}, {high:g}]"
        )
    if parameter.log and low <= 0:
        raise UsageError(
            "a parameter on a logarithmic scale has positive bounds",
            where=where,
            why=f"its lower bound is {low:g}",
            hint="raise the bound, or leave out `log`",
        )
