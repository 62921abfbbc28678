"""A corrected model: what it predicts, where it may be trusted, and the file it lives in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray

from buran.files import JsonObject, decode, finite_or_none, read_document, write_json
from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.trees import BASE, Error, Evolved
from buran.modeling.correction.terms import Average, Residual, TermModel, Threshold

# Beyond this times the trained values a correction stays as it is. Tuned: no record of its own; choices were made on
# the seeds 7001 and 7003 (evidence/correction.md).
FREEZE = 2.0
# Largest part of the points by scale, which is predicted from the others. Tuned: no record of its own; choices
# were made on the seeds 7001 and 7003 (evidence/correction.md).
FORWARD_SHARE = 0.25

Style = Literal["text", "latex"]
DIGITS = 4
SCHEMA = "buran-corrected/3"
KIND = "corrected"
_NORMAL = NormalDist().inv_cdf(19 / 20) * math.sqrt(math.pi / 2)
"""What 90 % of normal errors stay below, over their mean absolute value."""
_SCATTER = math.sqrt(math.pi / 2 - 1)
"""Standard deviation of absolute normal errors over their mean."""


@dataclass(frozen=True)
class Prediction:
    """Values at points.

    Attributes
    ----------
    value
        NaN where there is none: what is not finite or not positive is no time.
    factor
        Factor of the correction: value over that of the base model alone.
    in_domain
        False beyond twice the trained values: there the factor is frozen, or, as published, nothing holds it.
    lower, upper
        Ends of 90 % intervals: by the errors at left-out points, beyond the trained values by those at the largest
        points, predicted from the others, times the doublings beyond. NaN where neither was tried.
    """

    value: Array
    factor: Array
    in_domain: NDArray[np.bool_]
    lower: Array
    upper: Array


Errors = Mapping[str, Error]


@dataclass(frozen=True)
class TrialResult:
    """What a trial of the published procedure found: a program, its errors, and test points without a prediction."""

    program: tuple[str | float, ...]
    theta: tuple[float, ...]
    train_rmse: Error
    test_rmse: Error
    test_mlogq: Error
    invalid: int


@dataclass(frozen=True)
class CorrectionReport:
    """How a correction came about.

    Attributes
    ----------
    refused
        Whether the base model was left as it is.
    reason
        Why, as text.
    errors
        Mean absolute logarithm of the ratio at left-out points, by candidate; ``base`` is the model without a
        correction.
    forward
        The same at the largest points, predicted from the others.
    notes, thresholds
        For people.
    points, seed
        What it was made from.
    trials
        The published procedure's trials.
    """

    refused: bool
    reason: str
    errors: Errors = field(default_factory=dict)
    forward: Errors = field(default_factory=dict)
    thresholds: tuple[Threshold, ...] = ()
    notes: tuple[str, ...] = ()
    points: int = 0
    seed: int = 0
    trials: tuple[TrialResult, ...] = ()


@dataclass(frozen=True)
class Corrected:
    """A base model with its correction.

    Attributes
    ----------
    base, theta
        The base model and its own fitted parameters.
    low, high
        Range of the training points, by variable.
    terms, process
        What the correction is made of: several models with terms are averaged in logarithms, and terms with a process.
    evolved
        The published procedure's program, which predicts everywhere as it is.
    """

    base: BaseModel
    theta: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    report: CorrectionReport
    terms: Average | None = None
    process: Residual | None = None
    evolved: Evolved | None = None

    def __post_init__(self) -> None:
        variables, parameters = len(self.base.variables), len(self.base.parameters)
        if not len(self.low) == len(self.high) == variables:
            raise ValueError("the trained range has other variables than the base model")
        models = () if self.terms is None else self.terms.models
        thetas = [self.theta, *(each.theta for each in models), *([self.evolved.theta] if self.evolved else [])]
        if any(len(theta) != parameters for theta in thetas):
            raise ValueError("there are more or fewer parameters than the base model has")
        terms = [term for each in models for term in each.terms]
        if any(term.carrier >= len(self.base.carriers) or term.growth.variable >= variables for term in terms):
            raise ValueError("a term has a component or a variable that the base model does not have")
        if self.evolved is not None and not self.evolved.program.terminals <= {BASE, *self.base.variables}:
            raise ValueError("the program has a variable that the base model does not have")
        if self.process is not None and self.process.points.shape[1] != variables:
            raise ValueError("the process has other variables than the base model")

    @classmethod
    def of(cls, base: BaseModel, theta: tuple[float, ...], points: Array, report: CorrectionReport) -> Corrected:
        """Return a base model trained at points (point, variable), without a correction."""
        low, high = tuple(points.min(axis=0).tolist()), tuple(points.max(axis=0).tolist())
        return cls(base, theta, low, high, report)

    @property
    def method(self) -> str:
        """Name of what corrects."""
        names = (("terms", self.terms), ("process", self.process), ("program", self.evolved))
        return " and ".join(name for name, part in names if part is not None) or "base"

    def predict(self, points: ArrayLike | Mapping[str, ArrayLike]) -> Prediction:
        """Predict at points: columns by the variables' names, or shape (point, variable).

        Raises
        ------
        UsageError
            If a variable is missing or not positive.
        """
        at = self.base.points(points)
        clamped = np.clip(at, np.array(self.low) / FREEZE, np.array(self.high) * FREEZE)
        in_domain = (clamped == at).all(axis=1)
        with np.errstate(all="ignore"):
            plain = self.base.evaluate(np.array(self.theta), at)
            if self.evolved is not None:
                value = self.evolved.evaluate(self.base, at)
            else:
                value = plain * np.exp(self.log_factor(at, clamped))
            fine = np.isfinite(value) & (value > 0) & np.isfinite(plain) & (plain > 0)
            factor = np.where(fine, value / plain, np.nan)
            # log(t) is normal: exp(-+z sigma) t
            half = _NORMAL * self.expected_error(at)
            value = np.where(fine, value, np.nan)
        return Prediction(value, factor, in_domain, value * np.exp(-half), value * np.exp(half))

    def expected_error(self, points: Array) -> Array:
        """Return the mean absolute logarithm of prediction over measurement to expect at points (point, variable).

        With one standard error more, as left-out points are few.
        """
        count = 0 if self.terms is None else len(self.terms.best.terms)
        names = (self.method, f"{count} term{'s' if count > 1 else ''}")
        inside, ahead = (
            next((errors[name] for name in names if name in errors), math.nan)
            for errors in (self.report.errors, self.report.forward)
        )
        inside *= 1 + _SCATTER / math.sqrt(max(self.report.points, 1))
        ahead *= 1 + _SCATTER / math.sqrt(max(FORWARD_SHARE * self.report.points, 1))
        edge = np.clip(points, np.array(self.low), np.array(self.high))
        doublings = np.sqrt((np.log2(points / edge) ** 2).sum(axis=1))
        beyond = np.maximum(inside, ahead) * np.maximum(doublings, 1.0)
        return np.asarray(np.where(doublings > 0, beyond, inside))

    def log_factor(self, points: Array, clamped: Array) -> Array:
        """Return the logarithm of the correction's factor at points (point, variable).

        Terms grow no further than at `clamped`, where a process is evaluated: what they are a share of, the
        components of the base model, goes on.
        """
        theta = np.array(self.theta)
        parts = []
        with np.errstate(all="ignore"):
            if self.terms is not None:
                parts.append(self.terms.log_factor(self.base, theta, points, clamped))
            if self.process is not None:
                parts.append(self.process.evaluate(clamped))
        return np.asarray(np.mean(parts, axis=0)) if parts else np.zeros(len(points))

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {"schema": SCHEMA, "kind": KIND, **_plain(asdict(self))}

    @classmethod
    def from_json(cls, data: JsonObject) -> Corrected:
        """Read what `to_json` gives.

        Raises
        ------
        ValueError, UsageError
            Where a key is missing or a value is not what it should be.
        """
        return decode(cls, {key: value for key, value in data.items() if key not in ("schema", "kind")})


def _plain(value: Any) -> Any:
    """Return a value as JSON has it: lists for arrays, nothing for what is not finite."""
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(each) for each in value]
    return finite_or_none(value) if isinstance(value, float) else value


def write_corrected(path: Path, model: Corrected) -> None:
    """Write a corrected model; the file appears at once and whole, or not at all."""
    write_json(path, model.to_json())


def load_corrected(path: Path) -> Corrected:
    """Read a corrected model.

    Raises
    ------
    FormatError
        If it cannot be read, is no corrected model, of another schema or damaged.
    """
    return read_document(
        path,
        SCHEMA,
        Corrected.from_json,
        what="corrected model",
        hint="write one with: buran correct MODEL.yaml DATA -o FILE",
    )


def render(model: Corrected, style: Style = "text") -> str:
    """Write the model's formula, with 4 digits.

    Of an average the model with the largest weight is written, and that it is one of several. A Gaussian process has
    no formula: where one takes part, what it is added to is written, and that it is.
    """
    plain = whole = TermModel(model.theta, (), 0.0).expression(model.base)
    if model.evolved is not None:
        whole = model.evolved.expression(model.base)
    elif model.terms is not None:
        whole = model.terms.best.expression(model.base)
    is_latex = style == "latex"
    time, base = ("t", r"t_{\mathrm{base}}") if is_latex else ("time", "base")
    lines = [f"{time} = {_written(whole, style)}"]
    if model.method != "base":
        lines.append(f"{base} = {_written(plain, style)}")
    lines += [rf"\text{{{note}}}" if is_latex else note for note in _remarks(model)]
    return "\n".join(lines)


def _written(expression: Any, style: Style) -> str:
    # what all parts share stands in front of them
    shorter = sympy.factor_terms(sympy.powsimp(expression))
    rounded = shorter.xreplace({value: sympy.Float(value, DIGITS) for value in shorter.atoms(sympy.Float)})
    if style == "latex":
        return str(sympy.latex(rounded))
    return str(sympy.sstr(rounded, full_prec=False)).replace("log(", "ln(")


def _remarks(model: Corrected) -> list[str]:
    """Say what the formula does not hold."""
    out = []
    if model.terms is not None and len(model.terms.models) > 1:
        out.append(
            f"this is one of {len(model.terms.models)} formulas whose corrections are averaged, less where they "
            f"disagree, the one with the largest weight ({100 * model.terms.weights[0]:.0f} percent); as JSON all are "
            "written"
        )
    if model.process is not None:
        share = "half of its logarithm" if model.terms is not None else "its logarithm"
        out.append(f"a Gaussian process adds to {share} what the measurements leave over; it is no formula")
    return out
