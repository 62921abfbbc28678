"""Hypothesis spaces: which exponents compete."""

from fractions import Fraction as F

import numpy as np
import pytest

from buran.errors import FormatError, UsageError
from buran.modeling.functions.powers import HypothesisSpace, full_space, read_space
from buran.modeling.pmnf.candidates import TermTable, lines, patterns, short_list


def test_full_space_is_the_product_of_both_sets():
    pairs = full_space().pairs
    assert len(pairs) == 20 * 3 - 1
    assert {i for i, _ in pairs} >= {F(1, 4), F(4, 5), F(11, 4), F(3)}
    assert {j for _, j in pairs} == {0, 1, 2}


def test_logarithms_need_values_from_one_on():
    found = full_space().candidates(np.array([0.5, 2.0, 4.0]))
    assert found
    assert all(each.lead[1] == 0 for each in found)


def test_negative_powers_need_positive_values():
    found = full_space().candidates(np.array([0.0, 2.0, 4.0]))
    assert found
    assert all(each.lead[0] > 0 and each.lead[1] == 0 for each in found)


def test_negative_powers_with_logarithms_fall_on_most_of_the_range():
    x = np.array([4.5, 6.0, 20.0, 1000.0])
    for i, j in full_space().with_negatives:
        if i < 0:
            assert (np.diff(x ** float(i) * np.log2(x) ** j) < 0).all(), (i, j)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_impossible_parameter_values_are_refused(bad):
    with pytest.raises(UsageError) as caught:
        full_space().candidates(np.array([2.0, bad]))
    assert caught.value.why.startswith(f"{bad:g} ")


def test_spaces_without_sense_are_refused():
    with pytest.raises(UsageError, match="empty"):
        HypothesisSpace(())
    with pytest.raises(UsageError, match="no term"):
        HypothesisSpace(((F(0), 0),))
    with pytest.raises(UsageError, match="twice"):
        HypothesisSpace(((F(1), 0), (F(1), 0)))


def test_a_parameter_with_one_value_has_no_terms():
    x = np.array([4.0, 4.0])
    assert TermTable.of(full_space().candidates(x), x).functions == ()


def test_lines_are_found_in_any_layout():
    points = np.array([[1, 1], [1, 2], [1, 4], [2, 1], [4, 1], [4, 4]], dtype=float)
    assert [line.tolist() for line in lines(points, 0)] == [[[0, 3, 4]]]
    assert [line.tolist() for line in lines(points, 1)] == [[[0, 1, 2]]]


def test_products_are_complete_for_two_parameters_and_bounded_for_many():
    two = patterns((3, 2))
    assert len(two) == 3 + 2 + 6
    assert len({tuple(row) for row in two}) == len(two)
    five = patterns((15,) * 5)
    assert len(five) < 1500
    assert (five > 0).all(axis=1).any()


def test_short_lists_hold_the_best_and_the_plain_terms():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    table = TermTable.of(full_space().candidates(x), x)
    misfit = np.random.default_rng(3).random((5, len(table.values)))
    chosen = short_list(table, misfit)
    for row, best in zip(chosen, misfit, strict=True):
        assert len(set(row)) == len(row)
        assert set(np.flatnonzero(table.plain)) <= set(row)
        assert 1 + np.argmin(best[1:]) in row


def test_a_space_of_ones_own(tmp_path):
    file = tmp_path / "space.txt"
    file.write_text("# logarithms\n0 1\n1/2 0 1 # roots\n\n2.5 0\n")
    assert read_space(file).pairs == ((F(0), 1), (F(1, 2), 0), (F(1, 2), 1), (F(5, 2), 0))


@pytest.mark.parametrize("text", ["1", "x 0", "1 a", "1/0 1", "1 -1", "99 0", "0 0", "1 0\n1 0", "", "1 0.5", "nan 0"])
def test_a_space_that_is_none(tmp_path, text):
    file = tmp_path / "space.txt"
    file.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_space(file)
    assert str(file) in str(caught.value)


def test_a_space_that_cannot_be_read(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("absent", "binary"):
        with pytest.raises(FormatError, match="cannot be read"):
            read_space(tmp_path / name)
