"""The noise experiment of the paper on noise-resilient priors, on generated programs that really run.

As in its section 5.2: two parameters with five values each, five repetitions, priors from counts, artificial noise of a
mixed distribution on the measured times, the relative error at a point one step beyond all. The fit is the published
one (`buran.modeling.priors.resilient.PUBLISHED`), and models without priors are Extra-P's where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buran.modeling.fit import fit_models
from buran.modeling.functions.terms import Array, added
from buran.modeling.priors.paths import priors_of
from buran.modeling.priors.prior import KnownMpi, Prior
from buran.modeling.priors.resilient import PUBLISHED, FitOptions, predictions
from buran_studies.evaluation.evaluation import Beside, Evaluation, Table
from buran_studies.evaluation.statistics import mean_and_error
from buran_studies.evaluation.study import NEEDS, RESULTS, Settings, Shard
from buran_studies.extrap import Task, answers_of_extrap, extrap_python, name_of_modeller
from buran_studies.generator.spec import random_spec
from buran_studies.noise import inject
from buran_studies.priors import measured
from buran_studies.priors.judged import expected_of
from buran_studies.priors.measured import PARTS, TEST_POINT, counted_table, rows_of
from buran_studies.priors.simulated import LEVELS, REPETITIONS
from buran_studies.quality import exponent_deviation

_FUNCTIONS, _QUICK_FUNCTIONS = 200, 12
_DRAWS, _QUICK_DRAWS = 100, 10
_QUICK_LEVELS = (75,)
_AT: Array = np.array([list(TEST_POINT.values())], dtype=np.float64)
_ROBUST = FitOptions(share=False)
PRINTED: Mapping[tuple[str, int], tuple[float, float]] = {
    ("computation", 0): (35.0, 45.0),
    ("communication", 0): (60.0, 91.0),
    ("computation", 75): (35.0, 55.0),
    ("communication", 75): (60.0, 127.0),
}
"""Relative error in %, with priors and without, by part and level of artificial noise (section 5.2, Fig. 3)."""
METHODS = ("published fit", "robust fit", "without priors", "without priors, Buran")
_MACHINE = "another machine: 2 to 16 ranks on two cores, with waiting for a core, instead of 128 to 2048 on a cluster"


def shards(settings: Settings) -> Sequence[Shard]:
    """Count once, time five times, then model each part under each level of noise."""
    functions = _QUICK_FUNCTIONS if settings.quick else _FUNCTIONS
    draws = settings.draws or (_QUICK_DRAWS if settings.quick else _DRAWS)
    same = {"functions": functions, "seed": settings.seed}
    runs: list[Shard] = [{"kind": "count", **same}]
    runs += [{"kind": "time", **same, "repetition": number} for number in range(REPETITIONS)]
    levels = _QUICK_LEVELS if settings.quick else LEVELS
    judged: list[Shard] = [
        {"kind": "judge", **same, "part": part, "level": level, "draws": draws if level else 1, NEEDS: runs}
        for part in PARTS
        for level in (0, *levels)
    ]
    return [*runs, *({**shard, "extrap": extrap_python() is not None} for shard in judged)]


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Run the program, or judge models of its times under noise."""
    if shard["kind"] == "count":
        return measured.count(shard["functions"], shard["seed"])
    if shard["kind"] == "time":
        return measured.time_once(shard["functions"], shard["seed"], shard["repetition"])
    return judge(shard)


def judge(shard: Shard, mpi: KnownMpi | None = None) -> Any:
    """Model times under noise with priors and without; `mpi` is for runs on a machine whose algorithms are known."""
    counts, *timed = shard[RESULTS]
    part, level, draws = shard["part"], shard["level"], shard["draws"]
    spec = random_spec("synthetic", shard["functions"], shard["seed"])
    counted = counted_table(counts)
    rows = rows_of(spec, counted.tree)
    everywhere = np.array(timed[0]["points"], dtype=np.float64)
    test = (everywhere == _AT).all(axis=1)
    points = everywhere[~test]
    found = priors_of(counted.tree, counted, everywhere, mpi)
    priors: list[Prior | None] = [found[row[part]].prior for _, row in rows]
    times = np.stack([np.array(run["time"][part]) for run in timed], axis=-1)  # function, point, repetition
    actual = np.median(times[:, test], axis=2)[:, 0]
    number = int(np.random.SeedSequence([shard["seed"], PARTS.index(part), level]).generate_state(1)[0])
    noisy = inject(times[:, ~test], level, "mixed", repetitions=draws, seed=number)  # function, point, repetition, draw
    medians = np.median(noisy, axis=2).transpose(0, 2, 1).reshape(len(rows) * draws, len(points))
    many = [prior for prior in priors for _ in range(draws)]
    classic = fit_models(points, medians).predict(_AT)[:, 0]
    python = extrap_python()
    theirs = None
    if shard["extrap"] and python is not None:
        (answer,) = answers_of_extrap(python, [Task(points, medians[..., None], _AT[0])])
        theirs = answer.predicted
    predicted = {
        "published fit": predictions(points, medians, many, _AT, PUBLISHED)[:, 0],
        "robust fit": predictions(points, medians, many, _AT, _ROBUST)[:, 0],
        "without priors": classic if theirs is None else theirs,
        "without priors, Buran": classic,
    }
    return {
        "part": part,
        "level": level,
        "extrap": theirs is not None,
        "re": {name: _means(values, actual, draws) for name, values in predicted.items()},
        "ed": [
            None
            if prior is None
            else float(exponent_deviation(added(prior.functions), expected_of(truth, part), 2).max())
            for prior, (truth, _) in zip(priors, rows, strict=True)
        ],
    }


def _means(predicted: Array, actual: Array, draws: int) -> list[float | None]:
    """Return relative errors in %, one for each function, means over draws; None where nothing is predicted."""
    errors = 100 * np.abs(predicted.reshape(len(actual), draws) / actual[:, None] - 1).mean(axis=1)
    return [float(error) if np.isfinite(error) else None for error in errors]


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Put the relative errors beside the paper's."""
    judged = {(result["part"], result["level"]): result for result in results if "part" in result}
    rows: list[Beside] = []
    for (part, level), printed in PRINTED.items():
        own = judged[part, level]
        for method, published in zip(("published fit", "without priors"), printed, strict=True):
            mean, error, count = _over(own["re"][method])
            noise = f"{level} % artificial noise" if level else "measured times"
            name = f"Fig. 3: relative error, {part}, {noise}, {'with' if 'fit' in method else 'without'} priors"
            rows.append(Beside(name, published, mean, unit="%", standard_error=error, samples=count, why=_MACHINE))
    for part in PARTS:
        known = judged[part, 0]["ed"]
        name = f"section 5.2.1: largest exponent deviation of priors, {part}"
        rows.append(Beside(name, 0.0, max(known), samples=len(known), why="a prior with another exponent"))
    for name in ("Kripke", "RELeARN"):
        why = "measured on clusters with 32 to 4096 ranks; counts of these runs are not public"
        rows.append(Beside(f"section 5.3: {name}", None, None, why=why))
    table = []
    for (part, level), own in judged.items():
        cells = []
        for method in METHODS:
            mean, error, _ = _over(own["re"][method])
            median = float(np.median([value for value in own["re"][method] if value is not None]))
            cells.append(f"{mean:.1f}{'' if error is None else f' ± {error:.1f}'} ({median:.1f})")
        table.append((part, f"{level} %", *cells))
    extrap = all(own["extrap"] for own in judged.values())
    return Evaluation(
        "Noise-resilient priors by the paper's own protocol, on programs that really ran",
        tables=(
            Table(
                "Relative error in %, mean over functions (median)",
                ("part", "noise", *METHODS),
                tuple(table),
                "The same times and draws for all; the robust fit is Buran's default.",
            ),
        ),
        notes=("Times are those of generated programs on this machine, including waiting for other ranks.",),
        beside=tuple(rows),
        modeller=f"{name_of_modeller()} without priors" if extrap else name_of_modeller(),
    )


def _over(values: Sequence[float | None]) -> tuple[float, float | None, int]:
    known = [value for value in values if value is not None]
    mean, error = mean_and_error(known)
    return mean, error, len(known)
