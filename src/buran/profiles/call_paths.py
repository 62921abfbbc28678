"""Call paths as a program has them, of profiles that Score-P wrote.

Score-P gives each instance of a dynamic region, each cluster of instances and each value of a parameter
(``SCOREP_USER_PARAMETER_INT64``) a node of its own in the call tree: ``step->instance=7->solve``. How many there are
depends on the run. For models they are one call path, ``step->solve``, visited as often as there are instances.
"""

from __future__ import annotations

from pathlib import Path

from buran.profiles.cubex_read import read_cubex
from buran.profiles.profile import Profile, Region
from buran.profiles.regroup import fold, folded


def read_profile(path: Path) -> Profile:
    """Read a cubex file, its call paths as `as_call_paths` makes them.

    Raises
    ------
    FormatError
        See `buran.profiles.cubex_read.read_cubex`.
    """
    return as_call_paths(read_cubex(path))


def is_parameter_value(region: Region) -> bool:
    """Tell whether a region is Score-P's node of a parameter's value, or of an instance or cluster."""
    name, sign, _ = region.name.partition("=")
    return region.paradigm == "user" and region.role in ("unknown", "parameter") and bool(sign) and name.strip() != ""


def as_call_paths(profile: Profile) -> Profile:
    """Fold the instances of dynamic regions, and the values of parameters, into the regions they belong to.

    Counts and times are sums over the instances, extremes the extremes of all; the visits of a dynamic region are the
    number of its instances.

    Parameters
    ----------
    profile
        As it was read. Without such nodes it is returned as it is.
    """
    if not any(is_parameter_value(profile.tree.regions[number]) for number in set(profile.tree.region.tolist())):
        return profile
    folding = fold(profile.tree, lambda region: not is_parameter_value(region))
    return folded(profile, folding, stays_behind=lambda metric: False)
