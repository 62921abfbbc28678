"""Synthetic truths: every kind is what it is called, in equal parts, and depends on the seed alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from buran_studies.functions import (
    OUTSIDE,
    SHAPES,
    Composite,
    beyond,
    draw,
    draw_outside,
    grid,
    kind_inside,
    kind_outside,
)
from buran_studies.parts import Block, Knee, TreeSteps

M = (1, 2, 3)


def drawn(parameters: int, kind: str, count: int = 4) -> list:
    maker = draw_outside if kind in OUTSIDE else draw
    return [maker(parameters, np.random.default_rng([1, k]), kind) for k in range(count)]


@pytest.mark.parametrize("parameters", M)
def test_sums_products_and_mixtures_are_drawn_in_equal_parts(parameters: int) -> None:
    kinds = Counter(kind_inside(parameters, k) for k in range(1200))
    if parameters > 1:
        assert kinds == {**dict.fromkeys(SHAPES, 300), "falling": 100, "idle": 100, "constant": 100}
    else:
        assert kinds == {"term": 900, "falling": 150, "constant": 150}
    assert set(Counter(kind_outside(k) for k in range(len(OUTSIDE))).values()) == {1}


@pytest.mark.parametrize("parameters", M)
def test_functions_depend_on_the_seed_alone_and_are_positive(parameters: int) -> None:
    for kind in (*{kind_inside(parameters, k) for k in range(12)}, *OUTSIDE):
        functions = drawn(parameters, kind, 2)
        assert functions == drawn(parameters, kind, 2)
        for function in functions:
            values = function.evaluate(np.vstack([grid(parameters), beyond(parameters)]))
            assert (values > 0).all() and np.isfinite(values).all()
    assert (beyond(4) > grid(4).max(axis=0)).all()


@pytest.mark.parametrize("parameters", M[1:])
def test_shapes_inside(parameters: int) -> None:
    everything = set(range(parameters))

    def terms(kind: str) -> list[list[set[int]]]:
        return [[{factor.parameter for factor in term.factors} for term in f.terms] for f in drawn(parameters, kind)]

    assert all(term == [everything] for term in terms("product"))
    assert all(sorted(map(tuple, term)) == [(k,) for k in range(parameters)] for term in terms("sum"))
    for own in terms("mixture"):
        assert len(own) > 1 and max(map(len, own)) > 1 and set.union(*own) == everything
    assert all(len(set().union(*term)) == parameters - 1 for term in terms("idle"))
    assert all(not term for term in terms("constant"))
    falling = [
        [factor.basis.lead[0] for term in f.terms for factor in term.factors] for f in drawn(parameters, "falling")
    ]
    assert all(any(power < 0 for power in own) for own in falling)


@pytest.mark.parametrize("parameters", M[1:])
def test_every_term_of_a_sum_is_visible_at_both_corners(parameters: int) -> None:
    corners = grid(parameters)[[0, -1]]
    for kind in ("sum", "mixture"):
        for function in drawn(parameters, kind):
            for coefficient, term in zip(function.coefficients, function.terms, strict=True):
                assert (coefficient * term.evaluate(corners) >= 0.01 * function.evaluate(corners)).all()


def test_sums_of_four_parameters_exist() -> None:
    (function,) = drawn(4, "sum", 1)
    assert len(function.terms) == 4


def test_some_functions_have_no_constant() -> None:
    constants = [each.constant for each in drawn(2, "product", 40)]
    assert 0 < constants.count(0.0) < 20


def test_parts_outside_the_space() -> None:
    x = np.array([[4.0], [8.0], [9.0], [64.0]])
    assert TreeSteps(0, 2, 0.0).evaluate(x).tolist() == [2, 3, 4, 6]
    assert TreeSteps(0, 4, 1.0).evaluate(x).tolist() == [4, 16, 18, 192]
    assert Block(0, 65).evaluate(x).tolist() == [17, 9, 8, 2]
    assert Block(0, 3, times=1).evaluate(np.array([[4.0, 10.0]])).tolist() == [8]
    knee = Knee(0, 8.0, 0.0, 2.0)
    assert knee.evaluate(x).tolist() == pytest.approx([1, 1, 81 / 64, 64])
    assert replace(knee, below=1.0).evaluate(x).tolist() == pytest.approx([4, 8, 8 * 81 / 64, 512])


def test_the_larger_of_two_changes_inside_the_grid() -> None:
    for function in drawn(1, "larger of two", 20):
        first, second = function.first.evaluate(grid(1)), function.second.evaluate(grid(1))
        assert isinstance(function.first, Composite)
        assert (function.evaluate(grid(1)) == np.maximum(first, second)).all()
        close = np.abs(first / second - 1) < 1e-9
        assert close.all() or ((first > second).any() and (first < second).any())
