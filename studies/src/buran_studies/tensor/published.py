"""The CPR paper's interpolation and extrapolation, beside its authors' program on the same samples.

The paper prints curves and no digits. Numbers beside ours are those of the authors' program
(github.com/huttered40/cpr-perf-model), run on the published data: training samples of seed 10, the configuration chosen
by validation, several random starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from buran.modeling.tensor import CPRegressor
from buran_studies.evaluation.evaluation import Beside, Evaluation, Table
from buran_studies.evaluation.statistics import mean_and_error
from buran_studies.evaluation.study import Settings, Shard
from buran_studies.tensor import beyond
from buran_studies.tensor.data import SOURCES, draw, load

SAMPLE = 10
"""Seed of the training samples of the authors' scripts."""
_STARTS, _QUICK_STARTS = 10, 3
_LEAST = 1e-14  # stands for predictions that are not positive, as in the paper
_RIDGE = 1e-5


@dataclass(frozen=True)
class Reference:
    """A configuration of the authors' program and its error.

    Attributes
    ----------
    cells
        Of each parameter; one number for all.
    error
        MLogQ on the test file, mean of its random starts.
    spread
        Standard deviation over these starts.
    starts
        Their number.
    """

    cells: int | tuple[int, ...]
    rank: int
    error: float
    spread: float
    starts: int = 3


REFERENCES: Mapping[tuple[int, str], Reference] = {
    (4096, "gemm"): Reference(16, 8, 0.083, 0.001, 5),
    (4096, "bcast"): Reference(32, 16, 0.059, 0.001, 5),
    (4096, "exafmm"): Reference((16, 16, 16, 8, 16, 16), 16, 0.112, 0.002, 5),
    (4096, "amg"): Reference(16, 4, 0.135, 0.012, 5),
    (16384, "gemm"): Reference(64, 32, 0.060, 0.001),
    (16384, "bcast"): Reference(32, 32, 0.046, 0.0001),
    (16384, "exafmm"): Reference((16, 16, 32, 8, 16, 16), 32, 0.079, 0.001),
    (16384, "amg"): Reference(16, 32, 0.086, 0.002),
}
BEYOND: Mapping[str, float] = {
    "gemm m < 2048": 0.070,
    "gemm m < 512": 0.134,
    "gemm m,n,k < 1024": 0.063,
    "gemm m,n,k < 512": 0.083,
    "bcast nodes <= 64": 0.205,
    "bcast nodes <= 32": 0.218,
    "bcast msgsize < 2^25": 0.129,
    "bcast msgsize < 2^23": 0.187,
}
"""MLogQ of the authors' program beyond the training range: the least of 6 to 18 configurations on the tests, one start.
The paper chooses by the tests, too."""
CELLS = (8, 16, 32)
"""Tried beyond the training range; the rank hardly matters there."""
_SPLINES = {
    1: "depends on the slope of the spline at the edge, thus on the cells; the authors' grids are not all known",
    3: "three splines are extrapolated at once for 201 tests, so each slope at the edge matters in all of them",
}
"""By the number of extrapolated parameters."""
ABSENT = ("QR factorisation", "KRIPKE")


def shards(settings: Settings) -> Sequence[Shard]:
    """Return one shard for each data set and size, and for each setting of the extrapolation."""
    settings.data_folder()
    starts = settings.draws or (_QUICK_STARTS if settings.quick else _STARTS)
    sizes = (4096,) if settings.quick else (4096, 16384)
    inside: list[Shard] = [
        {"ask": "inside", "data": name, "size": size, "starts": starts, "seed": settings.seed}
        for size, name in REFERENCES
        if size in sizes
    ]
    outside: list[Shard] = [
        {"ask": "beyond", "setting": name, "starts": 1 if settings.quick else starts, "seed": settings.seed}
        for name in BEYOND
    ]
    return [*inside, *outside]


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Fit with several random starts; return the errors."""
    folder = settings.data_folder()
    seeds = range(shard["seed"], shard["seed"] + shard["starts"])
    if shard["ask"] == "beyond":
        return {**shard, "errors": [_beyond(folder, shard["setting"], seed) for seed in seeds]}
    own, source = REFERENCES[shard["size"], shard["data"]], SOURCES[shard["data"]]
    test = load(folder, shard["data"], "test")
    train = draw(load(folder, shard["data"], "train"), shard["size"], SAMPLE, len(test.y))
    cells = own.cells if isinstance(own.cells, int) else list(own.cells)
    errors = []
    for seed in seeds:
        options: dict[str, Any] = {"cells": cells, "rank": own.rank, "ridge": _RIDGE, "random_state": seed}
        model = CPRegressor("published", scale=source.scale, outside="clamp", unseen="mean", **options)
        errors.append(_mlogq(model.fit(train.X, train.y).predict(test.X), test.y))
    return {**shard, "errors": errors}


def _beyond(folder: Path, name: str, seed: int) -> list[float]:
    """Return the error with each number of cells."""
    setting = beyond.SETTINGS[name]
    train, test = beyond.split(folder, setting, 4096, SAMPLE)
    source = SOURCES[setting.data]
    options: dict[str, Any] = {
        "extrapolate": setting.places,
        "outside": "clamp",
        "random_state": seed,
        "rank": 1,
        "ridge": _RIDGE,
    }
    models = (CPRegressor("published", scale=source.scale, names=source.names, cells=c, **options) for c in CELLS)
    return [_mlogq(model.fit(train.X, train.y).predict(test.X), test.y) for model in models]


def _mlogq(predicted: Any, measured: Any) -> float:
    # MLogQ: mean |ln(m/y)|
    return float(np.abs(np.log(np.maximum(predicted, _LEAST) / measured)).mean())


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Put the errors beside those of the authors' program."""
    rows: list[Beside] = []
    table: list[tuple[str | float, ...]] = []
    for result in results:
        errors = result["errors"]
        if result["ask"] == "inside":
            own = REFERENCES[result["size"], result["data"]]
            name, published = f"Fig. 6: MLogQ, {result['data']}, {result['size']} observations", own.error
            spread, why = own.spread / own.starts**0.5, ""
            cells = own.cells if isinstance(own.cells, int) else "/".join(map(str, own.cells))
            table.append((name, f"{cells} cells, rank {own.rank}", min(errors), max(errors)))
        else:
            setting = result["setting"]
            name, published, spread = f"Fig. 8: MLogQ beyond the training range, {setting}", BEYOND[setting], None
            why = _SPLINES[len(beyond.SETTINGS[setting].places)]
            table += [
                (name, f"{cells} cells", min(each), max(each))
                for cells, each in zip(CELLS, zip(*errors, strict=True), strict=True)
            ]
            errors = [min(each) for each in errors]
        mean, error = mean_and_error(errors)
        rows.append(
            Beside(name, published, mean, standard_error=error, published_error=spread, samples=len(errors), why=why)
        )
    for name in ABSENT:
        why = "its measurements are not among the published data"
        rows.append(Beside(f"Fig. 3 to 7: {name}", None, None, why=why))
    return Evaluation(
        "Tensor completion by the CPR paper's own protocol (MLogQ: mean |ln(predicted / measured)|)",
        tables=(Table("Errors over random starts", ("", "configuration", "least", "most"), tuple(table)),),
        notes=(
            "The paper prints curves: published values are those of its authors' program on the same samples. Beyond "
            "the training range: the least test error of several configurations, as in the paper.",
        ),
        beside=tuple(rows),
    )
