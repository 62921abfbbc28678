"""The section `scorep` of a campaign file."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from buran.campaign.identity import Keys
from buran.campaign.shape import CampaignFile
from buran.campaign.values import OfPlan, OfTarget

KEY = "scorep"
"""That of the section, and of the backend."""


class ScorePKeys(Keys):
    """Settings of Score-P."""

    process_memory_mb: OfPlan[Annotated[int, Field(ge=16, le=4000)]] = Field(
        128,
        description="Profile memory of each process: about 230 bytes per call path and thread. A run that fills it "
        "fails. (`scorep-score` estimates that of a trace, which grows with visits.)",
    )
    effort_metric: OfTarget[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_:.\-]*$")] | None] = Field(
        None,
        description="Metric of PAPI or perf instead of basic blocks, which are otherwise counted with Buran's own "
        "plugin.",
        examples=["PAPI_TOT_INS", "instructions"],
    )
    options: OfTarget[str] = Field(
        "",
        description="Options of `scorep` for timed builds, such as `--user` for regions that the program marks itself.",
        examples=["--user", "--thread=pthread"],
    )


def keys_of(config: CampaignFile) -> ScorePKeys:
    """Return what a campaign file says of Score-P."""
    keys: ScorePKeys = getattr(config, KEY)
    return keys
