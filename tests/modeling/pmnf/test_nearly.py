"""Formulas that exact counts follow nearly."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.modeling.exact.nearly import near_models
from buran.modeling.fit import fit_models
from buran.modeling.functions.powers import full_space
from buran.modeling.functions.terms import Array
from buran.modeling.pmnf.model import Model


def near(points: Array, counts: Array) -> list[Model | None]:
    """Formulas of any plain bases."""
    return near_models(points, counts, [full_space().candidates(column) for column in points.T])


POINTS = np.array(list(product((1.0, 2.0, 4.0), (2048.0, 4096.0, 8192.0, 16384.0, 32768.0))))
FAR = np.array([[64.0, 2.0**20], [2.0, 2.0**17]])


def halo(at: np.ndarray) -> np.ndarray:
    """Blocks of a generator that compares the points of its own strip and of both beside it."""
    p, n = at.T
    return 3 * n**2 / p**2 - 2 * n**2 / p**3 + 29 * n * np.log2(n) / p


def test_differences_of_terms_that_fall_are_found_where_they_meet_all_counts() -> None:
    random = np.random.default_rng(4)
    counts = np.floor(halo(POINTS) * random.normal(1, 0.001, len(POINTS)))
    model = fit_models(POINTS, counts[None], exact=np.array([True])).models[0]
    assert model is not None and model.quality.smape < 0.5
    assert model.function.evaluate(FAR) == pytest.approx(halo(FAR), rel=0.02)
    timed = fit_models(POINTS, counts[None]).models[0]
    assert timed is not None and abs(timed.function.evaluate(FAR)[0] / halo(FAR)[0] - 1) > 0.5, (
        "times prove no such sum"
    )


def test_counts_that_depend_on_data_have_none() -> None:
    random = np.random.default_rng(5)
    counts = np.floor(halo(POINTS) * random.normal(1, 0.05, (20, len(POINTS))))
    assert near(POINTS, counts) == [None] * 20


def test_few_points_have_none() -> None:
    few = POINTS[[0, 4, 10, 14]]
    assert near(few, halo(few)[None]) == [None]
    assert near(POINTS, np.zeros((1, 15))) == [None]
    assert near(POINTS[:1], np.array([[7.0]])) == [None]


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(1, 1e4), min_size=3, max_size=3),
    st.sampled_from([(1, 0), (3 / 2, 1), (2, 1), (3, 1)]),
    st.integers(0, 2**32 - 1),
)
def test_what_is_found_misses_no_count_and_never_becomes_negative(
    coefficients: list[float], powers: tuple[float, float], seed: int
) -> None:
    p, n = POINTS.T
    a, b, c = coefficients
    noise = np.random.default_rng(seed).normal(1, 0.002, len(POINTS))
    counts = np.round((a * n ** powers[0] / p ** powers[1] + b * n / p + c) * noise)
    for model in near(POINTS, counts[None]):
        if model is not None:
            predicted = model.function.evaluate(POINTS)
            assert np.abs(predicted / counts - 1).max() <= 0.0101
            assert (
                model.function.evaluate(np.array([[1.0, 2048.0 * 128], [32.0, 2048.0], [32.0, 2.0**18]])) >= 0
            ).all()
            assert sum(alternative.weight for alternative in model.alternatives) == pytest.approx(1)
