"""Unions of call trees, and folding call paths together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from buran.profiles.metrics import Combine, Metric
from buran.profiles.profile import CallTree, Profile, Region

Keep = Callable[[Region], bool] | NDArray[np.bool_]


@dataclass
class TreeUnion:
    """A call tree that grows to contain every tree that is added to it.

    Call paths are the same if all their regions are: of the same symbol, as `buran.profiles.symbols` reads it, or of
    the same name where one has no symbol, and both MPI operations or both not. The cost is linear in the call paths
    added.

    Attributes
    ----------
    by_name
        Tell regions apart by their names alone, as Extra-P does: the two constructors that a compiler makes
        of one are the same.
    """

    by_name: bool = False
    _regions: list[Region] = field(default_factory=list)
    _by_symbol: dict[tuple[str, bool], int] = field(default_factory=dict)
    _symbols: list[str] = field(default_factory=list)
    _by_name: dict[tuple[str, bool], int] = field(default_factory=dict)
    _nodes: dict[tuple[int, int], int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._nodes)

    def _region(self, region: Region, symbol: str) -> int:
        mpi = region.paradigm == "mpi" and not self.by_name
        number = self.region_number(region, symbol)
        if number is None:
            number = len(self._regions)
            self._regions.append(region)
            self._symbols.append(symbol)
        elif symbol and not self._symbols[number]:
            self._regions[number], self._symbols[number] = region, symbol
        self._by_name.setdefault((region.name, mpi), number)
        if symbol:
            self._by_symbol.setdefault((symbol, mpi), number)
        return number

    def region_number(self, region: Region, symbol: str) -> int | None:
        """Return the number of a region in the union; None if it is not there.

        Parameters
        ----------
        symbol
            Its entry in `CallTree.identities`.
        """
        mpi = region.paradigm == "mpi" and not self.by_name
        named = self._by_name.get((region.name, mpi))
        if not symbol or self.by_name:
            return named
        number = self._by_symbol.get((symbol, mpi))
        if number is None and named is not None and not self._symbols[named]:
            return named
        return number

    def add(self, tree: CallTree) -> NDArray[np.int64]:
        """Add a tree; return shape (call path,): the number of each of its call paths in the union.

        Numbers stay the same when more trees are added, but are in no order; see `arrange`.
        """
        used = set(tree.region.tolist())
        regions = {
            i: self._region(region, symbol)
            for i, (region, symbol) in enumerate(zip(tree.regions, tree.identities, strict=True))
            if i in used
        }
        numbers: list[int] = []
        for region, parent in zip(tree.region.tolist(), tree.parent.tolist(), strict=True):
            key = (-1 if parent < 0 else numbers[parent], regions[region])
            numbers.append(self._nodes.setdefault(key, len(self._nodes)))
        return np.array(numbers, dtype=np.int64)

    def node(self, parent: int, region: int | None) -> int | None:
        """Return the number of the call path of a region below a call path, -1 for none; None if it is not there."""
        return None if region is None else self._nodes.get((parent, region))

    def arrange(self) -> tuple[CallTree, NDArray[np.int64]]:
        """Return the union as a tree in pre-order, and its index for each number of `add`."""
        keys = np.array(list(self._nodes), dtype=np.int64).reshape(-1, 2)
        tree = CallTree(tuple(self._regions), keys[:, 1], keys[:, 0])
        order = preorder(tree.parent)
        index = np.empty(len(order), dtype=np.int64)
        index[order] = np.arange(len(order))
        parent = tree.parent[order]
        parent = np.where(parent < 0, -1, index[parent])
        return CallTree(tree.regions, tree.region[order], parent), index


def children(parent: NDArray[np.int64]) -> list[list[int]]:
    """Return the children of each call path, in order; the roots are the last entry."""
    out: list[list[int]] = [[] for _ in range(len(parent) + 1)]
    for i, above in enumerate(parent.tolist()):
        out[above].append(i)  # -1 is the last entry
    return out


def preorder(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return shape (call path,): the call paths depth first, children in the order of their index."""
    below = children(parent)
    order: list[int] = []
    stack = below[-1][::-1]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(reversed(below[node]))
    return np.array(order, dtype=np.int64)


def combine(values: NDArray[np.generic], target: NDArray[np.int64], size: int, how: Combine) -> NDArray[np.generic]:
    """Bring rows together that have the same target.

    Parameters
    ----------
    values
        Shape (call path, ...).
    target
        Shape (call path,): row of the result.
    size
        Number of rows of the result; rows without a source are 0.
    how
        Sum, or extreme, where 0 stands for "not visited" and does not count.
    """
    out = np.zeros((size, *values.shape[1:]), dtype=values.dtype)
    if len(np.unique(target)) == len(target):
        out[target] = values
    elif how == "add":
        np.add.at(out, target, values)
    else:
        # 0 is a metric that a call path does not have
        neutral = np.inf if how == "min" else -np.inf
        extremes = np.full(out.shape, neutral)
        numbers = values.astype(np.float64)
        operation = np.minimum if how == "min" else np.maximum
        operation.at(extremes, target, np.where(numbers == 0, neutral, numbers))
        out = np.where(extremes == neutral, 0, extremes).astype(values.dtype)
    return out


@dataclass(frozen=True, eq=False)
class Folding:
    """Where call paths go when some regions are no longer measured.

    Attributes
    ----------
    tree
        The call paths that are left.
    target
        Shape (old call path,): the new call path that takes the values.
    stays
        Shape (old call path,): whether the call path itself is left.
    """

    tree: CallTree
    target: NDArray[np.int64]
    stays: NDArray[np.bool_]


def fold(tree: CallTree, keep: Keep) -> Folding:
    """Fold call paths of regions that are not kept into their nearest kept ancestor.

    Parameters
    ----------
    tree
        The call paths.
    keep
        Predicate over regions, or shape (region,). MPI operations and roots always stay.
    """
    stays_measured = (
        np.array([keep(region) for region in tree.regions], dtype=bool) if callable(keep) else np.array(keep)
    )
    if stays_measured.shape != (len(tree.regions),) or stays_measured.dtype != bool:
        raise ValueError(f"keep has shape {stays_measured.shape} for {len(tree.regions)} regions, or is not boolean")
    stays_measured |= np.array([region.paradigm == "mpi" for region in tree.regions], dtype=bool)
    stays = stays_measured[tree.region] | (tree.parent < 0)
    ancestor = np.where(stays, np.arange(len(tree)), tree.parent)
    while not np.array_equal(ancestor, further := ancestor[ancestor]):
        ancestor = further
    index = np.cumsum(stays) - 1
    above = tree.parent[stays]
    above = np.where(above < 0, -1, index[ancestor[above]])
    union = TreeUnion()
    numbers = union.add(CallTree(tree.regions, tree.region[stays], above))
    folded, position = union.arrange()
    return Folding(folded, position[numbers][index[ancestor]], stays)


def project(profile: Profile, keep: Keep) -> Profile:
    """Return the profile as it would be if only some regions had been measured.

    Call paths of other regions are folded into their nearest kept ancestor, which takes over their exclusive
    values; visits and communicator sizes describe the region's own visits and go with it. MPI operations and
    roots always stay.

    Parameters
    ----------
    profile
        The profile of a broad filter.
    keep
        Predicate over regions, or shape (region,).
    """
    return folded(profile, fold(profile.tree, keep), lambda metric: metric.is_per_visit)


def folded(profile: Profile, folding: Folding, stays_behind: Callable[[Metric], bool]) -> Profile:
    """Return a profile on the call paths that are left.

    Parameters
    ----------
    stays_behind
        Tells whether values of call paths that are not left vanish with them.
    """
    values: dict[str, NDArray[np.generic]] = {}
    for name, metric in profile.metrics.items():
        # An inclusive value already contains what was below.
        alone = metric.kind == "inclusive" or stays_behind(metric)
        source = folding.stays if alone else np.ones(len(folding.stays), dtype=bool)
        rows = folding.target[source]
        values[name] = combine(profile.values[name][source], rows, len(folding.tree), metric.combination)
    return replace(profile, tree=folding.tree, values=values)


def on_one_tree(profiles: Iterable[Profile]) -> list[Profile]:
    """Return the profiles on the union of their call trees; a call path that a run did not visit is 0.

    Regions of the same name are one region even if their mangled names differ.
    """
    originals = list(profiles)
    union = TreeUnion(by_name=True)
    numbers = [union.add(profile.tree) for profile in originals]
    tree, index = union.arrange()
    return [
        replace(
            profile,
            tree=tree,
            values={
                name: combine(profile.values[name], index[rows], len(tree), metric.combination)
                for name, metric in profile.metrics.items()
            },
        )
        for profile, rows in zip(originals, numbers, strict=True)
    ]
