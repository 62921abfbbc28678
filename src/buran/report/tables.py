"""The numbers of the page as CSV: a line for each call path, and a line for each point."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

import numpy as np

from buran.experiment.table import Experiment
from buran.model.text import format_function, growth_class
from buran.report.call_paths import CallPaths
from buran.report.noise import levels_of
from buran.report.page import Iteration

_CALL_PATH_COLUMNS = (
    "call path",
    "metric",
    "unit",
    "at target",
    "lower",
    "upper",
    "share at target",
    "share measured",
    "grows like",
    "model",
    "SMAPE %",
    "noise %",
)


def as_csv(found: CallPaths | None, table: Experiment | None = None) -> str:
    """Return a line for each call path of the report, all of them, with the numbers the page shows."""
    rows: list[list[str]] = []
    if found is not None:
        parameters = found.models.parameters
        at_target, now = found.shares
        noise = levels_of(found.models, table)
        for row, (name, model) in enumerate(zip(found.models.call_paths, found.models.models, strict=True)):
            own = [name, found.models.metric, found.models.unit]
            if model is not None:
                numbers = (found.at_target[row], found.lower[row], found.upper[row], at_target[row], now[row])
                own += ["" if np.isnan(each) else f"{each:.6g}" for each in numbers]
                own += [growth_class(model.function, parameters), format_function(model.function, parameters)]
                own += [f"{model.quality.smape:.4g}", "" if np.isnan(noise[row]) else f"{noise[row]:.4g}"]
            rows.append(own)
    return _written(_CALL_PATH_COLUMNS, rows)


def points_as_csv(parameters: Sequence[str], iterations: Sequence[Iteration]) -> str:
    """Return a line for each point in the order in which points were chosen, with what became of it."""
    rows = [
        [str(each.number), *(str(point["point"][name]) for name in parameters)]
        + [str(point[key]) for key in ("purpose", "runs", "state")]
        + [each.reason]
        for each in iterations
        for point in each.points
    ]
    return _written(("iteration", *parameters, "for", "runs", "state", "why"), rows)


def _written(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
