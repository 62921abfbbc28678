"""How evenly ranks and threads share the time of each function.

The three figures are those that PIRA's search for load imbalance offers: the imbalance percentage, the efficiency and
the variation coefficient. All are of exclusive times: functions that wait are distinguished from those that let
others wait.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from buran.instrumentation.prediction import Floats
from buran.profiles.profile import Profile
from buran.profiles.startup import STARTUP


@dataclass(frozen=True)
class Balance:
    """One function at one point.

    Attributes
    ----------
    name
        As shown.
    mean_s, most_s
        Exclusive time over ranks and threads: mean and largest.
    lost_share
        Share of the time of the whole run: by how much the slowest exceeds the mean.
    efficiency
        Mean over largest; 1 is even.
    imbalance
        ``(most - mean) / most * n / (n - 1)``: 0 is even, 1 is all on one.
    variation
        Standard deviation over mean.
    """

    name: str
    mean_s: float
    most_s: float
    lost_share: float
    efficiency: float
    imbalance: float
    variation: float


def balance_of(profile: Profile, least_share: float = 0.01) -> tuple[Balance, ...]:
    """Return the functions in which the slowest rank or thread loses a share of the time, the worst first.

    Nothing for runs of one rank and thread. A location that never comes to a function counts with no time.
    """
    number = len(profile.locations)
    if number < 2 or "time" not in profile.values:
        return ()
    tree = profile.tree
    seconds = np.zeros((len(tree.regions), number))
    np.add.at(seconds, tree.region, profile.exclusive("time"))
    startup = [region.name in STARTUP for region in tree.regions]
    seconds[startup] = 0.0
    mean, most = seconds.mean(axis=1), seconds.max(axis=1)
    whole = float(mean.sum())
    lost: Floats = (most - mean) / whole if whole > 0 else np.zeros_like(mean)
    chosen = np.flatnonzero((lost >= least_share) & (most > 0))
    return tuple(
        Balance(
            tree.regions[i].name,
            float(mean[i]),
            float(most[i]),
            float(lost[i]),
            float(mean[i] / most[i]),
            float((most[i] - mean[i]) / most[i] * number / (number - 1)),
            float(seconds[i].std() / mean[i]),
        )
        for i in chosen[np.argsort(-lost[chosen], kind="stable")].tolist()
    )
