"""Intervals of mixtures of t distributions."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import stdtr

from buran.modeling.numerics.intervals import of_mixture

SHAPE = (3, 4)
NUMBERS = st.floats(-1e6, 1e6)
SCALES = st.floats(1e-3, 1e3)


@given(
    arrays(float, SHAPE, elements=NUMBERS),
    arrays(float, SHAPE, elements=SCALES),
    arrays(float, SHAPE, elements=st.integers(1, 40).map(float)),
    arrays(float, SHAPE, elements=st.floats(0.01, 1.0)),
    st.floats(0.1, 0.99),
)
def test_what_lies_beyond_each_end_has_the_asked_share(middle, scale, degrees, weight, level):
    weight = weight / weight.sum(axis=1, keepdims=True)
    ends = of_mixture(middle[..., None], scale[..., None], degrees, weight, level)
    for end, share in zip(ends, ((1 - level) / 2, (1 + level) / 2), strict=True):
        # A distance that floats far from zero still tell apart, on both sides.
        near = 1e-9 * (np.abs(end) + scale.max(axis=1, keepdims=True))
        below, above = ((weight * stdtr(degrees, (at - middle) / scale)).sum(axis=1) for at in (end - near, end + near))
        assert np.all(below <= share + 1e-9)
        assert np.all(above >= share - 1e-9)


def test_parts_that_are_certain_make_steps():
    middle, weight = np.array([[[1.0], [2.0], [9.0]]]), np.array([[0.3, 0.4, 0.3]])
    lower, upper = of_mixture(middle, np.zeros_like(middle), np.full((1, 3), 5.0), weight, 0.9)
    np.testing.assert_allclose([lower[0, 0], upper[0, 0]], [1.0, 9.0])


def test_a_single_part_that_is_certain_has_no_width():
    lower, upper = of_mixture(np.full((1, 1, 1), 7.0), np.zeros((1, 1, 1)), np.full((1, 1), 5.0), np.ones((1, 1)), 0.9)
    np.testing.assert_allclose([lower[0, 0], upper[0, 0]], [7.0, 7.0])


def test_a_part_of_which_nothing_is_known_leaves_no_ends():
    ends = of_mixture(np.ones((1, 2, 1)), np.array([[[1.0], [np.nan]]]), np.ones((1, 2)), np.full((1, 2), 0.5), 0.9)
    assert [end[0, 0] for end in ends] == [-np.inf, np.inf]


def test_what_nobody_doubts_has_no_width():
    """As of MPI on one rank, which all hypotheses say takes nothing."""
    degrees, weight = np.array([[4.0, 5.0]]), np.array([[0.5, 0.5]])
    for value in (0.0, 3.0):
        ends = of_mixture(np.full((1, 2, 1), value), np.zeros((1, 2, 1)), degrees, weight, 0.9)
        assert [end.item() for end in ends] == [value, value]
