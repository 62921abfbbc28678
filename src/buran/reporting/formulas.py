"""Models as data: what the page's script predicts with at another target than the campaign's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.powers import PowerLog
from buran.modeling.pmnf.terms import Array, Factor, ModelFunction, Term
from buran.modeling.price.discrepancy import Discrepancy, Process, logarithms, ratios
from buran.reporting.call_paths import CallPaths, Indices
from buran.reporting.content import Report, unknown_at_target
from buran.reporting.curves import listed, rounded

REACH = 4.0
"""Times the largest measured value, or the target: so far the target can be moved."""
_STEPS = 48  # of a slider at most, and a quarter of a doubling each at least
_MOST_CELLS = 100_000  # of all tables: a megabyte
_DIGITS = 12  # of coefficients: a millionth of a prediction is right


def formulas_of(report: Report, call_paths: CallPaths, rows: Indices) -> dict[str, Any]:
    """Return the models of rows and of the run time.

    A factor that is no power of a parameter, such as one of a derived value, is a table over the values that sliders
    have. A model whose tables are too large is none.

    Returns
    -------
    dict
        ``terms``: lists of factors (parameter, power, power of its logarithm), or (number of a table); ``tables``:
        parameters, and values in the order of theirs, the last one fastest; ``processes``: see `_process`;
        ``models``: constant, terms with coefficients, process with mean and pulls or None, numbers of the models that
        are added up instead, and whether values may be negative; ``rows``, ``total``: numbers of models or None.
        ``stops``: values of each parameter that a slider has, None without two measured ones; ``most``: the largest
        measured ones. ``beyond``, ``total_beyond``: what is not known above the campaign's target.
    """
    points = np.array(call_paths.models.points, dtype=np.float64)
    target = [report.target[name] for name in report.parameters]
    stops = [_stops(np.unique(column), value) for column, value in zip(points.T, target, strict=True)]
    known = _Formulas([[value] if at is None else at for value, at in zip(target, stops, strict=True)])
    far = [value if at is None else at[-1] for value, at in zip(target, stops, strict=True)]
    beyond = [
        unknown_at_target(replace(report, target=dict(zip(report.parameters, at, strict=True))))
        for at in (far, *([*target[:position], far[position], *target[position + 1 :]] for position in range(len(far))))
    ]
    lost = {name for each in beyond for name in each.call_paths} if call_paths.models.metric == "time" else set()
    models, names = call_paths.models.models, call_paths.models.call_paths
    numbers = [None if names[row] in report.unknown.call_paths else known.number(models[row]) for row in rows.tolist()]
    total = None
    if report.runtime is not None and report.tensor is None and not report.unknown.total and len(rows) == len(names):
        total = known.number(report.runtime.models[0])
    return {
        "terms": known.terms,
        "tables": known.tables,
        "processes": known.processes,
        "models": known.models,
        "rows": numbers,
        "total": total,
        "stops": stops,
        "most": points.max(axis=0).tolist(),
        "beyond": [position for position, row in enumerate(rows.tolist()) if names[row] in lost],
        "total_beyond": any(each.total for each in beyond),
    }


def _stops(measured: Array, target: float) -> list[float] | None:
    if len(measured) < 2:
        return None
    least, most = measured[0], REACH * max(measured[-1], target)
    known = [*measured.tolist(), target]
    steps = np.linspace(least, most, _STEPS)
    if least > 0:
        doublings = float(np.log2(most / least))
        steps = least * 2.0 ** np.arange(0, doublings, 1 / max(min(4, _STEPS // doublings), 1))
    whole = all(float(value).is_integer() for value in known)
    near = [float(round(step)) if whole else float(f"{step:.4g}") for step in steps.tolist()]
    return sorted({*known, most, *(step for step in near if least < step < most)})


class _Formulas:
    """Models, terms, tables and processes, each once; `stops` are the values that tables are made for."""

    def __init__(self, stops: Sequence[Sequence[float]]) -> None:
        self._stops = stops
        self.terms: list[list[list[float]]] = []
        self.tables: list[list[Any]] = []
        self.processes: list[dict[str, Any]] = []
        self.models: list[list[Any]] = []
        self._number: dict[int, int | None] = {}
        self._term: dict[Term, int | None] = {}
        self._table: dict[Factor, int] = {}
        self._process: dict[int, tuple[int, Array]] = {}

    def number(self, model: Model | None) -> int | None:
        """Return the number of a model; None where a page cannot evaluate it."""
        if model is None:
            return None
        if id(model) not in self._number:
            self._number[id(model)] = self._entered(model)
        return self._number[id(model)]

    def _entered(self, model: Model) -> int | None:
        parts = [self.number(part) for part in model.parts]
        function, left_over = (ModelFunction(0.0), None) if parts else (model.function, model.discrepancy)
        numbers = [self._term_number(term) for term in function.terms]
        if None in parts or None in numbers:
            return None
        coefficients = [rounded(coefficient, _DIGITS) for coefficient in function.coefficients]
        terms = list(zip(numbers, coefficients, strict=True))
        drift = None if left_over is None else self._drift(left_over, function)
        self.models.append([rounded(function.constant, _DIGITS), terms, drift, parts, model.signed])
        return len(self.models) - 1

    def _term_number(self, term: Term) -> int | None:
        if term not in self._term:
            factors = [known for factor in term.factors if (known := self._factor(factor))]
            self._term[term] = None if len(factors) < len(term.factors) else len(self.terms)
            self.terms += [] if self._term[term] is None else [factors]
        return self._term[term]

    def _factor(self, factor: Factor) -> list[float] | None:
        if factor.variable is None and isinstance(factor.basis, PowerLog):
            return [factor.parameter, *map(float, factor.basis.lead)]
        if factor not in self._table:
            stops = [self._stops[column] for column in factor.columns]
            cells = prod(map(len, stops))
            if cells + sum(len(values) for _, values in self.tables) > _MOST_CELLS:
                return None
            points = np.zeros((cells, len(self._stops)))
            points[:, list(factor.columns)] = list(product(*stops))
            self._table[factor] = len(self.tables)
            self.tables.append([list(factor.columns), listed(factor.evaluate(points), _DIGITS)])
        return [self._table[factor]]

    def _drift(self, left_over: Discrepancy, function: ModelFunction) -> list[Any]:
        """Return process, mean and pulls: the mean plus the pulls times covariances is the process at a target."""
        process = left_over.process
        if id(process) not in self._process:
            self.processes.append(_process(process))
            inputs = logarithms(process.points, process.points)
            covariance = process.covariance(inputs, inputs) + process.noise**2 * np.eye(len(inputs))
            self._process[id(process)] = (
                len(self.processes) - 1,
                np.asarray(np.linalg.pinv(covariance, hermitian=True), dtype=np.float64),
            )
        number, inverse = self._process[id(process)]
        values = ratios(left_over.logs, function.evaluate(process.points))
        mean = float(inverse.sum(axis=0) @ values / inverse.sum())
        pulls = process.deviation**2 * (inverse @ (values - mean))
        return [number, rounded(mean, _DIGITS), [rounded(pull, _DIGITS) for pull in pulls.tolist()]]


def _process(process: Process) -> dict[str, Any]:
    """Return what `Process.covariance` is computed from, in units of the variance; see `logarithms` there."""
    inputs = logarithms(process.points, process.points)
    shift = (process.points.min(axis=0) <= 0).astype(np.float64)
    return {
        "shift": shift.tolist(),
        "middle": (np.log(process.points[0] + shift) - inputs[0]).tolist(),
        "inputs": inputs.tolist(),
        "lengths": [rounded(length, _DIGITS) for length in process.lengths.tolist()],
        "trends": (process.slopes**2).tolist(),
    }
