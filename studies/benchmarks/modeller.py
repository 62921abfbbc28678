"""CPU time and accuracy of the modeller, beside Extra-P on the same data when its Python is given.

    python studies/benchmarks/modeller.py [--call-paths 1000] [--runs 3] [--parameters 1 2 3] [--layouts full lines+m]
                                  [--noise 1 5 10] [--functions 300] [--truths inside outside] [--kinds] [--seed 2024]
                                  [--scale 10000 100000] [--relearn FILE] [--extrap-data FOLDER]
                                  [--extrap-python PYTHON] [--json FILE]

Time: models of one metric for that many call paths at once, on full grids of 5 values a parameter; CPU time
of one thread, reading and writing not included, the median of the runs. A warm-up run is outside the count.

Accuracy: synthetic functions, three in four of them sums, products and mixtures of both in equal parts, the others
constants, functions that do not depend on a parameter, and functions that fall with one; powers of Extra-P's default
set and 0, logarithms 0 to 2, coefficients uniform in (0, 1000), a quarter without a constant; sums and mixtures are
drawn again until each term makes up 1 % at both corners of the grid. Each point has 5 repetitions with independent
uniform noise of the given level; both modellers get them all, and both model their means.
Predicted is a point beyond the grid that no model has seen. The layouts: the full
grid; the lines through its smallest point; these and the m cheapest other points. Reported are the share of
functions within 5, 10, 15 and 20 %, the mean deviation of the lead exponents, logarithms ignored, how often a new
measurement there, of as many repetitions, falls into Buran's 90 % interval, and how many of its models have two
regimes (with truths inside, none should); with --kinds also for each kind. Truths inside Buran's space are given apart
for those that are in Extra-P's own default space, too, and those that are not.

Truths outside the search space, in equal parts: two terms of a parameter, powers that are in no set, saturations,
knees, exponential approaches, the larger of two functions, steps of collective operations along a tree, blocks
``ceil(n / x)``.

The Python of Extra-P needs `extrap` 4.2.5 (and thus numpy below 2): an environment of its own.
"""

from __future__ import annotations

import os

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.errors import BuranError
from buran.modeling.experiments import model_experiment
from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import ModelFunction
from buran.modeling.pmnf.repetitions import over_repetitions, scatter_of
from buran.profiles.experiment.read import read_experiment
from buran_studies.extrap import Task, answers_of_extrap
from buran_studies.functions import EXTRAP_PAIRS, beyond, draw, draw_outside, grid, kind_inside, kind_outside

Array = NDArray[np.float64]

WITHIN = (5, 10, 15, 20)
REPETITIONS = 5
SEED = 2024  # by default
OWN, FURTHER = "in Extra-P's space", "beyond it"


@dataclass(frozen=True)
class Answer:
    """What a modeller found: CPU seconds, predictions, lead exponents, interval ends and whether there are regimes."""

    cpu_s: float
    predicted: Array
    leads: Array
    interval: tuple[Array, Array] | None = None
    regimes: NDArray[np.bool_] | None = None


Modeller = Callable[[Array, Array, Array], Answer]


def layout(parameters: int, kind: str) -> Array:
    """Return the points of a layout, shape (point, parameter)."""
    points = grid(parameters)
    off = (points != points[0]).sum(axis=1)
    lines, rest = points[off <= 1], points[off > 1]
    if kind == "full":
        return points
    cheapest = rest[np.argsort(rest.prod(axis=1), kind="stable")]
    return lines if kind == "lines" else np.concatenate([lines, cheapest[:parameters]])


def noisy(values: Array, percent: float, rng: np.random.Generator) -> Array:
    """Return repetitions with independent noise, along a new last axis."""
    return values[..., None] * (1 + percent / 100 * rng.uniform(-1, 1, (*values.shape, REPETITIONS)))


def buran(points: Array, values: Array, at: Array) -> Answer:
    """Model with this package."""
    begin = time.process_time()
    fit = fit_models(points, over_repetitions(values, "mean"), scatter=scatter_of(values))
    cpu_s = time.process_time() - begin
    leads = [[float(m.function.lead(k)[0]) for k in range(points.shape[1])] for m in fit.models if m]
    lower, upper = fit.predict_interval(at)
    brackets = [any(f.basis.begins for t in m.function.terms for f in t.factors) for m in fit.models if m]
    return Answer(cpu_s, fit.predict(at)[:, 0], np.array(leads), (lower[:, 0], upper[:, 0]), np.array(brackets))


def extrap(python: str) -> Modeller:
    """Return a modeller that runs Extra-P's default one in its own Python."""

    def model(points: Array, values: Array, at: Array) -> Answer:
        (found,) = answers_of_extrap(python, [Task(points, values, at[0])])
        return Answer(found.cpu_s, found.predicted, found.leads)

    return model


def timed(
    modellers: dict[str, Modeller], parameters: int, call_paths: int, runs: int, seed: int
) -> dict[str, list[float]]:
    """Return CPU milliseconds per call path of each run, the modellers taking turns."""
    rng = np.random.default_rng(seed)
    points = layout(parameters, "full")
    values = noisy(
        np.stack([draw(parameters, rng, kind_inside(parameters, k)).evaluate(points) for k in range(call_paths)]),
        5,
        rng,
    )
    at = beyond(parameters)[None]
    buran(points, values[:10], at)
    out: dict[str, list[float]] = {name: [] for name in modellers}
    for _ in range(runs):
        for name, model in modellers.items():
            out[name].append(1000 * model(points, values, at).cpu_s / call_paths)
    return out


def in_space_of_extrap(function: ModelFunction) -> bool:
    """Tell whether all factors of a truth are among those that Extra-P tries by default, without negative powers."""
    pairs = EXTRAP_PAIRS
    bases = [factor.basis for term in function.terms for factor in term.factors]
    return all(isinstance(basis, PowerLog) and (basis.exponent, basis.log_exponent) in pairs for basis in bases)


def accuracy(
    modellers: dict[str, Modeller], parameters: int, kind: str, percent: float, functions: int, truth: str, seed: int
) -> dict[str, dict[str, dict[str, float]]]:
    """Return shares within the limits, median error, exponent deviation and the coverage of 90 % intervals.

    By the kind of function, ``all`` first, then those in Extra-P's own space and the others; and by the modeller.
    """
    rng = np.random.default_rng([seed, parameters])  # the same functions for every layout and level
    inside = truth == "inside"
    kinds = [kind_inside(parameters, k) if inside else kind_outside(k) for k in range(functions)]
    drawn: list[Any] = [(draw if inside else draw_outside)(parameters, rng, kind) for kind in kinds]
    points, at = layout(parameters, kind), beyond(parameters)[None]
    values = noisy(np.stack([function.evaluate(points) for function in drawn]), percent, rng)
    true = np.array([function.evaluate(at)[0] for function in drawn])
    new = noisy(true, percent, rng).mean(axis=-1)
    exponents = np.array([[float(function.lead(k)[0]) for k in range(parameters)] for function in drawn])
    groups = {"all": np.ones(functions, dtype=bool)}
    if inside:
        own = np.array([in_space_of_extrap(function) for function in drawn])
        groups |= {OWN: own, FURTHER: ~own}
    groups |= {kind: np.array([other == kind for other in kinds]) for kind in dict.fromkeys(kinds)}
    out: dict[str, dict[str, dict[str, float]]] = {name: {} for name in groups}
    for name, model in modellers.items():
        answer = model(points, values, at)
        error = 100 * np.abs(answer.predicted - true) / true
        deviation = np.abs(answer.leads - exponents)
        for group, rows in groups.items():
            figures = {f"within_{limit}": 100 * float(np.mean(error[rows] <= limit)) for limit in WITHIN}
            figures["median_error"] = float(np.median(error[rows]))
            figures["exponent_deviation"] = float(deviation[rows].mean())
            if answer.interval is not None:
                lower, upper = answer.interval
                figures["coverage"] = 100 * float(np.mean(((new >= lower) & (new <= upper))[rows]))
                figures["width"] = 100 * float(np.median(((upper - lower) / true)[rows]))
            if answer.regimes is not None:
                figures["regimes"] = 100 * float(answer.regimes[rows].mean())
            figures["functions"] = float(rows.sum())
            out[group][name] = figures
    return out


def scale(call_paths: int, parameters: int) -> dict[str, float]:
    """Return CPU seconds and the process's peak memory for many call paths, in a process of its own."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import modeller as b, numpy as np, resource, time\n"
        "count, m = int(sys.argv[2]), int(sys.argv[3])\n"
        "rng = np.random.default_rng(b.SEED); points = b.layout(m, 'full')\n"
        "values = np.stack([b.draw(m, rng, b.kind_inside(m, k)).evaluate(points) for k in range(1000)])\n"
        "values = b.noisy(np.tile(values, (count // 1000, 1)), 5, rng)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; begin = time.process_time()\n"
        "b.fit_models(points, values.mean(axis=2), scatter=b.scatter_of(values))\n"
        "print(time.process_time() - begin, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(call_paths), str(parameters)]
    cpu_s, before, peak = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return {
        "call_paths": call_paths,
        "cpu_s": float(cpu_s),
        "before_mib": float(before) / 1024,
        "peak_mib": float(peak) / 1024,
    }


def relearn(file: Path, modellers: dict[str, Modeller]) -> list[dict[str, Any]]:
    """Return errors of each region at (512, 9000), trained without it."""
    experiment = read_experiment(file)
    order = [experiment.parameters.index(name) for name in ("p", "n")]
    points = experiment.points[:, order]
    repetitions = experiment.over_locations("time")
    values = over_repetitions(repetitions, "mean")
    held = (points == (512, 9000)).all(axis=1)
    answers = {name: model(points[~held], repetitions[:, ~held], points[held]) for name, model in modellers.items()}
    out = []
    for i, region in enumerate(experiment.tree.names):
        true = float(values[i, held][0])
        errors = {
            name: 100 * abs(float(answer.predicted[i]) / true - 1) if true else float(answer.predicted[i] != 0) * 100
            for name, answer in answers.items()
        }
        out.append({"region": region, "share": true / float(values[:, held].max()), "errors": errors})
    return out


def read_everything(folder: Path) -> list[tuple[str, str]]:
    """Model every experiment below a folder; return its name and what came of it."""
    trees = {path.parent.parent for path in folder.rglob("*.cubex")}
    files = [path for path in folder.rglob("*") if path.is_file() and not any(tree in path.parents for tree in trees)]
    out = []
    for path in sorted([*trees, *files]):
        try:
            sets = model_experiment(read_experiment(path))
        except BuranError as error:
            reason = " ".join(part for part in (error.what, error.why) if part)
            out.append((str(path.relative_to(folder)), f"refused: {reason}"))
            continue
        models = [model for own in sets.values() for model in own.models]
        fitted = [model.quality.smape for model in models if model is not None]
        text = f"{len(fitted)} models of {len(models)}, median SMAPE {np.median(fitted):.2f} %"
        out.append((str(path.relative_to(folder)), text))
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--call-paths", type=int, default=1000, help="for the times")
    parser.add_argument("--runs", type=int, default=3, help="for the times")
    parser.add_argument("--parameters", type=int, nargs="+", choices=(1, 2, 3, 4), default=[1, 2, 3, 4])
    parser.add_argument("--layouts", nargs="+", choices=("full", "lines", "lines+m"), default=["full", "lines+m"])
    parser.add_argument("--noise", type=float, nargs="+", default=[1, 5, 10], help="levels in %%")
    parser.add_argument("--truths", nargs="+", choices=("inside", "outside"), default=["inside"])
    parser.add_argument("--kinds", action="store_true", help="figures for each kind of function, too")
    parser.add_argument(
        "--scale",
        type=int,
        nargs="*",
        default=[],
        help="numbers of call paths for time and memory; the first of the parameters",
    )
    parser.add_argument("--relearn", type=Path, help="the measurements of RELeARN")
    parser.add_argument("--extrap-data", type=Path, help="folder of files to read and model")
    parser.add_argument("--functions", type=int, default=300, help="for the accuracy; 0 leaves it out")
    parser.add_argument("--seed", type=int, default=SEED, help="for functions and noise")
    parser.add_argument("--extrap-python", help="Python with extrap 4.2.5")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    options = parser.parse_args(argv)
    modellers: dict[str, Modeller] = {"buran": buran}
    if options.extrap_python:
        modellers["extrap"] = extrap(options.extrap_python)
    result: dict[str, list[Any]] = {"time": [], "accuracy": [], "scale": [], "relearn": [], "files": []}
    print(f"CPU ms per call path, {options.call_paths} call paths")
    for parameters in options.parameters if options.call_paths else []:
        times = timed(modellers, parameters, options.call_paths, options.runs, options.seed)
        middle = {name: statistics.median(runs) for name, runs in times.items()}
        text = "  ".join(f"{name} {middle[name]:.3f} ({min(t):.3f}-{max(t):.3f})" for name, t in times.items())
        ratio = f"  ratio {middle['extrap'] / middle['buran']:.0f}" if "extrap" in middle else ""
        print(f"  m={parameters}  {text}{ratio}", flush=True)
        result["time"].append({"parameters": parameters, "ms_per_call_path": times})
    cells = [
        (truth, m, kind, n)
        for truth in options.truths
        for m in options.parameters
        for kind in options.layouts
        for n in options.noise
    ]
    if options.functions:
        print(
            f"\n{options.functions} functions: % within {WITHIN} %, median error %, exponent deviation, "
            "coverage of 90 % intervals %, their median width %, models of two regimes %"
        )
    for truth, parameters, kind, percent in cells if options.functions else []:
        if parameters == 1 and kind != "full":
            continue
        found = accuracy(modellers, parameters, kind, percent, options.functions, truth, options.seed)
        for group, name in (
            (group, name) for group in found if options.kinds or group in ("all", OWN, FURTHER) for name in modellers
        ):
            figures = found[group][name]
            shares = " ".join(f"{figures[f'within_{limit}']:5.1f}" for limit in WITHIN)
            rest = f"{figures['median_error']:6.2f} {figures['exponent_deviation']:.3f}"
            if "coverage" in figures:
                rest += f"  {figures['coverage']:5.1f} {figures['width']:6.1f}  {figures['regimes']:5.1f}"
            cell = f"{truth:7} m={parameters} {kind:8} noise {percent:4g} %  {group:18} {figures['functions']:4g}"
            print(f"  {cell}  {name:7} {shares}  {rest}", flush=True)
        result["accuracy"].append(
            {"truth": truth, "parameters": parameters, "layout": kind, "noise_percent": percent, "figures": found}
        )
    for count in options.scale:
        found_scale = scale(count, options.parameters[0])
        result["scale"].append(found_scale)
        print(
            f"  {count} call paths, m={options.parameters[0]}: {found_scale['cpu_s']:.1f} CPU s, memory "
            f"{found_scale['before_mib']:.0f} MiB before, {found_scale['peak_mib']:.0f} MiB at most",
            flush=True,
        )
    if options.relearn:
        print("\nRELeARN at (512, 9000), trained without it: error %")
        for row in relearn(options.relearn, modellers):
            errors = "  ".join(f"{name} {error:7.2f}" for name, error in row["errors"].items())
            print(f"  {row['region']:42} {100 * row['share']:6.2f} % of main  {errors}")
            result["relearn"].append(row)
    if options.extrap_data:
        print(f"\nEvery experiment below {options.extrap_data.name}")
        for name, text in read_everything(options.extrap_data):
            print(f"  {name:44} {text}")
            result["files"].append({"name": name, "result": text})
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
