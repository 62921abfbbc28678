"""The study `coverage`: intervals of models, for truths inside the hypothesis space and of each kind outside it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.modeling.fit import fit_models
from buran.modeling.pmnf.repetitions import over_repetitions, scatter_of
from buran_studies.evaluation.evaluation import Evaluation, Figure, Table
from buran_studies.evaluation.study import Settings, Shard
from buran_studies.functions import OUTSIDE, beyond, draw, draw_outside, grid, kind_inside
from buran_studies.noise import inject

Array = NDArray[np.float64]

INSIDE = "inside"
KINDS = (INSIDE, *OUTSIDE)
LAYOUTS = ("full", "lines+m", "far")
LEVEL = 0.9
HELD = 85.0
"""Percent of the intervals that are to hold in every cell."""
_NOISES, _QUICK_NOISES = (1.0, 2.0, 5.0, 10.0), (1.0, 5.0)
_DRAWS, _QUICK_DRAWS = {1: 200, 2: 200, 3: 60, 4: 24}, {1: 24, 2: 16, 3: 8}
_REPETITIONS = 5
_REACHED = np.array([0.5, 1.0, 2.0, 4.0, 8.0])
"""Times the largest value, not below the smallest: there no prediction may be negative."""


def layout(parameters: int, kind: str) -> Array:
    """Return points, shape (point, parameter).

    Parameters
    ----------
    parameters
        Their number.
    kind
        ``full``: the grid. ``lines+m``: the lines through its smallest point, and the cheapest others, as many as there
        are parameters. ``far``: instead, as the base of a campaign, all parameters but one at their largest; for two
        parameters the far corner and the middle.
    """
    points = grid(parameters)
    off = (points != points[0]).sum(axis=1)
    lines, rest = points[off <= 1], points[off > 1]
    if kind == "full" or parameters == 1:
        return points
    if kind == "lines+m":
        return np.concatenate([lines, rest[np.argsort(rest.prod(axis=1), kind="stable")][:parameters]])
    if parameters == 2:
        return np.concatenate([lines, points[[12, 24]]])
    return np.concatenate([lines, np.where(np.eye(parameters, dtype=bool), points[0], points[-1])])


def shards(settings: Settings) -> Sequence[Shard]:
    """One shard for each number of parameters, layout, noise and kind of truth."""
    draws = _QUICK_DRAWS if settings.quick else _DRAWS
    return [
        {
            "parameters": parameters,
            "layout": points,
            "noise": noise,
            "kind": kind,
            "draws": settings.draws or count,
            "seed": settings.seed,
        }
        for parameters, count in draws.items()
        for points in LAYOUTS[: 1 if parameters == 1 else None]
        for noise in (_QUICK_NOISES if settings.quick else _NOISES)
        for kind in KINDS
    ]


def run_shard(shard: Shard, settings: Settings) -> dict[str, Any]:
    """Model the functions of a cell; return errors and widths in percent, and which intervals held."""
    parameters, kind, noise = shard["parameters"], shard["kind"], shard["noise"]
    random = np.random.default_rng([shard["seed"], parameters, KINDS.index(kind)])  # the same functions in all cells
    truths = [
        draw(parameters, random, kind_inside(parameters, number))
        if kind == INSIDE
        else draw_outside(parameters, random, kind)
        for number in range(shard["draws"])
    ]
    points, at = layout(parameters, shard["layout"]), beyond(parameters)[None]
    true = np.array([truth.evaluate(np.concatenate([points, at])) for truth in truths])
    runs = inject(true, noise, repetitions=_REPETITIONS, seed=shard["seed"] + 1)
    seen, new = runs[:, :-1], runs[:, -1].mean(axis=-1)
    fit = fit_models(points, over_repetitions(seen, "mean"), scatter=scatter_of(seen))
    predicted = fit.predict(at)[:, 0]
    lower, upper = (end[:, 0] for end in fit.predict_interval(at, LEVEL))
    ends = zip(points.min(axis=0), points.max(axis=0), strict=True)
    around = np.array(list(product(*(np.maximum(_REACHED * high, low) for low, high in ends))))
    return {
        **{name: shard[name] for name in ("parameters", "layout", "noise", "kind")},
        "held": ((lower <= new) & (new <= upper)).tolist(),
        "error": (100 * np.abs(predicted / true[:, -1] - 1)).tolist(),
        "width": (100 * (upper - lower) / true[:, -1]).tolist(),
        "negative": (fit.predict(np.concatenate([points, around])) < 0).any(axis=1).tolist(),
    }


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Give the share that held, of each kind and cell."""
    rows: list[tuple[str | int | float | None, ...]] = []
    for cell in results:
        held, error = np.array(cell["held"]), np.array(cell["error"])
        within = [100 * float(np.mean(error <= limit)) for limit in (5, 20)]
        width = float(np.median(cell["width"]))
        place = (cell["parameters"], cell["layout"], cell["noise"], cell["kind"])
        rows.append((*place, 100 * float(held.mean()), width, *within, len(held)))
    figures = tuple(
        _share(
            f"intervals that held, {kind}", [hit for cell in results if cell["kind"] == kind for hit in cell["held"]]
        )
        for kind in KINDS
    )
    cells = [row[4] for row in rows if isinstance(row[4], float)]
    fine = Figure(
        f"cells in which {HELD:g} % held",
        100 * float(np.mean(np.array(cells) >= HELD)),
        "%",
        samples=len(cells),
        goal="100",
    )
    negative = [hit for cell in results for hit in cell["negative"]]
    name = "functions predicted below zero, up to 8 times each parameter"
    below = Figure(name, sum(negative), samples=len(negative), goal="0")
    table = Table(
        f"{100 * LEVEL:g} % intervals one step beyond all points",
        ("m", "layout", "noise %", "truth", "held %", "median width %", "<= 5 %", "<= 20 %", "functions"),
        tuple(rows),
        "far: the lines, and points at which all parameters but one are at their largest.",
    )
    return Evaluation("How often intervals hold", (*figures, fine, below), (table,))


def _share(name: str, hits: Sequence[bool]) -> Figure:
    share = float(np.mean(hits))
    error = 100 * (share * (1 - share) / len(hits)) ** 0.5
    return Figure(name, 100 * share, "%", error, len(hits), goal=f"at least {HELD:g}")
