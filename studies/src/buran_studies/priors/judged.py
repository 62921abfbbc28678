"""Models of generated programs that really ran, with priors from their counts and without, under noise of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from buran.modeling.fit import fit_models
from buran.modeling.functions.terms import Array, ModelFunction, added
from buran.modeling.numerics.least_squares import Ids, Mask
from buran.modeling.pmnf.model import Model
from buran.modeling.priors.paths import priors_of
from buran.modeling.priors.prior import Column, Prior
from buran.modeling.priors.resilient import FitOptions, predictions
from buran.modeling.priors.waiting import Verdict, diagnose
from buran.profiles.experiment.table import Experiment
from buran_studies.generator.program import Truth
from buran_studies.generator.spec import random_spec
from buran_studies.noise import inject
from buran_studies.priors.measured import PARTS, TEST_POINT, counted_table, rows_of
from buran_studies.priors.simulated import REPETITIONS, SPARSE_SHARE
from buran_studies.priors.sparse import effort_points, time_points
from buran_studies.quality import exponent_deviation

METHODS = ("resilient", "single", "sensitive")
"""With priors, from the median of repetitions and from one; without priors."""
_ALONE = FitOptions(share=False)  # subsets and draws of one function must not help each other
_AT: Array = np.array([list(TEST_POINT.values())], dtype=np.float64)


def judge(functions: int, seed: int, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Model what was measured.

    Parameters
    ----------
    results
        Of `count`, and of `time_once` for each repetition.

    Returns
    -------
    dict
        JSON values. For each part, with a row for each function: priors, times, exponent deviations of priors and of
        models from times, relative errors at the test point by number of repetitions, means over all subsets.
    """
    spec = random_spec("synthetic", functions, seed)
    counted = counted_table(results[0])
    rows = rows_of(spec, counted.tree)
    timed = results[1:]
    points = np.array(timed[0]["points"], dtype=np.float64)
    test: Mask = np.array((points == _AT).all(axis=1), dtype=np.bool_)
    found = priors_of(counted.tree, counted, points)
    thin, sparse, cost = _plan(counted, results)
    cheap = priors_of(counted.tree, thin, points)
    parts = {}
    companions = [term for path in found if (effort := path.effort) is not None for term in effort.dominating_terms()]
    for part in PARTS:
        own = [row[part] for _, row in rows]
        truths = [truth for truth, _ in rows]
        times = np.stack([np.array(run["time"][part]) for run in timed], axis=-1)  # function, point, repetition
        priors = [found[row].prior for row in own]
        actual = np.median(times[:, test], axis=2)[:, 0]
        values = times[:, ~test]
        expected = [expected_of(truth, part) for truth in truths]
        chosen: Ids = np.flatnonzero([bool((sparse == point).all(axis=1).any()) for point in points[~test]])
        scarce = [cheap[row].prior for row in own]
        parts[part] = {
            "priors": [None if prior is None else _packed(prior) for prior in priors],
            "expected": [function.to_json() for function in expected],
            "times": values.tolist(),
            "actual": actual.tolist(),
            "ed": _deviations_of_priors(priors, expected),
            "ed_sparse": _deviations_of_priors(scarce, expected),
            "ed_effort": [
                exponent_deviation(found[row].effort or ModelFunction(0.0), _effort(truth, part), 2).tolist()
                for row, truth in zip(own, truths, strict=True)
            ],
            "notes": [list(found[row].notes) for row in own],
            "sparse": _listed(
                _errors(predictions(points[~test][chosen], values[:, chosen, 0], scarce, _AT, _ALONE), actual)
            ),
            "waiting": _with_waiting(points[~test], np.median(values, axis=2), priors, companions, actual),
            **_subsets(points[~test], values, priors, expected, actual),
        }
    return {"parts": parts, "points": points[~test].tolist(), "cost": cost, "repetitions": len(timed)}


def expected_of(truth: Truth, part: str) -> ModelFunction:
    """Return what the times of a part of a function grow like."""
    assert truth.prior is not None
    return truth.rounds if part == "computation" else added(truth.prior.functions)


def _effort(truth: Truth, part: str) -> ModelFunction:
    assert truth.bytes_sent is not None
    return truth.rounds if part == "computation" else truth.bytes_sent


def _plan(counted: Experiment, results: Sequence[Mapping[str, Any]]) -> tuple[Experiment, Array, dict[str, float]]:
    """Choose the points of a sparse plan by what runs really cost.

    Returns
    -------
    counts, times, cost
        The counts of its points; shape (point, parameter), where times are taken; cost in CPU seconds relative to all
        repetitions of all points.
    """
    prices = {
        (p, n): [price for result in results[1:] for q, m, price in result["prices"] if (q, m) == (p, n)]
        for p, n, _ in results[0]["prices"]
    }
    effort = {(p, n): price for p, n, price in results[0]["prices"]}
    points = np.array(list(prices), dtype=np.float64)
    once = np.array([np.mean(price) for price in prices.values()])
    counting = np.array([effort[point] for point in prices])
    classic = float(sum(sum(price) for price in prices.values()))
    few, times = effort_points(points, counting), time_points(points, once, SPARSE_SHARE * float(once.sum()))
    keep = np.array([(point == points[few]).all(axis=1).any() for point in counted.points])
    cost = {
        "single": (float(once.sum()) + float(counting.sum())) / classic,
        "sparse": (float(once[times].sum()) + float(counting[few].sum())) / classic,
        "effort": float(counting.sum()) / float(once.sum()),
    }
    return at_points(counted, keep), points[times], cost


def at_points(experiment: Experiment, keep: Mask) -> Experiment:
    """Return the table with some of its points."""
    values = {name: value[:, keep] for name, value in experiment.values.items()}
    return replace(experiment, points=experiment.points[keep], values=values)


def _deviations_of_priors(
    priors: Sequence[Prior | None], expected: Sequence[ModelFunction]
) -> list[list[float] | None]:
    return [
        None if prior is None else exponent_deviation(added(prior.functions), function, 2).tolist()
        for prior, function in zip(priors, expected, strict=True)
    ]


def _errors(predicted: Array, actual: Array) -> Array:
    """Return relative errors, shape (row,); NaN without a prediction."""
    return np.asarray(np.abs(predicted[:, 0] / np.where(actual > 0, actual, np.nan) - 1))


def _listed(values: Array) -> Any:
    """Return nested lists with None for what is not known."""
    out = values.astype(object)
    out[~np.isfinite(values)] = None
    return out.tolist()


def _classic(points: Array, values: Array, at: Array = _AT) -> tuple[Array, tuple[Model | None, ...]]:
    """Return predictions at the test point, shape (row, 1), and models from times alone."""
    models = fit_models(points, values).models
    found = [np.nan if model is None else float(model.function.evaluate(at)[0]) for model in models]
    return np.array(found)[:, None], models


def _deviations(models: Sequence[Model | None], expected: Sequence[ModelFunction]) -> Array:
    """Return shape (row, parameter); NaN without a model."""
    return np.array(
        [
            [np.nan, np.nan] if model is None else exponent_deviation(model.function, own, 2)
            for model, own in zip(models, expected, strict=True)
        ]
    )


def _subsets(
    points: Array, values: Array, priors: Sequence[Prior | None], expected: Sequence[ModelFunction], actual: Array
) -> dict[str, Any]:
    """Fit medians of all subsets of repetitions."""
    out: dict[str, Any] = {"re": {}, "re_sensitive": {}, "ed_sensitive": {}}
    repetitions = values.shape[2]
    for size in range(1, repetitions + 1):
        subsets = [
            np.median(values[..., list(combination)], axis=2) for combination in combinations(range(repetitions), size)
        ]
        count = len(subsets)
        flat = np.concatenate(subsets)
        true = np.tile(actual, count)
        predicted, models = _classic(points, flat)
        errors = {
            "re": _errors(predictions(points, flat, list(priors) * count, _AT, _ALONE), true),
            "re_sensitive": _errors(predicted, true),
        }
        for key, error in errors.items():
            out[key][str(size)] = _listed(error.reshape(count, -1).mean(axis=0))
        deviations = _deviations(models, list(expected) * count)
        out["ed_sensitive"][str(size)] = _listed(deviations.reshape(count, -1, 2).mean(axis=0))
    return out


def _with_waiting(
    points: Array,
    values: Array,
    priors: Sequence[Prior | None],
    companions: Sequence[Any],
    actual: Array,
) -> dict[str, Any]:
    """Diagnose waiting; return verdicts, and errors of models that have it."""
    found = diagnose(points, values, priors, 0, companions=list(dict.fromkeys(companions)))
    models = [None if own is None else added((own.effort_part, own.waiting_part)) for own in found]
    predicted = np.array([np.nan if model is None else float(model.evaluate(_AT)[0]) for model in models])
    verdicts = [None if own is None else str(own.verdict) for own in found]
    return {
        "re": _listed(_errors(predicted[:, None], actual)),
        "verdicts": verdicts,
        "named": sum(own is not None and own.verdict is Verdict.WAITING for own in found),
    }


def noise(part: str, level: float, draws: int, seed: int, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add noise to measured times (section 5.2.2) and model them with priors and without, from the same draws.

    Parameters
    ----------
    results
        Of `judge`.

    Returns
    -------
    dict
        As `buran_studies.priors.simulated.draw` returns it; errors relative to the measured test point.
    """
    judged = results[0]
    own = judged["parts"][part]
    points, values, actual = (np.array(column) for column in (judged["points"], own["times"], own["actual"]))
    priors = [None if prior is None else _unpacked(prior) for prior in own["priors"]]
    expected = [ModelFunction.from_json(function) for function in own["expected"]]
    number = int(np.random.SeedSequence([seed, PARTS.index(part), int(level)]).generate_state(1)[0])
    judged = under_noise(points, values, actual, priors, expected, level, draws, number)
    return {"part": part, "level": level, **judged}


def under_noise(
    points: Array,
    values: Array,
    actual: Array,
    priors: Sequence[Prior | None],
    expected: Sequence[ModelFunction],
    level: float,
    draws: int,
    seed: int,
    at: Array = _AT,
) -> dict[str, Any]:
    """Add noise to times, model them with priors and without from the same draws, and predict one point.

    Parameters
    ----------
    points
        Shape (point, parameter).
    values
        Times in seconds, shape (function, point, repetition); or (function, point), whose repetitions are the same.
    actual
        Times at the predicted point, shape (function,).
    expected
        What each function grows like.
    level
        Of noise, in percent.
    at
        The predicted point, shape (1, parameter).

    Returns
    -------
    dict
        JSON values: relative errors of each method and exponent deviations without priors, means over draws.
    """
    if values.ndim == 2:
        values = np.repeat(values[..., None], REPETITIONS, axis=2)
    noisy = inject(values, level, "mixed", repetitions=draws, seed=seed)  # function, point, repetition, draw
    count = len(values)

    def flat(each: Array) -> Array:
        return np.asarray(each.transpose(0, 2, 1).reshape(count * draws, -1))

    repeated = [prior for prior in priors for _ in range(draws)]
    median, true = flat(np.median(noisy, axis=2)), np.repeat(actual, draws)
    predicted, models = _classic(points, median, at)
    errors = (
        _errors(predictions(points, median, repeated, at, _ALONE), true),
        _errors(predictions(points, flat(noisy[:, :, 0]), repeated, at, _ALONE), true),
        _errors(predicted, true),
    )
    functions = [function for function in expected for _ in range(draws)]
    deviations = _deviations(models, functions).reshape(count, draws, 2)
    return {
        "re": {
            name: _listed(error.reshape(count, draws).mean(axis=1)) for name, error in zip(METHODS, errors, strict=True)
        },
        "ed_sensitive": _listed(deviations.mean(axis=1)),
    }


def _packed(prior: Prior) -> list[Any]:
    return [[column.name, column.function.to_json(), column.effort] for column in prior.columns]


def _unpacked(columns: Sequence[Any]) -> Prior:
    return Prior(
        tuple(Column(name, ModelFunction.from_json(function), effort) for name, function, effort in columns),
        "counts of a generated program",
    )
