"""Counts of a program under two MPIs, side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from buran.campaign.point import Point
from buran.profiles.profile import Profile
from buran_studies.machine.laboratory import Bench

METRICS = ("visits", "basic_blocks", "bytes_sent", "bytes_received")


def differences(here: Bench, there: Bench, points: Sequence[Point]) -> dict[str, Any]:
    """Run both at each point; return how many counts of call paths and ranks were compared, and which are not equal."""
    compared, unequal, differing = 0, 0, set[str]()
    for point in points:
        ranks = here.campaign.ranks(point)
        real, other = (_by_call_path(bench.run_at(point)[0]) for bench in (here, there))
        real, other = _matched(real, other), _matched(other, real)
        for key in real.keys() | other.keys():
            nothing = np.full(ranks, -1)  # a call path that the other does not have
            differs = np.asarray(real.get(key, nothing) != other.get(key, nothing))
            compared, unequal = compared + ranks, unequal + int(differs.sum())
            if differs.any():
                differing.add(f"{' '.join(key)} at {point}")
    return {"compared": compared, "unequal": unequal, "differing": sorted(differing)}


_Counts = dict[tuple[str, str], NDArray[np.generic]]
_PARAMETERS = re.compile(r"\([^()]*\)")


def _matched(counts: _Counts, other: _Counts) -> _Counts:
    """Name call paths that the other side lacks without types of parameters: those of MPI have other names there."""
    matched: _Counts = {}
    for (metric, name), values in counts.items():
        key = (metric, name if (metric, name) in other else _without_parameters(name))
        matched[key] = np.add(matched[key], values) if key in matched else values
    return matched


def _without_parameters(name: str) -> str:
    shorter = _PARAMETERS.sub("", name)
    return name if shorter == name else _without_parameters(shorter)


def _by_call_path(profile: Profile) -> _Counts:
    """Return shape (location,) by metric and call path without the name of the program."""
    names = [name.partition("->")[2] for name in profile.tree.names]
    return {(metric, name): profile.values[metric][at] for metric in METRICS for at, name in enumerate(names)}
