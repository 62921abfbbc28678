"""Noise-resilient priors: what they save and how much noise they bear (section 5 of the paper on them)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from buran_studies.evaluation.evaluation import Curve, Evaluation, Figure, Kind, Plot, Table
from buran_studies.evaluation.study import NEEDS, PUBLISHED, Settings, Shard
from buran_studies.priors import cases as priors_cases
from buran_studies.priors import judged as priors_judged
from buran_studies.priors import measured as priors_measured
from buran_studies.priors import published
from buran_studies.priors import simulated as priors_simulated
from buran_studies.priors import tables as priors_tables
from buran_studies.priors import threads as priors_threads
from buran_studies.priors import waiting as priors_waiting
from buran_studies.priors.tables import mean_of

PARTS = priors_simulated.PARTS
LEVELS = priors_simulated.LEVELS
_FUNCTIONS = {"default": 200, "small": 40, "tiny": 8}  # by preset
_BATCH = 20  # functions of a shard
_SUBSET_LEVEL = 50
_OUTLIER_DRAWS = 40
# Printed in the paper: largest mean relative errors (section 5.2.2).
_PAPER_RE = {"computation": (35.0, 55.0), "communication": (60.0, 127.0)}


def shards(settings: Settings) -> Sequence[Shard]:
    """Measure once; simulate in batches of functions for each part and noise level; diagnose waiting.

    Raises
    ------
    UsageError
        For a preset that there is not: ``default`` has 200 functions, ``small`` 40, ``tiny`` 8; ``published`` is
        the paper's own set-up.
    """
    if settings.preset == PUBLISHED:
        return published.shards(settings)
    settings.require(*_FUNCTIONS, PUBLISHED)
    functions = _FUNCTIONS["small" if settings.quick else settings.preset]
    batch = min(_BATCH, functions)
    draws = settings.draws or (5 if settings.quick else 100)
    out: list[Shard] = []
    if not settings.quick:
        out += _measuring(functions, settings.seed, draws, 1 if settings.preset == "tiny" else priors_cases.REPETITIONS)
    for first in range(0, functions, batch):
        for part in PARTS:
            common = {"part": part, "count": batch, "first": first, "seed": settings.seed}
            out += [{"kind": "draw", **common, "level": level, "draws": draws} for level in LEVELS]
            out.append({"kind": "subsets", **common, "level": _SUBSET_LEVEL})
    for part in PARTS:
        few = min(draws, _OUTLIER_DRAWS)
        out.append({"kind": "outliers", "part": part, "count": batch, "seed": settings.seed, "draws": few})
    waiting = 20 if settings.quick else 100
    out.append({"kind": "waiting", "seed": settings.seed, "draws": waiting, "measured": not settings.quick})
    return out


def _measuring(functions: int, seed: int, draws: int, repetitions: int) -> list[Shard]:
    """Count once, time five times, then model, then add noise; `repetitions` are those of case studies."""
    same = {"functions": functions, "seed": seed}
    runs: list[Shard] = [{"kind": "count", **same}]
    runs += [{"kind": "time", **same, "repetition": number} for number in range(priors_simulated.REPETITIONS)]
    judge: Shard = {"kind": "judge", **same, NEEDS: runs}
    noise: list[Shard] = [
        {"kind": "noise", "part": part, "level": level, "draws": draws, "seed": seed, NEEDS: [judge]}
        for part in PARTS
        for level in LEVELS
    ]
    cases: list[Shard] = [
        {"kind": "case", "example": example, "repetitions": repetitions} for example in priors_cases.CASES
    ]
    threads: list[Shard] = [{"kind": "threads", "compiler": compiler} for compiler in ("clang", "gcc")]
    return [*runs, *cases, *threads, judge, *noise]


_WORK: Mapping[str, Callable[..., Mapping[str, Any]]] = {
    "count": priors_measured.count,
    "time": priors_measured.time_once,
    "case": priors_cases.evaluate,
    "threads": priors_threads.evaluate,
    "judge": priors_judged.judge,
    "noise": priors_judged.noise,
    "draw": priors_simulated.draw,
    "subsets": priors_simulated.subsets,
    "outliers": priors_simulated.outliers,
    "waiting": priors_waiting.evaluate,
}


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Work on one piece."""
    if settings.preset == PUBLISHED:
        return published.run_shard(shard, settings)
    given = {key: value for key, value in shard.items() if key not in ("kind", NEEDS)}
    return {"kind": shard["kind"], **_WORK[shard["kind"]](**given)}


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Bring everything together, beside the paper's numbers."""
    if settings.preset == PUBLISHED:
        return published.summarise(results, settings)
    by_kind: dict[str, list[Any]] = {}
    for result in results:
        by_kind.setdefault(result["kind"], []).append(result)
    figures, tables, plots = _simulated(by_kind["draw"])
    table, plot = _subsets(by_kind["subsets"])
    tables.append(table)
    plots.append(plot)
    tables.append(_outliers(by_kind["outliers"]))
    if "judge" in by_kind:
        own, measured, pictures = priors_tables.measured(by_kind["count"][0], by_kind["time"], by_kind["judge"][0])
        noisy, noise, more_pictures = priors_tables.with_noise(by_kind["noise"])
        examples, theory = priors_tables.cases(by_kind["case"])
        regions = priors_tables.threads(by_kind["threads"])
        figures, tables = [*own, *noisy, *examples, *regions, *figures], [*measured, *noise, *theory, *tables]
        plots = [*pictures, *more_pictures, *plots]
    found, table = _waiting(by_kind["waiting"][0])
    figures += found
    tables.append(table)
    notes = (
        "Measured: generated programs that ran on this machine with 2 to 16 ranks, more than it has cores. Simulated: "
        "the same functions with known run times at the paper's points (p 128 to 2048, n 8000 to 40000), predicted at "
        "p = 4096, n = 48000.",
    )
    return Evaluation("Noise-resilient priors", tuple(figures), tuple(tables), tuple(plots), notes)


def _simulated(results: Sequence[Mapping[str, Any]]) -> tuple[list[Figure], list[Table], list[Plot]]:
    methods = ("resilient", "single", "sparse", "sensitive")
    figures: list[Figure] = []
    tables: list[Table] = []
    plots: list[Plot] = []
    for part in PARTS:
        rows = []
        curves: dict[str, list[Figure]] = {method: [] for method in methods}
        deviations = []
        for level in LEVELS:
            own = [result for result in results if result["part"] == part and result["level"] == level]
            errors = {m: 100 * np.concatenate([result["re"][m] for result in own]) for m in methods}
            sensitive = np.concatenate([result["ed_sensitive"] for result in own])
            resilient = np.concatenate([result["ed_resilient"] for result in own])
            for method in methods:
                goal = "at most 20" if level == max(LEVELS) and method != "sensitive" else ""
                curves[method].append(
                    mean_of(f"{part}: relative error at {level} % noise, {method}", errors[method], goal=goal)
                )
            deviations.append(mean_of(f"{part}: exponent deviation at {level} % noise, sensitive", sensitive, unit=""))
            right = mean_of(
                f"{part}: functions with exponent deviation 0, resilient, {level} % noise",
                100.0 * (resilient.max(axis=1) == 0),
            )
            rows.append((f"{level} %", *(str(curves[m][-1]) for m in methods), str(deviations[-1]), str(right)))
        figures += [*(curves[method][-1] for method in methods), deviations[-1]]
        header = (
            "noise",
            "5 repetitions",
            "1 repetition",
            "sparse",
            "without prior",
            "ED without prior",
            "ED = 0 with",
        )
        paper = _PAPER_RE[part]
        note = f"Relative error at the test point. Paper, at most: {paper[0]:g} % with priors, {paper[1]:g} % without."
        tables.append(Table(f"Noise, {part} (simulated)", header, tuple(rows), note))
        levels = tuple(map(float, LEVELS))
        plots.append(
            Plot(
                f"noise-{part}",
                f"Relative error under noise, {part} (simulated)",
                "noise / %",
                "relative error / %",
                tuple(
                    Curve(
                        m, levels, tuple(f.value for f in curves[m]), tuple(f.standard_error or 0.0 for f in curves[m])
                    )
                    for m in methods
                ),
            )
        )
        figures += _costs(part, [result for result in results if result["part"] == part], curves)
    return figures, tables, plots


def _costs(part: str, results: Sequence[Mapping[str, Any]], curves: Mapping[str, Sequence[Figure]]) -> list[Figure]:
    reached = {
        method: [
            level
            for level, own, classic in zip(LEVELS, curves[method], curves["sensitive"], strict=True)
            if own.value is not None and classic.value is not None and own.value <= classic.value
        ]
        for method in ("single", "sparse")
    }
    out = []
    for method, goal in (("single", "at most 40"), ("sparse", "at most 15")):
        costs = [100 * result["cost"][method] for result in results if result["level"] == LEVELS[0]]
        levels = ", ".join(f"{level} %" for level in reached[method]) or "no level"
        price = f"an effort run costs {priors_simulated.EFFORT_OVERHEAD:g} times a timed one"
        note = f"{price}; as accurate as classic at {levels}"
        out.append(mean_of(f"{part}: cost of five classic repetitions, {method}", costs, goal=goal, note=note))
    return out


def _subsets(results: Sequence[Mapping[str, Any]]) -> tuple[Table, Plot]:
    sizes = range(1, priors_simulated.REPETITIONS + 1)
    rows: list[tuple[str | int | float | None, ...]] = []
    curves = []
    for part in PARTS:
        own = [result for result in results if result["part"] == part]
        lines: dict[str, list[Figure]] = {"with priors": [], "without": []}
        for size in sizes:
            key = str(size)
            figures = [
                mean_of("", 100 * np.concatenate([row[name][key] for row in own])) for name in ("re", "re_sensitive")
            ]
            deviation = mean_of("", np.concatenate([row["ed_sensitive"][key] for row in own]), unit="")
            rows.append((part, size, *map(str, figures), str(deviation)))
            for line, figure in zip(lines.values(), figures, strict=True):
                line.append(figure)
        curves += [
            Curve(f"{part}, {name}", tuple(map(float, sizes)), tuple(f.value for f in line), dashed=name == "without")
            for name, line in lines.items()
        ]
    level = _SUBSET_LEVEL
    title = f"Repetitions, all subsets of five, {level} % noise (simulated)"
    header = ("part", "repetitions", "relative error with priors", "without", "largest ED without")
    plot = Plot("repetitions", title, "repetitions", "relative error / %", tuple(curves))
    return Table(title, header, tuple(rows)), plot


def _outliers(results: Sequence[Mapping[str, Any]]) -> Table:
    rows = [
        (
            result["part"],
            f"{row['level']} %",
            row["outliers"],
            *(str(mean_of("", 100 * np.array(row[key]))) for key in ("robust", "least_squares")),
        )
        for result in results
        for row in result["rows"]
    ]
    header = ("part", "noise", "wild points of 25", "relative error with priors", "with least squares")
    title = f"Points that are {priors_simulated.OUTLIER:g} times too large, one repetition (simulated)"
    return Table(title, header, tuple(rows))


def _waiting(result: Mapping[str, Any]) -> tuple[list[Figure], Table]:
    figures: list[Figure] = []
    rows: list[tuple[str | int | float | None, ...]] = []
    for case in result["cases"]:
        kind = Kind(case["kind"])
        share = 100 * case["named"] / case["draws"]
        right = 100 * case["right_exponent"] / case["draws"]
        goal = "at most 5" if case["control"] else "at least 95"
        error = float(np.sqrt(max(share * (100 - share), 0.0) / case["draws"]))
        figures.append(
            Figure(f"waiting: {case['name']}, named", share, "%", error, case["draws"], kind, goal, case["note"])
        )
        if not case["control"]:
            error = float(np.sqrt(max(right * (100 - right), 0.0) / case["draws"]))
            figures.append(
                Figure(
                    f"waiting: {case['name']}, named with its exponent", right, "%", error, case["draws"], kind, goal
                )
            )
        rows.append(
            (
                case["name"],
                kind.value,
                case["draws"],
                case["named"],
                None if case["control"] else case["right_exponent"],
                case["most"],
            )
        )
    header = ("case", "", "draws", "named", "with the right exponent of p", "term found most often")
    return figures, Table("Waiting-time diagnosis, 10 % noise", header, tuple(rows))
