"""The efficiencies as a section of the report."""

from __future__ import annotations

from pathlib import Path

from buran.features import ReportSection
from buran.loop.history import History
from buran.plugins.efficiency.campaign import efficiency_of_campaign
from buran.plugins.efficiency.table import EfficiencyTable, efficiency_page, efficiency_text
from buran.report.content import Report


def _value(history: History, report: Report, folder: Path | None) -> EfficiencyTable | None:
    """Return the efficiencies once the campaign's report is written."""
    return None if folder is None else efficiency_of_campaign(history, report)


SECTION = ReportSection(
    "efficiency",
    "Efficiency",
    _value,
    lambda table, report: efficiency_text(table),
    lambda table, report: efficiency_page(table),
    plot=lambda table: {"divided": table.divided},
    notes=lambda table: [table.contradiction] if table.contradiction else [],
    order=-1,
)
