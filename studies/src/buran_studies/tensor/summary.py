"""Tables, plots and figures of the study of tensor models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from buran_studies.evaluation.evaluation import Curve, Evaluation, Figure, Kind, Plot, Table
from buran_studies.evaluation.statistics import mean_and_error
from buran_studies.tensor.beyond import SETTINGS
from buran_studies.tensor.data import SOURCES

_REFERENCE = {
    (1 << 12): {"gemm": 0.083, "bcast": 0.061, "exafmm": 0.107, "amg": 0.121},
    (1 << 14): {"gemm": 0.063, "bcast": 0.047, "exafmm": 0.078, "amg": 0.086},
}
"""MLogQ of the paper's reference implementation on the sample of seed 10, chosen by validation."""
_GOALS = {("default", 1 << 12): 1.25, ("default", 1 << 14): 1.15}
_BEATEN = ("log-polynomial ridge and boosting", "perceptron")

Key = tuple[str, int, str]
Rows = dict[Key, list[dict[str, Any]]]


def summarise(results: Sequence[Any]) -> Evaluation:
    """Make the evaluation of all shards' results."""
    inside: Rows = defaultdict(list)
    beyond: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    swept: dict[str, list[tuple[int, int, dict[str, Any]]]] = defaultdict(list)
    larges, absent = [], {}
    for result in results:
        if "missing" in result:
            absent[result["rival"], result["data"]] = result["missing"]
        for row in result["rows"]:
            if result["ask"] in ("tensor", "rival"):
                inside[result["data"], result["size"], row["method"]].append(row)
            elif result["ask"] == "sweep":
                swept[result["data"]].append((result["cells"], result["rank"], row))
            elif result["ask"] == "beyond":
                beyond[result["setting"], row["method"]].append({**row, "seed": result["seed"]})
            else:
                larges.append(row)
    notes = tuple(f"{rival} on {data}: not run, {why}" for (rival, data), why in absent.items())
    return Evaluation(
        "CP tensor completion and its rivals (MLogQ: mean |ln(predicted / measured)|)",
        figures=(*_inside_figures(inside), *_beyond_figures(beyond), *_large_figures(larges)),
        tables=(*_inside_tables(inside), *_beyond_tables(beyond), *_sweep_tables(swept)),
        plots=(*_inside_plots(inside), *_sweep_plots(swept), *_beyond_plots(beyond)),
        notes=notes,
    )


def _mean(rows: Sequence[dict[str, Any]], key: str = "error") -> tuple[float, float | None]:
    return mean_and_error([row[key] for row in rows])


def _text(rows: Sequence[dict[str, Any]]) -> str:
    value, error = _mean(rows)
    return f"{value:.4f}" + ("" if error is None else f" ± {error:.4f}")


def _inside_figures(inside: Rows) -> list[Figure]:
    out = []
    for (data, size, method), rows in inside.items():
        value, error = _mean(rows)
        goal = ""
        if method.startswith("published, mean") and size in _REFERENCE:
            goal = f"at most {1.03 * _REFERENCE[size][data]:.4f}"
        out.append(Figure(f"{data} {size} {method}", value, "", error, len(rows), Kind.MEASURED, goal))
    names = list(dict.fromkeys(data for data, _, _ in inside))
    for size in sorted({size for _, size, _ in inside}):
        for method in ("default, CP parts alone", "default"):
            ratios = [_ratios(inside, data, size, method) for data in names]
            if any(not ratio for ratio in ratios):
                continue
            draws = np.exp(np.log(np.array([ratio[: min(map(len, ratios))] for ratio in ratios])).mean(axis=0))
            gain, error = mean_and_error(draws)
            aim = _GOALS.get((method, size))
            goal = "" if aim is None else f"at least {aim}"
            worst = min(zip(ratios, names, strict=True), key=lambda pair: float(np.mean(pair[0])))
            note = f"smallest: {np.mean(worst[0]):.2f} on {worst[1]}"
            name = f"gain over published at {size}, {method}"
            out.append(Figure(name, gain, "", error, len(draws), Kind.MEASURED, goal, note))
        for rival in _BEATEN:
            pairs = [(inside.get((d, size, "default")), inside.get((d, size, rival))) for d in names]
            known = [(ours, theirs) for ours, theirs in pairs if ours and theirs]
            if len(known) < len(names):
                continue
            # A rival may have fewer draws: equal draws are compared.
            won = sum(_mean(ours[: len(theirs)])[0] < _mean(theirs)[0] for ours, theirs in known)
            name = f"sets at {size} on which the default beats {rival}"
            out.append(Figure(name, won, "", None, len(known), Kind.MEASURED, "at least 3"))
    return out


def _ratios(inside: Rows, data: str, size: int, method: str) -> list[float]:
    theirs = next((rows for (d, s, m), rows in inside.items() if (d, s) == (data, size) and "published, mean" in m), [])
    return [a["error"] / b["error"] for a, b in zip(theirs, inside.get((data, size, method), []), strict=False)]


def _inside_tables(inside: Rows) -> list[Table]:
    out = []
    names = list(dict.fromkeys(data for data, _, _ in inside))
    for size in sorted({size for _, size, _ in inside}):
        methods = list(dict.fromkeys(m for _, s, m in inside if s == size))
        rows = []
        for method in methods:
            own = [inside.get((data, size, method), []) for data in names]
            full = [row for trials in own for row in trials if "fit_s" in row]
            cells: list[str | float | None] = [_text(trials) if trials else "" for trials in own]
            for key, scale in (("fit_s", 1.0), ("predict_us", 1.0), ("size_bytes", 1e-3)):
                values = [row[key] * scale for row in full]
                cells.append(f"{min(values):.3g}-{max(values):.3g}" if values else "")
            rows.append((method, *cells, max((len(trials) for trials in own), default=0)))
        header = ("method", *names, "fit, CPU s", "predict, CPU us", "file, kB", "draws")
        out.append(Table(f"{size} observations, chosen by validation", header, tuple(rows)))
        least = [
            (method, *(_least(inside.get((data, size, method), [])) for data in names))
            for method in methods
            if any(
                "best" in row and row["best"] < row["error"] for d in names for row in inside.get((d, size, method), [])
            )
        ]
        if least:
            title = f"{size} observations, smallest error on the test set over the settings (as the paper prints)"
            out.append(Table(title, ("method", *names), tuple(least)))
    return out


def _least(rows: Sequence[dict[str, Any]]) -> str:
    return f"{np.mean([row['best'] for row in rows]):.4f}" if rows else ""


def _inside_plots(inside: Rows) -> list[Plot]:
    out = []
    for data in dict.fromkeys(data for data, _, _ in inside):
        methods = list(dict.fromkeys(m for d, _, m in inside if d == data))
        by_size, by_bytes = [], []
        for method in methods:
            sizes = sorted(s for d, s, m in inside if (d, m) == (data, method))
            means = [_mean(inside[data, s, method])[0] for s in sizes]
            if len(sizes) > 1:
                by_size.append(Curve(method, tuple(map(float, sizes)), tuple(means)))
            rows = [inside[data, s, method] for s in sizes]
            if all("size_bytes" in row for each in rows for row in each):
                by_bytes.append(Curve(method, tuple(_mean(row, "size_bytes")[0] for row in rows), tuple(means)))
        out.append(
            Plot(f"{data}-training", f"{data}: error over training size", "observations", "MLogQ", tuple(by_size[:8]),
                 log_x=True, log_y=True)
        )  # fmt: skip
        out.append(
            Plot(f"{data}-size", f"{data}: error against model size", "bytes", "MLogQ", tuple(by_bytes[:8]),
                 log_x=True, log_y=True)
        )  # fmt: skip
    return out


def _beyond_figures(beyond: dict[tuple[str, str], list[dict[str, Any]]]) -> list[Figure]:
    goals = {"bcast nodes <= 32": "at most 0.20", "gemm m < 512": "at most 0.10"}
    out = []
    for (setting, method), rows in beyond.items():
        value, error = _mean(rows)
        goal = goals.get(setting, "below the published") if method == "default" else ""
        worst = max(row["error"] for row in rows)
        note = f"largest of a draw: {worst:.3f}"
        out.append(Figure(f"beyond, {setting}, {method}", value, "", error, len(rows), Kind.MEASURED, goal, note))
    default = [row for (_, method), rows in beyond.items() if method == "default" for row in rows]
    ours = [row["error"] for row in default]
    if ours:
        held, held_error = mean_and_error([100 * row["held"] for row in default])
        goal = "at least 85"
        out.append(Figure("beyond, held by 90 % intervals", held, "%", held_error, len(ours), Kind.MEASURED, goal))
        largest = max(row["kb"] for row in default)
        out.append(Figure("largest file", largest, "kB", None, len(ours), Kind.MEASURED, "at most 200"))
        out.append(
            Figure("largest error beyond, default", max(ours), "", None, len(ours), Kind.MEASURED, "at most 0.5")
        )
    return out


def _beyond_tables(beyond: dict[tuple[str, str], list[dict[str, Any]]]) -> list[Table]:
    settings = list(dict.fromkeys(setting for setting, _ in beyond))
    methods = list(dict.fromkeys(method for _, method in beyond))
    if not settings:
        return []
    rows = tuple((s, *(_text(beyond[s, m]) for m in methods), beyond[s, methods[0]][0]["tests"]) for s in settings)
    held = []
    for s in settings:
        own = beyond[s, "default"]
        means = [float(np.mean([row[key] for row in own])) for key in ("held", "factor", "kb")]
        held.append((s, 100 * means[0], means[1], means[2]))
    return [
        Table("Extrapolation", ("training", *methods, "test rows"), rows),
        Table(
            "Intervals of the default preset beyond the training points",
            ("training", "held by 90 % intervals, %", "median half width, a factor", "file, kB"),
            tuple(held),
        ),
    ]


def _beyond_plots(beyond: dict[tuple[str, str], list[dict[str, Any]]]) -> list[Plot]:
    """Draw errors over how far below the tested values the training points end, one plot for each data set."""
    out = []
    for data in dict.fromkeys(SETTINGS[setting].data for setting, _ in beyond):
        curves = []
        for method in dict.fromkeys(method for _, method in beyond):
            for places in dict.fromkeys(setting.places for setting in SETTINGS.values() if setting.data == data):
                own = [s for s, m in beyond if m == method and (SETTINGS[s].data, SETTINGS[s].places) == (data, places)]
                own.sort(key=lambda s: -SETTINGS[s].upto)
                x = tuple(SETTINGS[s].beyond / SETTINGS[s].upto for s in own)
                names = ",".join(SOURCES[data].names[j] for j in places)
                if own:
                    curves.append(Curve(f"{method}, {names}", x, tuple(_mean(beyond[s, method])[0] for s in own)))
        title = f"{data}: error beyond the training points"
        out.append(
            Plot(f"{data}-beyond", title, "smallest tested / largest trained value", "MLogQ", tuple(curves),
                 log_x=True, log_y=True)
        )  # fmt: skip
    return out


def _sweep_tables(swept: dict[str, list[tuple[int, int, dict[str, Any]]]]) -> list[Table]:
    out = []
    for title, fixed in (("cells, rank 8", 1), ("rank, 16 cells", 0)):
        rows = []
        for data, own in swept.items():
            wanted = sorted(trial for trial in own if trial[fixed] == (8 if fixed else 16))
            rows += [(data, *trial[:2], f"{trial[2]['error']:.4f}", trial[2]["size_bytes"]) for trial in wanted]
        if rows:
            out.append(Table(f"Published, over {title}", ("data", "cells", "rank", "MLogQ", "bytes"), tuple(rows)))
    return out


def _sweep_plots(swept: dict[str, list[tuple[int, int, dict[str, Any]]]]) -> list[Plot]:
    out: list[Plot] = []
    for name, at, fixed in (("cells", 0, 1), ("rank", 1, 0)):
        curves = []
        for data, own in swept.items():
            wanted = sorted(trial for trial in own if trial[fixed] == (8 if fixed else 16))
            curves.append(
                Curve(
                    data,
                    tuple(float((trial[0], trial[1])[at]) for trial in wanted),
                    tuple(trial[2]["error"] for trial in wanted),
                )
            )
        if curves:
            out.append(
                Plot(f"published-{name}", f"Published: error over {name}", name, "MLogQ", tuple(curves), log_x=True,
                     log_y=True)
            )  # fmt: skip
    return out


def _large_figures(larges: Sequence[dict[str, Any]]) -> list[Figure]:
    out = []
    for row in larges:
        values = (
            ("fit of 65536 x 8, CPU", "fit_s", "s", "below 30"),
            ("prediction of a million, CPU", "predict_s", "s", "below 30"),
        )
        out += [Figure(name, row[key], unit, None, 1, Kind.SIMULATED, goal) for name, key, unit, goal in values]
        out.append(
            Figure("peak memory of the process that did", row["peak_mb"], "MiB", None, 1, Kind.SIMULATED, "below 1024")
        )
    return out
