"""What ways of measuring campaigns are worth: accuracy against core hours, as a table, curves and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from buran_studies.evaluation.evaluation import Curve, Evaluation, Figure, Kind, Plot, Table
from buran_studies.evaluation.statistics import mean_and_error
from buran_studies.evaluation.study import Shard

MANUAL, PIRA, BURAN = "manual", "PIRA II with CPF", "Buran"
_CLOSE = 0.1
_Result = Mapping[str, Any]
Found = Mapping[tuple[str, str, float], Sequence[_Result]]
"""Results of all draws by case, way and budget."""


def close(result: _Result) -> float:
    """Return the share of kernels that are predicted to 10 %."""
    return float(np.mean([error is not None and error <= _CLOSE for error in result["errors"]]))


def middle(result: _Result) -> float:
    """Return the median error; a kernel without a model is wrong by all of it."""
    return float(np.median([1.0 if error is None else error for error in result["errors"]]))


def spent(result: _Result) -> float:
    """Return the core hours over those of the manual way."""
    return float(result["core_hours"] / result["manual_core_hours"])


def of_the_whole(result: _Result) -> float:
    """Return the error of the time of all kernels together; NaN where a study does not tell."""
    return abs(float(result.get("whole", "nan")))


def holding(result: _Result) -> float:
    """Return the share of kernels with a model whose interval contains the measured time; NaN without any."""
    held = [each for each in result.get("held", ()) if each is not None]
    return float(np.mean(held)) if held else float("nan")


def summary(
    shards: Sequence[Shard],
    results: Sequence[_Result],
    *,
    kind: Kind = Kind.SIMULATED,
    goal_percent: float = 10.0,
    title: str = "The whole loop against the manual way and PIRA II with CPF, on simulated case studies",
) -> Evaluation:
    """Make an evaluation of results in the order of their shards.

    Parameters
    ----------
    goal_percent
        Of the manual way's core hours, that its accuracy should cost at most.
    """
    found: dict[tuple[str, str, float], list[_Result]] = {}
    for shard, result in zip(shards, results, strict=True):
        found.setdefault((shard["case"], shard["way"], shard["share"]), []).append(result)
    names = list(dict.fromkeys(case for case, _, _ in found))
    modellers = sorted({result["modeller"] for (_, way, _), own in found.items() if way == MANUAL for result in own})
    header = (
        "case", "way", "budget %", "spent %", "core h", "kernels",
        "within 10 % (%)", "±", "median error %", "±", "draws",
    )  # fmt: skip
    return Evaluation(
        title,
        tuple(figure for case in names for figure in _figures(case, found, kind, goal_percent)),
        (
            Table("Accuracy at P+ of kernels above 1 %, and what it costs", header, tuple(map(_row, found.items()))),
            *([over_programs(found)] if len(names) > 1 else []),
        ),
        tuple(plot for case in names for plot in _plots(case, found)),
        (f"models of the manual way: {' and '.join(modellers)}",),
    )


def _row(item: tuple[tuple[str, str, float], Sequence[_Result]]) -> tuple[str | int | float | None, ...]:
    (case, way, share), own = item
    kernels = sum(len(result["errors"]) for result in own)
    hours = _mean(own, lambda result: result["core_hours"])
    near, error = (
        mean_and_error([100 * close(result) for result in own]),
        mean_and_error([100 * middle(result) for result in own]),
    )
    return (case, way, 100 * share, 100 * _mean(own, spent), hours, kernels, *near, *error, len(own))


def over_programs(found: Found) -> Table:
    """Compare ways over programs, each of which counts once."""
    names = list(dict.fromkeys(case for case, _, _ in found))
    rows = list[tuple[str | int | float | None, ...]]()
    for way, share in dict.fromkeys((way, share) for _, way, share in found):
        own = {case: found[case, way, share] for case in names if (case, way, share) in found}
        errors = {case: _mean(results, middle) for case, results in own.items()}
        manual = {case: _mean(found[case, MANUAL, 1.0], middle) for case in own if (case, MANUAL, 1.0) in found}
        good = sum(errors[case] <= manual[case] for case in manual)
        whole = [_mean(results, of_the_whole) for results in own.values()]
        held = [holding(result) for results in own.values() for result in results]
        mean, error = mean_and_error([100 * each for each in errors.values()])
        rows.append(
            (
                way, 100 * share, 100 * float(np.mean([_mean(results, spent) for results in own.values()])), len(own),
                100 * float(np.median(list(errors.values()))), mean, error, good,
                100 * float(np.median(whole)) if np.isfinite(whole).all() else None,
                100 * float(np.nanmean(held)) if np.isfinite(held).any() else None,
            )
        )  # fmt: skip
    header = (
        "way", "budget %", "spent %", "programs", "median over programs: error %", "mean", "±",
        "no worse than manual in", "all kernels together: error %", "intervals hold %",
    )  # fmt: skip
    return Table("Median errors over programs", header, tuple(rows))


def _mean(results: Sequence[_Result], value: Callable[[_Result], float]) -> float:
    return mean_and_error([value(result) for result in results])[0]


_MEASURES: tuple[tuple[str, str, Callable[[_Result], float], int], ...] = (
    ("share within 10 %", "kernels within 10 %, %", close, 1),
    ("median error", "median error, %", middle, -1),
)
"""Name, label, value and sign: 1 where more is better."""


def _figures(case: str, found: Found, kind: Kind, goal_percent: float) -> list[Figure]:
    manual = found[case, MANUAL, 1.0]
    own = {share: results for (name, way, share), results in found.items() if name == case and way == BURAN}
    figures = []
    for name, _, value, sign in _MEASURES:
        wanted = sign * _mean(manual, value)
        good = [100 * _mean(results, spent) for results in own.values() if sign * _mean(results, value) >= wanted]
        note = "" if good else "no budget gave the accuracy of the manual way"
        figures.append(
            Figure(
                f"{case} core hours for the manual way's {name}", min(good, default=None), "%", None, len(manual), kind,
                f"at most {goal_percent:g}", note,
            )
        )  # fmt: skip
        if 1.0 in own:
            better, error = mean_and_error([100 * value(result) for result in own[1.0]])
            goal = f"{'above' if sign > 0 else 'below'} {100 * sign * wanted:.3g}, the manual way's"
            figures.append(Figure(f"{case} {name} at equal core hours", better, "%", error, len(own[1.0]), kind, goal))
    return figures


def _plots(case: str, found: Found) -> list[Plot]:
    plots = []
    for name, label, value, sign in _MEASURES:
        curves = []
        for way in (MANUAL, PIRA, BURAN):
            own = [results for (of, other, _), results in found.items() if of == case and other == way]
            spots = sorted(
                (100 * _mean(each, spent), *mean_and_error([100 * value(one) for one in each])) for each in own
            )
            x, y = tuple(spot[0] for spot in spots), tuple(spot[1] for spot in spots)
            errors = None if any(spot[2] is None for spot in spots) else tuple(float(spot[2] or 0) for spot in spots)
            if spots:
                curves.append(Curve(way, x, y, errors))
        short = "close" if sign > 0 else "median"
        plots.append(
            Plot(
                f"campaign-{case.lower()}-{short}", f"{case}: {name} at P+ against core hours",
                "core hours, % of the manual way's", label, tuple(curves), log_x=True, log_y=sign < 0,
            )
        )  # fmt: skip
    return plots
