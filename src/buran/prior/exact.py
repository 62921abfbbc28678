"""Functions that pass through exact counts.

Counts have no noise but that of whole numbers: a loop over ``n^(1/3)`` makes a whole number of rounds. What a function
misses is therefore judged in counts, not as a share of the value, and the right exponents are those with which nothing
but rounding is left: nothing at all, or no more at any point than whole numbers leave. Of the latter the fewest terms
are taken: with more, what is left only gets smaller by chance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from buran.model.basis import BasisFunction
from buran.model.candidates import Ids, lines
from buran.model.fit import fit_models
from buran.model.search import SearchOptions
from buran.model.space import HypothesisSpace, full_space
from buran.model.terms import Array, Factor, ModelFunction, Term
from buran.numerics.least_squares import least_norm
from buran.prior.tuning import COUNTS

DIGITS = 1e-12  # of the largest value: rounding of the arithmetic


@dataclass(frozen=True, eq=False)
class ExactFit:
    """Functions through counts.

    Attributes
    ----------
    functions
        One for each call path.
    residual
        Shape (call path,): largest |count - function| over the points, as a share of the count, where a count of less
        than a thousandth of the largest counts as such.
    """

    functions: tuple[ModelFunction, ...]
    residual: Array


def exact_functions(points: Array, values: Array, space: HypothesisSpace | None = None) -> ExactFit:
    """Find a function through the counts of each call path.

    Each parameter's factors are found on all lines of points along it at once; then all products of factors of
    different parameters are fitted together, and those that explain nothing are dropped. Where points lie on no lines
    the general search takes over.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    values
        Shape (call path, point), finite.
    space
        Exponents to try; the full space by default.
    """
    space = space or full_space()
    on_lines = [lines(points, p) for p in range(points.shape[1])]
    varying = [len(np.unique(points[:, p])) > 1 for p in range(points.shape[1])]
    tables = [space.candidates(points[:, p]) for p in range(points.shape[1])]
    if any(vary and not parameter_lines for vary, parameter_lines in zip(varying, on_lines, strict=True)):
        functions = list(_searched(points, values, space))
    else:
        functions = []
        columns = [
            _FactorColumns.of(points, p, parameter_lines, table) if vary else None
            for p, (parameter_lines, table, vary) in enumerate(zip(on_lines, tables, varying, strict=True))
        ]
        for row in values:
            factors = [[] if parameter_lines is None else parameter_lines.choose(row) for parameter_lines in columns]
            functions.append(_combined(points, row, factors))
    return ExactFit(tuple(functions), misfit(points, values, functions))


def misfit(points: Array, values: Array, functions: list[ModelFunction]) -> Array:
    """Return shape (call path,): the largest deviation, as `ExactFit.residual` says."""
    size = np.abs(values)
    floor = np.maximum(size, 1e-3 * size.max(axis=1, keepdims=True, initial=0.0))
    gap = np.abs(values - np.array([function.evaluate(points) for function in functions]).reshape(values.shape))
    return np.asarray(np.divide(gap, floor, out=np.zeros_like(gap), where=floor > 0).max(axis=1, initial=0.0))


def _searched(points: Array, values: Array, space: HypothesisSpace) -> list[ModelFunction]:
    floor = COUNTS.rounding + DIGITS * np.abs(values).max(axis=1, keepdims=True, initial=0.0)
    fit = fit_models(
        points, values, space=space, weights=np.broadcast_to(1 / floor, values.shape), options=SearchOptions(beam=48)
    )
    return [ModelFunction(0.0) if model is None else model.function for model in fit.models]


@dataclass(frozen=True, eq=False)
class _FactorColumns:
    """Orthonormal columns of the sets of factors of one parameter, on all its lines.

    Attributes
    ----------
    parameter
        Column of the points.
    functions
        Candidates.
    lines
        Of each length: points of the lines, shape (line, point on the line).
    raw
        For each of them, shape (function, line, point on the line): centred values of the factors, scaled.
    """

    parameter: int
    functions: tuple[BasisFunction, ...]
    lines: list[Ids]
    raw: list[Array]

    @classmethod
    def of(
        cls, points: Array, parameter: int, on_lines: list[Ids], functions: tuple[BasisFunction, ...]
    ) -> _FactorColumns:
        raw = []
        for line in on_lines:
            at = points[line]
            centred = np.array([function.evaluate(at[..., parameter]) for function in functions])
            centred = centred - centred.mean(axis=2, keepdims=True)
            raw.append(centred / np.maximum(np.linalg.norm(centred, axis=2, keepdims=True), np.finfo(float).tiny))
        return cls(parameter, functions, on_lines, raw)

    def choose(self, values: Array) -> list[Factor]:
        """Return the factors of one call path; empty if the parameter does not matter."""
        targets = [values[line] - values[line].mean(axis=1, keepdims=True) for line in self.lines]
        count = sum(target.size for target in targets)
        noise = COUNTS.rounding + DIGITS * float(np.abs(values).max(initial=0.0))
        floor = count * noise**2
        rounding = _rounding(values, max(float(np.ptp(target, axis=1).max()) for target in targets))
        shortest = min(line.shape[1] for line in self.lines)
        most = min(COUNTS.most_factors, shortest - 2)
        best: tuple[int, ...] = ()
        whole: tuple[int, ...] | None = None  # fewest factors with which no more than rounding is left
        lowest = np.log(sum(float((t * t).sum()) for t in targets) + floor) / 2
        single_order = np.arange(len(self.functions))
        for size in range(1, most + 1):
            # What is rounded may be the same on all lines, as in n^2 + p^(1/3): they count as one.
            free = shortest - 1 - size
            some = single_order if size < 3 else self._few(single_order)
            sets = np.array(list(combinations(some.tolist(), size)), dtype=np.int64).reshape(-1, size)
            if not len(sets):
                break
            left, _ = self._left(sets, targets)
            order = np.argsort(left, kind="stable")
            if size < 3:
                single_order = single_order if size > 1 else order
            tops = sets[order[: COUNTS.refined]]
            precise, gaps = self._left(tops, targets, precise=True)
            winner = int(np.argmin(precise))
            chosen = tuple(tops[winner].tolist())
            if precise[winner] <= floor and free >= COUNTS.sure:
                best, whole = chosen, None
                break
            if whole is None and gaps[winner] <= rounding:
                whole = chosen
            score = np.log(float(precise[winner]) + floor) / 2 + COUNTS.cost * size / (free + 1)
            if score < lowest:
                lowest, best = score, chosen
            if precise[winner] <= floor:
                break
        return [Factor(self.parameter, self.functions[i]) for i in (best if whole is None else whole)]

    def _few(self, order: Ids) -> Ids:
        """Return the best single factors and the plain ones."""
        plain = [i for i, function in enumerate(self.functions) if function.is_plain]
        return np.unique(np.array([*order[: COUNTS.most_triples].tolist(), *plain], dtype=np.int64))

    def _left(self, sets: Ids, targets: list[Array], precise: bool = False) -> tuple[Array, Array]:
        """Return what each set leaves of the targets.

        Returns
        -------
        squares, largest
            Shape (set,): summed over lines, in squares of counts, and the largest at a point; the latter only if
            `precise`, without cancellation.
        """
        out, largest = np.zeros(len(sets)), np.zeros(len(sets))
        for raw, target in zip(self.raw, targets, strict=True):
            same = np.ptp(raw, axis=1).max(initial=0.0) == 0  # all lines have the same values of the parameter
            columns = raw[:, :1] if same else raw
            basis = np.linalg.qr(columns[sets].transpose(0, 2, 3, 1))[0]  # set, line, point, column
            if same:
                basis = basis[:, 0]
                along = np.einsum("spk,lp->slk", basis, target, optimize=True)
                if precise:
                    rest = target[None] - np.einsum("spk,slk->slp", basis, along, optimize=True)
            else:
                along = np.einsum("slpk,lp->slk", basis, target, optimize=True)
                if precise:
                    rest = target[None] - np.einsum("slpk,slk->slp", basis, along, optimize=True)
            if precise:
                out += (rest**2).sum(axis=(1, 2))
                largest = np.maximum(largest, np.abs(rest).max(axis=(1, 2)))
            else:
                out += np.maximum((target**2).sum() - (along**2).sum(axis=(1, 2)), 0.0)
        return out, largest


def unit_of(values: Array) -> float:
    """Return the largest number that divides all differences of counts, as two basic blocks for each round do."""
    whole = np.rint(values)
    if np.abs(values - whole).max(initial=0.0) <= COUNTS.rounding and whole.size and np.abs(whole).max() < 2.0**53:
        return float(max(np.gcd.reduce(np.abs(whole - whole.flat[0]).astype(np.int64), axis=None), 1))
    return 1.0


def _rounding(values: Array, spread: float) -> float:
    """Return what whole numbers may leave of counts; 0 where the counts differ by hardly more than that."""
    most = COUNTS.whole * unit_of(values)
    return most if spread >= COUNTS.signal * most else 0.0


def _combined(points: Array, values: Array, factors: list[list[Factor]]) -> ModelFunction:
    """Fit all products of the chosen factors and drop what explains nothing."""
    choices: list[list[Factor | None]] = [[None, *parameter_factors] for parameter_factors in factors]
    terms = [Term(tuple(f for f in chosen if f is not None)) for chosen in product(*choices) if any(chosen)]
    if len(terms) > COUNTS.most_products:
        terms = [term for term in terms if len(term.factors) <= 2]
    columns = [np.ones(len(points)), *(term.evaluate(points) for term in terms)]
    noise = COUNTS.rounding + DIGITS * float(np.abs(values).max(initial=0.0))
    kept = _selected(np.stack(columns, axis=1), values, noise)
    coefficients = least_norm(np.stack(columns, axis=1)[:, kept], values)
    constant = 0.0
    parts: list[tuple[float, Term]] = []
    for column, coefficient in zip(kept, coefficients.tolist(), strict=True):
        if column == 0:
            constant = coefficient
        else:
            parts.append((coefficient, terms[column - 1]))
    parts.sort(key=lambda part: part[1].growth_order, reverse=True)
    largest = float(np.abs(values).max(initial=0.0))
    if parts and abs(constant) <= 1e-9 * largest:
        constant = 0.0
    return ModelFunction(constant, tuple(c for c, _ in parts), tuple(term for _, term in parts))


def _selected(design: Array, values: Array, noise: float) -> list[int]:
    """Choose columns: forwards until only rounding is left, then backwards.

    The constant, which is the first column, is only left out if it may be rounding itself.
    """
    count, columns = design.shape
    floor = count * noise**2
    rounding = _rounding(values, float(np.ptp(values)))

    def rest(chosen: list[int]) -> Array:
        return np.asarray(values - design[:, chosen] @ least_norm(design[:, chosen], values))

    def left(chosen: list[int]) -> float:
        return float((rest(chosen) ** 2).sum())

    def score(chosen: list[int]) -> float:
        return float(np.log(left(chosen) + floor) / 2 + COUNTS.cost * len(chosen) / (count - len(chosen) + 1))

    path = [[0]]
    while len(path[-1]) < min(count - 2, columns) and left(path[-1]) > floor:
        others = [c for c in range(columns) if c not in path[-1]]
        path.append([*path[-1], min(others, key=lambda c: left([*path[-1], c]))])

    def fewest(fits: Callable[[list[int]], bool]) -> list[int] | None:
        start = next((chosen for chosen in path if fits(chosen)), None)
        return None if start is None else _pruned(start, fits)

    kept = fewest(lambda chosen: left(chosen) <= floor)
    if kept is None and rounding:
        kept = fewest(lambda chosen: float(np.abs(rest(chosen)).max()) <= rounding)
        if kept is not None and len(kept) > 1 and float(np.abs(rest(kept[1:])).max()) <= rounding:
            kept = kept[1:]
    if kept is None:
        kept = min(path, key=score)
        lowest = score(kept)
        kept = _pruned(kept, lambda chosen: score(chosen) <= lowest)
    return sorted(kept)


def _pruned(chosen: list[int], fits: Callable[[list[int]], bool]) -> list[int]:
    """Drop columns, but not the constant, as long as the others fit."""
    while fewer := next((rest for c in chosen[1:] if fits(rest := [o for o in chosen if o != c])), None):
        chosen = fewer
    return chosen
