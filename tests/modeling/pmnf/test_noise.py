"""Noise levels."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from buran.modeling.pmnf.repetitions import noise_level


def test_level_is_the_mean_deviation_from_the_mean_in_percent():
    assert noise_level(np.array([90.0, 110.0])) == pytest.approx(10)
    assert noise_level(np.array([[80.0, 100, 120], [5, 5, 5]])) == pytest.approx([40 / 3, 0])


def test_level_is_unknown_without_two_repetitions():
    levels = noise_level(np.array([[1.0, np.nan], [0, 0], [np.nan, np.nan], [1, 3]]))
    assert np.isnan(levels[:3]).all()
    assert levels[3] == pytest.approx(50)
    assert np.isnan(noise_level(np.array([7.0])))


@given(arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(1, 4)), elements=st.floats(allow_infinity=True)))
def test_level_is_never_negative_and_never_fails(values):
    levels = noise_level(values)
    assert levels.shape == values.shape[:1]
    assert not (levels < 0).any()
