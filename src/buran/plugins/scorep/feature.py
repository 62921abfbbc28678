"""What Score-P adds to campaigns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from buran.campaign.identity import Keys
from buran.campaign.mistakes import Mistake
from buran.campaign.shape import CampaignFile
from buran.campaign.values import OfPlan, OfTarget
from buran.features import Feature, Key

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


def _mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Refuse the section where another backend measures."""
    if config.backend != KEY and KEY in config.model_fields_set:
        what, why = "this section has no effect", f"the backend is {config.backend}"
        yield Mistake((KEY,), what, why, "write backend: scorep, or leave it out")


FEATURE = Feature(KEY, Key(ScorePKeys, ScorePKeys(), "Settings of Score-P, for `backend: scorep`."), mistakes=_mistakes)
