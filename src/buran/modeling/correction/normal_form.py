"""Models in normal form, noise-resilient ones too, as base models."""

from __future__ import annotations

from collections.abc import Sequence

from buran.errors import UsageError
from buran.modeling.correction.base import BaseModel, Parameter, Variable
from buran.modeling.pmnf.terms import ModelFunction
from buran.modeling.pmnf.text import format_function, python_names
from buran.modeling.pmnf.tuning import ALLOWANCE


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
