"""Figures, tables and plots of the study of corrections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from buran.files import finite_or_none
from buran.modeling.correction.formula import Array
from buran_studies.correction.truth import FAMILIES, SPLITS
from buran_studies.evaluation.evaluation import Curve, Evaluation, Figure, Kind, Plot, Table
from buran_studies.evaluation.statistics import mean_and_error

_GOALS: Mapping[str, Mapping[str, str]] = {
    "half": {"median": "at most 0.65", "not worse": "at least 95", "better": "at least 85"},
    "extrapolation": {"median": "at most 0.65", "worst": "at most 1.10"},
    "blind": {"refused": "at least 80", "worst": "at most 1.10"},
    "broadcast interpolation": {"median": "at most 0.50", "worst": "at most 0.70"},
    "broadcast extrapolation": {"worst": "at most 1.05"},
}
_BOOTSTRAPS = 400


def summary(results: Sequence[Any]) -> Evaluation:
    """Join the shards' results."""
    synthetic = [
        {**row, "family": shard["family"]} for shard in results if shard["kind"] == "synthetic" for row in shard["rows"]
    ]
    broadcast = [row for shard in results if shard["kind"] == "broadcast" for row in shard["rows"]]
    published = [shard for shard in results if shard["kind"] == "published"]
    figures: list[Figure] = []
    for split in SPLITS:
        rows = [row for row in synthetic if row["split"] == split and row["family"] == "contention"]
        figures += _ratios(split, [row["test"]["ratio"] for row in rows], [row["refused"] for row in rows])
        figures += _bounds(split, np.array([row["test"]["known_form"] for row in rows]))
    for test in ("interpolation", "extrapolation"):
        name = f"broadcast {test}"
        if broadcast:
            own = [row[test]["ratio"] for row in broadcast]
            figures += _ratios(name, own, [row["refused"] for row in broadcast], Kind.MEASURED)
        else:
            goal = _GOALS[name].get("median", "")
            figures.append(
                Figure(f"{name} median", None, samples=0, kind=Kind.MEASURED, goal=goal, note="needs --data")
            )
    figures += _costs([*synthetic, *broadcast], published)
    notes = (
        "ratio: mean |ln(prediction / measurement)| at held-out points over that of the base model with its parameters "
        "fitted to logarithms",
        "half: 16 of 32 points at random; extrapolation: trained with 8 to 64 ranks; blind: with up to 32, where the "
        "threshold (24, 32, 48 or 64 ranks) hardly shows",
    )
    tables = (_families(synthetic), _by_threshold(synthetic), _cases(published))
    return Evaluation("Correction of analytical models", tuple(figures), tables, _plots(published, synthetic), notes)


def _ratios(name: str, ratios: Sequence[float], refused: Sequence[bool], kind: Kind = Kind.SIMULATED) -> list[Figure]:
    values, count = np.array(ratios), len(ratios)
    random = np.random.default_rng(0)
    medians = np.median(values[random.integers(count, size=(_BOOTSTRAPS, count))], axis=1)
    goals = _GOALS[name]
    out = [
        Figure(
            f"{name} median", float(np.median(values)), "", float(medians.std()), count, kind, goals.get("median", "")
        ),
        Figure(f"{name} worst", float(values.max()), "", None, count, kind, goals.get("worst", "")),
    ]
    shares = {"not worse": values <= 1.02, "better": values < 1, "refused": np.array(refused)}
    for share, found in shares.items():
        p = float(found.mean())
        error = 100 * float(np.sqrt(p * (1 - p) / count))
        out.append(Figure(f"{name} {share}", 100 * p, "%", error, count, kind, goals.get(share, "")))
    return out


def _bounds(split: str, known: Array) -> list[Figure]:
    """Return what nobody can be better than: the truth's own form, taken where it is better than the base model."""
    chosen = np.minimum(known, 1.0)
    note = "known form of the truth, and known where it helps: a bound"
    return [
        Figure(f"{split} known form, {name}", float(function(each)), "", None, len(known), Kind.SIMULATED, "", note)
        for name, function, each in (
            ("median", np.median, known),
            ("worst", np.max, known),
            ("median with a perfect gate", np.median, chosen),
        )
    ]


def _costs(rows: Sequence[Any], published: Sequence[Any]) -> list[Figure]:
    out = [
        Figure(
            "replicates with an invalid prediction", float(sum(row["invalid"] > 0 for row in rows)), "", None,
            len(rows), goal="0",
        )
    ]  # fmt: skip
    for name, key, goal in (
        ("robust CPU without gate", "cpu_s", "at most 0.5"),
        ("robust CPU with gate", "cpu_gate_s", "at most 2"),
    ):
        out.append(_mean(name, [row[key] for row in rows], "s", Kind.MEASURED, goal))
    for split in dict.fromkeys(shard["split"] for shard in published):
        own = [trial["cpu_s"] for shard in published if shard["split"] == split for trial in shard["rows"]]
        goal = "at most 1" if split != "broadcast" else ""
        note = "" if split != "broadcast" else "64 points"
        out.append(_mean(f"published trial CPU, {split}", own, "s", Kind.MEASURED, goal, note))
    return out


def _mean(name: str, values: Sequence[float], unit: str, kind: Kind, goal: str, note: str = "") -> Figure:
    mean, error = mean_and_error(values)
    return Figure(name, mean, unit, error, len(values), kind, goal, note)


def _families(rows: Sequence[Any]) -> Table:
    header = ("family", "split", "replicates", "base MLogQ", "median", "worst", "better %", "not worse %", "refused %")
    out = []
    for family in FAMILIES:
        for split in SPLITS:
            own = [row for row in rows if row["family"] == family and row["split"] == split]
            if own:
                out.append((family, split, *_cells(own)))
    return Table(
        "Robust default, by family of the truth", (*header, "median ungated", "worst ungated"), tuple(out),
        "ungated: the best terms without a test; contention is like EVH1, the others are not near the library",
    )  # fmt: skip


def _by_threshold(rows: Sequence[Any]) -> Table:
    out = []
    for split in SPLITS:
        for number, threshold in enumerate((24, 32, 48, 64)):
            own = [
                row
                for row in rows
                if row["family"] == "contention" and row["split"] == split and row["replicate"] % 4 == number
            ]
            if own:
                bounds = (np.array([row["test"][name] for row in own]) for name in ("known_form", "exact"))
                out.append((split, threshold, *_cells(own), *(float(np.median(bound)) for bound in bounds)))
    header = (
        "split",
        "threshold",
        "replicates",
        "base MLogQ",
        "median",
        "worst",
        "better %",
        "not worse %",
        "refused %",
    )
    note = "known form: the truth with its place, fitted to the same points; exact: the truth, whose error is the noise"
    columns = (*header, "median ungated", "worst ungated", "median known form", "median exact")
    return Table("Contention, by its threshold", columns, tuple(out), note)


def _cells(own: Sequence[Any]) -> tuple[float | int, ...]:
    ratios = np.array([row["test"]["ratio"] for row in own])
    ungated = np.array([row["test"]["ungated"] for row in own])
    return (
        len(own),
        float(np.median([row["test"]["base"] for row in own])),
        float(np.median(ratios)),
        float(ratios.max()),
        100 * float(np.mean(ratios < 1)),
        100 * float(np.mean(ratios <= 1.02)),
        100 * float(np.mean([row["refused"] for row in own])),
        float(np.median(ungated)),
        float(ungated.max()),
    )


def _cases(published: Sequence[Any]) -> Table:
    errors = ("train RMSE", "test RMSE median", "best in training", "best of trials", "original RMSE")
    shares = ("better RMSE %", "better MLogQ %", "MLogQ median", "original MLogQ", "with invalid %")
    header = ("split", "case", "trials", "CPU s", "size", *errors, *shares)
    rows = []
    for shard in published:
        trials = shard["rows"]
        test = np.array([_or_inf(trial["test_rmse"]) for trial in trials])
        quality = np.array([_or_inf(trial["test_mlogq"]) for trial in trials])
        train = np.array([_or_inf(trial["train_rmse"]) for trial in trials])
        rows.append(
            (
                shard["split"], shard["case"], len(trials),
                float(np.mean([trial["cpu_s"] for trial in trials])),
                float(np.median([trial["size"] for trial in trials])),
                *map(finite_or_none, (np.median(train), np.median(test), test[int(np.argmin(train))], test.min())),
                shard["original_rmse"],
                100 * float(np.mean(test < shard["original_rmse"])),
                100 * float(np.mean(quality < shard["original_mlogq"])),
                finite_or_none(np.median(quality)), shard["original_mlogq"],
                100 * float(np.mean([trial["invalid"] > 0 for trial in trials])),
            )
        )  # fmt: skip
    note = (
        "best of trials is chosen on the test half, as published; MLogQ is infinite (none) with an invalid prediction"
    )
    return Table("The published procedure, one division of the data", header, tuple(rows), note)


def _or_inf(value: float | None) -> float:
    return float("inf") if value is None else value


def _plots(published: Sequence[Any], synthetic: Sequence[Any]) -> tuple[Plot, ...]:
    half = [shard for shard in published if shard["split"] == "half"]
    cases = tuple(float(shard["case"]) for shard in half)
    best, chosen, better = [], [], []
    for shard in half:
        test = [_or_inf(trial["test_rmse"]) for trial in shard["rows"]]
        train = [_or_inf(trial["train_rmse"]) for trial in shard["rows"]]
        best.append(finite_or_none(min(test)))
        chosen.append(finite_or_none(test[int(np.argmin(train))]))
        better.append(100 * float(np.mean(np.array(test) < shard["original_rmse"])))
    original = tuple(shard["original_rmse"] for shard in half)
    plots = [
        Plot(
            "figure-4", "Prediction errors (figure 4)", "case", "RMSE at test points, s",
            (
                Curve("original model", cases, original, dashed=True),
                Curve("best of trials, chosen on the test half", cases, tuple(best)),
                Curve("best in training", cases, tuple(chosen)),
            ),
        ),
        Plot(
            "figure-5", "Trials better than the original model (figure 5)", "case", "% of trials",
            (
                Curve("this study", cases, tuple(better)),
                Curve("published", (1.0, 2.0, 3.0, 4.0), (77.0, 73.0, 50.0, 90.0), dashed=True),
            ),
        ),
    ]  # fmt: skip
    for number, shard in enumerate(half, 6):
        lines = shard["points"]
        x = tuple(float(i + 1) for i in range(len(lines["measured"])))
        curves = tuple(Curve(name, x, tuple(y), dashed=name == "measured") for name, y in lines.items())
        title = f"Case {shard['case']} at the test points (figure {number})"
        plots.append(Plot(f"figure-{number}", title, "data point", "time, s", curves, log_y=True))
    shares = []
    for split in SPLITS:
        ratios = sorted(r["test"]["ratio"] for r in synthetic if r["split"] == split and r["family"] == "contention")
        share = tuple(100 * (i + 1) / len(ratios) for i in range(len(ratios)))
        shares.append(Curve(split, tuple(ratios), share))
    plots.append(
        Plot(
            "ratios", "Robust default over replicates", "error over the base model's", "% of replicates", tuple(shares)
        )
    )
    return tuple(plots)
