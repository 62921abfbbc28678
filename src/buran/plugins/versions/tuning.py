"""Numbers that tune the methods of this package, each with where it is from."""

from __future__ import annotations

from dataclasses import dataclass

from buran.numerics.origin import JUDGED, tuned


@dataclass(frozen=True)
class CampaignTuning:
    """Of the comparison of two campaigns."""

    level: float = tuned(0.95, "of a comparison's intervals, where none is requested", JUDGED)
    share: float = tuned(
        0.01, "of the run time, what is judged or said at least, where nothing else is requested", JUDGED
    )
    alike: int = tuned(
        2, "points at which counts are the same, from which on what models of them say elsewhere does not count", JUDGED
    )
    growth: int = tuned(
        4, "points at which counts differ or not, from which on they tell how the new ones grow", JUDGED
    )


COMPARED = CampaignTuning()
