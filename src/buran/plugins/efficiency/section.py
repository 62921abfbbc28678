"""The efficiencies as a section of the report."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

import numpy as np

from buran.features import ReportSection
from buran.plugins.efficiency.campaign import efficiency_of_campaign
from buran.plugins.efficiency.table import EfficiencyTable, efficiency_page, efficiency_text
from buran.reporting.content import LEVEL, Answer, Report
from buran.wording import counted
from buran.workflow.history import History

_PAYS = 0.5  # of the cores' time: where less is of use, more ranks no longer pay


def _value(history: History, report: Report, folder: Path | None) -> EfficiencyTable | None:
    """Return the efficiencies once the campaign's report is written."""
    return None if folder is None else efficiency_of_campaign(history, report)


def _answer(table: EfficiencyTable, report: Report) -> Answer | None:
    """Say up to how many ranks it pays to divide one amount of work, or how well ranks use more of it."""
    if not table.stated:
        return None
    question = "Up to how many ranks does it pay?" if table.divided else "How efficient is it at the target?"
    facts = [table.contradiction] if table.contradiction else []  # first: the rest means little under a wrong word
    if not table.along or table.target is None or not np.isfinite([efficiency for _, efficiency in table.along]).all():
        return Answer(question, "Not known", [*facts, "There are no models of the times of all call paths"])
    (fewest, _), *_, (most, at_target) = table.along
    percent, reach = f"{100 * at_target:.3g} %", table.target.global_interval
    interval = "" if reach is None else f"; {100 * LEVEL:.0f} % interval {100 * reach[0]:.3g} to {100 * reach[1]:.3g} %"
    paying = [ranks for ranks, _ in takewhile(lambda each: each[1] >= _PAYS, table.along)]
    last = f"{max(paying):g}" if paying else f"less than {fewest:g}"
    if not table.divided:
        half = "" if most in paying else f"; {100 * _PAYS:.0f} % up to {last} rank{'' if last == '1' else 's'}"
        fact = f"Global efficiency on {most:g} ranks, compared with {counted(int(fewest), 'rank')}{interval}{half}"
        return Answer(question, percent, [*facts, fact])
    if most in paying:
        last += ", the target"
        facts.append(f"There {percent} of all cores is of use{interval}")
    else:
        of_use = f"less than {100 * _PAYS:.0f} % of all cores is of use"
        facts.append(f"Beyond, {of_use}; on {most:g} ranks {percent}{interval}")
    speeds = {ranks: ranks * efficiency for ranks, efficiency in table.along}
    fastest = max(speeds, key=speeds.__getitem__)
    if fastest < most:
        gain = f", {speeds[fastest] / speeds[fewest]:.3g} times as fast as on {fewest:g}" if fastest > fewest else ""
        facts.append(f"Fastest on {counted(int(fastest), 'rank')}{gain}")
    return Answer(question, last, facts)


SECTION = ReportSection(
    "efficiency",
    "Efficiency",
    _value,
    lambda table, report: efficiency_text(table),
    lambda table, report: efficiency_page(table),
    plot=lambda table: {"divided": table.divided},
    notes=lambda table: [table.contradiction] if table.contradiction else [],
    answer=_answer,
    order=-1,
)
