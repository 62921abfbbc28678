"""Generated programs of known complexity, executed on a simulated machine: what priors make of them under noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from buran.campaign.point import Point
from buran.features import known_mpi
from buran.modeling.functions.terms import Array
from buran.modeling.numerics.least_squares import Mask
from buran.modeling.pmnf.model import prediction_interval
from buran.modeling.priors.paths import priors_of
from buran.modeling.priors.prior import Prior
from buran.modeling.priors.resilient import fit_priors
from buran.profiles.experiment.build import experiment_from_profiles
from buran_studies.evaluation.evaluation import Figure, Kind, Table
from buran_studies.generator.program import write_program
from buran_studies.generator.spec import random_spec
from buran_studies.machine.laboratory import bench_for
from buran_studies.noise import inject
from buran_studies.priors.judged import METHODS, at_points, expected_of, under_noise
from buran_studies.priors.measured import BUILD, PARTS, rows_of
from buran_studies.priors.simulated import REPETITIONS
from buran_studies.priors.tables import known_of, mean_of

SIZES, LARGEST = (8, 16, 32, 48, 64), 96
"""Sizes that are modelled, and the one where models are judged."""
GOAL = 20.0  # percent, mean relative error at the largest noise


def executed(
    machine: Mapping[str, Any],
    functions: int,
    ranks: Sequence[int],
    levels: Sequence[float],
    draws: int,
    seed: int,
    folder: Path,
) -> dict[str, Any]:
    """Execute a program at all points and at the target, add noise to its times, and model them.

    Parameters
    ----------
    ranks
        The last is the one where models are judged.

    Returns
    -------
    dict
        JSON values: for each part of its functions and each level of noise in percent, the relative errors at the
        target of models with priors and without, mean over draws.
    """
    spec = random_spec("synthetic", functions, seed, values={"p": ranks, "n": (*SIZES, LARGEST)})
    write_program(spec, folder / "synthetic")
    keys = {
        "name": "synthetic",
        "program": {
            "source": str(folder / "synthetic"),
            "build": BUILD,
            "binary": "synthetic",
            "run": "{binary} {n}",
        },
        "environments": {"here": {"machine": dict(machine)}},
        "parameters": {
            "p": {"role": "ranks", "values": [*ranks]},
            "n": {"role": "size", "values": [*SIZES, LARGEST]},
        },
    }
    bench = bench_for(keys, folder)
    target = (ranks[-1], LARGEST)
    runs = []
    for p, n in (*product(ranks[:-1], SIZES), target):
        profile, _ = bench.run_at(Point.of({"p": p, "n": n}))
        runs.append(({"p": p, "n": n}, 0, profile))
    experiment = experiment_from_profiles(runs)
    known = np.array((experiment.points != np.array(target)).any(axis=1), dtype=np.bool_)
    counted = at_points(experiment, known)
    found = priors_of(
        experiment.tree,
        counted,
        experiment.points[known],
        known_mpi(bench.campaign),
    )
    rows = rows_of(spec, experiment.tree)
    times = experiment.over_locations("time")[..., 0]
    errors = []
    for part in PARTS:
        paths = [row[part] for _, row in rows]
        for level in levels:
            number = int(np.random.SeedSequence([seed, PARTS.index(part), int(level)]).generate_state(1)[0])
            judged = under_noise(
                experiment.points[known],
                times[paths][:, known],
                times[paths][:, ~known][:, 0],
                [found[path].prior for path in paths],
                [expected_of(truth, part) for truth, _ in rows],
                level,
                draws,
                number,
                at=experiment.points[~known],
            )
            held = _held(experiment.points, known, times[paths], [found[path].prior for path in paths], level, number)
            errors.append({"part": part, "level": level, "re": judged["re"], "held": held})
    return {"ranks": [*ranks], "errors": errors}


def _held(
    points: Array, known: Mask, times: Array, priors: Sequence[Prior | None], level: float, seed: int
) -> list[bool | None]:
    """Return whether intervals of nine tenths hold the time at the target, from the first draw of noise."""
    repeated = np.repeat(times[:, known, None], REPETITIONS, axis=2)
    noisy = inject(repeated, level, "mixed", repetitions=1, seed=seed)[..., 0]
    fitted = fit_priors(points[known], np.median(noisy, axis=2), priors)
    ends = prediction_interval([None if own is None else own.model for own in fitted], points[~known], of="mean")
    low, high, actual = ends[0][:, 0], ends[1][:, 0], times[:, ~known][:, 0]
    return [None if own is None else bool(a <= b <= c) for own, a, b, c in zip(fitted, low, actual, high, strict=True)]


def summary(results: Sequence[Any]) -> tuple[list[Figure], Table]:
    """Give the mean errors of each method, part and level of noise."""
    rows, figures = [], []
    for result in results:
        for own in result["errors"]:
            errors = {method: 100 * known_of(own["re"][method]) for method in METHODS}
            medians = [float(np.nanmedian(error)) for error in errors.values()]
            means = [
                mean_of(
                    f"generated program, {own['part']}, {own['level']:g} % noise: relative error, {method}",
                    error,
                    kind=Kind.MEASURED,
                    goal=f"{GOAL:g}" if method == METHODS[0] else "",
                )
                for method, error in errors.items()
            ]
            figures += means
            held = 100 * float(np.mean([here for here in own["held"] if here is not None]))
            rows.append((own["part"], own["level"], *(mean.value for mean in means), *medians, held))
    told = (*(f"{method}: mean %" for method in METHODS), *(f"{method}: median %" for method in METHODS))
    header = ("part", "noise %", *told, "with priors: intervals of 90 % that hold %")
    *_, modelled, judged = results[0]["ranks"]
    title = f"A generated program, modelled up to {modelled} ranks and executed at {judged}"
    return figures, Table(title, header, tuple(rows))
