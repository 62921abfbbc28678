"""What Score-P's own tool says of a filter and a profile."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from buran.errors import ToolError
from buran.instrumentation.filter_file import read_filter
from buran.instrumentation.prediction import VISIT_COST_S
from buran.measurement.toolchain.installed import find_tool, run_tool

# As in `` *       ALL        184      5    0.26    97.8       51127.92  ALL-FLT``: group, bytes, visits, seconds.
_ROW = re.compile(r"^ [-+*] +([A-Z]+) +([\d,]+) +([\d,]+) +([\d.]+) .* (\S+)$", re.MULTILINE)
_COMPILED = ("USR", "COM")  # Score-P's groups of regions that the compiler gave hooks


@dataclass(frozen=True)
class Score:
    """What a profile holds, and what of it a filter leaves.

    Attributes
    ----------
    visits, visits_left
        Of functions with hooks of the compiler, over all locations.
    trace_bytes, trace_bytes_left
        Of the process with the largest trace.
    time_s
        Over all locations.
    """

    visits: int
    visits_left: int
    trace_bytes: int
    trace_bytes_left: int
    time_s: float

    def overhead(self, visit_cost_s: float) -> float:
        """Return the time that hooks which are left take, over the time without any hooks; infinite without any."""
        bare_s = self.time_s - self.visits * visit_cost_s
        return self.visits_left * visit_cost_s / bare_s if bare_s > 0 else float("inf")


def score(profile: Path, filter_file: Path) -> Score:
    """Ask ``scorep-score`` what a filter leaves of a profile.

    Raises
    ------
    ToolError
        It is not there, cannot read one of the files, or its table is not as that of versions 8 and 9.
    """
    program = find_tool("scorep-score")
    if program is None:
        raise ToolError("scorep-score was not found", where="PATH", hint="load the module of Score-P")
    what = "scorep-score cannot evaluate the filter"
    text = run_tool([program, "-f", filter_file, profile], what=what)
    rows = {
        name: (int(size.replace(",", "")), int(visits.replace(",", "")), float(time_s))
        for _, size, visits, time_s, name in _ROW.findall(text)
    }
    if not {"ALL", "ALL-FLT"} <= rows.keys():
        raise ToolError(what, where=program, why=f"its table is not as expected: {text.strip()[:200]}")
    nothing = (0, 0, 0.0)
    return Score(
        visits=sum(rows.get(group, nothing)[1] for group in _COMPILED),
        visits_left=sum(rows.get(f"{group}-FLT", nothing)[1] for group in _COMPILED),
        trace_bytes=rows["ALL"][0],
        trace_bytes_left=rows["ALL-FLT"][0],
        time_s=rows["ALL"][2],
    )


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
