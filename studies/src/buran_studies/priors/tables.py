"""Figures and tables of programs that really ran, beside those of the noise-resilient priors paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buran.modeling.functions.terms import Array
from buran_studies.evaluation.evaluation import Curve, Figure, Kind, Plot, Table
from buran_studies.evaluation.statistics import mean_and_error
from buran_studies.priors.judged import METHODS
from buran_studies.priors.measured import PARTS, TEST_POINT

# Printed in the paper: average exponent deviations (Table 2), mean relative errors without injected noise (section
# 5.2.1).
_PAPER_ED = {"computation": "0.44", "communication": "1.14 (ranks), 0.57 (message size)"}
_PAPER_RE = {"computation": (35.0, 45.0), "communication": (60.0, 91.0)}
_AT = ", ".join(f"{key} = {value}" for key, value in TEST_POINT.items())


def mean_of(
    name: str, values: Any, *, goal: str = "", kind: Kind = Kind.SIMULATED, unit: str = "%", note: str = ""
) -> Figure:
    """Return the mean of what is known as a figure."""
    known = known_of(values).ravel()
    known = known[np.isfinite(known)]
    if not len(known):
        return Figure(name, None, unit, samples=0, kind=kind, goal=goal, note=note or "no value")
    mean, error = mean_and_error(known)
    return Figure(name, mean, unit, error, len(known), kind, goal, note)


def known_of(values: Any) -> Array:
    """Return an array of JSON values, with NaN for None."""
    return np.array(values, dtype=np.float64)


def measured(
    counts: Mapping[str, Any], times: Sequence[Mapping[str, Any]], judged: Mapping[str, Any]
) -> tuple[list[Figure], list[Table], list[Plot]]:
    """Return exponent deviations (Table 2), errors by repetitions (Fig. 4) and costs (section 5.2.3)."""
    kind = Kind.MEASURED
    figures: list[Figure] = []
    deviations: list[tuple[str | int | float | None, ...]] = []
    rows: list[tuple[str | int | float | None, ...]] = []
    curves = []
    for part in PARTS:
        own = judged["parts"][part]
        for name, key in (("functions", "ed"), ("functions of the sparse plan", "ed_sparse")):
            right = [100.0 * (deviation is not None and max(deviation) == 0) for deviation in own[key]]
            goal = "100" if key == "ed" else ""
            figures.append(mean_of(f"{part}: {name} with exponent deviation 0", right, goal=goal, kind=kind))
        if part == "communication":
            right = [100.0 * (max(deviation) == 0) for deviation in own["ed_effort"]]
            figures.append(mean_of("bytes: functions with exponent deviation 0", right, goal="100", kind=kind))
        for number, sensitive in own["ed_sensitive"].items():
            each = known_of(sensitive)
            found = [mean_of("", each[:, column], unit="", kind=kind) for column in (0, 1)]
            if number == str(judged["repetitions"]):
                priors = mean_of(
                    "", [deviation for deviation in own["ed"] if deviation is not None], unit="", kind=kind
                )
                deviations.append((part, *map(str, found), str(priors), "0", _PAPER_ED[part]))
            errors = {"with priors": own["re"][number], "without": own["re_sensitive"][number]}
            means = {name: mean_of("", 100 * known_of(values), kind=kind) for name, values in errors.items()}
            medians = {name: 100 * float(np.nanmedian(known_of(values))) for name, values in errors.items()}
            rows.append(
                (
                    part,
                    int(number),
                    *map(str, means.values()),
                    *(f"{m:.3g} %" for m in medians.values()),
                    *map(str, found),
                )
            )
        for column, name in enumerate(("with priors", "without")):
            line = [row for row in rows if row[0] == part]
            curves.append(
                Curve(
                    f"{part}, {name}",
                    tuple(float(row[1] or 0) for row in line),
                    tuple(float(str(row[4 + column]).split()[0]) for row in line),
                    dashed=column == 1,
                )
            )
        figures += _errors(part, own, judged["repetitions"])
    figures += _costs(judged["cost"]) + _effort(counts, times)
    tables = [
        Table(
            "Average exponent deviation (Table 2; measured)",
            (
                *("part", "p, without priors", "n, without priors", "p and n, with priors"),
                *("printed in the paper: with priors", "without"),
            ),
            tuple(deviations),
        ),
        Table(
            f"Relative error of measured times at {_AT}, all subsets of repetitions (Fig. 4; measured)",
            (
                *("part", "repetitions", "mean with priors", "mean without", "median with", "median without"),
                *("ED in p without", "ED in n without"),
            ),
            tuple(rows),
            "More ranks than cores: times hold waiting for a core. Paper, means at p = 4096: "
            + "; ".join(f"{part} {own[0]:g} % with priors, {own[1]:g} % without" for part, own in _PAPER_RE.items()),
        ),
    ]
    title = "Repetitions, all subsets of five (measured)"
    plot = Plot("repetitions-measured", title, "repetitions", "median relative error / %", tuple(curves))
    return figures, tables, [plot]


def _errors(part: str, own: Mapping[str, Any], repetitions: int) -> list[Figure]:
    """Return errors of all methods without injected noise."""
    last = str(repetitions)
    methods = {
        f"with priors, {repetitions} repetitions": own["re"][last],
        "with priors, 1 repetition": own["re"]["1"],
        "with priors and waiting": own["waiting"]["re"],
        "sparse": own["sparse"],
        f"without priors, {repetitions} repetitions": own["re_sensitive"][last],
    }
    out = []
    for name, values in methods.items():
        each = 100 * known_of(values)
        note = f"median {np.nanmedian(each):.3g} %"
        out.append(mean_of(f"{part}: relative error of measured times, {name}", each, kind=Kind.MEASURED, note=note))
    named = own["waiting"]["named"]
    of = len(own["times"])
    out.append(
        Figure(
            f"{part}: functions with waiting in measured times", 100.0 * named / of, "%", samples=of, kind=Kind.MEASURED
        )
    )
    return out


def _costs(cost: Mapping[str, float]) -> list[Figure]:
    kind = Kind.MEASURED
    note = "CPU time of all runs of a plan, start of the processes included"
    return [
        Figure("cost of five classic repetitions, single", 100 * cost["single"], "%", kind=kind, goal="at most 40"),
        Figure("cost of five classic repetitions, sparse", 100 * cost["sparse"], "%", kind=kind, goal="at most 15"),
        Figure("CPU time of effort runs over timed ones", cost["effort"], kind=kind, note=note),
    ]


def _effort(counts: Mapping[str, Any], times: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Return what building and running took."""
    kind = Kind.MEASURED
    builds = [build for result in (counts, *times) for build in result["builds"].values()]
    runs = [result["runs"] for result in (counts, *times)]
    number = sum(run["number"] for run in runs)
    return [
        Figure(
            "building, CPU time of one variant", max(b["cpu_s"] for b in builds), "s", samples=len(builds), kind=kind
        ),
        Figure("building, peak memory", max(b["max_rss_mib"] for b in builds), "MiB", samples=len(builds), kind=kind),
        Figure("running, CPU time of all runs", sum(run["cpu_s"] for run in runs), "s", samples=number, kind=kind),
        Figure("running, wall time of all runs", sum(run["wall_s"] for run in runs), "s", samples=number, kind=kind),
        Figure(
            "running, peak memory of a process", max(e["max_rss_mib"] for e in runs), "MiB", samples=number, kind=kind
        ),
        Figure("runs that failed and were repeated", sum(run["failed"] for run in runs), samples=number, kind=kind),
        Figure("CPU time of timed builds over plain ones", counts["overhead"]["time"], samples=3, kind=kind),
        Figure("CPU time of effort builds over plain ones", counts["overhead"]["effort"], samples=3, kind=kind),
        Figure("a second run has the same counts", float(counts["counts_are_the_same"]), kind=kind, goal="1"),
    ]


def with_noise(results: Sequence[Mapping[str, Any]]) -> tuple[list[Figure], list[Table], list[Plot]]:
    """Return what noise added to measured times does (Fig. 3)."""
    figures: list[Figure] = []
    tables, plots = [], []
    for part in PARTS:
        rows = []
        own = sorted(
            (result for result in results if result["part"] == part), key=lambda result: float(result["level"])
        )
        medians: dict[str, list[float]] = {method: [] for method in METHODS}
        for result in own:
            errors = {method: 100 * known_of(result["re"][method]) for method in METHODS}
            for method, error in errors.items():
                medians[method].append(float(np.nanmedian(error)))
            name = f"{part}: relative error of measured times, {result['level']} % noise added"
            means = [mean_of(f"{name}, {method}", errors[method], kind=Kind.MEASURED) for method in METHODS]
            deviation = mean_of("", known_of(result["ed_sensitive"]), unit="", kind=Kind.MEASURED)
            rows.append(
                (
                    f"{result['level']} %",
                    *map(str, means),
                    *(f"{medians[method][-1]:.3g} %" for method in METHODS),
                    str(deviation),
                )
            )
            if result is own[-1]:
                figures += means
        header = (
            *("noise", "5 repetitions", "1 repetition", "without priors"),
            *("median, 5 repetitions", "median, 1 repetition", "median, without", "ED without priors"),
        )
        tables.append(Table(f"Noise added to measured times, {part} (Fig. 3; measured)", header, tuple(rows)))
        levels = tuple(float(row["level"]) for row in own)
        curves = tuple(
            Curve(method, levels, tuple(medians[method]), dashed=method == "sensitive") for method in METHODS
        )
        title = f"Noise added to measured times, {part}"
        plots.append(Plot(f"noise-measured-{part}", title, "noise / %", "median relative error / %", curves))
    return figures, tables, plots


def cases(results: Sequence[Mapping[str, Any]]) -> tuple[list[Figure], list[Table]]:
    """Return the case studies beside theory (Table 4)."""
    kind = Kind.MEASURED
    figures: list[Figure] = []
    tables = []
    for result in results:
        example, rows = result["example"], result["rows"]
        test = ", ".join(f"{key} = {value}" for key, value in zip(("p", "n"), result["test"], strict=True))
        tables.append(
            Table(
                f"{example}: complexities by theory and by models (Table 4; measured)",
                (
                    *("kernel", "theory", "effort", "with prior", "ED p, n", "from times", "ED p, n"),
                    *("error with prior", "with waiting", "from times", "waiting by theory", "waiting in times"),
                ),
                tuple(_case_row(row) for row in rows),
                f"Errors at {test}, from medians of {result['repetitions']} repetitions; more ranks than cores.",
            )
        )
        for part in PARTS:
            own = [row for row in rows if row["part"] == part]
            for name, key in (("effort", "ed_effort"), ("with priors", "ed_resilient"), ("from times", "ed_sensitive")):
                known = [value for row in own for value in row[key] or () if value is not None]
                figures.append(mean_of(f"{example}, {part}: exponent deviation, {name}", known, unit="", kind=kind))
            for name, key in (("with priors", "re_final"), ("from times", "re_sensitive")):
                each = 100 * known_of([row[key] for row in own])
                note = f"median {np.nanmedian(each):.3g} %" if np.isfinite(each).any() else ""
                figures.append(mean_of(f"{example}, {part}: relative error, {name}", each, kind=kind, note=note))
        for row in rows:
            if row["theory_waiting"] and row["waiting"] is not None:
                named = float(row["waiting"].startswith("waiting"))
                name = f"{example}, {row['kernel']}: waiting is named in measured times"
                note = f"by theory {row['theory_waiting']}; found {row['waiting']}"
                figures.append(Figure(name, named, kind=kind, goal="1", note=note))
    return figures, tables


def _case_row(row: Mapping[str, Any]) -> tuple[str | None, ...]:
    def deviation(key: str) -> str | None:
        return (
            None if row[key] is None else ", ".join("-" if number is None else f"{number:.3g}" for number in row[key])
        )

    def error(key: str) -> str | None:
        return None if row[key] is None else f"{100 * row[key]:.3g} %"

    return (
        *(row["kernel"], row["theory"], row["effort"]),
        *(row["resilient"], deviation("ed_resilient"), row["sensitive"], deviation("ed_sensitive")),
        *(error("re_resilient"), error("re_final"), error("re_sensitive")),
        *(row["theory_waiting"] or None, row["waiting"]),
    )


def threads(results: Sequence[Mapping[str, Any]]) -> list[Figure]:
    """Return figures of a parallel region of OpenMP, by compiler."""
    kind = Kind.MEASURED
    out = []
    for result in results:
        name = f"parallel region with {result['compiler']}"
        if "missing" in result:
            out.append(Figure(f"{name}: exponent deviation", None, samples=0, kind=kind, note=result["missing"]))
            continue
        points = result["samples"]
        out += [
            Figure(
                f"{name}: exponent deviation of basic blocks in threads and size",
                max(result["ed"]),
                samples=points,
                kind=kind,
                goal="0",
                note=result["effort"],
            ),
            Figure(f"{name}: relative error of time with prior", 100 * result["re"], "%", samples=1, kind=kind),
            Figure(f"{name}: relative error from times", 100 * result["re_sensitive"], "%", samples=1, kind=kind),
        ]
    return out
