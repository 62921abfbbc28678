"""Study: what correcting an analytical model is worth, by the published procedure and by the robust default.

Everything is compared with the base model after a bounded fit of its parameters to logarithms.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buran.files import finite_or_none
from buran.modeling.correction import BaseModel, Corrected, correct, load_base
from buran.modeling.correction.correct import Contest
from buran.modeling.correction.corrected import TrialResult
from buran.modeling.correction.data import Data, prepare
from buran.modeling.correction.fit import Problem
from buran.modeling.correction.formula import Array
from buran.modeling.correction.gate import objection, samples
from buran.modeling.correction.mecp.trees import CASES
from buran.modeling.correction.mecp.trials import Trials, run_trials
from buran_studies.correction import published
from buran_studies.correction.figures import summary
from buran_studies.correction.truth import (
    FAMILIES,
    SPLITS,
    THRESHOLDS,
    broadcast_base,
    draw,
    known_form,
    read_broadcast,
    truth,
)
from buran_studies.evaluation.evaluation import Evaluation
from buran_studies.evaluation.study import PUBLISHED, Settings, Shard
from buran_studies.quality import mlogq

_BASE = "evh1_2d_reconstructed"
_PER_SHARD = 8
_REPLICATES, _OTHERS, _TRIALS, _BROADCASTS, _BROADCAST_TRIALS = 40, 8, 30, 32, 10
_QUICK = (4, 1, 1, 2, 1)
_TRAIN_NODES, _TRAIN_POINTS, _TEST_POINTS = 16, 64, 1500
_SYNTHETIC, _MEASURED = 0, 1  # first numbers of the seeds


def shards(settings: Settings) -> Sequence[Shard]:
    """Cut the work by kind, family, split and replicates.

    Raises
    ------
    UsageError
        There is no such preset.
    """
    if settings.preset == PUBLISHED:
        return published.shards(settings)
    settings.require("default", PUBLISHED)
    counts = _QUICK if settings.quick else (_REPLICATES, _OTHERS, _TRIALS, _BROADCASTS, _BROADCAST_TRIALS)
    replicates, others, trials, broadcasts, broadcast_trials = (
        counts if settings.draws is None else (settings.draws, max(1, settings.draws // 4), *([settings.draws] * 2), 1)
    )
    out: list[dict[str, Any]] = []
    for family in FAMILIES:
        number = replicates if family == "contention" else others
        out += [{"kind": "synthetic", "family": family, **part} for part in _parts(number)]
    if settings.data is not None:
        out += [{"kind": "broadcast", **part} for part in _parts(broadcasts)]
    for split in ("half", "extrapolation"):
        out += [{"kind": "published", "split": split, "case": case, "trials": trials} for case in CASES]
    if settings.data is not None:
        out += [{"kind": "published", "split": "broadcast", "case": case, "trials": broadcast_trials} for case in CASES]
    return [{**shard, "seed": settings.seed} for shard in out]


def _parts(number: int) -> list[dict[str, int]]:
    return [{"first": first, "count": min(_PER_SHARD, number - first)} for first in range(0, number, _PER_SHARD)]


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Work on some replicates, or on the trials of one case."""
    if settings.preset == PUBLISHED:
        return published.run_shard(shard, settings)
    if shard["kind"] == "synthetic":
        return {**shard, "rows": [row for k in _range(shard) for row in _synthetic(shard, k)]}
    if shard["kind"] == "broadcast":
        points, values = read_broadcast(settings.data_folder())
        return {**shard, "rows": [_broadcast(points, values, shard["seed"], k) for k in _range(shard)]}
    return {**shard, **_published(shard, settings)}


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Make the figures; see `buran_studies.correction.figures`."""
    if settings.preset == PUBLISHED:
        return published.summarise(results, settings)
    return summary(results)


def _range(shard: Shard) -> range:
    return range(shard["first"], shard["first"] + shard["count"])


def _synthetic(shard: Shard, replicate: int) -> list[dict[str, Any]]:
    rows = []
    for split_number, split in enumerate(SPLITS):
        number = list(FAMILIES).index(shard["family"])
        random = np.random.default_rng([shard["seed"], _SYNTHETIC, number, split_number, replicate])
        own = draw(shard["family"], split, replicate, random)
        base = load_base(_BASE)
        train, test = own.train, ~own.train
        tests = {"test": (own.points[test], own.values[test])}
        row = _robust(base, own.points[train], own.values[train], replicate, tests, own.points)
        if shard["family"] == "contention":
            threshold = THRESHOLDS[replicate % len(THRESHOLDS)]
            known, exact = known_form(base, own, threshold), truth(own.points, "contention", threshold)
            for name, value in (("known_form", known), ("exact", exact)):
                row["test"][name] = float(mlogq(value[test], own.values[test])) / row["test"]["base"]
        rows.append({"split": split, "replicate": replicate, **row})
    return rows


def _broadcast(points: Array, values: Array, seed: int, replicate: int) -> dict[str, Any]:
    random = np.random.default_rng([seed, _MEASURED, replicate])
    train, inside, beyond = _broadcast_split(points, random)
    tests = {"interpolation": (points[inside], values[inside]), "extrapolation": (points[beyond], values[beyond])}
    row = _robust(broadcast_base(), points[train], values[train], replicate, tests, points)
    return {"replicate": replicate, **row}


def _broadcast_split(points: Array, random: np.random.Generator) -> tuple[Array, Array, Array]:
    small = random.permutation(np.flatnonzero(points[:, 2] <= _TRAIN_NODES))
    large = random.permutation(np.flatnonzero(points[:, 2] > _TRAIN_NODES))
    return small[:_TRAIN_POINTS], small[_TRAIN_POINTS:][:_TEST_POINTS], large[:_TEST_POINTS]


def _robust(
    base: BaseModel,
    points: Array,
    values: Array,
    seed: int,
    tests: Mapping[str, tuple[Array, Array]],
    everywhere: Array,
) -> dict[str, Any]:
    """Correct with the default, and with the terms alone; return errors beside the base model's.

    Predictions must exist in the whole box around `everywhere`.
    """
    start = time.process_time()
    model = correct(base, points, values, seed=seed)
    gated = time.process_time() - start
    start = time.process_time()
    terms = _untested(base, points, values)
    ungated = time.process_time() - start
    box = samples(everywhere.min(axis=0), everywhere.max(axis=0))
    out: dict[str, Any] = {"method": model.method, "refused": model.report.refused, "invalid": _invalid(model, box)}
    out |= {
        "cpu_gate_s": gated,
        "cpu_s": ungated,
        "thresholds": [threshold.at for threshold in model.report.thresholds],
    }
    for name, (at, measured) in tests.items():
        plain = float(mlogq(base.evaluate(np.array(model.theta), at), measured))
        out[name] = {
            "base": plain,
            "ratio": _error(model, at, measured) / plain,
            "ungated": _error(terms, at, measured) / plain,
        }
    return out


def _untested(base: BaseModel, points: Array, values: Array) -> Corrected:
    """Return the average of terms that no left-out point judges, unless it is insane in its domain."""
    data = prepare(base, points, values)
    everything = np.ones((1, len(data.points)), dtype=bool)
    candidates = Contest(Problem(base, data.points, data.logs, everything)).candidates(0)
    terms = candidates.get("terms", candidates["base"])
    return candidates["base"] if objection(terms, data.points) else terms


def _error(model: Corrected, at: Array, measured: Array) -> float:
    value = model.predict(at).value
    return float(mlogq(np.where(np.isfinite(value), value, -1.0), measured))


def _invalid(model: Corrected, at: Array) -> int:
    """Count points where the base model has a time and the corrected one has none."""
    with np.errstate(all="ignore"):
        plain = model.base.evaluate(np.array(model.theta), at)
    return int(np.sum((plain > 0) & ~np.isfinite(model.predict(at).value)))


def _published(shard: Shard, settings: Settings) -> dict[str, Any]:
    if shard["split"] == "broadcast":
        points, values = read_broadcast(settings.data_folder())
        train, inside, _ = _broadcast_split(points, np.random.default_rng([shard["seed"], _MEASURED, 0]))
        base, parts = broadcast_base(), (Data(points[train], values[train]), Data(points[inside], values[inside]))
    else:
        number = SPLITS.index(shard["split"])
        own = draw("contention", shard["split"], 1, np.random.default_rng([shard["seed"], _SYNTHETIC, 0, number, 1]))
        base = load_base(_BASE)
        parts = tuple(Data(own.points[rows], own.values[rows]) for rows in (own.train, ~own.train))  # type: ignore[assignment]
    found = run_trials(base, *parts, shard["case"], trials=shard["trials"], seed=shard["seed"])
    return {
        "original_rmse": found.original_rmse,
        "original_mlogq": found.original_mlogq,
        "rows": [
            {**_plain(trial.result), "size": len(trial.evolved.program.tokens), "cpu_s": trial.cpu_s}
            for trial in found.trials
        ],
        "points": _predictions(base, found, shard["seed"]) if shard["split"] != "broadcast" else None,
    }


def _plain(result: TrialResult) -> dict[str, Any]:
    """Return what a trial found, with errors as JSON has them."""
    errors = {name: finite_or_none(getattr(result, name)) for name in ("train_rmse", "test_rmse", "test_mlogq")}
    return {**vars(result), **errors}


def _predictions(base: BaseModel, found: Trials, seed: int) -> dict[str, list[float | None]]:
    """Return what figures 6 to 9 show at each test point, in the order of the measured times."""
    at, order = found.test.points, np.argsort(found.test.values)
    robust = correct(base, found.train.points, found.train.values, seed=seed).predict(at).value
    lines = {
        "measured": found.test.values,
        "original": base.evaluate(np.array(found.theta), at),
        "best of trials, chosen on the test half": found.oracle.evolved.evaluate(base, at),
        "best in training": found.chosen.evolved.evaluate(base, at),
        "robust default": robust,
    }
    return {name: [*map(finite_or_none, np.where(v > 0, v, np.nan)[order])] for name, v in lines.items()}
