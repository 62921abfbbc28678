"""Values that programs derive from their parameters, as variables of formulas."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction as F
from itertools import product

import numpy as np
import pytest

from buran.campaign.expressions import written_out
from buran.modeling.fit import fit_models
from buran.modeling.functions.derived import DerivedValue, variables_of
from buran.modeling.functions.powers import PowerLog
from buran.modeling.functions.terms import Factor, ModelFunction, Term
from buran.modeling.pmnf import format_function
from buran.modeling.pmnf.model import Model
from buran.modeling.pmnf.text import growth_class

NAMES = ("p", "n")
POINTS = np.array(list(product((1, 2, 3, 4, 6, 8), (9, 10, 11, 12, 14, 16))), dtype=float)
EDGES = [DerivedValue.of(f"p{axis}", f"grid3(p, {i + 1})", NAMES) for i, axis in enumerate("xyz")]
CELLS = [DerivedValue.of(f"c{axis}", f"floor(0.73 * n / grid3(p, {i + 1}))", NAMES) for i, axis in enumerate("xyz")]
FAR = np.array([(12.0, 22.0), (16.0, 26.0), (27.0, 30.0)])
Count = Callable[..., np.ndarray]


def model_of(count: Count, given: list[DerivedValue]) -> Model:
    model = fit_models(
        POINTS,
        counted(count, given, POINTS)[None],
        exact=np.array([True]),
        variables=variables_of({each.name: each.text for each in given}, NAMES, POINTS),
    ).models[0]
    assert model is not None
    return model


def counted(count: Count, given: list[DerivedValue], points: np.ndarray) -> np.ndarray:
    return np.asarray(count(*points.T, *(variable.evaluate(points) for variable in given)))


@pytest.mark.parametrize(
    ("count", "given", "text"),
    [
        (lambda p, n: 5 + 3 * (n // p), [], "5 + 3 (n // p)"),
        (lambda p, n: np.ceil(n / p) ** 2 + p, [], "p + ceil(n / p)^2"),
        (lambda p, n: 17 + (n % p) * np.ceil(n / p), [], "17 + ceil(n / p) * (n % p)"),
        (lambda p, n, x, y, z: 4 + 12 * n * n - 12 * n * n / x, EDGES, "4 + 12 faces(px) * n^2"),
        (lambda p, n, x, y, z: 3 + np.ceil(n / x) * np.ceil(n / y), EDGES, "3 + ceil(n / px) * ceil(n / py)"),
        (lambda p, n, x, y, z: 13 + 7 * x * y * z, CELLS, "13 + 7 cx * cy * cz"),
        (
            lambda p, n, x, y, z: 20 * n**3 / p + 2 * (x * y + x * z + y * z),
            CELLS,
            "20 p^(-1) * n^3 + 2 cy * cz + 2 cx * cz + 2 cx * cy",
        ),
    ],
    ids=("floor", "ceil", "remainder", "grid", "blocks of a grid", "cells", "faces of cells"),
)
def test_counts_that_follow_blocks_and_grids_have_their_formula(
    count: Count, given: list[DerivedValue], text: str
) -> None:
    model = model_of(count, given)
    assert format_function(model.function, NAMES) == text
    assert np.allclose(model.function.evaluate(FAR), counted(count, given, FAR), rtol=1e-12)


def test_what_the_parameters_explain_alone_needs_no_variable() -> None:
    model = model_of(lambda p, n, x, y, z: n**3 / p + 8, EDGES)
    assert format_function(model.function, NAMES) == "8 + p^(-1) * n^3"


def test_no_formula_comes_from_random_numbers() -> None:
    random = np.random.default_rng(3).integers(1, 10**6, (20, len(POINTS))).astype(float)
    groups = variables_of({each.name: each.text for each in (*EDGES, *CELLS)}, NAMES, POINTS)
    models = fit_models(POINTS, random, exact=np.ones(20, dtype=bool), variables=groups).models
    assert all(model is not None and model.quality.error > 0 for model in models)


def test_edges_that_few_numbers_of_ranks_do_not_tell_apart_widen_the_interval() -> None:
    def count(p: np.ndarray, n: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        return 100 - 12 / x - 12 / y - 12 / z + 6 * n

    low, high = model_of(count, EDGES).predict_interval(FAR)
    truth = counted(count, EDGES, FAR)
    assert (low <= truth + 1e-9).all()
    assert (truth <= high + 1e-9).all()


def test_a_formula_of_variables_is_written_and_read() -> None:
    function = model_of(lambda p, n, x, y, z: 13 + 7 * x * y * z, CELLS).function
    assert ModelFunction.from_json(json.loads(json.dumps(function.to_json()))) == function
    python = format_function(function, NAMES, "python")
    functions = {"grid3": lambda p, edge: 2 if p == 8 else math.nan, "floor": math.floor}
    assert eval(python, functions, {"p": 8, "n": 16}) == 13 + 7 * 5**3
    damaged = function.to_json()
    damaged["terms"][0]["factors"][0]["variable"]["text"] = "import os"
    with pytest.raises(ValueError, match="import"):
        ModelFunction.from_json(damaged)


def test_growth_follows_what_is_derived() -> None:
    function = model_of(lambda p, n: 5 + 3 * (n // p), []).function
    assert growth_class(function, NAMES) == "(n // p)"
    assert function.lead(0) == (0, 0)  # beside the constant, what falls does not remain
    assert function.terms[0].lead(0) == (-1, 0)
    assert function.lead(1) == (1, 0)
    shared = [Factor(0, PowerLog(F(1)), DerivedValue.of("ranks of a node", f"{c} * min(p, 2)", NAMES)) for c in (2, 3)]
    cubes = Factor(1, PowerLog(F(3)))
    terms = Term((cubes,)), *(Term((factor, cubes)) for factor in shared)
    assert growth_class(ModelFunction(0.0, (1.0, 1.0, 1.0), terms), NAMES) == "n^3"
    assert growth_class(ModelFunction(0.0, (1.0, 1.0), terms[1:]), NAMES) == "(ranks of a node) * n^3"
    cells = model_of(lambda p, n, x, y, z: 7 * x * y * z, CELLS).function
    assert cells.terms[0].lead(0) == (-1, 0)
    assert cells.terms[0].lead(1) == (3, 0)
    moved = cells.terms[0].factors[0].moved([1, 0])
    assert moved.evaluate(POINTS[:, ::-1]) == pytest.approx(CELLS[0].evaluate(POINTS))


def test_a_variable_between_whole_numbers_is_that_of_the_nearest() -> None:
    assert EDGES[0].evaluate(np.array([[7.9, 1.0], [1e12, 1.0]]))[0] == 2.0
    assert math.isnan(EDGES[0].evaluate(np.array([[1e12, 1.0]]))[0])


def test_values_that_use_one_another_are_written_out() -> None:
    values = {"px": "grid2(p, 1)", "lx": "ceil(n / px)", "two": 2, "long": "+".join(["p"] * 150)}
    assert written_out({**values, "longer": "long * long"}) == {
        "px": "grid2(p, 1)",
        "lx": "ceil(n / grid2(p, 1))",
        "two": "2",
    }
