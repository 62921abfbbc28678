"""What Score-P adds to campaigns."""

from __future__ import annotations

from collections.abc import Iterator

from buran.campaign.mistakes import Mistake
from buran.campaign.shape import CampaignFile
from buran.features import Feature, Key
from buran.plugins.scorep.keys import KEY, ScorePKeys


def _mistakes(config: CampaignFile, environment: str) -> Iterator[Mistake]:
    """Refuse the section where another backend measures."""
    if config.backend != KEY and KEY in config.model_fields_set:
        what, why = "this section has no effect", f"the backend is {config.backend}"
        yield Mistake((KEY,), what, why, "write backend: scorep, or leave it out")


FEATURE = Feature(KEY, Key(ScorePKeys, ScorePKeys(), "Settings of Score-P, for `backend: scorep`."), mistakes=_mistakes)
