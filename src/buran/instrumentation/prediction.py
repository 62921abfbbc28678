"""What the models of an iteration say of each function at the point of interest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from buran.errors import UsageError
from buran.modeling.numerics.tuning import ALLOWANCE
from buran.modeling.pmnf import ModelSet
from buran.modeling.pmnf.model_set import allowed_times
from buran.profiles.profile import SEPARATOR, CallTree, Region
from buran.profiles.startup import is_startup_or_shutdown

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Seconds of enter and exit of one visit where nothing was calibrated. Tuned: measured: Score-P 8.4 takes 58 ns.
VISIT_COST_S = 60e-9

# Of a single run, until several are known; a corrected time that is more uncertain is left out, one that changes by
# less is constant. Tuned: evidence/overhead.md: 2 to 15 %, on a busy machine 10 to 30 %.
SCATTER = 0.1

MAINS = ("main", "MAIN__")
FILTERABLE = ("compiler", "user")


def symbol_of(region: Region) -> str:
    """Return what a filter names a region by."""
    return region.mangled or region.name


def reached_by_filters(tree: CallTree) -> Mask:
    """Return shape (region,): whether filters reach it."""
    return np.array([region.paradigm in FILTERABLE for region in tree.regions], dtype=bool)


def by_region(tree: CallTree, values: Floats) -> Floats:
    """Add up values (call path, ...) over the call paths of each region; NaN where one of them is."""
    out = np.zeros((len(tree.regions), *values.shape[1:]))
    np.add.at(out, tree.region, values)
    return out


@dataclass(frozen=True, eq=False)
class RegionPrediction:
    """Times and visits at the target and at the measured points.

    Attributes
    ----------
    tree
        The call paths, in the models' order.
    seconds
        Shape (call path,): exclusive time at the target; NaN without a model; 0 for starting and ending MPI.
    origin_s
        Shape (call path,): at the smallest value of each parameter.
    points
        Shape (point, parameter): where the overhead counts beside the target.
    visits
        Shape (call path, 1 + point): of one thread, at the target, then at the points; NaN where unknown.
    measured_s
        Shape (call path, point): exclusive time by the models, at the points.
    visit_cost_s
        What one visit costs.
    plain_s
        Shape (point,): time of whole runs without instrumentation, at the points; NaN where unknown.
    work
        For each further metric, its name and shape (region,): the share of each region in its total at the target, 0
        where it does not grow.
    """

    tree: CallTree
    seconds: Floats
    origin_s: Floats
    points: Floats
    visits: Floats
    measured_s: Floats
    visit_cost_s: float
    plain_s: Floats
    work: tuple[tuple[str, Floats], ...] = ()

    # -- by region ----------------------------------------------------------------------------------

    def by_region(self, values: Floats) -> Floats:
        """Add up over the call paths of each region; NaN where one of them is."""
        return by_region(self.tree, values)

    @cached_property
    def total_s(self) -> float:
        """Predicted time of everything at the target."""
        return float(np.nansum(self.seconds))

    @cached_property
    def path_share(self) -> Floats:
        """Shape (call path,): of the total; NaN without a model."""
        return self._share(self.seconds)

    def _share(self, seconds: Floats) -> Floats:
        return seconds / self.total_s if self.total_s > 0 else np.where(np.isnan(seconds), np.nan, 0.0)

    @cached_property
    def own_s(self) -> Floats:
        """Shape (region,)."""
        return self.by_region(self.seconds)

    @cached_property
    def share(self) -> Floats:
        """Shape (region,): of the total; NaN where a model is missing."""
        return self.by_region(self.path_share)

    @cached_property
    def hook_s(self) -> Floats:
        """Shape (region,): time in hooks at the target; NaN where visits are unknown."""
        return self.by_region(self.visits[:, 0]) * self.visit_cost_s

    @cached_property
    def bare_share(self) -> Floats:
        """Shape (region,): of the total, without hooks of leaves that are mostly hooks."""
        return self._share(np.where(self.mostly_hooks(0.0), np.maximum(self.own_s - self.hook_s, 0), self.own_s))

    def mostly_hooks(self, ratio: float) -> Mask:
        """Mark functions that call nothing measured and whose hooks take more than a share of their time."""
        return self.filterable & self.leaves & (self.hook_s > ratio * self.own_s)

    @cached_property
    def leaves(self) -> Mask:
        """Regions that call nothing measured."""
        out = np.ones(len(self.tree.regions), dtype=bool)
        out[self.tree.region[self.tree.parent[self.tree.parent >= 0]]] = False
        return out

    @cached_property
    def filterable(self) -> Mask:
        """Regions that filters reach."""
        return reached_by_filters(self.tree)

    @cached_property
    def main(self) -> Mask:
        """The region the program begins with."""
        return np.array([symbol_of(region) in MAINS for region in self.tree.regions], dtype=bool)

    @cached_property
    def constant(self) -> Mask:
        """Regions whose time is the same at the smallest point and at the target."""
        before, after = self.by_region(self.origin_s), self.own_s
        with np.errstate(invalid="ignore"):
            return np.abs(after - before) <= SCATTER * np.maximum(after, before)

    # -- of a choice --------------------------------------------------------------------------------

    def leading_to(self, regions: Mask) -> Mask:
        """Return shape (region,): those on a measured call path to one of some regions, and these."""
        marked = self.tree.inclusive(regions[self.tree.region].astype(np.float64)) > 0
        out = np.zeros(len(regions), dtype=bool)
        out[self.tree.region[marked]] = True
        return out

    @cached_property
    def hooks_s(self) -> Floats:
        """Shape (region, 1 + point): time in hooks that filters reach, at the target and the points; 0 if unknown."""
        hooks = np.nan_to_num(self.by_region(self.visits) * self.visit_cost_s)
        return np.where(self.filterable[:, None], hooks, 0.0)

    @cached_property
    def bare_s(self) -> Floats:
        """Shape (1 + point,): time without any of these hooks, at the target and the points; not below 0.

        At points, that of whole runs where it is known: what overhead is measured against, start and end included.
        """
        whole = np.concatenate([[self.total_s], np.nansum(self.measured_s, axis=0)])
        bare: Floats = np.maximum(whole - self.hooks_s.sum(axis=0), 0.0)
        bare[1:] = np.fmax(bare[1:], self.plain_s)
        return bare

    @cached_property
    def openmp_overhead(self) -> Floats:
        """Shape (1 + point,): time in hooks of OpenMP constructs over time without hooks; 0 where unknown."""
        openmp = np.array([region.paradigm == "openmp" for region in self.tree.regions], dtype=bool)
        cost = np.nan_to_num(self.by_region(self.visits)[openmp]).sum(axis=0) * self.visit_cost_s
        share: Floats = np.divide(cost, self.bare_s, out=np.zeros_like(cost), where=self.bare_s > 0)
        return share

    def overhead(self, keep: Mask) -> Floats:
        """Return shape (1 + point,): time in hooks over time without, at the target and the points; NaN if unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            share: Floats = np.where(self.bare_s > 0, self.hooks_s[keep].sum(axis=0) / self.bare_s, np.nan)
        return share

    @cached_property
    def at_most(self) -> tuple[Floats, Floats]:
        """What an overhead is limited for: shape (region, 2) and (2,), hooks and time without, in seconds.

        At the target, and of all points together: a short run at a small point decides nothing.
        """
        hooks = np.stack([self.hooks_s[:, 0], self.hooks_s[:, 1:].sum(axis=1)], axis=1)
        return hooks, np.array([self.bare_s[0], self.bare_s[1:].sum()])

    def coverage(self, kernels: Mask, keep: Mask) -> float:
        """Return the share of the predicted time that is spent in kernels, or in MPI.

        The time of a function that is not kept is that of the one it is called from.
        """
        counts = (kernels & keep) | ~self.filterable
        recorded = keep | ~self.filterable
        inside = np.zeros(len(self.tree), dtype=bool)
        region, parent = self.tree.region, self.tree.parent
        for i in range(len(self.tree)):  # callers stand before their callees
            inside[i] = counts[region[i]] if recorded[region[i]] else bool(parent[i] >= 0 and inside[parent[i]])
        return float(np.nansum(self.path_share[inside]))


@dataclass(frozen=True, eq=False)
class ModelledProgram:
    """Models of an iteration, and what was measured next to them.

    Attributes
    ----------
    tree
        The call paths, in the models' order.
    time
        Models of the exclusive time of each call path, in seconds, mean over ranks.
    visits
        Models of the visits, mean over ranks; None if unknown.
    visit_cost_s
        What one visit costs in hooks.
    work
        Models of other metrics, of call paths by their names, which may be others than those of `tree`.
    imbalance
        Shape (call path,): by how much the slowest rank's time exceeds the mean, in seconds, at the largest point.
    extremes_s
        Shape (call path, 2): measured times at the points with the least and the most time.
    threads
        Shape (call path, point): how many threads of a rank share its visits, at the models' points; None for one.
    points
        Shape (point, parameter): where the overhead counts in addition to the target; the models' points if None.
    plain_s
        Shape (point,): CPU time of a thread there without instrumentation; NaN where unknown, as everywhere if None.
    """

    tree: CallTree
    time: ModelSet
    visits: ModelSet | None = None
    visit_cost_s: float = VISIT_COST_S
    work: Sequence[ModelSet] = ()
    imbalance: Floats | None = None
    extremes_s: Floats | None = None
    threads: Floats | None = None
    points: ArrayLike | None = None
    plain_s: ArrayLike | None = None


def predict_regions(program: ModelledProgram, target: ArrayLike) -> RegionPrediction:
    """Evaluate the models of an iteration.

    Parameters
    ----------
    target
        Shape (parameter,): in the order of the models' parameters.

    Raises
    ------
    UsageError
        Models and tree do not belong together, or the target does not fit the parameters.
    """
    tree, time, visits, threads = program.tree, program.time, program.visits, program.threads
    at = np.asarray(target, dtype=np.float64)
    if at.shape != (len(time.parameters),) or not np.isfinite(at).all():
        raise UsageError(
            "the target point does not fit the models",
            why=f"{at.tolist()} for the parameters {', '.join(time.parameters)}",
        )
    for models in (time, *(() if visits is None else (visits,))):
        if models.call_paths != tree.names:
            raise UsageError(
                f"the models of {models.metric} do not belong to the call tree",
                why=f"{len(models.call_paths)} models in another order or number than the {len(tree)} call paths",
            )
    modelled = np.array(time.points, dtype=np.float64).reshape(-1, len(at))
    origin = modelled.min(axis=0) if len(modelled) else at
    points = modelled if program.points is None else np.asarray(program.points, dtype=np.float64).reshape(-1, len(at))
    whole = np.concatenate([at[None], origin[None], points])
    seconds = time.predict(whole)
    seconds[is_startup_or_shutdown(tree.names)] = 0.0
    # What counts do not allow is noise, extrapolated: it would leave no share to the functions that matter.
    allowed_s = ALLOWANCE * allowed_times(time, {models.metric: models for models in program.work}, at)
    seconds[:, 0] = np.minimum(seconds[:, 0], allowed_s)
    number = np.full((len(tree), 1 + len(points)), np.nan)
    if visits is not None:
        number = visits.predict(np.concatenate([at[None], points]))
    if threads is not None and threads.shape == (len(tree), len(modelled)):
        most = threads.max(axis=1, initial=1.0, keepdims=True)
        there = threads if program.points is None else np.repeat(most, len(points), axis=1)
        number /= np.concatenate([most, there], axis=1)
    return RegionPrediction(
        tree,
        seconds[:, 0],
        seconds[:, 1],
        points,
        number,
        seconds[:, 2:],
        program.visit_cost_s,
        np.full(len(points), np.nan) if program.plain_s is None else np.asarray(program.plain_s, dtype=np.float64),
        tuple((models.metric, _growing_share(tree, models, at, origin)) for models in program.work),
    )


def _growing_share(tree: CallTree, models: ModelSet, at: Floats, origin: Floats) -> Floats:
    """Return shape (region,): by names, since counts are mostly taken with more functions than times."""
    values = np.nan_to_num(models.predict(np.stack([at, origin])))
    by_name: dict[str, Floats] = {}
    for path, row in zip(models.call_paths, values, strict=True):
        name = path.rsplit(SEPARATOR, 1)[-1]
        by_name[name] = by_name.get(name, np.zeros(2)) + row
    total = float(values[:, 0].sum()) or 1.0
    of_region = np.array([by_name.get(region.name, np.zeros(2)) for region in tree.regions]).reshape(-1, 2)
    share: Floats = np.where(of_region[:, 0] > (1 + SCATTER) * of_region[:, 1], of_region[:, 0] / total, 0.0)
    return share
