from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.profiles.extrap_names import extrap_names, folder_name, parse_folder_name


def test_names_are_letters_only_without_a_leading_r() -> None:
    assert extrap_names(["p", "ranks", "problem_size", "Rows"]) == {
        "p": "p", "ranks": "nranks", "problem_size": "problemsize", "Rows": "Rows",
    }  # fmt: skip


@pytest.mark.parametrize("names", [["n1", "n2"], ["n_x", "nx"], ["ranks", "nranks"], ["_1"], ["ж"]])
def test_collisions_and_empty_names_are_errors(names: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        extrap_names(names)
    assert repr(names[-1]) in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"), [(1e6, "1000000"), (1e-7, "0.0000001"), (4.0, "4"), (2.5, "2.5"), (10, "10"), (0, "0")]
)
def test_numbers_have_no_exponent(value: float, text: str) -> None:
    assert folder_name("a.b", {"x": value}, 3, {"x": "x"}) == f"a_b.x{text}.r3"


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf")])
def test_numbers_that_do_not_fit_are_errors(value: float) -> None:
    with pytest.raises(UsageError, match="folder name"):
        folder_name("a", {"x": value}, 1, {"x": "x"})


@given(
    st.dictionaries(
        st.sampled_from(["p", "ranks", "n_x", "Size"]), st.floats(0, 1e15) | st.integers(0, 10**9), min_size=1
    ),
    st.integers(0, 99),
    st.text(max_size=9),
)
def test_names_round_trip(point: dict[str, float], repetition: int, prefix: str) -> None:
    names = extrap_names(list(point))
    read, number = parse_folder_name(folder_name(prefix, point, repetition, names))
    assert read == {names[name]: value for name, value in point.items()}
    assert number == repetition


@pytest.mark.parametrize(
    "name",
    [
        *("t.size50.pofi.r1", "t.x1.r1_ABCD", "t.x1y2.pofi.r1", "plain", "t.r1"),
        *("t.x1.r", "t.4x5.r1", "t.x1x2.r1", "t.x1..2.r1"),
    ],
)
def test_other_schemes_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        parse_folder_name(name)


def test_the_name_of_a_folder_without_repetition() -> None:
    assert parse_folder_name("example.f1") == ({"f": 1.0}, None)
    assert parse_folder_name("mm.x10y0,5z1.5.r2") == ({"x": 10.0, "y": 0.5, "z": 1.5}, 2)


def test_the_module_is_light() -> None:
    code = "import sys, buran.profiles.extrap_names; assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
