"""Evolved programs, the four cases in which they correct a model (Eq. 1 to 4), and populations of them as arrays.

A program is an expression in prefix order; a population has one row of codes and one of numbers for each.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import sympy
from numpy.typing import NDArray
from pydantic import BeforeValidator

from buran.modeling.correction.base import BaseModel
from buran.modeling.correction.formula import Array, exact

Ids = NDArray[np.int64]
Error = Annotated[float, BeforeValidator(lambda error: math.inf if error is None else error)]
"""An error, infinite where JSON has none."""
Case = Literal[1, 2, 3, 4]
CASES: tuple[Case, ...] = (1, 2, 3, 4)

_ARITHMETIC: Mapping[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "^": operator.pow,
}  # fmt: skip
_OF_ARRAYS: Mapping[str, Callable[..., Any]] = {**_ARITHMETIC, "log": np.log, "exp": np.exp}
_OF_SYMBOLS: Mapping[str, Callable[..., Any]] = {**_ARITHMETIC, "log": sympy.log, "exp": sympy.exp}
BINARY, FUNCTIONS = tuple(_ARITHMETIC), tuple(_OF_ARRAYS)
UNARY = FUNCTIONS[len(BINARY) :]
BASE = "@base"
"""The terminal that stands for the base model's value; no variable can be called so."""


@dataclass(frozen=True)
class PrefixProgram:
    """An expression.

    Attributes
    ----------
    tokens
        Functions (see `FUNCTIONS`), names of variables, `BASE` and numbers, in prefix order.

    Raises
    ------
    ValueError
        The tokens are no whole expression.
    """

    tokens: tuple[str | float, ...]

    def __post_init__(self) -> None:
        # each terminal is one operand, a binary function needs one more, and the last token none
        missing = np.cumsum([1, *(0 if token in UNARY else 1 if token in BINARY else -1 for token in self.tokens)])
        if missing[-1] != 0 or not all(missing[:-1]):
            raise ValueError("a program ends too early, or goes on after its end")

    @property
    def terminals(self) -> set[str]:
        """Names in it."""
        return {token for token in self.tokens if isinstance(token, str) and token not in FUNCTIONS}

    def evaluate(self, values: Mapping[str, Array | float]) -> Array:
        """Return the value for arrays by name; what has no value is NaN or infinite, as operators are not protected."""
        with np.errstate(all="ignore"):
            value = self.fold(
                lambda token: np.float64(token) if isinstance(token, float) else values[token],
                lambda name, *operands: _OF_ARRAYS[name](*operands),
            )
        return np.asarray(value, dtype=np.float64)

    def fold(self, leaf: Callable[[str | float], Any], apply: Callable[..., Any]) -> Any:
        """Combine from the leaves up: `leaf` of a terminal, `apply` of a function's name and its operands."""
        stack: list[Any] = []
        for token in reversed(self.tokens):
            if token in UNARY:
                stack.append(apply(token, stack.pop()))
            elif token in BINARY:
                stack.append(apply(token, stack.pop(), stack.pop()))
            else:
                stack.append(leaf(token))
        return stack.pop()


@dataclass(frozen=True)
class Evolved:
    """The best individual.

    Attributes
    ----------
    case
        1 and 3 (Eq. 1, 3): the program's value, with the base model as a terminal; 2 and 4 (Eq. 2, 4): the base model
        plus it. In 1 and 2 the base model's parameters are fixed.
    program, theta
        The term and the base model's parameters.
    error
        The objective on the training points; infinite if no individual had a value at all of them.
    """

    case: Case
    program: PrefixProgram
    theta: tuple[float, ...]
    error: Error

    def evaluate(self, base: BaseModel, points: Array) -> Array:
        """Return values at points (point, variable); they may be negative or not finite."""
        base_values = base.evaluate(np.array(self.theta), points)
        values = {name: points[:, i] for i, name in enumerate(base.variables)}
        term = self.program.evaluate({**values, BASE: base_values})
        out = np.broadcast_to(term, base_values.shape)
        return np.asarray(out if self.case in (1, 3) else base_values + out)

    def expression(self, base: BaseModel) -> sympy.Expr:
        """Return it in sympy's terms, of the variables."""
        theta = {base.symbols[name]: exact(value) for name, value in zip(base.parameters, self.theta, strict=True)}
        plain = base.total.subs(theta)
        terminals = {BASE: plain} | {name: base.symbols[name] for name in base.variables}
        term = self.program.fold(
            lambda token: exact(token) if isinstance(token, float) else terminals[token],
            lambda name, *operands: _OF_SYMBOLS[name](*operands),
        )
        return term if self.case in (1, 3) else plain + term


# Codes: the numbers of `FUNCTIONS`, then a number R, the base model, and the variables; nothing behind a tree's end.
_NUMBER, _BASE, _VARIABLE, _NOTHING = len(FUNCTIONS), len(FUNCTIONS) + 1, len(FUNCTIONS) + 2, -1


@dataclass(frozen=True, eq=False)
class Population:
    """Trees; both arrays have shape (tree, node), the root first.

    Attributes
    ----------
    codes
        What each node is.
    numbers
        The number R of a node that is one.
    """

    codes: Ids
    numbers: Array

    @cached_property
    def after(self) -> Ids:
        """Shape (tree, node + 1): where the part of the tree that begins at a node ends, the first column behind it."""
        trees, width = self.codes.shape
        out, rows = np.full((trees, width + 1), width), np.arange(trees)
        for node in reversed(range(width)):
            code, one = self.codes[:, node], out[:, node + 1]
            is_leaf, is_binary = (code < 0) | (code >= len(FUNCTIONS)), code < len(BINARY)
            out[:, node] = np.where(is_leaf, node + 1, np.where(is_binary, out[rows, one], one))
        return out

    @property
    def sizes(self) -> Ids:
        """Number of nodes of each tree."""
        return np.asarray(self.after[:, 0])

    def take(self, rows: Ids) -> Population:
        """Return some of the trees."""
        return Population(self.codes[rows], self.numbers[rows])

    def join(self, other: Population) -> Population:
        """Return both populations as one."""
        codes, numbers = np.concatenate([self.codes, other.codes]), np.concatenate([self.numbers, other.numbers])
        return Population(codes, numbers)

    def values(self, points: Array, base: Array) -> Array:
        """Return values of shape (tree, point).

        Parameters
        ----------
        points
            Shape (point, variable).
        base
            Shape (tree, point): the base model's values for each tree.
        """
        trees, width = self.codes.shape
        out = np.empty((width + 1, trees, len(points)))
        with np.errstate(all="ignore"):
            # prefix notation from its end: operands stand behind their function
            for node in reversed(range(width)):
                for code in np.unique(self.codes[:, node]):
                    rows = np.flatnonzero(self.codes[:, node] == code)
                    if code >= _VARIABLE:
                        out[node, rows] = points[:, code - _VARIABLE]
                    elif code == _BASE:
                        out[node, rows] = base[rows]
                    elif code == _NUMBER:
                        out[node, rows] = self.numbers[rows, node, None]
                    elif code >= 0:
                        operands = [out[node + 1, rows]]
                        if code < len(BINARY):
                            operands.append(out[self.after[rows, node + 1], rows])
                        out[node, rows] = _OF_ARRAYS[FUNCTIONS[code]](*operands)
        return np.asarray(out[0])

    def replaced(self, at: Ids, donors: Population, begin: Ids) -> Population:
        """Return the trees, each with the part at one node replaced by the part of its donor at another.

        A tree that would become too wide stays as it is.

        Parameters
        ----------
        at, begin
            Shape (tree,): a node of each tree, and of its donor.
        """
        rows, (_, width) = np.arange(len(at)), self.codes.shape
        removed, added = self.after[rows, at] - at, donors.after[rows, begin] - begin
        fits = self.sizes - removed + added <= width
        # places of a child: before the node those of the tree, then those of the donor's part, then the tree's others
        column, at, begin, removed, added = np.arange(width), *(each[:, None] for each in (at, begin, removed, added))
        is_added = (column >= at) & (column < at + added)
        own = np.where(column < at, column, column - added + removed)
        from_donor, from_own = np.clip(column - at + begin, 0, width - 1), np.clip(own, 0, width - 1)

        def child(mine: NDArray[np.generic], theirs: NDArray[np.generic]) -> NDArray[np.generic]:
            moved = np.take_along_axis(theirs, from_donor, axis=1), np.take_along_axis(mine, from_own, axis=1)
            return np.where(fits[:, None], np.where(is_added, *moved), mine)

        codes = np.where(fits[:, None] & (own >= width), _NOTHING, child(self.codes, donors.codes))
        return Population(codes, np.asarray(child(self.numbers, donors.numbers)))

    def program(self, tree: int, variables: Sequence[str]) -> tuple[str | float, ...]:
        """Return a tree's names of functions and terminals, and its numbers."""
        words: tuple[str, ...] = (*FUNCTIONS, "", BASE, *variables)
        nodes = range(int(self.sizes[tree]))
        codes, numbers = self.codes[tree].tolist(), self.numbers[tree].tolist()
        return tuple(numbers[node] if codes[node] == _NUMBER else words[codes[node]] for node in nodes)


@dataclass(frozen=True)
class Grower:
    """Makes random trees.

    Attributes
    ----------
    variables
        Number of them.
    has_base
        Whether the base model is a terminal.
    constant
        Numbers R are between this and its negative.
    width
        Nodes of a tree, at most; one that comes out larger is made again with less depth.
    """

    variables: int
    has_base: bool
    constant: float
    width: int

    def trees(self, depths: Ids, full: NDArray[np.bool_], random: np.random.Generator) -> Population:
        """Make a tree for each greatest depth, some with all leaves there."""
        codes = np.full((len(depths), self.width), _NOTHING)
        for row, depth, is_full in zip(codes, depths.tolist(), full.tolist(), strict=True):
            tree = self._tree(depth, is_full, random)
            while len(tree) > self.width:
                depth = max(depth - 1, 1)
                tree = self._tree(depth, is_full, random)
            row[: len(tree)] = tree
        return Population(codes, random.uniform(-self.constant, self.constant, codes.shape))

    def _tree(self, depth: int, full: bool, random: np.random.Generator) -> list[int]:
        """Draw the codes of a tree; functions and terminals, and these among each other, have equal chances."""
        terminals = [_NUMBER, *([_BASE] if self.has_base else []), *range(_VARIABLE, _VARIABLE + self.variables)]
        choices = len(FUNCTIONS) + len(terminals)
        out: list[int] = []
        pending = [depth]  # depth that is left, of each part that is still to be drawn
        while pending and len(out) <= self.width:
            left = pending.pop()
            if left and (full or random.random() * choices < len(FUNCTIONS)):
                function = int(random.random() * len(FUNCTIONS))
                out.append(function)
                pending += [left - 1] * (2 if function < len(BINARY) else 1)
            else:
                out.append(terminals[int(random.random() * len(terminals))])
        return out
