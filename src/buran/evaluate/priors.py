"""Noise-resilient priors: what they save and how much noise they bear (section 5 of the paper on them)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buran.evaluate import priors_measured, priors_simulated, priors_waiting
from buran.evaluate.evaluation import Curve, Evaluation, Figure, Kind, Plot, Table
from buran.evaluate.statistics import mean_and_error
from buran.evaluate.study import Settings, Shard

PARTS = priors_simulated.PARTS
LEVELS = priors_simulated.LEVELS
_BATCH = 20  # functions of a shard
_REPETITIONS = 2  # of measured times
_SUBSET_LEVEL = 50
# Printed in the paper: average exponent deviations (Table 2), largest mean relative errors (sections 5.2.1, 5.2.2).
_PAPER_ED = {"computation": "0.44", "communication": "1.14 (ranks), 0.57 (message size)"}
_PAPER_RE = {"computation": (35.0, 55.0), "communication": (60.0, 127.0)}


def shards(settings: Settings) -> list[Shard]:
    """Measure once; simulate in batches of functions for each part and noise level; diagnose waiting."""
    functions = 40 if settings.quick else 200
    batch = min(_BATCH, functions)
    draws = settings.draws or (5 if settings.quick else 100)
    out: list[Shard] = []
    if not settings.quick:
        out.append({"kind": "measure", "functions": functions, "seed": settings.seed, "repetitions": _REPETITIONS})
    for first in range(0, functions, batch):
        for part in PARTS:
            common = {"part": part, "count": batch, "first": first, "seed": settings.seed}
            out += [{"kind": "draw", **common, "level": level, "draws": draws} for level in LEVELS]
            out.append({"kind": "subsets", **common, "level": _SUBSET_LEVEL})
    waiting = 20 if settings.quick else 100
    out.append({"kind": "waiting", "seed": settings.seed, "draws": waiting, "measured": not settings.quick})
    return out


def run_shard(shard: Shard, settings: Settings) -> Any:
    """Work on one piece."""
    given = {key: value for key, value in shard.items() if key != "kind"}
    kind = shard["kind"]
    if kind == "measure":
        return {"kind": kind, **priors_measured.measure(**given)}
    if kind == "waiting":
        return {"kind": kind, **priors_waiting.evaluate(**given)}
    work = priors_simulated.draw if kind == "draw" else priors_simulated.subsets
    return {"kind": kind, **work(**given)}


def summarise(results: Sequence[Any], settings: Settings) -> Evaluation:
    """Bring everything together, beside the paper's numbers."""
    by_kind: dict[str, list[Any]] = {}
    for result in results:
        by_kind.setdefault(result["kind"], []).append(result)
    figures, tables, plots = _simulated(by_kind["draw"])
    more, plot = _subsets(by_kind["subsets"])
    tables.append(more)
    plots.append(plot)
    if "measure" in by_kind:
        own, measured = _measured(by_kind["measure"][0])
        figures, tables = own + figures, [*measured, *tables]
    found, table = _waiting(by_kind["waiting"][0])
    figures += found
    tables.append(table)
    notes = (
        "Measured: generated programs that ran on this machine with 2 to 16 ranks, more than it has cores. Simulated: "
        "the same functions with known run times at the paper's points (p 128 to 2048, n 8000 to 40000), predicted at "
        "p = 4096, n = 48000.",
    )
    return Evaluation("Noise-resilient priors", tuple(figures), tuple(tables), tuple(plots), notes)


def _mean(
    name: str, values: Any, *, goal: str = "", kind: Kind = Kind.SIMULATED, unit: str = "%", note: str = ""
) -> Figure:
    known = np.asarray(values, dtype=np.float64).ravel()
    known = known[np.isfinite(known)]
    if not len(known):
        return Figure(name, None, unit, samples=0, kind=kind, goal=goal, note=note or "no value")
    mean, error = mean_and_error(known)
    return Figure(name, mean, unit, error, len(known), kind, goal, note)


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
                    _mean(f"{part}: relative error at {level} % noise, {method}", errors[method], goal=goal)
                )
            deviations.append(_mean(f"{part}: exponent deviation at {level} % noise, sensitive", sensitive, unit=""))
            right = _mean(
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
        out.append(_mean(f"{part}: cost of five classic repetitions, {method}", costs, goal=goal, note=note))
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
                _mean("", 100 * np.concatenate([each[name][key] for each in own])) for name in ("re", "re_sensitive")
            ]
            deviation = _mean("", np.concatenate([each["ed_sensitive"][key] for each in own]), unit="")
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


def _measured(result: Mapping[str, Any]) -> tuple[list[Figure], list[Table]]:
    found = priors_measured.judge(result)
    kind = Kind.MEASURED
    figures: list[Figure] = []
    rows: list[tuple[str | int | float | None, ...]] = []
    for part in PARTS:
        own = [each[part] for each in found if part in each]
        right = [100.0 * (each["ed"] is not None and max(each["ed"]) == 0) for each in own]
        figures.append(_mean(f"{part}: functions with exponent deviation 0", right, goal="100", kind=kind))
        if part == "communication":
            volume = [100.0 * (each["ed_bytes"] is not None and max(each["ed_bytes"]) == 0) for each in own]
            figures.append(_mean("bytes: functions with exponent deviation 0", volume, goal="100", kind=kind))
        sensitive = np.array([each["ed_sensitive"][0] or [np.nan, np.nan] for each in own])
        for column, parameter in enumerate(("p", "n")):
            figures.append(
                _mean(
                    f"{part}: exponent deviation in {parameter}, without prior",
                    sensitive[:, column],
                    unit="",
                    kind=kind,
                )
            )
        for number in sorted(own[0]["re"], key=int):
            errors = [
                np.array([100 * np.mean([v for v in each[key][number] if v is not None] or [np.nan]) for each in own])
                for key in ("re", "re_sensitive")
            ]
            medians = [f"{np.nanmedian(each):.3g} %" for each in errors]
            rows.append((part, int(number), *(str(_mean("", each, kind=kind)) for each in errors), *medians))
    builds = result["builds"]
    figures += [
        Figure(
            "building 200 functions, CPU time of one variant", max(b["cpu_s"] for b in builds.values()), "s", kind=kind
        ),
        Figure("building 200 functions, peak memory", max(b["max_rss_mib"] for b in builds.values()), "MiB", kind=kind),
        Figure(
            "running, CPU time of all runs", result["runs"]["cpu_s"], "s", samples=result["runs"]["number"], kind=kind
        ),
        Figure(
            "running, wall time of all runs", result["runs"]["wall_s"], "s", samples=result["runs"]["number"], kind=kind
        ),
        Figure("running, peak memory of a process", result["runs"]["max_rss_mib"], "MiB", kind=kind),
        Figure("runs that failed and were repeated", result["runs"]["failed"], kind=kind),
        Figure("CPU time of timed builds over plain ones", result["overhead"]["time"], "", kind=kind),
        Figure("CPU time of effort builds over plain ones", result["overhead"]["effort"], "", kind=kind),
        Figure("a second run has the same counts", float(result["counts_are_the_same"]), "", kind=kind, goal="1"),
    ]
    paper = Table(
        "Average exponent deviation without priors, printed in the paper (Table 2); with priors 0",
        ("part", "exponent deviation"),
        tuple(_PAPER_ED.items()),
    )
    header = ("part", "repetitions", "mean with priors", "mean without", "median with", "median without")
    test = ", ".join(f"{key} = {value}" for key, value in priors_measured.TEST_POINT.items())
    title = f"Relative error of measured times at {test} (all subsets of {_REPETITIONS} repetitions)"
    return figures, [paper, Table(title, header, tuple(rows), "More ranks than cores: times hold waiting for a core.")]


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
