"""Whole-program call graphs on arrays: condensed once, asked often.

Functions are numbered; same-named functions of different files are different functions. An edge stands once, whatever
the number of call sites. Nothing here recurses, so neither deep recursion nor long cycles of the program matter.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from buran.errors import UsageError

if TYPE_CHECKING:  # it takes a quarter of a second, and most steps need no call graph
    from scipy.sparse import csr_array

Ids = NDArray[np.int64]
Mask = NDArray[np.bool_]

FEATURES = ("statements", "instructions", "branches", "loops", "loop_depth")
"""What is known of a function's own body; -1 where it is not."""
MAINS = ("main", "MAIN__", "_Z4main", "_ZSt4mainiPPc")

CALL, POINTER, OVERRIDE, MEASURED = 1, 2, 4, 8
"""Why an edge is there, as bits: a call by name, a call through a pointer that may go there, a virtual function that
replaces the called one, a call that happened in a run."""

_CHUNK = 1 << 15  # components whose reachability is worked out at once: 4 KiB a component


@dataclass(frozen=True, eq=False)
class CallGraph:
    """Functions and who calls whom.

    Attributes
    ----------
    ids
        Unique: the symbol, with ``@`` and the file behind it where that is not unique.
    symbols, names, files
        The linker's symbols, the names as shown, and where functions are defined (empty if unknown).
    has_body, inline, system
        Shape (function,): whether the definition is known, is declared inline, comes from a system header.
    features
        By name (`FEATURES`), shape (function,), -1 where unknown.
    caller, callee
        Shape (edge,): numbers of functions; no pair twice.
    kind
        Shape (edge,): bits of `CALL`, `POINTER`, `OVERRIDE`, `MEASURED`.
    entry
        Number of the function the program begins with, if a file said so.
    """

    ids: tuple[str, ...]
    symbols: tuple[str, ...]
    names: tuple[str, ...]
    files: tuple[str, ...]
    has_body: Mask
    inline: Mask
    system: Mask
    features: Mapping[str, Ids]
    caller: Ids
    callee: Ids
    kind: NDArray[np.int8]
    entry: int | None = None

    def __len__(self) -> int:
        return len(self.ids)

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
                    why="in " + ", ".join(sorted(self.files[i] or "an unknown file" for i in numbers)[:4]),
                    hint="make the call graph of one program, not of all programs of a source tree",
                )
        raise UsageError(
            "the call graph has no main function",
            why=f"none of its {len(self)} functions is named {' or '.join(MAINS[:2])}",
            hint="make it of the whole program; a library alone has no beginning",
        )

    @cached_property
    def number(self) -> Mapping[str, int]:
        """Function numbers by id."""
        return {name: i for i, name in enumerate(self.ids)}

    @cached_property
    def by_symbol(self) -> Mapping[str, list[int]]:
        """Function numbers by linker symbol."""
        return _numbers_by(self.symbols)

    def find(self, symbol: str, name: str = "", file: str = "") -> int | None:
        """Return the function of a measured region: by symbol, then by name; files decide between namesakes."""
        numbers = self.by_symbol.get(symbol) or self._by_name.get(name or symbol, [])
        if len(numbers) > 1 and file:
            numbers = [i for i in numbers if self.files[i] and _same_file(self.files[i], file)] or numbers
        return numbers[0] if numbers else None

    @cached_property
    def _by_name(self) -> Mapping[str, list[int]]:
        return _numbers_by(self.names)

    def _matrix(self, reverse: bool = False) -> csr_array:
        from scipy.sparse import csr_array

        pair = (self.callee, self.caller) if reverse else (self.caller, self.callee)
        return csr_array((np.ones(len(self.kind), dtype=np.int8), pair), shape=(len(self), len(self)))

    def marked(self, numbers: Iterable[int]) -> Mask:
        """Return shape (function,): True for these numbers; -1 stands for none."""
        out = np.zeros(len(self), dtype=bool)
        out[[number for number in numbers if number >= 0]] = True
        return out

    def reached(self, start: Iterable[int], *, reverse: bool = False) -> Mask:
        """Return shape (function,): what is called from some functions, directly or not, and these themselves.

        Parameters
        ----------
        reverse
            Who calls them instead.
        """
        from scipy.sparse import csr_array, vstack
        from scipy.sparse.csgraph import breadth_first_order

        out = np.zeros(len(self), dtype=bool)
        begin = np.array(sorted(set(start)), dtype=np.int64)
        if not len(begin):
            return out
        matrix = self._matrix(reverse)
        if len(begin) > 1:  # one more function that calls them all
            first = csr_array((np.ones(len(begin), dtype=np.int8), begin, [0, len(begin)]), shape=(1, len(self) + 1))
            matrix.resize((len(self), len(self) + 1))
            matrix, begin = csr_array(vstack([matrix, first])), np.array([len(self)])
        order = breadth_first_order(matrix, int(begin[0]), return_predecessors=False)
        out[order[order < len(self)]] = True
        return out

    def on_paths(self, start: Iterable[int], end: Iterable[int]) -> Mask:
        """Return shape (function,): everything on a path from one of `start` to one of `end`."""
        return self.reached(start) & self.reached(end, reverse=True)

    def callees(self, functions: Mask) -> Mask:
        """Return shape (function,): what some functions call directly."""
        out = np.zeros(len(self), dtype=bool)
        out[self.callee[functions[self.caller]]] = True
        return out

    @cached_property
    def components(self) -> tuple[Ids, Ids, Ids]:
        """Strongly connected components, callees before callers.

        Returns
        -------
        component
            Shape (function,): numbers such that every edge between components goes to a smaller number.
        caller, callee
            Edges between different components, none twice, sorted by caller.
        """
        from scipy.sparse.csgraph import connected_components

        count, label = connected_components(self._matrix(), connection="strong")
        pairs = np.unique(np.stack([label[self.caller], label[self.callee]], axis=1), axis=0)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int64)
        rank = _callees_first(count, pairs)
        pairs = rank[pairs]
        order = np.argsort(pairs[:, 0], kind="stable")
        return rank[label], pairs[order, 0], pairs[order, 1]

    @cached_property
    def inclusive(self) -> Mapping[str, Ids]:
        """Features added up over everything a function can reach, each function once; unknown ones count as 0.

        Worked out in one pass over the condensed graph. For ``loop_depth`` the sum says little; see `aggregate`.
        """
        weights = np.stack([np.maximum(self.features[name], 0) for name in FEATURES], axis=1)
        sums = self.aggregate(weights)
        return {name: sums[:, i] for i, name in enumerate(FEATURES)}

    def aggregate(self, weights: Ids) -> Ids:
        """Return shape (function, kind): weights (function, kind) added over everything reachable, each once."""
        component, caller, callee = self.components
        count = int(component.max(initial=-1)) + 1
        of_component = np.zeros((count, weights.shape[1]), dtype=np.int64)
        np.add.at(of_component, component, weights)
        total = np.zeros_like(of_component)
        cuts = np.searchsorted(caller, np.arange(count + 1)).tolist()
        callees = callee.tolist()
        uses = np.bincount(callee, minlength=count).tolist()
        heavy = np.flatnonzero(of_component.any(axis=1))  # only these can add anything
        for first in range(0, len(heavy), _CHUNK):
            chosen = heavy[first : first + _CHUNK]
            total += _sums_over(count, cuts, callees, list(uses), chosen, of_component[chosen])
        out: Ids = total[component]
        return out


def _numbers_by(texts: Sequence[str]) -> dict[str, list[int]]:
    out: dict[str, list[int]] = {}
    for number, text in enumerate(texts):
        out.setdefault(text, []).append(number)
    return out


def _same_file(one: str, other: str) -> bool:
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")


def _callees_first(count: int, pairs: Ids) -> Ids:
    """Return shape (component,): ranks such that callees have the smaller ones; a graph without cycles."""
    waiting = np.bincount(pairs[:, 0], minlength=count).tolist()
    order = np.argsort(pairs[:, 1], kind="stable")
    callers = pairs[order, 0].tolist()
    cuts = np.searchsorted(pairs[order, 1], np.arange(count + 1)).tolist()
    ready = [i for i in range(count) if not waiting[i]]
    rank = np.zeros(count, dtype=np.int64)
    for index in range(count):
        component = ready[index]
        rank[component] = index
        for caller in callers[cuts[component] : cuts[component + 1]]:
            waiting[caller] -= 1
            if not waiting[caller]:
                ready.append(caller)
    return rank


def _sums_over(count: int, cuts: list[int], callees: list[int], uses: list[int], chosen: Ids, weights: Ids) -> Ids:
    """Return shape (component, kind): weights of those of `chosen` that each component reaches.

    Sets are whole numbers, one bit for each of `chosen`. What a component reaches beyond its largest callee is
    mostly little, so only that is added up. Sets that no caller will ask for any more are dropped.
    """
    total = np.zeros((count, weights.shape[1]), dtype=np.int64)
    sets: list[int] = [0] * count
    bit = {int(component): i for i, component in enumerate(chosen.tolist())}
    sizes = [0] * count
    for component in range(count):
        below = callees[cuts[component] : cuts[component + 1]]
        base, size = -1, 0
        whole = 0
        for callee in below:
            reach = sets[callee]
            if reach:
                whole |= reach
                if sizes[callee] > size:
                    base, size = callee, sizes[callee]
        number = bit.get(component)
        if number is not None:
            whole |= 1 << number
        if base >= 0:
            total[component] = total[base]
            extra = whole ^ sets[base]
        else:
            extra = whole
        if extra:
            if extra & (extra - 1):
                total[component] += weights[_bits(extra)].sum(axis=0)
            else:
                total[component] += weights[extra.bit_length() - 1]
        for callee in below:
            uses[callee] -= 1
            if not uses[callee]:
                sets[callee] = 0
        if uses[component]:
            sets[component], sizes[component] = whole, whole.bit_count()
    return total


def _bits(value: int) -> Ids:
    """Return the numbers of the bits that are set, ascending."""
    words = np.frombuffer(value.to_bytes((value.bit_length() + 63) // 64 * 8, "little"), dtype=np.uint64)
    used = np.flatnonzero(words)
    within = np.unpackbits(words[used].view(np.uint8).reshape(-1, 8), axis=1, bitorder="little")
    word, bit = np.nonzero(within)
    return used[word] * 64 + bit


def make_graph(
    ids: Sequence[str],
    edges: Iterable[tuple[int, int, int]],
    *,
    symbols: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    files: Sequence[str] | None = None,
    has_body: Sequence[bool] | None = None,
    inline: Sequence[bool] | None = None,
    system: Sequence[bool] | None = None,
    features: Mapping[str, Sequence[int]] | None = None,
    entry: int | None = None,
) -> CallGraph:
    """Build a graph of lists; edges (caller, callee, kind) that are there several times become one.

    Raises
    ------
    ValueError
        Ids are not unique.
    """
    if len(set(ids)) != len(ids):
        raise ValueError("ids of functions must be unique")
    n = len(ids)
    caller, callee, kind = _distinct(edges)

    def flags(values: Sequence[bool] | None, otherwise: bool) -> Mask:
        return np.full(n, otherwise) if values is None else np.array(values, dtype=bool)

    sizes = features or {}
    linker_symbols = tuple(ids if symbols is None else symbols)
    return CallGraph(
        ids=tuple(ids),
        symbols=linker_symbols,
        names=linker_symbols if names is None else tuple(names),
        files=("",) * n if files is None else tuple(files),
        has_body=flags(has_body, True),
        inline=flags(inline, False),
        system=flags(system, False),
        features={
            name: np.array(sizes[name], dtype=np.int64) if name in sizes else np.full(n, -1, dtype=np.int64)
            for name in FEATURES
        },
        caller=caller,
        callee=callee,
        kind=kind,
        entry=entry,
    )


def with_edges(graph: CallGraph, edges: Iterable[tuple[int, int, int]]) -> CallGraph:
    """Return a graph with more edges (caller, callee, kind)."""
    old = np.stack([graph.caller, graph.callee, graph.kind.astype(np.int64)], axis=1)
    caller, callee, kind = _distinct(edges, old)
    return replace(graph, caller=caller, callee=callee, kind=kind)


def _distinct(edges: Iterable[tuple[int, int, int]], old: Ids | None = None) -> tuple[Ids, Ids, NDArray[np.int8]]:
    """Return edges as arrays (caller, callee, kind), each pair once with the kinds of all its edges."""
    table = np.array(list(edges), dtype=np.int64).reshape(-1, 3)
    if old is not None:
        table = np.concatenate([old, table])
    pairs, where = np.unique(table[:, :2], axis=0, return_inverse=True)
    kind = np.zeros(len(pairs), dtype=np.int64)
    np.bitwise_or.at(kind, where.reshape(-1), table[:, 2])
    return pairs[:, 0], pairs[:, 1], kind.astype(np.int8)
