"""The first refinement: keep the functions that will matter at the target point, and the way to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buran.errors import UsageError
from buran.instrument.filter_file import Filter, format_filter, only
from buran.model import ModelSet
from buran.profile.profile import CallTree, Region

_MAINS = ("main", "MAIN__")
_FILTERABLE = ("compiler", "user")

_STARTUP = ("MPI_Init", "MPI_Init_thread", "MPI_Session_init", "MPI_Session_finalize", "MPI_Finalize")
"""Starting and ending MPI: a share of short runs that no function of the program causes."""

VISIT_COST_S = 120e-9  # enter and exit, about 60 ns each

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Refinement:
    """Which functions stay instrumented.

    Attributes
    ----------
    regions
        Of the call tree, in its order.
    keep
        Shape (region,): True for functions to instrument; False for MPI and others that no filter reaches.
    reasons
        One sentence part for each region.
    time_share
        Shape (region,): predicted exclusive time at the target, of the total; NaN where a model is missing.
    hook_time_s
        Shape (region,): predicted time in hooks at the target; NaN where a model is missing.
    call_path_share
        Shape (call path,): as `time_share`, for each call path.
    total_s
        Predicted time of all call paths together at the target, without starting and ending MPI.
    unknown
        Names of the call paths that have no time model.
    """

    regions: tuple[Region, ...]
    keep: Mask
    reasons: tuple[str, ...]
    time_share: Floats
    hook_time_s: Floats
    call_path_share: Floats
    total_s: float
    unknown: tuple[str, ...]

    @property
    def hook_share(self) -> float:
        """Predicted time in the hooks that a filter reaches, of the total; unknown ones count as 0."""
        filterable = np.array([region.paradigm in _FILTERABLE for region in self.regions], dtype=bool)
        return float(np.nansum(self.hook_time_s[filterable])) / self.total_s if self.total_s > 0 else 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Linker symbols to instrument, sorted; ``main`` is always among them."""
        kept = {_symbol(region) for region, keep in zip(self.regions, self.keep, strict=True) if keep}
        return tuple(sorted(kept if kept & set(_MAINS) else kept | {"main"}))

    @property
    def filter(self) -> Filter:
        """Rules that instrument exactly `names`."""
        return only(self.names)

    def filter_text(self, title: str = "functions that matter at the target") -> str:
        """Return the filter file, with the reason for each function in a comment."""
        reason = {
            _symbol(region): f"{region.name}: {why}"
            for region, keep, why in zip(self.regions, self.keep, self.reasons, strict=True)
            if keep
        }
        comments = [title, f"predicted time at the target: {self.total_s:.4g} s a rank"]
        comments.extend(reason.get(name, f"{name}: begin of the program") for name in self.names)
        if self.unknown:
            comments.append(f"{len(self.unknown)} call paths without a model, kept")
        return format_filter(self.filter, comments)


def refine(
    tree: CallTree,
    time: ModelSet,
    visits: ModelSet | None,
    target: ArrayLike,
    *,
    share: float = 0.01,
    hook_share: float = 0.5,
    visit_cost_s: float = VISIT_COST_S,
) -> Refinement:
    """Choose the functions to instrument in the next iteration.

    Kept are functions with a share of the predicted time at the target, functions one of whose call paths has
    no model, and everything on the call paths from ``main`` to them and to MPI operations with such a share.
    Negative predictions count as 0; so does the time in which MPI starts and ends, which short runs are full of.

    Parameters
    ----------
    tree
        The call paths, in the models' order.
    time
        Models of the exclusive time of each call path, in seconds, mean over ranks.
    visits
        Models of the visits, mean over ranks; None if unknown, then no function is dropped for its hooks.
    target
        Shape (parameter,): the point to extrapolate to, in the order of the models' parameters.
    share
        Of the run time at the target: functions with at least this much are kept.
    hook_share
        Of a function's own time: hooks that take more distort it. A leaf whose time without hooks is below
        `share` is then dropped.
    visit_cost_s
        What one visit costs in hooks.

    Raises
    ------
    UsageError
        If models and tree do not belong together, the target does not fit the parameters, or a threshold is
        out of range.
    """
    if not (0 <= share <= 1 and hook_share >= 0 and visit_cost_s >= 0):
        raise UsageError(
            "thresholds of the refinement are out of range",
            why=f"share {share}, hook share {hook_share}, visit cost {visit_cost_s} s",
            hint="share lies between 0 and 1; the others are not negative",
        )
    at = np.asarray(target, dtype=np.float64)
    seconds, number = _predictions(tree, time, at), None if visits is None else _predictions(tree, visits, at)
    startup = np.array([region.name in _STARTUP for region in tree.regions], dtype=bool)
    seconds = np.where(startup[tree.region], 0.0, seconds)
    total = float(np.nansum(seconds))
    path_share = seconds / total if total > 0 else np.where(np.isnan(seconds), np.nan, 0.0)
    own_s, own_share = _by_region(tree, seconds), _by_region(tree, path_share)
    hooks = np.full(len(tree.regions), np.nan)
    if number is not None:
        hooks = _by_region(tree, number) * visit_cost_s
    filterable = np.array([region.paradigm in _FILTERABLE for region in tree.regions], dtype=bool)
    hooked = filterable & _leaf_regions(tree, filterable) & (hooks > hook_share * own_s)
    bare_share = np.where(hooked, np.maximum(own_s - hooks, 0) / (total if total > 0 else 1.0), own_share)
    unknown_region = np.isnan(own_share)
    large = ~unknown_region & (bare_share >= share) & (total > 0)
    wanted = _own_or_above(tree, (large | unknown_region)[tree.region])
    on_the_way = np.zeros(len(tree.regions), dtype=bool)
    on_the_way[tree.region[wanted]] = True
    main = np.array([_symbol(region) in _MAINS for region in tree.regions], dtype=bool)
    keep = filterable & (on_the_way | main)
    reasons = tuple(
        _reason(
            tree.regions[r], bool(large[r]), bool(unknown_region[r]), bool(main[r]), bool(keep[r]),
            float(own_share[r]), float(hooks[r] / own_s[r]) if hooked[r] and own_s[r] > 0 else 0.0, share,
        )
        for r in range(len(tree.regions))
    )  # fmt: skip
    unknown = tuple(name for name, value in zip(tree.names, seconds, strict=True) if np.isnan(value))
    return Refinement(tree.regions, keep, reasons, own_share, hooks, path_share, total, unknown)


def _predictions(tree: CallTree, models: ModelSet, target: Floats) -> Floats:
    """Return shape (call path,): not negative; NaN without a model."""
    if target.shape != (len(models.parameters),) or not np.isfinite(target).all():
        raise UsageError(
            "the target point does not fit the models",
            why=f"{target.tolist()} for the parameters {', '.join(models.parameters)}",
        )
    if models.call_paths != tree.names:
        raise UsageError(
            f"the models of {models.metric} do not belong to the call tree",
            why=f"{len(models.call_paths)} models in another order or number than the {len(tree)} call paths",
        )
    return np.maximum(models.predict(target[None])[:, 0], 0.0)  # NaN stays NaN


def _by_region(tree: CallTree, values: Floats) -> Floats:
    """Add up over the call paths of each region; NaN where one of them is."""
    out = np.zeros(len(tree.regions))
    np.add.at(out, tree.region, values)
    return out


def _leaf_regions(tree: CallTree, filterable: Mask) -> Mask:
    """Regions that never call a function of the program or an MPI operation."""
    out = np.ones(len(filterable), dtype=bool)
    out[tree.region[tree.parent[tree.parent >= 0]]] = False
    return out & filterable


def _own_or_above(tree: CallTree, marked: Mask) -> Mask:
    """Mark call paths that are marked or lead to one that is."""
    return tree.inclusive(marked.astype(np.float64)) > 0


def _symbol(region: Region) -> str:
    return region.mangled or region.name


def _reason(
    region: Region,
    large: bool,
    unknown: bool,
    main: bool,
    keep: bool,
    share: float,
    hook_ratio: float,
    least: float,
) -> str:
    if region.paradigm not in _FILTERABLE:
        return f"always measured, {region.paradigm} is not filtered"
    if unknown:
        return "no model yet"
    if large:
        return f"{100 * share:.3g} % of the time"
    if main:
        return "begin of the program"
    if keep:
        return f"on the way to such a function, {100 * share:.2g} % itself"
    if hook_ratio:
        return f"hooks would take {100 * min(hook_ratio, 1):.0f} % of its {100 * share:.2g} % of the time"
    return f"{100 * share:.2g} % of the time, below {100 * least:.3g} %"
