"""What figures of merit add to campaigns; heavier modules are imported where they are used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from buran.campaign.mistakes import Mistake
from buran.campaign.values import OrText, Text
from buran.features import FEATURES, Feature, Key, ReportSection, late
from buran.plugins.output.keys import FigureKeys, figures_of, pattern_mistakes
from buran.profiles.metrics import table as metrics

if TYPE_CHECKING:
    from buran.campaign.shape import CampaignFile


_KEY = Key(
    dict[Text, Annotated[FigureKeys, OrText()]],
    {},
    "Figures of merit: numbers that the program prints, by name, which are modelled as metrics of the whole program; "
    "a text is short for its `pattern`. The last match in a run's output counts. They are read from output that was "
    "kept, so that nothing is measured again. A run without a figure counts for everything else.",
    [{"zones_per_s": "Zones per second: (\\S+)", "residual": {"pattern": "residual = (\\S+)", "better": "lower"}}],
)


def _mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Refuse figures that nobody prints, that say nothing, or have the name of a metric."""
    taken = {*metrics(), *config.metrics, *config.extra_metrics, *FEATURES.names, "runtime"}
    for name, keys in figures_of(config).items():
        path = ("figures", name)
        yield from pattern_mistakes((*path, "pattern"), keys.pattern)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
            why = "it is a metric's: letters, digits and _"
            yield Mistake(path, f"{name!r} cannot be the name of a figure", why, "write it as zones_per_s")
        if name in taken:
            hint = "its own clock: backend: command, command.clock" if name == "time" else None
            yield Mistake(path, f"{name!r} is a metric already", hint=hint or "give the figure another name")
        if config.backend == "simulated":
            yield Mistake(path, "there are no figures with backend: simulated", "no program runs", "leave it out")


def _sections() -> tuple[ReportSection, ...]:
    from buran.plugins.output.merit import SECTION

    return (SECTION,)


FEATURE = Feature(
    "figures",
    _KEY,
    mistakes=_mistakes,
    table=late("buran.plugins.output.merit:figure_table"),
    notes=late("buran.plugins.output.merit:figure_notes"),
    sections=_sections,
)
