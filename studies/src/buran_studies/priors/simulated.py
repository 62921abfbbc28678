"""Run times simulated from known functions, at the points of the noise-resilient priors paper (section 5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np

from buran.modeling.fit import fit_models
from buran.modeling.functions.terms import Array, ModelFunction, added, power, scaled
from buran.modeling.numerics.least_squares import Ids
from buran.modeling.pmnf.model import Model
from buran.modeling.priors.communication import operation_of
from buran.modeling.priors.effort import bytes_of, effort_of
from buran.modeling.priors.prior import Prior, communication_prior, computation_prior
from buran.modeling.priors.resilient import FitOptions, predictions
from buran_studies.generator.program import Truth
from buran_studies.generator.spec import random_spec
from buran_studies.noise import inject
from buran_studies.priors.sparse import effort_points, time_points
from buran_studies.quality import exponent_deviation

P, N = (128, 256, 512, 1024, 2048), (8000, 16000, 24000, 32000, 40000)
POINTS: Array = np.array(list(product(P, N)), dtype=np.float64)
TEST: Array = np.array([[4096.0, 48000.0]])
LEVELS = (2, 5, 10, 50, 75)
REPETITIONS = 5
PARTS = ("computation", "communication")
EFFORT_OVERHEAD = 2.0  # of an effort run: the larger one of the paper's two case studies (section 5.3.3)
SPARSE_SHARE = 0.35  # of one repetition of all points, that a sparse plan spends on times
_OUTLIER_LEVELS, _OUTLIERS = (10, 75), (0, 1, 2)
_CENTRE = 12  # row of POINTS
OUTLIER = 10.0  # times the value that was drawn
_ALONE = FitOptions(share=False)  # draws of one function must not help each other
_LEAST_SQUARES = FitOptions(share=False, outliers=np.inf)
_BLOCKS = 2.0  # basic blocks of a round


@dataclass(frozen=True)
class Function:
    """A function with a known run time.

    Attributes
    ----------
    time
        In seconds.
    expected
        Its complexity in theory.
    truth
        The generated function; None for computation.
    rounds
        Of its loops.
    """

    time: ModelFunction
    expected: ModelFunction
    truth: Truth | None
    rounds: ModelFunction


@dataclass(frozen=True, eq=False)
class Program:
    """Functions that run one after the other, and a plan to measure them.

    Attributes
    ----------
    functions
        Their times.
    priors
        From counts at the points `counted`.
    counted, sparse
        Rows of `POINTS` with counts, and with times in a sparse plan.
    cost
        Core seconds of measuring, relative to five repetitions of all points.
    """

    functions: tuple[Function, ...]
    priors: tuple[Prior, ...]
    counted: Ids
    sparse: Ids
    cost: dict[str, float]

    @classmethod
    @cache
    def of(cls, part: str, count: int, first: int, seed: int) -> Program:
        """Make the program and its priors."""
        own = tuple(functions(part, count, first, seed))
        prices = np.array([function.time.evaluate(POINTS) for function in own]).sum(axis=0) * POINTS[:, 0]
        classic = REPETITIONS * float(prices.sum())
        counted = effort_points(POINTS, prices)
        sparse = time_points(POINTS, prices, SPARSE_SHARE * float(prices.sum()))
        effort = EFFORT_OVERHEAD * float(prices[counted].sum()) / classic
        cost = {
            "single": 1 / REPETITIONS + effort,
            "sparse": float(prices[sparse].sum()) / classic + effort,
            "effort": effort,
            "paper": (1 + EFFORT_OVERHEAD) / REPETITIONS,
        }
        return cls(own, _priors(own, POINTS[counted]), counted, sparse, cost)


def functions(part: str, count: int, first: int, seed: int) -> list[Function]:
    """Give run times to generated functions: the same terms, with coefficients so that each matters at the centre.

    Computation: each loop has a cost of its own for a round, and there is a constant part. Communication: latency,
    bandwidth and computation of the operation's cost model. Shares at the centre are drawn between 0.2 and 1, that of
    the constant between 0 and 0.2.
    """
    spec = random_spec("synthetic", count, seed, first)
    out = []
    for number, kernel in enumerate(spec.kernels, start=first):
        random = np.random.default_rng([seed, number, PARTS.index(part)])
        truth = Truth.of(kernel)
        rounds = ModelFunction(0.0)
        if part == "computation":
            columns = [ModelFunction(0.0, (1.0,), (term,)) for term in kernel.computation.terms]
            rounds = _balanced(columns, random, 1e6)
            costs = random.uniform(0.5, 2.0, size=len(rounds.terms)) * 1e-9
            time = ModelFunction(0.0, tuple((np.array(rounds.coefficients) * costs).tolist()), rounds.terms)
            expected = rounds
        else:
            assert truth.prior is not None
            expected = added(truth.prior.functions)
            columns = [column.function for column in truth.prior.columns[1:]] or [ModelFunction(1.0)]
            time = _balanced(columns, random, 1e-3)
        constant = float(random.uniform(0, 0.2)) * float(time.evaluate(POINTS[_CENTRE]))
        whole = added([time, ModelFunction(constant)])
        out.append(Function(whole, expected, truth if part == "communication" else None, rounds))
    return out


def _priors(own: Sequence[Function], points: Array) -> tuple[Prior, ...]:
    """Derive priors from counts at some points, whole numbers as programs have them."""
    out = []
    for function in own:
        if function.truth is None:
            counts = np.rint(function.rounds.evaluate(points)) * _BLOCKS + 7.0
            effort = effort_of(points, counts[None]).functions[0]
            assert effort is not None
            out.append(computation_prior(effort))
            continue
        kernel = function.truth.kernel
        calls = kernel.calls.evaluate(points)  # whole numbers only at the points the program was drawn for
        moved = calls * np.rint(kernel.message_bytes.evaluate(points))
        everybody = points[:, 0] if kernel.operation in ("allgather", "allreduce") else 1.0
        visits = effort_of(points, calls[None]).functions[0]
        counts = (moved * everybody)[None, :, None]
        volume = bytes_of(points, counts, calls[None, :, None], [visits], [power(0, 1)]).functions[0]
        name = function.truth.operation or ""
        operation = operation_of(name)
        assert operation is not None and visits is not None and volume is not None
        out.append(
            communication_prior(operation, name=name, visits=visits, size=power(0, 1), sent=volume, received=volume)
        )
    return tuple(out)


def _balanced(columns: Sequence[ModelFunction], random: np.random.Generator, size: float) -> ModelFunction:
    shares = random.uniform(0.2, 1.0, size=len(columns))
    centre = [float(column.evaluate(POINTS[_CENTRE])) for column in columns]
    return added(
        scaled(column, size * float(share) / at)
        for column, share, at in zip(columns, shares, centre, strict=True)
        if at
    )


def draw(part: str, count: int, first: int, seed: int, level: float, draws: int) -> dict[str, Any]:
    """Model functions under noise, with and without priors, from the same draws.

    Returns
    -------
    dict
        JSON values: by method, exponent deviations and relative errors of each function, means over draws. Methods:
        ``resilient`` and ``sensitive`` from medians of five repetitions, ``single`` with priors from one, ``sparse``
        with priors from one repetition of some points.
    """
    program = Program.of(part, count, first, seed)
    own, priors, chosen = program.functions, program.priors, program.sparse
    true = np.array([function.time.evaluate(POINTS) for function in own])
    actual = np.array([float(function.time.evaluate(TEST)[0]) for function in own])
    noisy = _noise(true, level, [seed, first, PARTS.index(part), int(level)], draws)
    median = np.median(noisy, axis=-1)

    def with_priors(values: Array, rows: Ids) -> Array:
        """Return the errors, shape (function,), means over draws; `values` (function, point, draw)."""
        flat = values[:, rows].transpose(0, 2, 1).reshape(-1, len(rows))
        repeated = [prior for prior in priors for _ in range(draws)]
        found = predictions(POINTS[rows], flat, repeated, TEST, _ALONE)[:, 0]
        return np.asarray(np.abs(found / np.repeat(actual, draws) - 1))

    everywhere = np.arange(len(POINTS))
    classic = fit_models(POINTS, median.transpose(0, 2, 1).reshape(-1, len(POINTS))).models
    errors = {
        "resilient": with_priors(median, everywhere),
        "single": with_priors(noisy[..., 0], everywhere),
        "sparse": with_priors(noisy[..., 0], chosen),
        "sensitive": _errors(classic, np.repeat(actual, draws)),
    }
    repeated = [function for function in own for _ in range(draws)]
    deviations = _deviations(classic, repeated).reshape(len(own), draws, -1)
    return {
        "part": part,
        "level": level,
        "re": {name: error.reshape(len(own), draws).mean(axis=1).tolist() for name, error in errors.items()},
        "ed_sensitive": deviations.mean(axis=1).tolist(),
        "ed_resilient": [
            exponent_deviation(added(prior.functions), function.expected, 2).tolist()
            for prior, function in zip(priors, own, strict=True)
        ],
        "cost": program.cost,
    }


def subsets(part: str, count: int, first: int, seed: int, level: float) -> dict[str, Any]:
    """Model functions from all subsets of five repetitions (Fig. 4)."""
    program = Program.of(part, count, first, seed)
    own, priors = program.functions, program.priors
    true = np.array([function.time.evaluate(POINTS) for function in own])
    actual = np.array([float(function.time.evaluate(TEST)[0]) for function in own])
    noisy = _noise(true, level, [seed, first, PARTS.index(part), int(level), 1], 1)[:, :, 0]
    out: dict[str, Any] = {"part": part, "level": level, "re": {}, "re_sensitive": {}, "ed_sensitive": {}}
    for size in range(1, REPETITIONS + 1):
        with_priors, without, deviations = [], [], []
        for chosen in combinations(range(REPETITIONS), size):
            values = np.median(noisy[..., list(chosen)], axis=2)
            with_priors.append(np.abs(predictions(POINTS, values, priors, TEST, _ALONE)[:, 0] / actual - 1))
            classic = fit_models(POINTS, values).models
            without.append(_errors(classic, actual))
            deviations.append(_deviations(classic, own).max(axis=1))
        out["re"][size] = np.mean(with_priors, axis=0).tolist()
        out["re_sensitive"][size] = np.mean(without, axis=0).tolist()
        out["ed_sensitive"][size] = np.mean(deviations, axis=0).tolist()
    return out


def outliers(part: str, count: int, seed: int, draws: int) -> dict[str, Any]:
    """Model functions from one repetition with some points that are ten times too large.

    Returns
    -------
    dict
        JSON values: for each noise level and number of such points, the errors of robust models and of those by least
        squares, means over draws for each function.
    """
    program = Program.of(part, count, 0, seed)
    true = np.array([function.time.evaluate(POINTS) for function in program.functions])
    actual = np.repeat([float(function.time.evaluate(TEST)[0]) for function in program.functions], draws)
    repeated = [prior for prior in program.priors for _ in range(draws)]
    rows = []
    for level in _OUTLIER_LEVELS:
        noisy = _noise(true, level, [seed, PARTS.index(part), int(level), 2], draws)[..., 0]
        flat = noisy.transpose(0, 2, 1).reshape(-1, len(POINTS))
        random = np.random.default_rng([seed, int(level)])
        order = np.argsort(random.random(flat.shape), axis=1)
        for number in _OUTLIERS:
            wild = np.where(order < number, OUTLIER * flat, flat)
            errors = [
                np.abs(predictions(POINTS, wild, repeated, TEST, options)[:, 0] / actual - 1)
                for options in (_ALONE, _LEAST_SQUARES)
            ]
            robust, plain = (error.reshape(count, draws).mean(axis=1).tolist() for error in errors)
            rows.append({"level": level, "outliers": number, "robust": robust, "least_squares": plain})
    return {"part": part, "rows": rows}


def _noise(true: Array, level: float, seed: Sequence[int], draws: int) -> Array:
    """Return shape (function, point, draw, repetition)."""
    number = int(np.random.SeedSequence(list(seed)).generate_state(1)[0])
    noisy = inject(true, level, "mixed", repetitions=draws * REPETITIONS, seed=number)
    return noisy.reshape(*true.shape, draws, REPETITIONS)


def _errors(models: Sequence[Model | None], actual: Array) -> Array:
    found = np.array([np.nan if model is None else float(model.function.evaluate(TEST)[0]) for model in models])
    return np.asarray(np.abs(found - actual) / actual)


def _deviations(models: Sequence[Model | None], own: Sequence[Function]) -> Array:
    return np.array(
        [
            [np.nan, np.nan] if model is None else exponent_deviation(model.function, function.expected, 2)
            for model, function in zip(models, own, strict=True)
        ]
    )
