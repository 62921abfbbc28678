"""CP tensor completion and its rivals on the four published data sets of the CPR paper."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from buran.errors import UsageError
from buran.modeling.tensor.published.model import PublishedModel
from buran_studies.evaluation.evaluation import Evaluation
from buran_studies.evaluation.study import PUBLISHED, Settings, Shard
from buran_studies.tensor import beyond as tensor_beyond
from buran_studies.tensor import published
from buran_studies.tensor import summary as tensor_summary
from buran_studies.tensor.data import SOURCES, Sample, draw, load
from buran_studies.tensor.rivals import RIVALS, Outcome, judge, missing

SIZES = (1 << 10, 1 << 12, 1 << 14)
_QUICK_DRAWS = 2
_DRAWS = {1 << 10: 1, 1 << 12: 3, 1 << 14: 2}
_ORDER = ("large", "tensor", "beyond", "sweep", "rival", "slow")
_SEEDS = 3
_CHEAP = ("log-polynomial ridge and boosting", "k nearest neighbours", "histogram gradient boosting")
_CELLS = (4, 8, 16, 32, 64)
_RANKS = (1, 2, 4, 8, 16, 32)
_SWEPT = 1 << 12
_LARGE = 1 << 16


def shards(settings: Settings) -> Sequence[Shard]:
    """Cut by what is asked, data set, sample size and draw."""
    if settings.preset == PUBLISHED:
        return published.shards(settings)
    if settings.preset not in ("default", "interpolation", "extrapolation"):
        raise UsageError(
            f"the study tensor has no protocol {settings.preset!r}",
            hint="choose from default, published, interpolation, extrapolation",
        )
    settings.data_folder()

    def seeds_of(size: int) -> list[int]:
        return [
            settings.seed * 1000 + i
            for i in range(settings.draws or (_QUICK_DRAWS if settings.quick else _DRAWS[size]))
        ]

    out: list[dict[str, Any]] = []
    if settings.preset != "extrapolation":
        for size in SIZES[:1] if settings.quick else SIZES:
            for name in list(SOURCES)[: 2 if settings.quick else None]:
                seeds = seeds_of(size)
                for seed in seeds:
                    own = {"data": name, "size": size, "seed": seed}
                    out.append({"ask": "tensor", **own})
                    out += [{"ask": "rival", "rival": rival, **own} for rival in _CHEAP]
                    if seed == seeds[0] and size == _SWEPT and not settings.quick:
                        slow = [rival for rival in RIVALS if rival not in _CHEAP and rival != "perceptron"]
                        out += [{"ask": "rival", "rival": rival, **own} for rival in slow]
                    if seed == seeds[0] and size > SIZES[0]:
                        out.append({"ask": "rival", "rival": "perceptron", **own})
        if not settings.quick:
            own = {"size": _SWEPT, "seed": seeds_of(_SWEPT)[0]}
            for name in SOURCES:
                out += [{"ask": "sweep", "data": name, **own, "cells": c, "rank": 8} for c in _CELLS]
                out += [{"ask": "sweep", "data": name, **own, "cells": 16, "rank": r} for r in _RANKS if r != 8]
            out.append({"ask": "large", "size": _LARGE, "seed": settings.seed})
    if settings.preset != "interpolation":
        for setting in list(tensor_beyond.SETTINGS)[: 2 if settings.quick else None]:
            out += [
                {"ask": "beyond", "setting": setting, "size": 1 << (10 if settings.quick else 12), "seed": seed}
                for seed in seeds_of(1 << 12)
            ]
    # What the goals are about comes first, so that an evaluation that is interrupted tells most.
    return sorted(out, key=lambda shard: (shard["seed"], _ORDER.index(_first_of(shard)), shard["size"] != _SWEPT))


def _first_of(shard: Shard) -> str:
    return "slow" if shard.get("rival") in set(RIVALS) - set(_CHEAP) else str(shard["ask"])


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Fit and test."""
    if settings.preset == PUBLISHED:
        return published.run_shard(shard, settings)
    folder = settings.data_folder()
    if shard["ask"] == "large":
        return {**shard, "rows": [large(shard["size"], shard["seed"])]}
    if shard["ask"] == "beyond":
        return {**shard, "rows": tensor_beyond.work(folder, shard["setting"], shard["size"], shard["seed"])}
    name = shard["data"]
    test = load(folder, name, "test")
    train = draw(load(folder, name, "train"), shard["size"], shard["seed"], len(test.y))
    if shard["ask"] == "rival":
        reason = missing(shard["rival"], SOURCES[name].scale)
        if reason is not None:
            return {**shard, "rows": [], "missing": reason}
        own = judge(RIVALS[shard["rival"]], train, test, SOURCES[name].scale, shard["seed"], every=True)
        return {**shard, "rows": [{"method": shard["rival"], **own.to_json()}]}
    if shard["ask"] == "sweep":
        row = fit_and_test(train, test, name, preset="published", cells=shard["cells"], rank=shard["rank"], ridge=1e-5)
        return {**shard, "rows": [{"method": "published", **row[0].to_json()}]}
    rows = []
    seed = shard["seed"]
    as_published, chosen = fit_and_test(train, test, name, preset="published", random_state=seed)
    rows.append({"method": "published", **as_published.to_json()})
    rows += published_seeds(train, test, name, chosen, [seed + 100 * i for i in range(_SEEDS)])
    own, options = fit_and_test(train, test, name, random_state=seed)
    rows.append({"method": "default", **own.to_json()})
    parts, _ = fit_and_test(train, test, name, trees=0, random_state=seed, **options)
    rows.append({"method": "default, CP parts alone", **parts.to_json()})
    return {**shard, "rows": rows}


def fit_and_test(train: Sample, test: Sample, name: str, **given: Any) -> tuple[Outcome, dict[str, Any]]:
    """Fit our estimator; return its outcome, and the options that it chose."""
    from buran.modeling.tensor import CPRegressor
    from buran.modeling.tensor.blend import Blend
    from buran.modeling.tensor.model import to_bytes

    source = SOURCES[name]
    start = time.process_time()
    model = CPRegressor(scale=source.scale, names=source.names, outside="clamp", unseen="mean", **given)
    model.fit(train.X, train.y)
    fitted = time.process_time()
    found = model.predict(test.X)
    done = time.process_time()
    error = float(np.abs(np.log(np.maximum(found, 1e-14) / test.y)).mean())
    inner = model.model_.inner
    options: dict[str, Any] = {}
    if isinstance(inner, Blend):
        chosen = inner.options
        options = {"cells": chosen.nodes, "rank": chosen.rank, "ridge": chosen.ridge}
        setting = f"{options}, CP parts {len(inner.parts)}, trees {len(inner.trees.roots)}, share {inner.share:g}"
    else:
        assert isinstance(inner, PublishedModel)
        own = inner.choice
        setting = f"cells {'/'.join(map(str, own.cells))}, rank {own.rank}, lambda {own.ridge:g}"
        options = {"cells": own.cells, "rank": own.rank, "ridge": own.ridge}
    size = len(to_bytes(model.model_))
    return Outcome(error, error, fitted - start, 1e6 * (done - fitted) / len(test.y), size, setting), options


def published_seeds(
    train: Sample, test: Sample, name: str, chosen: dict[str, Any], seeds: Sequence[int]
) -> list[dict[str, Any]]:
    """Return the published method's mean error over random starts, and that of the mean of their predictions."""
    from buran.modeling.tensor import CPRegressor

    source, logs = SOURCES[name], []
    for seed in seeds:
        own = {"scale": source.scale, "names": source.names, "random_state": seed, **chosen}
        model = CPRegressor("published", outside="clamp", unseen="mean", **own)
        logs.append(np.log(np.maximum(model.fit(train.X, train.y).predict(test.X), 1e-14)))
    errors = np.abs(np.stack(logs) - np.log(test.y)).mean(axis=1)
    mean = float(np.abs(np.mean(logs, axis=0) - np.log(test.y)).mean())
    return [
        {
            "method": f"published, mean of {len(seeds)} seeds",
            "error": errors.mean().item(),
            "spread": errors.std().item(),
        },
        {"method": f"published, ensemble of {len(seeds)} seeds", "error": mean},
    ]


def large(size: int, seed: int) -> dict[str, Any]:
    """Fit and predict many observations of a made-up code with eight parameters; return CPU seconds and memory."""
    import resource

    from buran.modeling.tensor import CPRegressor

    random = np.random.default_rng(seed)
    X = np.exp(random.uniform(0, 6, (size, 8)))
    X[:, 5] = random.integers(0, 10, size)
    X[:, 6:] = 2.0 ** random.integers(0, 7, (size, 2))
    y = (1 + X[:, 0] * X[:, 1] / X[:, 6] + X[:, 2] * np.log(X[:, 3])) * (1 + X[:, 5] / 5) * (1 + X[:, 7] / X[:, 4])
    y *= np.exp(0.05 * random.standard_normal(size))
    model = CPRegressor(scale=["log"] * 5 + ["categorical", "log", "log"], outside="clamp", random_state=seed)
    start = time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    million = X[random.integers(0, size, 1_000_000)]
    begun = time.process_time()
    model.predict(million)
    done = time.process_time()
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"fit_s": fitted - start, "predict_s": done - begun, "peak_mb": peak_kib / 2**10}


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Make tables, plots and the figures that have goals."""
    if settings.preset == PUBLISHED:
        return published.summarise(results, settings)
    return tensor_summary.summarise(results)
