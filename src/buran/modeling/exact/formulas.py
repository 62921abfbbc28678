"""Formulas that explain exact values without a rest.

Counts, bytes and visits have no noise, so that a formula either gives every one of them or is none. Along each
parameter, sets of terms are tried on all its lines of points at once; then the products of the terms of different
parameters are solved for all call paths together. All of this is done modulo a prime, which is fast and knows no
rounding. What passes is solved in fractions, and kept if each value comes out, whole or as a mean over ranks.

A formula is proven along a parameter if there are so many more values than coefficients that chance would not pass
them. A parameter with few values may be passed through instead if another one is proven: then the formula holds at
these values, and all terms that do so stand next to each other as alternatives: elsewhere the interval is wide.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import lcm, prod

import numpy as np
from numpy.typing import NDArray

from buran.modeling.exact.rational import (
    PRODUCTS,
    Counts,
    ParameterLines,
    RationalTerm,
    Scores,
    TermSet,
    monomials,
    term_residues,
)
from buran.modeling.functions.derived import DerivedValue
from buran.modeling.functions.terms import Array, ModelFunction, summed
from buran.modeling.functions.terms import product as modelled_product
from buran.modeling.numerics.least_squares import Ids
from buran.modeling.numerics.modular import PRIME, Residues, inverse, reduced, solved, spans
from buran.modeling.numerics.tuning import BEAM, FEW, MARGIN_BITS, REACH
from buran.modeling.pmnf.alternative import Alternative
from buran.modeling.pmnf.model import Model, Quality
from buran.modeling.pmnf.search import SearchOptions
from buran.modeling.pmnf.structures import OpenStructure, with_structures

Formula = tuple[ModelFunction, float]  # with the bits that speak for it
Product = tuple[int, ...]  # for each parameter 0 for the constant, else 1 + place in the table of its terms


def exact_models(points: Array, values: Array, variables: Sequence[Sequence[DerivedValue]] = ()) -> list[Model | None]:
    """Find formulas for exact values.

    Parameters
    ----------
    points
        Shape (point, parameter), distinct rows.
    values
        Shape (call path, point), finite; each the same in all repetitions.
    variables
        Groups of values that the program derives from its parameters, such as the edges of its grid of ranks. Formulas
        have them where none has the parameters alone.

    Returns
    -------
    list
        One for each call path; None where no formula explains all values, or too few values would tell.
    """
    models: list[Model | None] = [None] * len(values)
    rows = np.flatnonzero((values == values[:, :1]).all(axis=1))
    for row in rows.tolist():
        models[row] = _as_model(points, values[row], [(ModelFunction(float(values[row, 0])), 0.0)])
    counts = Counts.read(points, values)
    rows = np.flatnonzero(counts.usable & (values != values[:, :1]).any(axis=1))
    of_one = tuple(variable for group in variables for variable in group if len(variable.columns) == 1)
    lines = [ParameterLines.of(points, p, of_one) for p in range(points.shape[1])]
    if len(rows) and all(parameter is not None for parameter in lines):
        found = _on_lines([parameter for parameter in lines if parameter is not None], points, values, counts, rows)
        rows = _entered(models, rows, found, points)
    for terms, is_named in _systems(points, variables, of_one):
        if len(rows):
            rows = _entered(models, rows, _in_monomials(terms, points, values, counts, rows, is_named), points)
    return models


def _entered(models: list[Model | None], rows: Ids, found: Sequence[Model | None], points: Array) -> Ids:
    """Enter formulas of some rows; return the rows that need another one."""
    missing = []
    for row, model in zip(rows.tolist(), found, strict=True):
        proven = model is not None and not passes_through(model.function, points)
        if proven or models[row] is None:
            models[row] = model
        if not proven:
            missing.append(row)
    return np.array(missing, dtype=np.int64)


def _on_lines(
    known: Sequence[ParameterLines], points: Array, values: Array, counts: Counts, rows: Ids
) -> list[Model | None]:
    """Find formulas whose terms the lines along each parameter show."""
    models: list[Model | None] = [None] * len(rows)
    counts = counts.of(rows)
    choices = [parameter.choose(counts) for parameter in known]
    groups: dict[tuple[tuple[TermSet, ...], ...], list[int]] = defaultdict(list)
    for index in range(len(rows)):
        chosen = [parameter_choices[index] for parameter_choices in choices]
        if all(chosen) and _are_proven(chosen, known):
            groups[tuple(map(tuple, chosen))].append(index)
    solver = _Solver(known, counts)
    for chosen_sets, calls in groups.items():
        scores = [[parameter_choices[call] for parameter_choices in choices] for call in calls]
        for call, formulas in zip(calls, solver.formulas(chosen_sets, calls, scores), strict=True):
            models[call] = model_of_formulas(points, values[rows[call]], formulas)
    return models


def _systems(
    points: Array, variables: Sequence[Sequence[DerivedValue]], of_one: Sequence[DerivedValue]
) -> Iterator[tuple[tuple[RationalTerm, ...], bool]]:
    """Yield products of variables that depend on several parameters, few before many; whether the user named them."""
    groups = [tuple(variable for variable in group if len(variable.columns) > 1) for group in variables]
    rows = tuple(map(tuple, points.tolist()))
    for kind in PRODUCTS:
        for number, group in enumerate(groups):
            if group:
                yield monomials(rows, group, of_one, kind), number == 0


def _in_monomials(
    table: tuple[RationalTerm, ...], points: Array, values: Array, counts: Counts, rows: Ids, is_named: bool
) -> list[Model | None]:
    """Find formulas that are sums of multiples of the cheapest of these products, for points in any layout.

    The products are taken one after the other until what a call path counts is a sum of their multiples. Fewer terms
    win: where one that was not needed stands for one that was, both formulas are kept.
    """
    models: list[Model | None] = [None] * len(rows)
    size = len(points)
    solver = _Solver([ParameterLines(tuple(Fraction(i) for i in range(size)), {}, table)], counts.of(rows))
    columns, residues = solver.columns([(index,) for index in range(len(table) + 1)]), solver.counts.residues()
    basis, needed = spans(columns, residues)
    _, bits = solver.counts.bits(np.arange(size)[None])
    spare = (size - 1 - needed) * bits - np.log2(1 + len(table))
    proven = (needed < len(basis)) & (size - 1 - needed >= FEW) & (spare >= MARGIN_BITS)
    used_by_any = sorted({c for term in table for f in term.factors for c in f.columns})
    for p in [] if is_named else used_by_any:  # a guess must follow from the points without the largest values, too
        rest = points[:, p] < points[:, p].max()
        indices, enough = spans(columns[:, rest], residues[:, rest])
        checked = len(np.unique(points[rest][:, used_by_any], axis=0)) - 1 - needed >= FEW
        alike = np.array([indices[: k + 1] == basis[: k + 1] for k in range(len(basis) + 1)])
        proven &= (enough == needed) & checked & alike[np.minimum(needed, len(basis))]
    for last in np.unique(needed[proven]).tolist():
        calls = np.flatnonzero(proven & (needed == last)).tolist()
        used = basis[: last + 1]
        others = [index for index in range(len(columns)) if index not in used]
        for call, formulas in zip(calls, solver.fewest(used, others, columns, calls), strict=True):
            models[call] = model_of_formulas(points, values[rows[call]], formulas)
    return models


def passes_through(function: ModelFunction, points: Array) -> bool:
    """Tell whether a formula has as many coefficients along a parameter as that has values: any values would do.

    Those with a variable of several parameters were proven by the number of all points.
    """
    if any(len(factor.columns) > 1 for term in function.terms for factor in term.factors):
        return False
    for p, column in enumerate(points.T):
        shapes = {tuple(factor for factor in term.factors if factor.parameter == p) for term in function.terms}
        shapes |= {()} if function.constant else set()
        if len(shapes) > 1 and len(shapes) >= len(np.unique(column)):
            return True
    return False


def _are_proven(chosen: Sequence[Scores], known: Sequence[ParameterLines]) -> bool:
    """Tell whether the terms of one parameter are proven, and those of each other too that has more than few values."""
    proven = [_is_proven(scores, parameter.levels) for scores, parameter in zip(chosen, known, strict=True)]
    return any(proven) and all(p or parameter.is_passed for p, parameter in zip(proven, known, strict=True))


def _is_proven(scores: Scores, values: int) -> bool:
    """Tell whether so many values of a parameter determine its best terms."""
    best = next(iter(scores))
    return scores[best] >= MARGIN_BITS if best.terms else values >= FEW


@dataclass(frozen=True, eq=False)
class _Solver:
    """Solves sums of products of terms for exact values.

    Attributes
    ----------
    parameters
        In the order of the points' columns.
    counts
        The values.
    """

    parameters: Sequence[ParameterLines]
    counts: Counts

    def formulas(
        self, chosen: tuple[tuple[TermSet, ...], ...], calls: Sequence[int], scores: Sequence[Sequence[Scores]]
    ) -> list[list[Formula]]:
        """Return formulas of call paths that the same sets of terms explain along each parameter."""
        out: list[list[Formula]] = [[] for _ in calls]
        combined = sorted(product(*chosen), key=lambda some: sum(terms.cost for terms in some))
        for some in combined[: SearchOptions.alternatives]:
            products = list(product(*(terms.indices for terms in some)))
            columns = self.columns(products)
            if len(products) >= columns.shape[1] or not reduced(columns[None])[2][0]:
                continue
            for index, functions in enumerate(self._solved(products, columns, calls)):
                score = sum(by_set[terms] for by_set, terms in zip(scores[index], some, strict=True))
                out[index] += [(function, score + bits) for function, bits in functions]
        return out

    @cached_property
    def _tables(self) -> list[Residues]:
        return [term_residues(parameter.table, parameter.values) for parameter in self.parameters]

    def columns(self, products: Sequence[Product]) -> Residues:
        """Return shape (product, point): values modulo the prime."""
        out = np.ones((len(products), len(self.counts.numerators[0])), dtype=np.int64)
        indices = np.array(products)
        for p, table in enumerate(self._tables):
            out = out * table[indices[:, p]] % PRIME
        return out

    def _solved(self, products: Sequence[Product], columns: Residues, calls: Sequence[int]) -> list[list[Formula]]:
        """Solve for coefficients that are unique."""
        fits, coefficients = solved(columns, self.counts.residues()[calls])
        used = coefficients != 0
        groups: dict[bytes, list[int]] = defaultdict(list)
        for index in np.flatnonzero(fits).tolist():
            groups[used[index].tobytes()].append(index)
        out: list[list[Formula]] = [[] for _ in calls]
        for key, indices in groups.items():
            some = [products[i] for i in np.flatnonzero(np.frombuffer(key, dtype=bool)).tolist()]
            for index, function in zip(indices, self._proven(some, [calls[i] for i in indices]), strict=True):
                out[index] += [] if function is None else [(function, 0.0)]
        return out

    def fewest(
        self, used: Sequence[int], others: Sequence[int], columns: Residues, calls: Sequence[int]
    ) -> list[list[Formula]]:
        """Return the formulas with fewest terms of call paths that are sums of multiples of the `used` columns.

        A column of the `others` that is such a sum itself may stand in for one that a formula needs.
        """
        fits, coefficients = solved(columns[used], self.counts.residues()[calls])
        alike, relations = solved(columns[used], columns[others])
        relations, stand_ins = relations[alike], np.array(others, dtype=np.int64)[alike]
        out: list[list[Formula]] = [[] for _ in calls]
        for index in np.flatnonzero(fits).tolist():
            row = coefficients[index]
            sets = {tuple(np.array(used)[row != 0].tolist())}
            # y = sum c_i a_i and b = sum r_i a_i: with b for a_k, y = c_k / r_k b + sum (c_i - c_k / r_k r_i) a_i
            other, term = np.nonzero((relations != 0) & (row != 0))
            shares = row[term] * inverse(relations[other, term]) % PRIME
            kept = (row - shares[:, None] * relations[other] % PRIME) % PRIME != 0
            for k, mask in zip(other.tolist(), kept, strict=True):
                sets.add(tuple(sorted((*np.array(used)[mask].tolist(), int(stand_ins[k])))))
            few = min(map(len, sets))
            for terms in sorted((some for some in sets if len(some) == few), key=sum)[:BEAM]:
                function = self._proven([(number,) for number in terms], [calls[index]])[0]
                cost = sum(self._cost((number,)) for number in terms)
                out[index] += [] if function is None else [(function, -float(cost))]
        return out

    def _cost(self, product_of_terms: Product) -> int:
        return 1 + sum(term.cost for term in self._parts(product_of_terms))

    def _proven(self, products: Sequence[Product], calls: Sequence[int]) -> list[ModelFunction | None]:
        """Solve in fractions, and return the functions that give every value."""
        base = reduced(self.columns(products)[None])[1][0]
        # c = A^-1 y in fractions, at as many points as there are products
        exact = np.array([self._exactly(each) for each in products], dtype=object).T
        inverted = _inverted(exact[base])
        scale = np.array([lcm(*(value.denominator for value in row)) for row in exact], dtype=object)
        whole = np.array([[int(x) for x in row] for row in exact * scale[:, None]], dtype=object)
        terms = [modelled_product(*(part.term for part in self._parts(each))) for each in products]
        out: list[ModelFunction | None] = []
        for call in calls:
            coefficients = inverted @ np.array([self.counts.fraction(call, point) for point in base.tolist()])
            common = lcm(*(c.denominator for c in coefficients))
            # A c = y at every point, in integers
            predicted = whole @ np.array([int(c * common) for c in coefficients], dtype=object)
            numerators, denominators = (
                each[call].astype(object) for each in (self.counts.numerators, self.counts.denominators)
            )
            same = predicted * denominators == numerators * scale * common
            out.append(summed(zip(map(float, coefficients), terms, strict=True)) if same.all() else None)
        return out

    def _parts(self, each: Product) -> list[RationalTerm]:
        """Return the terms that are multiplied, without the constant 1."""
        return [p.table[index - 1] for p, index in zip(self.parameters, each, strict=True) if index]

    def _exactly(self, each: Product) -> list[Fraction]:
        """Return the values of a product, shape (point,)."""
        used = [(p.table[index - 1], p) for p, index in zip(self.parameters, each, strict=True) if index]
        points = range(self.counts.numerators.shape[1])
        return [prod((term.values[p.values[point]] for term, p in used), start=Fraction(1)) for point in points]


def _inverted(rows: NDArray[np.object_]) -> NDArray[np.object_]:
    """Invert a matrix of fractions that has an inverse."""
    size = len(rows)
    both = np.hstack([rows, np.array([[Fraction(int(i == j)) for j in range(size)] for i in range(size)])])
    for i in range(size):
        # Gauss-Jordan: row i is divided by its number in column i, and taken off all others so that they have 0
        pivot = next(k for k in range(i, size) if both[k, i])
        both[[i, pivot]] = both[[pivot, i]]
        both[i] = both[i] / both[i, i]
        shares = both[:, i].copy()
        shares[i] = Fraction(0)
        both = both - np.outer(shares, both[i])
    return both[:, size:]


def _cancelled(function: ModelFunction, points: Array) -> float:
    """Return how many bits the parts of a function lose against each other at the points."""
    parts = abs(function.constant) + sum(
        np.abs(coefficient * term.evaluate(points))
        for coefficient, term in zip(function.coefficients, function.terms, strict=True)
    )
    return float(np.log2(np.max(parts) / np.abs(function.evaluate(points)).max()))


def model_of_formulas(points: Array, values: Array, formulas: Sequence[Formula]) -> Model | None:
    """Make a model of formulas with their scores in bits, without those that become negative farther out.

    Where terms pass through all values of a parameter, a coefficient that need not be there speaks for the others, so
    that formulas with more than one term above the fewest say nothing, even where those become negative.
    """
    different = {function.terms: (function, score) for function, score in reversed(formulas)}
    bounds = [sorted({column.min(), column.max(), REACH * column.max()}) for column in points.T]
    far = np.array(list(product(*bounds)))
    lowest = 0.0 if (values >= 0).all() else -np.inf
    fewest = min((len(terms) for terms in different), default=0)
    kept = [
        (function, score - _cancelled(function, points) - MARGIN_BITS * len(function.terms))
        for function, score in different.values()
        if len(function.terms) <= fewest + 1 and (function.evaluate(far) >= lowest).all()
    ]
    kept.sort(key=lambda formula: (-formula[1], not _has_variables(formula[0])))
    near = [formula for formula in kept if formula[1] > kept[0][1] - MARGIN_BITS]
    return _as_model(points, values, near[:BEAM]) if near else None


def _has_variables(function: ModelFunction) -> bool:
    """Tell whether a formula has what the user named: of two that are as good, it comes first."""
    return any(factor.variable is not None for term in function.terms for factor in term.factors)


def _as_model(points: Array, values: Array, formulas: Sequence[Formula]) -> Model:
    """Make a model of formulas, the best first; what speaks for each are its bits."""
    weights = np.exp2([score - formulas[0][1] for _, score in formulas])
    alternatives = []
    for (function, _), weight in zip(formulas, (weights / weights.sum()).tolist(), strict=True):
        size = 1 + len(function.terms)
        nothing = tuple((0.0,) * size for _ in range(size))
        alternatives.append(Alternative(function, weight, nothing, 0.0, max(len(points) - size, 1)))
    varied = float("nan") if (values == values[0]).all() else 1.0
    quality = Quality(len(points), 0.0, 0.0, 0.0, varied, 0.0)
    best = alternatives[0]
    return Model(best.function, quality, with_structures(alternatives, points, values, OpenStructure.of(points)))
