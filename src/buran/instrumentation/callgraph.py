"""Whole-program call graphs on arrays: condensed once, searched often.

Functions are numbered; same-named functions of different files are different functions. An edge stands once, whatever
the number of call sites. Nothing here recurses, so neither deep recursion nor long cycles of the program matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from graphlib import TopologicalSorter
from operator import or_
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError
from buran.profiles.profile import Region

if TYPE_CHECKING:  # it takes a quarter of a second, and most steps need no call graph
    from scipy.sparse import csr_array

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

FEATURES = ("statements", "instructions", "branches", "loops", "loop_depth")
"""What is known of a function's own body; -1 where it is not."""
MAINS = ("main", "MAIN__", "_Z4main", "_ZSt4mainiPPc")

_CHUNK = 1 << 15  # components whose reachability is worked out at once: 4 KiB a component


@dataclass(frozen=True)
class CalledFunction:
    """A function of a call graph.

    Attributes
    ----------
    symbol, name, file
        The linker's symbol, the name as shown, and where it is defined (empty if unknown).
    has_body, inline, system
        Whether the definition is known, is declared inline, comes from a system header.
    features
        By name (`FEATURES`), as far as they are known.
    """

    symbol: str
    name: str = ""
    file: str = ""
    has_body: bool = True
    inline: bool = False
    system: bool = False
    features: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class CallGraph:
    """Functions and who calls whom.

    Attributes
    ----------
    functions
        By number.
    caller, callee
        Shape (edge,): numbers of functions; no pair twice.
    entry
        Number of the function the program begins with, if a file said so.
    """

    functions: tuple[CalledFunction, ...]
    caller: Ids
    callee: Ids
    entry: int | None = None

    @classmethod
    def of(
        cls, functions: Iterable[CalledFunction], edges: Iterable[tuple[int, int]], entry: int | None = None
    ) -> CallGraph:
        """Return a graph; edges (caller, callee) that are there several times become one."""
        pairs = np.unique(np.array(list(edges), dtype=np.int64).reshape(-1, 2), axis=0)
        return cls(tuple(functions), pairs[:, 0], pairs[:, 1], entry)

    def extended(self, functions: Iterable[CalledFunction], edges: Iterable[tuple[int, int]]) -> CallGraph:
        """Return a graph with more functions, which get the next numbers, and more edges."""
        old = zip(self.caller.tolist(), self.callee.tolist(), strict=True)
        return CallGraph.of((*self.functions, *functions), (*old, *edges), self.entry)

    def __len__(self) -> int:
        return len(self.functions)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The linker's symbols."""
        return tuple(each.symbol for each in self.functions)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names as shown; the symbol where none is known."""
        return tuple(each.name or each.symbol for each in self.functions)

    @cached_property
    def has_body(self) -> Mask:
        """Shape (function,): whether the definition is known."""
        return self.which(lambda each: each.has_body)

    def which(self, holds: Callable[[CalledFunction], bool]) -> Mask:
        """Return shape (function,): for which functions something holds."""
        return np.array([holds(each) for each in self.functions], dtype=bool)

    @cached_property
    def features(self) -> Mapping[str, Ids]:
        """By name, shape (function,): -1 where unknown."""
        return {
            name: np.array([each.features.get(name, -1) for each in self.functions], dtype=np.int64)
            for name in FEATURES
        }

    @cached_property
    def main(self) -> int:
        """Number of the function the program begins with.

        Raises
        ------
        UsageError
            There is none, or more than one.
        """
        if self.entry is not None:
            return self.entry
        for name in MAINS:
            numbers = [i for i in self.by_symbol.get(name, ()) if self.has_body[i]] or self.by_symbol.get(name, [])
            if len(numbers) == 1:
                return numbers[0]
            if numbers:
                raise UsageError(
                    f"the call graph has {len(numbers)} functions {name!r}",
                    why="in " + ", ".join(sorted(self.functions[i].file or "an unknown file" for i in numbers)[:4]),
                    hint="make the call graph of one program, not of all programs of a source tree",
                )
        raise UsageError(
            "the call graph has no main function",
            why=f"none of its {len(self)} functions is named {' or '.join(MAINS[:2])}",
            hint="make it of the whole program; a library alone has no beginning",
        )

    @cached_property
    def by_symbol(self) -> Mapping[str, list[int]]:
        """Function numbers by linker symbol."""
        return _numbers_by(self.symbols)

    def find(self, symbol: str, name: str = "", file: str = "") -> int | None:
        """Return the function of a measured region: by symbol, then by name; files decide between namesakes."""
        numbers = self.by_symbol.get(symbol) or self._by_name.get(name or symbol, [])
        if len(numbers) > 1 and file:
            numbers = [i for i in numbers if _same_file(self.functions[i].file, file)] or numbers
        return numbers[0] if numbers else None

    def numbers(self, regions: Iterable[Region]) -> Ids:
        """Return shape (region,): the functions of measured regions, -1 where the graph does not know one."""
        found = (self.find(region.mangled or region.name, region.name, region.file) for region in regions)
        return np.array([-1 if at is None else at for at in found], dtype=np.int64)

    @cached_property
    def _by_name(self) -> Mapping[str, list[int]]:
        return _numbers_by(self.names)

    def marked(self, numbers: Ids) -> Mask:
        """Return shape (function,): True for these numbers; -1 stands for none."""
        out = np.zeros(len(self), dtype=bool)
        out[numbers[numbers >= 0]] = True
        return out

    def reached(self, start: Iterable[int], *, reverse: bool = False) -> Mask:
        """Return shape (function,): what is called from some functions, directly or not, and these themselves.

        Parameters
        ----------
        reverse
            Who calls them instead.
        """
        from scipy.sparse.csgraph import breadth_first_order

        caller, callee = (self.callee, self.caller) if reverse else (self.caller, self.callee)
        begin, first = np.unique(np.array(list(start), dtype=np.int64)), len(self)  # one more, which calls them all
        caller = np.concatenate([caller, np.full(len(begin), first)])
        matrix = _matrix(caller, np.concatenate([callee, begin]), first + 1)
        return self.marked(breadth_first_order(matrix, first, return_predecessors=False)[1:])

    def on_paths(self, start: Iterable[int], end: Iterable[int]) -> Mask:
        """Return shape (function,): everything on a path from one of `start` to one of `end`."""
        return self.reached(start) & self.reached(end, reverse=True)

    def leading_to(self, functions: Mask) -> Mask:
        """Return shape (function,): everything on a path from main to some functions."""
        return self.on_paths([self.main], np.flatnonzero(functions).tolist())

    def callees(self, functions: Mask) -> Mask:
        """Return shape (function,): what some functions call directly."""
        return self.marked(self.callee[functions[self.caller]])

    @cached_property
    def components(self) -> tuple[Ids, list[list[int]]]:
        """Strongly connected components, callees before callers.

        Returns
        -------
        component
            Shape (function,): numbers such that every edge between components goes to a smaller number.
        below
            The components that each calls, without itself.
        """
        from scipy.sparse.csgraph import connected_components

        count, label = connected_components(_matrix(self.caller, self.callee, len(self)), connection="strong")
        called: dict[int, set[int]] = {component: set() for component in range(count)}
        for caller, callee in zip(label[self.caller].tolist(), label[self.callee].tolist(), strict=True):
            if caller != callee:
                called[caller].add(callee)
        order = list(TopologicalSorter(called).static_order())
        rank = {component: number for number, component in enumerate(order)}
        below = [[rank[callee] for callee in called[component]] for component in order]
        return np.array([rank[each] for each in label.tolist()], dtype=np.int64), below

    @cached_property
    def inclusive(self) -> Mapping[str, Ids]:
        """Features added up over everything a function can reach, each function once; unknown ones count as 0.

        Worked out in one pass over the condensed graph.
        """
        component, below = self.components
        weights = np.zeros((len(below), len(FEATURES)), dtype=np.int64)
        np.add.at(weights, component, np.stack([np.maximum(self.features[name], 0) for name in FEATURES], axis=1))
        uses = Counter(callee for callees in below for callee in callees)
        heavy = np.flatnonzero(weights.any(axis=1))  # only these can add anything
        total = np.zeros_like(weights)
        for first in range(0, len(heavy), _CHUNK):
            chosen = heavy[first : first + _CHUNK]
            total += _sums_over(below, uses.copy(), chosen, weights[chosen])
        return dict(zip(FEATURES, total[component].T, strict=True))


def _matrix(caller: Ids, callee: Ids, size: int) -> csr_array:
    from scipy.sparse import csr_array

    return csr_array((np.ones(len(caller), dtype=np.int8), (caller, callee)), shape=(size, size))


def _numbers_by(texts: Sequence[str]) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        out.setdefault(text, []).append(number)
    return out


def _same_file(one: str, other: str) -> bool:
    return one != "" and (one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}"))


def _sums_over(below: Sequence[Sequence[int]], uses: Counter[int], chosen: Ids, weights: Ids) -> Ids:
    """Return shape (component, kind): weights of those of `chosen` that each component reaches.

    Sets are whole numbers, one bit for each of `chosen`. What a component reaches beyond its largest callee is
    mostly little, so only that is added up. Sets that no caller will need any more are dropped.

    Parameters
    ----------
    below, uses
        By component: those it calls, and how many call it.
    """
    count = len(below)
    total = np.zeros((count + 1, weights.shape[1]), dtype=np.int64)  # the last one stands for no callee
    sets, sizes = [0] * (count + 1), [0] * (count + 1)
    bit = {component: i for i, component in enumerate(chosen.tolist())}
    for component, callees in enumerate(below):
        own = 1 << bit[component] if component in bit else 0
        whole = reduce(or_, (sets[callee] for callee in callees), own)
        largest = max(callees, key=sizes.__getitem__, default=-1)
        extra = whole ^ sets[largest]
        total[component] = total[largest]
        if extra & (extra - 1):
            total[component] += weights[_bits(extra)].sum(axis=0)
        elif extra:
            total[component] += weights[extra.bit_length() - 1]
        for callee in callees:
            uses[callee] -= 1
            if not uses[callee]:
                sets[callee] = 0
        if uses[component]:
            sets[component], sizes[component] = whole, whole.bit_count()
    return total[:-1]


def _bits(value: int) -> Ids:
    """Return the numbers of the bits that are set, ascending."""
    words = np.frombuffer(value.to_bytes((value.bit_length() + 63) // 64 * 8, "little"), dtype=np.uint64)
    used = np.flatnonzero(words)
    within = np.unpackbits(words[used].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    word, bit = np.nonzero(within)
    return used[word] * 64 + bit
