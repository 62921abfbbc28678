"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.modeling.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class CampaignTuning:
    """Numbers of the comparison of two campaigns."""

    level: float = tuned(0.95, "of a comparison's intervals, where none is asked for", JUDGED)


COMPARED = CampaignTuning()
