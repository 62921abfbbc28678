"""Formulas of exact counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.modeling.exact.formulas import exact_models
from buran.modeling.experiments import exact_rows
from buran.modeling.fit import fit_models
from buran.modeling.functions.derived import DerivedValue
from buran.modeling.functions.powers import full_space, wider_space
from buran.modeling.pmnf import Model, format_function

Count = Callable[..., float]
LINES_OF_TWO = [(4, v) for v in (1, 2, 3, 4, 5)] + [(b, 1) for b in (6, 8, 10, 12)] + [(8, 3), (12, 5)]
GRID = list(product((1, 2, 4, 8), (16, 32, 48, 64, 80)))


def formula(points: Sequence[tuple[float, ...]], count: Count, names: str) -> str:
    model = model_of(points, count)
    return "" if model is None else format_function(model.function, list(names))


def model_of(points: Sequence[tuple[float, ...]], count: Count) -> Model | None:
    values = np.array([[float(count(*point)) for point in points]])
    return exact_models(np.array(points, dtype=float), values)[0]


def of_one(*values: float) -> list[tuple[float, ...]]:
    return [(value,) for value in values]


def test_a_kernel_proportional_to_variables_and_cubic_in_blocks() -> None:
    assert formula(LINES_OF_TWO, lambda b, v: 17 * v * (b**3 + 2 * b * b), "bv") == "17 b^3 * v + 34 b^2 * v"


def test_an_allocation_with_four_terms_on_lines() -> None:
    text = formula(LINES_OF_TWO, lambda b, v: 6132 + v * (6000 * b * b + 30000 * b + 42000), "bv")
    assert text == "6132 + 6000 b^2 * v + 3e+04 b * v + 4.2e+04 v"


def test_a_neighbour_search_beyond_cubes() -> None:
    text = formula(GRID, lambda p, n: n**4 / (64 * p) + n**2 / (2 * p), "pn")
    assert text == "0.01562 p^(-1) * n^4 + 0.5 p^(-1) * n^2"


@pytest.mark.parametrize("values", [(1, 2, 4), (2, 4, 8), (4, 8, 16)])
def test_squares_on_three_values(values: tuple[int, ...]) -> None:
    assert formula(of_one(*values), lambda p: p * p, "p") == "p^2"


def test_four_terms_on_five_values() -> None:
    text = formula(of_one(2, 4, 8, 16, 32), lambda p: 9 + 4 * p * p + 7 * p - 5 / p, "p")
    assert text == "9 + 4 p^2 + 7 p - 5 p^(-1)"


def test_surfaces_of_cubes_of_ranks() -> None:
    points = list(product((1, 8, 27), range(4, 10)))
    text = formula(points, lambda p, s: 18 * (p - round(p ** (2 / 3))) / p * s * s, "ps")
    assert text == "18 s^2 - 18 p^(-1/3) * s^2"


def test_chance_is_no_formula() -> None:
    assert model_of(of_one(10, 20, 30, 40, 50), lambda n: {10: 83, 20: 9127, 30: 411, 40: 50021, 50: 7}[int(n)]) is None


def test_few_values_of_a_parameter_leave_its_growth_open() -> None:
    model = model_of(list(product((1, 8), range(4, 10))), lambda p, s: (p - 1) * s * s * 3 + s**3)
    assert model is not None
    at = np.array([[8.0, 40.0], [64.0, 40.0]])
    lower, upper = model.predict_interval(at)
    truth = np.array([7 * 4800 + 64000.0, 63 * 4800 + 64000.0])
    assert lower[0] == pytest.approx(truth[0])
    assert upper[0] == pytest.approx(truth[0])
    assert lower[1] < truth[1] <= upper[1] * (1 + 1e-9)
    assert upper[1] > 2 * lower[1]


def test_no_formula_becomes_negative() -> None:
    assert model_of(of_one(1, 2, 3, 4, 5), lambda n: 100 - 10 * n) is None


def test_constants_and_zeros() -> None:
    for value in (0.0, 7.0):
        model = model_of(GRID, lambda p, n, value=value: value)
        assert model is not None
        assert model.function.is_constant
        assert model.function.constant == value


def test_a_parameter_with_one_value_is_left_out() -> None:
    points = [(4.0, n) for n in (10.0, 20.0, 30.0, 40.0)]
    assert formula(points, lambda p, n: 3 * n * n, "pn") == "3 n^2"


def test_a_parameter_value_of_zero_takes_no_logarithms_and_reciprocals() -> None:
    points = of_one(0, 1, 2, 3, 4, 5)
    assert formula(points, lambda n: 5 * n**3 + 2, "n") == "2 + 5 n^3"


def test_numbers_that_are_not_whole_are_not_explained() -> None:
    assert model_of(of_one(1, 2, 4, 8, 16), lambda n: n * np.pi) is None


def test_numbers_beyond_what_a_float_tells_are_not_explained() -> None:
    assert model_of(of_one(1, 2, 4, 8, 16), lambda n: 2.0**53 * n) is None


def test_missing_values_leave_the_others() -> None:
    points = np.array(of_one(10, 20, 30, 40, 50, 60), dtype=float)
    values = np.array([[3 * n**3 + n for (n,) in points], [n * n for (n,) in points]])
    values[1, 2] = np.nan
    models = fit_models(points, values, exact=np.array([True, True])).models
    texts = [format_function(model.function, ["n"]) for model in models if model is not None]
    assert texts == ["3 n^3 + n", "n^2"]


def test_counts_that_differ_between_repetitions_are_not_exact() -> None:
    repetitions = np.array([[[3.0, 3.0], [5.0, 5.0]], [[3.0, 3.0], [5.0, 6.0]], [[3.0, np.nan], [5.0, np.nan]]])
    assert exact_rows("visits", repetitions).tolist() == [True, False, True]
    assert exact_rows("time", repetitions).tolist() == [True, False, False]


def test_what_is_not_exact_is_searched_as_before() -> None:
    points = np.array(of_one(10, 20, 30, 40, 50), dtype=float)
    values = np.array([[3 * n**3 + n for (n,) in points]]) * np.array([1.0, 1.01, 0.99, 1.02, 0.98])
    plain = fit_models(points, values).models
    assert fit_models(points, values, exact=np.array([False])).models == plain


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 10**6), min_size=3, max_size=3),
    st.lists(st.sampled_from([(0, 1), (1, 0), (2, 0), (3, 0), (1, 1), (2, 1), (0, 2)]), min_size=3, max_size=3),
)
def test_sums_of_products_come_back(coefficients: list[int], powers: list[tuple[int, int]]) -> None:
    """What is found predicts the count far beyond the points."""
    points = np.array(list(product((3, 5, 6, 9, 12), (10, 20, 30, 40, 50))), dtype=float)

    def count(at: np.ndarray) -> np.ndarray:
        return np.asarray(
            sum(c * at[:, 0] ** j * at[:, 1] ** i for c, (i, j) in zip(coefficients, powers, strict=True))
        )

    model = exact_models(points, count(points)[None])[0]
    assert model is not None
    far = np.array([[96.0, 400.0]])
    assert model.function.evaluate(far)[0] == pytest.approx(count(far)[0], rel=1e-12)


def test_a_space_for_each_parameter() -> None:
    points = np.array(list(product((1, 2, 3, 4, 5), repeat=2)), dtype=float)
    values = np.array([0.3 * points[:, 1] ** 4.0 + points[:, 0]])
    spaces = [full_space(), wider_space(["4 0"])]
    (model,) = fit_models(points, values, space=spaces).models
    assert model is not None
    assert format_function(model.function, ["p", "n"]) == "0.3 n^4 + p"


def test_few_values_of_a_parameter_are_not_passed_through_by_more_terms_than_tell():
    """A grid of ranks on p = 1, 2, 4: what its edges add has no formula in p alone, and 8 n^2 / p must stay."""
    p, n = np.array([(p, n) for p in (1.0, 2.0, 4.0) for n in (20.0, 40.0, 60.0, 80.0, 120.0)]).T
    px, py = np.where(p > 2, 2.0, 1.0), np.where(p > 1, 2.0, 1.0)
    cells = 8 * n * n / p + 56 * n / px + 40 * n / py + 754
    points = np.stack([p, n], axis=1)
    assert exact_models(points, cells[None]) == [None]
    model = fit_models(points, cells[None], exact=np.ones(1, dtype=bool)).models[0]
    at = np.array([[64.0, 1000.0]])
    assert model is not None and model.function.evaluate(at)[0] == pytest.approx(8e6 / 64 + 96 * 125 + 754, rel=0.1)


RANKS = (1, 2, 3, 4, 6, 8)
LARGER_EDGES = {1: 1, 2: 2, 3: 3, 4: 2, 6: 3, 8: 4, 12: 4, 16: 4}


def test_neighbours_on_a_grid_of_ranks_are_shares_of_its_ranks() -> None:
    """Faces to the left, faces below and corners, on grids whose shorter edge has one or two ranks."""

    def messages(p: float, n: float) -> float:
        x = LARGER_EDGES[int(p)]
        right, up = 1 - 1 / x, 1 - x / p
        return 5 * (right + up + right * up) * n

    points = np.array(list(product(RANKS, (8, 10, 12, 16, 20))), dtype=float)
    values = np.round(np.array([[messages(*point) for point in points]]) * points[:, 0]) / points[:, 0]
    edges = [DerivedValue.of("px", "grid2(p, 1)", ("p", "n")), DerivedValue.of("py", "grid2(p, 2)", ("p", "n"))]
    model = fit_models(points, values, exact=np.ones(1, dtype=bool), variables=[edges]).models[0]
    at = np.array([[12.0, 32.0], [16.0, 40.0]])
    assert model is not None
    assert model.function.evaluate(at) == pytest.approx([messages(12, 32), messages(16, 40)])


def test_chance_along_the_ranks_is_no_formula_beside_a_proven_size() -> None:
    """Along p the grid is not that of the named edges; all of n is proven, but three small numbers more are not."""
    shares = dict(zip(RANKS, (0, 1 / 2, 2 / 3, 1 / 2, 1 / 2, 1 / 2), strict=True))
    points = np.array(list(product(RANKS, (8, 10, 12, 16, 20))), dtype=float)
    values = np.array([[31 * shares[int(p)] for p, _ in points]])
    edges = [DerivedValue.of("px", "grid2(p, 1)", ("p", "n")), DerivedValue.of("py", "grid2(p, 2)", ("p", "n"))]
    assert exact_models(points, values, [edges]) == [None]


def test_numbers_without_a_law_have_no_formula_on_three_sizes() -> None:
    points = np.array([(1, 8), (1, 16), (1, 32), (2, 8)], dtype=float)
    random = np.random.default_rng(51)
    counts = np.floor(random.uniform(100, 5000, (2000, 1)) * points[:, 1] ** random.uniform(0.5, 2.5, (2000, 1)))
    counts += random.integers(0, 9, counts.shape)
    models = exact_models(points, counts)
    assert sum(model is not None for model in models) <= 2
