"""Base models: what is known about a program, as formulas with machine parameters; written, bundled or modelled."""

from __future__ import annotations

import keyword
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray
from pydantic import BeforeValidator

from buran.campaign.document import read_yaml
from buran.campaign.expressions import FUNCTIONS
from buran.campaign.mistakes import did_you_mean
from buran.errors import UsageError
from buran.files import Stored
from buran.modeling.correction.formula import Array, compiled, exact, parse_formula
from buran.modeling.functions.terms import ModelFunction
from buran.modeling.numerics.tuning import ALLOWANCE
from buran.modeling.pmnf.text import format_function, python_names

Monotone = Literal["increasing", "decreasing"]
FOLDER = Path(__file__).with_name("bases")


def _entry(value: Any) -> Any:
    """Return the keys of a parameter, variable or constant from its short forms: nothing, or its value alone."""
    if value is None:
        return {}
    return {"value": value} if isinstance(value, int | float) else value


Text = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value)]
"""A text of a file, where YAML may read a number."""
Entry = BeforeValidator(_entry)


@dataclass(frozen=True)
class Parameter(Stored):
    """A parameter of the machine that may be fitted.

    Attributes
    ----------
    value, lower, upper
        Start of the fit and its bounds.
    log
        Whether it is searched on a logarithmic scale, as latencies and bandwidths should be.
    unit, meaning
        For people.
    """

    value: float
    lower: float
    upper: float
    log: bool = False
    unit: Text = ""
    meaning: Text = ""

    def __post_init__(self) -> None:
        value, low, high = self.value, self.lower, self.upper
        fits = all(map(math.isfinite, (value, low, high))) and low < high and low <= value <= high
        if not fits or (self.log and low <= 0):
            what = f"value {value:g}, lower {low:g}, upper {high:g}{', on a logarithmic scale' * self.log}"
            raise ValueError(f"{what}; the value lies within finite bounds, which are positive with `log`")


@dataclass(frozen=True)
class Variable(Stored):
    """What is varied between measurements.

    Attributes
    ----------
    range
        Declared domain; None for that of the measurements.
    scale
        Whether it says how large a run is: tested by holding out its largest values.
    thresholds
        Whether effects may set in above a value of it; by default those of `scale`.
    monotone
        Direction the time must follow.
    unit, meaning
        As for parameters.
    """

    range: tuple[float, float] | None = None
    scale: bool = False
    thresholds: bool | None = None
    monotone: Monotone | None = None
    unit: Text = ""
    meaning: Text = ""

    def __post_init__(self) -> None:
        if self.range is not None and not 0 < self.range[0] < self.range[1]:
            raise ValueError(f"a range rises and is positive, and {list(self.range)} is not")


@dataclass(frozen=True)
class Constant(Stored):
    """A number that is known."""

    value: float
    unit: Text = ""
    meaning: Text = ""


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
class BaseModel(Stored):
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
    unit, name, meaning
        For people; the unit is that of the value.

    Raises
    ------
    UsageError
        If a formula is not allowed, or a name stands for two things.
    """

    expression: Text
    parameters: Mapping[str, Annotated[Parameter, Entry]]
    variables: Mapping[str, Annotated[Variable, Entry]]
    components: Mapping[str, Text] = field(default_factory=dict)
    let: Mapping[str, Text] = field(default_factory=dict)
    constants: Mapping[str, Annotated[Constant, Entry]] = field(default_factory=dict)
    unit: Text = "s"
    name: Text = "model"
    meaning: Text = ""

    def __post_init__(self) -> None:
        names = [*self.parameters, *self.variables, *self.constants, *self.let, *self.components]
        for name in names:
            if not name.isidentifier() or names.count(name) > 1 or keyword.iskeyword(name) or name in FUNCTIONS:
                why = "it stands for two things" if names.count(name) > 1 else "it is not a word of letters and digits"
                why = "it is a word of the language" if keyword.iskeyword(name) or name in FUNCTIONS else why
                raise UsageError(f"the base model cannot use the name {name!r}", where=self.name, why=why)
        if not self.variables:
            raise UsageError("the base model has no variables", where=self.name, hint="name what is varied")
        used = self.total.free_symbols
        unused = [name for name in self.parameters if self.symbols[name] not in used]
        if unused:
            why = "a parameter that changes nothing cannot be fitted"
            raise UsageError(f"the expression does not use {', '.join(unused)}", where=self.name, why=why)

    @cached_property
    def symbols(self) -> dict[str, sympy.Symbol]:
        """The variables, then the parameters, then the components, by name."""
        variables = {name: sympy.Symbol(name, positive=True) for name in self.variables}
        return variables | {name: sympy.Symbol(name, real=True) for name in (*self.parameters, *self.components)}

    @cached_property
    def _formulas(self) -> tuple[dict[str, sympy.Expr], sympy.Expr]:
        """The components, of variables and parameters, by name; the expression, of components too."""
        known: dict[str, Any] = {name: self.symbols[name] for name in (*self.variables, *self.parameters)}
        known |= {name: exact(constant.value) for name, constant in self.constants.items()}
        for name, text in (*self.let.items(), *self.components.items()):
            known[name] = parse_formula(text, known, f"{self.name}, {name}")
        components = {name: known[name] for name in self.components}
        known |= {name: self.symbols[name] for name in self.components}
        return components, parse_formula(self.expression, known, f"{self.name}, expression")

    def _with(self, components: Mapping[str, sympy.Expr]) -> sympy.Expr:
        """Return the expression of variables and parameters, with these components."""
        pairs = [(self.symbols[name], each) for name, each in components.items()]
        return self._formulas[1].subs(pairs, simultaneous=True)

    @cached_property
    def total(self) -> sympy.Expr:
        """The value, of variables and parameters."""
        return self._with(self._formulas[0])

    @cached_property
    def outer_factor(self) -> sympy.Expr | None:
        """The factor in front of the components, if the expression is their sum times one that has none of them."""
        if not self.components:
            return None
        expression, components = self._formulas[1], [self.symbols[name] for name in self.components]
        factor = sympy.diff(expression, components[0])
        is_sum = sympy.expand(expression - factor * sympy.Add(*components)) == 0
        return factor if is_sum and not factor.free_symbols & set(components) else None

    @cached_property
    def carriers(self) -> tuple[sympy.Expr, ...]:
        """What each component adds to the total, and the factor in front of them, which a missing one has too."""
        components, factor = self._formulas[0], self.outer_factor
        if factor is not None:
            return (*(factor * each for each in components.values()), factor)
        added = [self._with({**components, name: 2 * each}) - self.total for name, each in components.items()]
        return (*(added or [self.total]), sympy.Integer(1))

    @cached_property
    def _compiled(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        names = [self.symbols[name] for name in (*self.variables, *self.parameters)]
        return compiled(names, [self.total]), compiled(names, [self.total, *self.carriers])

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

    def has_time(self, theta: Array, points: Array) -> NDArray[np.bool_]:
        """Return shape (point,): whether the model gives a time, a positive and finite number."""
        with np.errstate(all="ignore"):
            value = self.evaluate(theta, points)
        return np.isfinite(value) & (value > 0)

    def shown(self, point: Array) -> str:
        """Write the values of the variables at a point."""
        return ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.variables, point, strict=True))

    def evaluate(self, theta: Array, points: Array) -> Array:
        """Return values of shape (..., point) for parameters (..., parameter) at points (point, variable)."""
        return self._computed(self._compiled[0], theta, points)[0]

    def parts(self, theta: Array, points: Array) -> Parts:
        """Return the values and what they are made of."""
        total, *carriers = self._computed(self._compiled[1], theta, points)
        return Parts(total, np.stack(carriers))

    def _computed(self, function: Callable[..., Any], theta: Array, points: Array) -> list[Array]:
        parameters = np.asarray(theta)
        values = function(*points.T, *(parameters[..., i, None] for i in range(len(self.parameters))))
        shape = (*parameters.shape[:-1], len(points))
        return [np.broadcast_to(np.asarray(value, dtype=np.float64), shape) for value in values]

    @property
    def carrier_names(self) -> tuple[str, ...]:
        """Names of the carriers of `parts`; the last one is the missing component."""
        return (*(self.components or ("model",)), "missing")


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
    if not path.exists():
        if str(model) not in bundled():
            raise UsageError(
                "there is no such base model", where=path, hint=f"name a YAML file, or one of {', '.join(bundled())}"
            )
        path = FOLDER / f"{model}.yaml"
    keys = {key: value for key, value in read_yaml(path).data.items() if value is not None}
    try:
        return BaseModel.from_json({"name": path.stem, "parameters": {}, **keys})
    except ValueError as error:
        names = [each.name for cls in (BaseModel, Parameter, Variable) for each in fields(cls)]
        key = str(error).split("'")[1].rpartition(".")[2]
        hint = (key not in names and did_you_mean(key, names)) or f"the keys are {', '.join(dict.fromkeys(names))}"
        raise UsageError("a base model cannot be used", where=path, why=str(error), hint=hint) from None


def base_of_function(
    function: ModelFunction, parameters: Sequence[str], name: str = "model", unit: str = "s", *,
    scale: str | None = None,
) -> BaseModel:  # fmt: skip
    """Return a base model with a component for the constant and each term of a function.

    Parameters
    ----------
    function
        A model in normal form.
    parameters
        Names of its parameters, by column of the points; other characters than letters and digits become ``_``.
    name, unit
        Of the base model.
    scale
        The parameter that says how large a run is; None for none. Effects may set in along every parameter.

    Raises
    ------
    UsageError
        If nothing of it can be fitted.
    """
    names = python_names(parameters)
    fitted: dict[str, Parameter] = {}
    components: dict[str, str] = {}
    if function.constant:
        fitted["c0"] = _coefficient(function.constant)
        components["constant"] = "c0"
    for number, (coefficient, term) in enumerate(zip(function.coefficients, function.terms, strict=True), 1):
        if coefficient:
            fitted[f"c{number}"] = _coefficient(coefficient)
            shape = format_function(ModelFunction(0.0, (1.0,), (term,)), parameters, "python")
            components[f"term{number}"] = f"c{number} * {shape}"
    if not fitted:
        raise UsageError("a model that is zero everywhere is no base model", where=name)
    return BaseModel(
        " + ".join(components),
        parameters=fitted,
        variables={
            variable: Variable(scale=column == scale, thresholds=True)
            for variable, column in zip(names, parameters, strict=True)
        },
        components=components,
        unit=unit,
        name=name,
    )


def _coefficient(value: float) -> Parameter:
    bounds = sorted((value / ALLOWANCE, value * ALLOWANCE))
    return Parameter(value, bounds[0], bounds[1], log=value > 0)
