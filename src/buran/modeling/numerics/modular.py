"""Linear algebra on whole numbers modulo a prime: exact, many small systems at once.

A system of rational equations that has a solution has it modulo a prime too, unless the prime divides a denominator.
That it has one modulo the prime but none at all has a probability of one in the prime. So this finds what fractions
then prove.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Residues = NDArray[np.int64]

PRIME = 2**31 - 1  # products of two residues fit into 64 bits


def residues(numbers: Sequence[Fraction]) -> Residues:
    """Return fractions modulo the prime, shape (number,)."""
    out = [number.numerator * pow(number.denominator, -1, PRIME) % PRIME for number in numbers]
    return np.array(out, dtype=np.int64)


def inverse(numbers: Residues) -> Residues:
    """Return reciprocals modulo the prime, in the shape of `numbers`; 0 for 0."""
    whole = (numbers % PRIME).ravel().tolist()
    return np.array([pow(each, -1, PRIME) if each else 0 for each in whole], dtype=np.int64).reshape(numbers.shape)


def product(left: Residues, right: Residues) -> Residues:
    """Return the matrix product of (row, inner) and (inner, column) modulo the prime."""
    out = np.zeros((left.shape[0], right.shape[1]), dtype=np.int64)
    for k in range(left.shape[1]):
        out += left[:, k, None] * right[None, k] % PRIME
    return out % PRIME  # sums of less than 2^32 residues fit into 64 bits


def reduced(matrices: Residues) -> tuple[Residues, Residues, NDArray[np.bool_]]:
    """Bring the rows of matrices to a form in which each has a column of its own.

    Parameters
    ----------
    matrices
        Shape (matrix, row, column).

    Returns
    -------
    rows
        Rows of the same shape: row i has 1 in its pivot column and the other rows have 0 there.
    pivots
        Shape (matrix, row): these columns.
    independent
        Shape (matrix,): whether every row has one.
    """
    rows = matrices % PRIME
    count, height, _ = rows.shape
    at = np.arange(count)
    pivots = np.zeros((count, height), dtype=np.int64)
    independent = np.ones(count, dtype=bool)
    for i in range(height):
        # Gauss-Jordan: row i is divided by its first number that is not 0, and taken off all others so that they have 0
        present = rows[:, i] != 0
        independent &= present.any(axis=1)
        pivot = pivots[:, i] = np.argmax(present, axis=1)
        rows[:, i] = rows[:, i] * inverse(rows[at, i, pivot])[:, None] % PRIME
        shares = rows[at, :, pivot]
        shares[:, i] = 0
        rows = (rows - shares[:, :, None] * rows[:, i, None]) % PRIME
    return rows, pivots, independent


def checks(columns: Residues, random: np.random.Generator) -> tuple[Residues, NDArray[np.bool_]]:
    """Return a test for each set of columns: whether values are a sum of multiples of them.

    Parameters
    ----------
    columns
        Shape (set, column, point).
    random
        Where the tests come from: each is a random one of those that all such sums pass.

    Returns
    -------
    tests
        Shape (set, point): the product with the values is 0 for such sums, and otherwise not, but for chance.
    independent
        Shape (set,): whether no column is a sum of multiples of the others.
    """
    rows, pivots, independent = reduced(columns)
    tests = random.integers(1, PRIME, size=(len(columns), columns.shape[2]), dtype=np.int64)
    at = np.arange(len(columns))[:, None]
    tests[at, pivots] = 0
    bound = np.zeros(pivots.shape, dtype=np.int64)
    for point in range(columns.shape[2]):
        bound = (bound + rows[:, :, point] * tests[:, None, point]) % PRIME
    tests[at, pivots] = -bound % PRIME
    return tests, independent


def spans(columns: Residues, values: Residues) -> tuple[list[int], Residues]:
    """Take columns one after the other until values are sums of multiples of them.

    Parameters
    ----------
    columns, values
        Shapes (column, point) and (value, point).

    Returns
    -------
    basis
        The columns, in their order, without those that are such sums of earlier ones.
    last
        Shape (value,): place in `basis` of the last one that it takes; its length where all of them do not do.
    """
    left = np.concatenate([values, columns]) % PRIME
    basis: list[int] = []
    last = np.full(len(values), -1, dtype=np.int64)
    for column in range(len(columns)):
        row = left[len(values) + column].copy()
        if not row.any():
            continue
        # Gauss-Jordan elimination modulo the prime
        pivot = int(np.argmax(row != 0))
        row = row * int(inverse(row[pivot : pivot + 1])[0]) % PRIME
        left = (left - left[:, pivot, None] * row % PRIME) % PRIME
        last[(last < 0) & ~left[: len(values)].any(axis=1)] = len(basis)
        basis.append(column)
    return basis, np.where(last < 0, len(basis), last)


def solved(columns: Residues, values: Residues) -> tuple[NDArray[np.bool_], Residues]:
    """Write values as sums of multiples of columns that are no such sums of one another.

    Parameters
    ----------
    columns, values
        Shapes (column, point) and (value, point).

    Returns
    -------
    fits
        Shape (value,): whether they are.
    coefficients
        Shape (value, column): the multiples; of no use where it does not fit.
    """
    _, pivots, _ = reduced(columns[None])
    size = len(columns)
    rows, order, _ = reduced(np.concatenate([columns[:, pivots[0]].T, np.eye(size, dtype=np.int64)], axis=1)[None])
    inverted = np.empty((size, size), dtype=np.int64)
    inverted[order[0]] = rows[0, :, size:]
    coefficients = product(values[:, pivots[0]], inverted.T)
    return (product(coefficients, columns) == values % PRIME).all(axis=1), coefficients
