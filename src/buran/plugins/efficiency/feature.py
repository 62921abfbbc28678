"""What POP efficiencies add to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

from typing import Literal

from buran.campaign.values import OfAnalysis
from buran.features import Feature, Key, ReportSection
from buran.plugins.efficiency import KEY

_Scaling = OfAnalysis[Literal["auto", "strong", "weak"]]


def _sections() -> tuple[ReportSection, ...]:
    from buran.plugins.efficiency.campaign import SECTION

    return (SECTION,)


FEATURE = Feature(
    KEY,
    Key(
        _Scaling,
        "auto",
        "What more ranks mean with all other parameters fixed: `strong`, the same total work (plotted as speed-up); "
        "`weak`, the same work per rank (plotted as efficiency). `auto`: as counts over all ranks grow, or times "
        "without counts. The report says if they contradict this key.",
    ),
    sections=_sections,
)
