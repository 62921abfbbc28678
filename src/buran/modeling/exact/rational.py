"""Terms whose values are fractions, what it costs a formula to have them, and which ones explain a parameter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, combinations_with_replacement
from math import prod

import numpy as np

from buran.modeling.functions.derived import DerivedValue, neighbours
from buran.modeling.functions.powers import Array, BasisFunction, PowerLog
from buran.modeling.functions.terms import Factor, Term, product
from buran.modeling.numerics.least_squares import Ids, Mask
from buran.modeling.numerics.modular import PRIME, Residues, checks, inverse, residues
from buran.modeling.numerics.modular import product as modular_product
from buran.modeling.numerics.tuning import COMBINATIONS, FEW, MARGIN_BITS
from buran.modeling.pmnf.search import SearchOptions

# Bits that the terms of one parameter may cost together. Tuned: judgement.
MOST_BITS = 12

_SEED = 20  # of the tests; which numbers they are does not matter
_WHOLE = 2**53  # larger whole numbers are not all numbers of a computer
_LARGEST = 2**62  # of a whole number of 64 bits
# Powers and logarithms that are tried, with their costs.
_BASES = tuple(
    (PowerLog(Fraction(power), log), cost)
    for power, log, cost in (
        ("1", 0, 1), ("2", 0, 2), ("3", 0, 3), ("-1", 0, 2), ("4", 0, 5), ("5", 0, 7), ("6", 0, 9), ("-2", 0, 4),
        ("1/2", 0, 3), ("1/3", 0, 3), ("2/3", 0, 3), ("3/2", 0, 4), ("4/3", 0, 4), ("-1/3", 0, 4), ("-1/2", 0, 4),
        ("-2/3", 0, 4), ("0", 1, 2), ("0", 2, 4), ("1", 1, 3), ("2", 1, 5), ("-1", 1, 5), ("1", 2, 5),
    )
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class RationalTerm:
    """A term with fractions as values.

    Attributes
    ----------
    term
        None for 1.
    cost
        Bits that naming it takes: what programs often count is cheap.
    values
        By parameter value; of several parameters, by the number of the point.
    """

    term: Term | None
    cost: int
    values: dict[Fraction, Fraction]

    @property
    def factors(self) -> tuple[Factor, ...]:
        """Of the term."""
        return () if self.term is None else self.term.factors


def fraction_of(x: float) -> Fraction:
    """Return a parameter value as it is written: 0.1 is a tenth."""
    return Fraction(int(x)) if float(x).is_integer() else Fraction(repr(float(x)))


@lru_cache(maxsize=64)
def rational_terms(
    parameter: int, values: tuple[Fraction, ...], variables: tuple[DerivedValue, ...] = ()
) -> tuple[RationalTerm, ...]:
    """Return the terms that have fractions as values at all these `values` of a parameter.

    Of `variables` that are derived from this parameter alone there are each, products of two, and the reciprocals of
    both: what a mean over the ranks of a grid has. Those whose product is the parameter are edges of a grid of ranks:
    of these there are also the neighbours of a rank, see `neighbours`.
    """
    out = []
    for basis, cost in _BASES:
        table = {x: value for x in values if (value := _evaluated(basis, x)) is not None}
        if len(table) == len(values):
            out.append(RationalTerm(Term((Factor(parameter, basis),)), cost, table))
    at = np.zeros((len(values), parameter + 1))
    at[:, parameter] = [float(x) for x in values]
    columns = {v: columns for v in variables if (columns := exact_column(v, at)) is not None and len(set(columns)) > 1}
    for power, cost in ((1, 3), (-1, 2)):
        basis = PowerLog(Fraction(power))
        for some in [(v,) for v in columns] + list(combinations(columns, 2)):
            products = [prod(columns[v][index] for v in some) for index in range(len(values))]
            if power > 0 or all(products):
                table = {x: Fraction(value) ** power for x, value in zip(values, products, strict=True)}
                out.append(
                    RationalTerm(Term(tuple(Factor(parameter, basis, v) for v in some)), cost * len(some), table)
                )
    edges = [v for v, column in columns.items() if min(column) >= 1]
    for grid in (some for size in (1, 2, 3) for some in combinations(edges, size)):
        sides = [columns[v] for v in grid]
        if len(grid) == 1 or all(prod(row) == x for *row, x in zip(*sides, values, strict=True)):
            for index, (variable, shares) in enumerate(neighbours(grid, sides).items()):
                factor = Factor(parameter, PowerLog(Fraction(1)), variable)
                cost = 2 if index == 0 and len(grid) > 1 else 4
                out.append(RationalTerm(Term((factor,)), cost, dict(zip(values, shares, strict=True))))
    return tuple(out)


def exact_column(variable: DerivedValue, points: Array) -> list[Fraction] | None:
    """Return the values of a variable at `points` (point, parameter); None where it has none."""
    values = variable.evaluate(points)
    return [fraction_of(x) for x in values.tolist()] if np.isfinite(values).all() else None


PRODUCTS = ("of blocks", "in addition to plain terms", "mixed")
"""Which products of variables are tried, few before many."""


@lru_cache(maxsize=64)
def monomials(
    rows: tuple[tuple[float, ...], ...], joint: tuple[DerivedValue, ...], single: tuple[DerivedValue, ...], kind: str
) -> tuple[RationalTerm, ...]:
    """Return products of variables of several parameters, the cheapest first; their values are by number of the point.

    Parameters
    ----------
    rows
        The points.
    joint
        Derived from several parameters; products of up to three of them, also with themselves.
    single
        Derived from one parameter.
    kind
        Of `PRODUCTS`: those of `joint` alone; also powers of one parameter, divided by others; also each of the first
        with a factor of a parameter, or of the variables `single`.
    """
    points = np.array(rows)
    one = RationalTerm(None, 0, {Fraction(i): Fraction(1) for i in range(len(points))})
    blocks = [_power(v.main, 1, column, v) for v in joint if (column := exact_column(v, points)) is not None]
    products = [_multiplied(some) for degree in (1, 2, 3) for some in combinations_with_replacement(blocks, degree)]
    out = list(products)
    simple: list[RationalTerm] = []
    for p, values in enumerate(points.T):
        column = [fraction_of(x) for x in values.tolist()]
        simple += [_power(p, k, column) for k in (1, 2, 3, -1) if k > 0 or all(column)]
    if kind != PRODUCTS[0]:
        falling = [each for each in simple if each.factors[0].basis.falls]
        rising = [one, *(each for each in simple if not each.factors[0].basis.falls)]
        sizes = range(len(falling) + 1)
        divided = [_multiplied((one, *some)) for size in sizes for some in combinations(falling, size)]
        plain = [_multiplied((each, by)) for each in rising for by in divided]
        out += [each for each in plain if len({f.parameter for f in each.factors}) == len(each.factors) > 0]
    if kind == PRODUCTS[2]:
        columns = [(v, column) for v in single if (column := exact_column(v, points)) is not None and all(column)]
        edges = [_power(v.main, k, column, v) for v, column in columns for k in (1, -1)]
        out += [_multiplied((each, by)) for each in products for by in (*simple, *edges) if by.cost == 1]
        out += edges
    return tuple(sorted(out, key=lambda each: each.cost)[:COMBINATIONS])


def _power(
    parameter: int, power: int, column: Sequence[Fraction], variable: DerivedValue | None = None
) -> RationalTerm:
    factor = Factor(parameter, PowerLog(Fraction(power)), variable)
    return RationalTerm(Term((factor,)), abs(power), {Fraction(i): x**power for i, x in enumerate(column)})


def _multiplied(parts: Sequence[RationalTerm]) -> RationalTerm:
    """Multiply; factors of the same variable become one, which costs a bit more."""
    factors = [factor for part in parts for factor in part.factors]
    again = len(factors) - len({(factor.parameter, factor.variable) for factor in factors})
    values = {i: prod((part.values[i] for part in parts), start=Fraction(1)) for i in parts[0].values}
    return RationalTerm(product(*(part.term for part in parts)), sum(part.cost for part in parts) + again, values)


def _evaluated(basis: BasisFunction, x: Fraction) -> Fraction | None:
    """Return the value of a power with logarithms if it is a fraction."""
    power, log = basis.lead
    if x < 0 or (x == 0 and (power < 0 or log)):
        return None
    root = _root(x, power.denominator)
    if root is None:
        return None
    out = root**power.numerator
    if log:
        whole, part = x.numerator, x.denominator
        if part != 1 or whole & (whole - 1):
            return None
        out *= (whole.bit_length() - 1) ** log
    return out


def _root(x: Fraction, degree: int) -> Fraction | None:
    """Return the root if it is a fraction; of degree 1, 2 or 3."""
    if degree == 1:
        return x
    root = Fraction(*(round(number ** (1 / degree)) for number in (x.numerator, x.denominator)))
    return root if root**degree == x else None


@dataclass(frozen=True, eq=False)
class TermSet:
    """A constant or none, and terms of one parameter.

    Attributes
    ----------
    constant
        Whether the constant is among them.
    terms
        Places in the table of `rational_terms`.
    cost
        Bits.
    """

    constant: bool
    terms: tuple[int, ...]
    cost: int

    @property
    def indices(self) -> list[int]:
        """Of the coefficients: 0 for the constant, 1 + its place for a term."""
        return [0] * self.constant + [1 + index for index in self.terms]

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return self.constant + len(self.terms)


Scores = dict[TermSet, float]  # bits that speak for a set of terms, the best first


CONSTANT = TermSet(True, (), 0)
"""The terms of a parameter that does not matter."""


@lru_cache(maxsize=64)
def term_sets(costs: tuple[int, ...], most: int) -> tuple[TermSet, ...]:
    """Return all sets of up to `most` coefficients made of terms with these costs, cheapest first."""
    out = [CONSTANT]
    for size in range(1, min(most, SearchOptions.max_terms) + 1):
        for terms in combinations(range(len(costs)), size):
            cost = sum(costs[index] for index in terms)
            if cost <= MOST_BITS:
                out.append(TermSet(False, terms, cost))
                if size < most:
                    out.append(TermSet(True, terms, cost + 1))
    return tuple(sorted(out, key=lambda terms: (terms.cost, terms.size)))


@dataclass(frozen=True, eq=False)
class Counts:
    """Exact values of many call paths as fractions.

    Attributes
    ----------
    numerators
        Shape (call path, point): whole numbers.
    denominators
        Shape (call path, point): positive whole numbers; what a mean over ranks has.
    usable
        Shape (call path,): whether the values are such fractions, of whole numbers below 2^53.
    """

    numerators: Residues
    denominators: Residues
    usable: Mask

    @classmethod
    def read(cls, points: Array, values: Array) -> Counts:
        """Find the denominators: 1, the values of a whole parameter, or products of two of them.

        Parameters
        ----------
        points
            Shape (point, parameter).
        values
            Shape (call path, point), finite.
        """
        whole = [column for column in points.T if (column == np.rint(column)).all() and (column > 0).all()]
        divisors = [np.ones(len(points)), *whole]
        divisors += [one * other for index, one in enumerate(whole) for other in whole[index:]]
        numerators = np.zeros(values.shape, dtype=np.int64)
        denominators = np.ones(values.shape, dtype=np.int64)
        usable = np.zeros(len(values), dtype=bool)
        for divisor in divisors:
            rows = np.flatnonzero(~usable)
            product = values[rows] * divisor
            near = np.rint(product)
            error = 2 * np.spacing(np.abs(product)) if (divisor > 1).any() else 0.0  # a quotient is rounded
            fine = ((np.abs(product - near) <= error) & (np.abs(product) < _WHOLE)).all(axis=1)
            numerators[rows[fine]] = near[fine].astype(np.int64)
            denominators[rows[fine]] = divisor.astype(np.int64)
            usable[rows[fine]] = True
        return cls(numerators, denominators, usable)

    def of(self, calls: Ids | Sequence[int]) -> Counts:
        """Return the part for some call paths."""
        return Counts(self.numerators[calls], self.denominators[calls], self.usable[calls])

    def fraction(self, call: int, point: int) -> Fraction:
        """Return one value."""
        return Fraction(int(self.numerators[call, point]), int(self.denominators[call, point]))

    def residues(self) -> Residues:
        """Return shape (call path, point): the values modulo the prime."""
        return np.asarray(self.numerators % PRIME * inverse(self.denominators) % PRIME)

    def bits(self, on_lines: Ids) -> tuple[Array, Array]:
        """Return how many bits the values on a line have, and their differences: each of shape (call path,).

        They are of the line with most, and count in steps of what divides all of the line: where each count is the same
        work times a number of rounds, only the rounds tell anything.

        Parameters
        ----------
        on_lines
            Shape (line, point on the line).
        """
        denominators = self.denominators[:, on_lines]
        common = np.lcm.reduce(denominators, axis=2, keepdims=True)
        small = common * np.abs(self.numerators).max(initial=1) < _LARGEST
        whole = self.numerators[:, on_lines] * np.where(small, common // denominators, 1)
        return _bits(whole), _bits(whole - whole.min(axis=2, keepdims=True))


def _bits(whole: Residues) -> Array:
    """Return shape (call path,), from whole numbers of shape (call path, line, point on the line)."""
    unit = np.maximum(np.gcd.reduce(whole, axis=2), 1)
    return np.asarray(np.log2(1 + np.abs(whole).max(axis=2) / unit).max(axis=1))


def term_residues(terms: Sequence[RationalTerm], values: Sequence[Fraction]) -> Residues:
    """Return shape (1 + term, value): of the constant and the terms, modulo the prime."""
    rows = [np.ones(len(values), dtype=np.int64), *(residues([term.values[x] for x in values]) for term in terms)]
    return np.stack(rows)


@dataclass(frozen=True, eq=False)
class ParameterLines:
    """A parameter: its values, its lines, and the terms that have fractions as values there.

    Attributes
    ----------
    values
        At each point.
    lines
        By the values on them: shape (line, point on the line).
    table
        Terms.
    """

    values: tuple[Fraction, ...]
    lines: dict[tuple[Fraction, ...], Ids]
    table: tuple[RationalTerm, ...]

    @property
    def levels(self) -> int:
        """Number of values on the longest line."""
        return max(map(len, self.lines), default=1)

    @property
    def is_passed(self) -> bool:
        """Whether terms may pass through all values, as there are few."""
        return self.levels <= FEW

    @classmethod
    def of(cls, points: Array, parameter: int, variables: tuple[DerivedValue, ...] = ()) -> ParameterLines | None:
        """Return None if the parameter varies, but no two points differ in it alone."""
        column = [fraction_of(x) for x in points[:, parameter].tolist()]
        _, group = np.unique(np.delete(points, parameter, axis=1), axis=0, return_inverse=True)
        order = np.lexsort((points[:, parameter], group.reshape(-1)))
        by_values: dict[tuple[Fraction, ...], list[Ids]] = defaultdict(list)
        for line in np.split(order, np.flatnonzero(np.diff(group.reshape(-1)[order])) + 1):
            if len(line) > 1:
                by_values[tuple(column[point] for point in line.tolist())].append(line)
        levels = tuple(sorted(set(column)))
        if len(levels) > 1 and not by_values:
            return None
        lines = {values: np.stack(some) for values, some in by_values.items()}
        along = tuple(variable for variable in variables if variable.columns == (parameter,))
        return cls(tuple(column), lines, rational_terms(parameter, levels, along) if len(levels) > 1 else ())

    def choose(self, counts: Counts) -> list[Scores]:
        """Return for each call path the sets of terms that explain all lines; none if nothing does."""
        calls = len(counts.numerators)
        if not self.lines:
            return [{CONSTANT: 0.0}] * calls
        longest = self.levels
        options = term_sets(tuple(term.cost for term in self.table), longest if self.is_passed else longest - 1)
        fits = np.ones((len(options), calls), dtype=bool)
        bits, bits_beyond = np.zeros(calls), np.zeros(calls)  # of values, and of values without a constant
        constant = np.zeros((len(options), 1), dtype=bool)
        remainders = counts.residues()
        random = np.random.default_rng(_SEED)
        for levels, on_lines in self.lines.items():
            shares = random.integers(1, PRIME, size=len(on_lines), dtype=np.int64)
            together = np.zeros((calls, len(levels)), dtype=np.int64)
            for share, line in zip(shares.tolist(), on_lines, strict=True):
                together = (together + share * remainders[:, line]) % PRIME
            tests, usable = _tests(self.table, options, levels)
            fits &= modular_product(tests, together.T) == 0
            if len(levels) == longest:
                fits &= usable[:, None]
                of_values, beyond = counts.bits(on_lines)
                bits, bits_beyond = np.maximum(bits, of_values), np.maximum(bits_beyond, beyond)
                constant = (tests.sum(axis=1) % PRIME == 0)[:, None]  # or something that is one at these values
        spare = np.array([longest - terms.size for terms in options])[:, None]
        costs = np.array([terms.cost for terms in options])[:, None]
        scores = spare * np.where(constant, bits_beyond, bits) - costs
        scores[~fits] = -np.inf
        order = np.argsort(-scores, axis=0, kind="stable")[: SearchOptions.alternatives]
        out = []
        for call in range(calls):
            near = order[scores[order[:, call], call] > scores[order[0, call], call] - MARGIN_BITS, call]
            out.append({options[index]: float(scores[index, call]) for index in near.tolist()})
        return out


@lru_cache(maxsize=64)
def _tests(
    table: tuple[RationalTerm, ...], options: tuple[TermSet, ...], levels: tuple[Fraction, ...]
) -> tuple[Residues, Mask]:
    """Return for each set of terms a test of values at `levels`, and whether its terms differ there; see `checks`."""
    columns = term_residues(table, levels)
    tests = np.zeros((len(options), len(levels)), dtype=np.int64)
    usable = np.zeros(len(options), dtype=bool)
    random = np.random.default_rng(_SEED)
    for size in range(1, len(levels) + 1):
        some = [index for index, terms in enumerate(options) if terms.size == size]
        if some:
            sets = np.array([options[index].indices for index in some])
            tests[some], usable[some] = checks(columns[sets], random)
    return tests, usable
