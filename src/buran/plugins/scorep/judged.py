"""What ``scorep-score`` says of a filter."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import numpy as np

from buran.instrumentation.filter_file import read_filter
from buran.instrumentation.tuning import VISIT_COST_S
from buran.plugins.scorep.score import score


def judged_by_scorep(path: Path, profile: Path, visit_cost_s: float | None = None, *, as_json: bool = False) -> str:
    """Return what ``scorep-score`` says of a filter and a profile, and what hooks that are left would cost.

    Raises
    ------
    ToolError
        See `score`.
    FormatError
        The filter has a syntax error.
    """
    read_filter(path)
    judged, cost_s = score(profile, path), VISIT_COST_S if visit_cost_s is None else visit_cost_s
    overhead = judged.overhead(cost_s)
    if as_json:
        finite = overhead if np.isfinite(overhead) else None
        return json.dumps({**asdict(judged), "visit_cost_s": cost_s, "overhead": finite}, indent=2) + "\n"
    costs = f"{100 * overhead:.2g} % of the time" if np.isfinite(overhead) else "more than the time itself"
    return (
        f"{path}, by scorep-score on {profile}:\n"
        f"visits left: {judged.visits_left} of {judged.visits}, of instrumented functions of the compiler\n"
        f"trace left: {judged.trace_bytes_left} of {judged.trace_bytes} bytes, in the process with the largest\n"
        f"overhead left: {costs}, at {1e9 * cost_s:.0f} ns a visit\n"
    )
