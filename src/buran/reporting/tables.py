"""The numbers of the page as CSV: a line for each call path."""

from __future__ import annotations

import numpy as np

from buran.modeling.pmnf.text import format_function, growth_class
from buran.profiles.experiment.table import Experiment
from buran.reporting.call_paths import CallPaths
from buran.reporting.noise import levels_of
from buran.reporting.plain import csv_text

_CALL_PATH_COLUMNS = (
    "call path",
    "metric",
    "unit",
    "at target",
    "lower",
    "upper",
    "share at target",
    "share measured",
    "dominant term",
    "model",
    "SMAPE %",
    "noise %",
)


def as_csv(call_paths: CallPaths | None, table: Experiment | None = None) -> str:
    """Return a line for each call path of the report, all of them, with the numbers the page shows."""
    rows: list[list[str]] = []
    if call_paths is not None:
        parameters = call_paths.models.parameters
        at_target, now = call_paths.shares
        noise = levels_of(call_paths.models, table)
        for row, (name, model) in enumerate(zip(call_paths.models.call_paths, call_paths.models.models, strict=True)):
            cells = [name, call_paths.models.metric, call_paths.models.unit]
            if model is not None:
                numbers = (
                    call_paths.at_target[row],
                    call_paths.lower[row],
                    call_paths.upper[row],
                    at_target[row],
                    now[row],
                )
                cells += ["" if np.isnan(number) else f"{number:.6g}" for number in numbers]
                cells += [growth_class(model.function, parameters), format_function(model.function, parameters)]
                cells += [f"{model.quality.smape:.4g}", "" if np.isnan(noise[row]) else f"{noise[row]:.4g}"]
            rows.append(cells)
    return csv_text(_CALL_PATH_COLUMNS, rows)
