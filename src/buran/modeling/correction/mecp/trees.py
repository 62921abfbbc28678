"""A population of expression trees as arrays; trees that share a part share its values too.

A node knows its operator, its children and its values at all points. Nodes never change: an operator that
replaces a part of a tree makes new nodes for the path from there to the root alone, so that a generation costs the
depth of the trees and not their size, and all trees at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from buran.modeling.correction.formula import Array
from buran.modeling.correction.mecp.expression import BASE, BINARY, FUNCTIONS

Ids = NDArray[np.int64]

_CONSTANT, _VARIABLE, _BASE = -1, -2, -3  # operators of leaves
_OPERATORS = np.arange(len(FUNCTIONS) + 1)
_APPLY: tuple[Callable[..., Array], ...] = (np.add, np.subtract, np.multiply, np.divide, np.power, np.log, np.exp)


@dataclass
class Forest:
    """Nodes of all trees of a search.

    Attributes
    ----------
    points
        Shape (point, variable).
    has_base
        Whether the base model is a terminal.
    constant
        Random constants R are between this and its negative.
    """

    points: Array
    has_base: bool
    constant: float
    capacity: int = 1 << 16
    count: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.op, self.left, self.right, self.size = (np.empty(self.capacity, dtype=np.int64) for _ in range(4))
        self.based = np.empty(self.capacity, dtype=bool)
        self.values = np.empty((self.capacity, len(self.points)))
        self.variables = self._new(self.points.shape[1])
        self.op[self.variables] = _VARIABLE
        self.left[self.variables] = np.arange(self.points.shape[1])
        self.values[self.variables] = self.points.T

    def _new(self, number: int) -> Ids:
        """Return ids of new leaves."""
        while self.count + number > self.capacity:
            self._enlarge()
        ids = np.arange(self.count, self.count + number)
        self.size[ids] = 1
        self.based[ids] = False
        self.left[ids] = self.right[ids] = ids
        self.count += number
        return ids

    def _enlarge(self) -> None:
        self.capacity *= 2
        for name in ("op", "left", "right", "size", "based", "values"):
            old = getattr(self, name)
            new = np.empty((self.capacity, *old.shape[1:]), dtype=old.dtype)
            new[: len(old)] = old
            setattr(self, name, new)

    def constants(self, numbers: Array) -> Ids:
        """Make leaves of numbers."""
        ids = self._new(len(numbers))
        self.op[ids] = _CONSTANT
        self.values[ids] = numbers[:, None]
        return ids

    def bases(self, values: Array) -> Ids:
        """Make leaves of the base model's values, shape (leaf, point)."""
        ids = self._new(len(values))
        self.op[ids] = _BASE
        self.based[ids] = True
        self.values[ids] = values
        return ids

    def nodes(self, op: Ids, left: Ids, right: Ids) -> Ids:
        """Make inner nodes; unary ones have their child on the left and as a stand-in on the right."""
        own = self._new(len(op))
        if not len(own):
            return own
        order = np.argsort(op.astype(np.int8), kind="stable")  # by radix
        op, left, right = op[order], left[order], right[order]
        first, last = int(own[0]), int(own[-1]) + 1
        self.op[first:last], self.left[first:last], self.right[first:last] = op, left, right
        binary = op < len(BINARY)
        self.size[first:last] = 1 + self.size.take(left) + np.where(binary, self.size.take(right), 0)
        self.based[first:last] = self.based.take(left) | (self.based.take(right) & binary)
        bounds = np.searchsorted(op, _OPERATORS).tolist()
        values = self.values
        with np.errstate(all="ignore"):
            for function, apply in enumerate(_APPLY):
                start, end = bounds[function], bounds[function + 1]
                if start == end:
                    continue
                out = values[first + start : first + end]
                one = values.take(left[start:end], axis=0)
                if function < len(BINARY):
                    apply(one, values.take(right[start:end], axis=0), out=out)
                else:
                    apply(one, out=out)
        ids = np.empty_like(own)
        ids[order] = own
        return ids

    def random(
        self, number: int, depths: Ids, full: NDArray[np.bool_], bases: Ids, limit: int, random: np.random.Generator
    ) -> Ids:
        """Make random trees of at most `limit` nodes.

        Parameters
        ----------
        number
            Of trees.
        depths
            The greatest depth of each; trees that come out too large are tried again with less.
        full
            Which of them have all leaves there.
        bases
            Each tree's leaf of the base model; not used if that is no terminal.
        limit
            Nodes of a tree.
        random
            Source of all choices.
        """
        out = np.zeros(number, dtype=np.int64)
        left = np.arange(number)
        depths = depths.copy()
        while len(left):
            levels = self._draw(depths[left], full[left], random)
            sizes = np.zeros(len(left), dtype=np.int64)
            for level in levels:
                sizes += np.bincount(level[0], minlength=len(left))
            fits = sizes <= limit
            kept = [tuple(part[fits[level[0]]] for part in level) for level in levels]
            roots = self._build(kept, bases[left], random)
            out[left[fits]] = roots
            left = left[~fits]
            depths[left] = np.maximum(depths[left] - 1, 1)
        return out

    def _draw(self, depths: Ids, full: NDArray[np.bool_], random: np.random.Generator) -> list[tuple[Ids, Ids]]:
        """Draw shapes level by level: owner and operator of each node, -1 for leaves; children follow in order."""
        share = len(FUNCTIONS) / (len(FUNCTIONS) + 1 + self.points.shape[1] + self.has_base)
        owner, levels, depth = np.arange(len(depths)), [], 0
        while len(owner):
            inner = (depth < depths[owner]) & (full[owner] | (random.random(len(owner)) < share))
            op = np.where(inner, random.integers(len(FUNCTIONS), size=len(owner)), -1)
            levels.append((owner, op))
            owner = np.repeat(owner[inner], np.where(op[inner] < len(BINARY), 2, 1))
            depth += 1
        return levels

    def _build(self, levels: Sequence[tuple[Ids, ...]], bases: Ids, random: np.random.Generator) -> Ids:
        """Make the nodes of drawn shapes, from the leaves up."""
        below = np.zeros(0, dtype=np.int64)
        for owner, op in reversed(levels):
            ids = np.zeros(len(op), dtype=np.int64)
            leaf = op < 0
            ids[leaf] = self.leaves(bases[owner[leaf]], random)
            inner = np.flatnonzero(~leaf)
            if len(inner):
                children = np.where(op[inner] < len(BINARY), 2, 1)
                first = np.cumsum(children) - children
                ids[inner] = self.nodes(op[inner], below[first], below[first + children - 1])
            below = ids
        return below

    def leaves(self, bases: Ids, random: np.random.Generator) -> Ids:
        """Draw terminals: a number R, a variable, or the base model's own leaf, with equal chances."""
        variables = self.points.shape[1]
        kind = random.integers(1 + variables + self.has_base, size=len(bases))
        numbers = random.uniform(-self.constant, self.constant, len(bases))
        ids = np.where(kind > variables, bases, 0)
        for i in range(variables):
            ids[kind == i + 1] = self.variables[i]
        number = kind == 0
        ids[number] = self.constants(numbers[number])
        return ids

    def paths(self, roots: Ids, random: np.random.Generator) -> list[tuple[Ids, Ids, NDArray[np.bool_]]]:
        """Choose a node of each tree, all with equal chance; return the way there.

        Returns
        -------
        list
            For each step down: which trees take it, from which node, and whether to the right. The nodes that were
            chosen come as the last entry.
        """
        at = np.array(roots)
        rest = random.integers(self.size[at])
        rows, out = np.arange(len(at)), []
        while True:
            index = rest.take(rows)
            going = np.flatnonzero(index)
            if not len(going):
                break
            rows, index = rows.take(going), index.take(going) - 1
            node = at.take(rows)
            left = self.left.take(node)
            size = self.size.take(left)
            to_right = index >= size
            out.append((rows, node, to_right))
            at[rows] = np.where(to_right, self.right.take(node), left)
            rest[rows] = np.where(to_right, index - size, index)
        out.append((np.arange(len(at)), at, np.zeros(len(at), dtype=bool)))
        return out

    def replace(self, paths: list[tuple[Ids, Ids, NDArray[np.bool_]]], by: Ids, wanted: NDArray[np.bool_]) -> Ids:
        """Return roots of trees with the chosen nodes replaced, where wanted; other entries are undefined."""
        now = np.array(by)
        for rows, node, to_right in reversed(paths[:-1]):
            own = wanted[rows]
            rows, node, to_right = rows[own], node[own], to_right[own]
            if not len(rows):
                continue
            op = self.op[node]
            left = np.where(to_right, self.left[node], now[rows])
            right = np.where(to_right, now[rows], self.right[node])
            now[rows] = self.nodes(op, left, np.where(op < len(BINARY), right, left))
        return now

    def rebase(self, roots: Ids, bases: Ids) -> Ids:
        """Return the trees with each leaf of the base model exchanged for another, one for each tree."""
        out = np.array(roots)
        rows = np.flatnonzero(self.based[roots])
        if not len(rows):
            return out
        node, owner = roots[rows], rows
        levels: list[tuple[Ids, Ids, Ids, NDArray[np.bool_]]] = []  # node, owner, parent in the level above, side
        parent, side = np.zeros(len(rows), dtype=np.int64), np.zeros(len(rows), dtype=bool)
        while len(node):
            levels.append((node, owner, parent, side))
            op, left, right = self.op.take(node), self.left.take(node), self.right.take(node)
            inner = op >= 0
            to_left = np.flatnonzero(inner & self.based.take(left))
            to_right = np.flatnonzero(inner & (op < len(BINARY)) & self.based.take(right))
            parent = np.concatenate([to_left, to_right])
            side = np.arange(len(parent)) >= len(to_left)
            node = np.concatenate([left.take(to_left), right.take(to_right)])
            owner = owner.take(parent)
        below: tuple[Ids, Ids, NDArray[np.bool_]] | None = None
        new = np.zeros(0, dtype=np.int64)
        for node, owner, up, on_right in reversed(levels):
            left, right = self.left.take(node), self.right.take(node)
            if below is not None:
                ids, parent, side = below
                left[parent[~side]] = ids[~side]
                right[parent[side]] = ids[side]
            op = self.op.take(node)
            changed = np.flatnonzero(op >= 0)
            new = bases.take(owner)
            right = np.where(op < len(BINARY), right, left)
            new[changed] = self.nodes(op.take(changed), left.take(changed), right.take(changed))
            below = (new, up, on_right)
        out[rows] = new
        return out

    @property
    def is_full(self) -> bool:
        """Whether it is time to forget unused nodes."""
        return self.count > 0.75 * self.capacity

    def compact(self, roots: Ids, more: Ids) -> tuple[Ids, Ids]:
        """Forget all nodes that no tree uses; return the new ids of roots, and of leaves kept besides."""
        used = np.zeros(self.count, dtype=bool)
        used[self.variables] = used[more] = True
        index = np.empty(self.count, dtype=np.int64)
        frontier = roots
        while len(frontier):
            numbers = np.arange(len(frontier))
            index[frontier] = numbers
            frontier = frontier[index[frontier] == numbers]  # once each
            used[frontier] = True
            inner = frontier[self.op[frontier] >= 0]
            children = np.concatenate([self.left[inner], self.right[inner]])
            frontier = children[~used[children]]
        kept = np.flatnonzero(used)
        index = np.cumsum(used) - 1
        inside = self.op[kept] >= 0
        for name in ("op", "size", "based", "values"):
            array = getattr(self, name)
            array[: len(kept)] = array[kept]
        for name in ("left", "right"):
            array = getattr(self, name)
            array[: len(kept)] = np.where(inside, index[np.where(inside, array[kept], 0)], array[kept])
        self.count = len(kept)
        if self.count > 0.4 * self.capacity:
            self._enlarge()
        return index[roots], index[more]

    def program(self, root: int, variables: Sequence[str]) -> tuple[str | float, ...]:
        """Return a tree in prefix order: names of functions and terminals, and numbers."""
        out: list[str | float] = []
        stack = [root]
        while stack:
            node = stack.pop()
            op = int(self.op[node])
            if op >= 0:
                out.append(FUNCTIONS[op])
                if op < len(BINARY):
                    stack.append(int(self.right[node]))
                stack.append(int(self.left[node]))
            elif op == _VARIABLE:
                out.append(variables[int(self.left[node])])
            else:
                out.append(BASE if op == _BASE else float(self.values[node, 0]))
        return tuple(out)
