"""One name for a function, and all the ways in which a user may write it."""

from __future__ import annotations

import pytest

from buran.instrumentation.pattern import named_by
from buran.profiles.names import plain_name, shown_name, spellings, without_return_type

FUNCTIONS = (
    ("main", "main"),
    ("double helper(int)", "_Z6helperi"),
    ("void Domain::CalcX(const Widget&, int) const", "_ZNK6Domain5CalcXERK6Widgeti"),
    ("void Calc(int)", "_Z4Calci"),
    ("kernels::sub_smooth", "__kernels_MOD_sub_smooth"),
    ("external", "external_"),
    ("Mat<double> Mat<double>::operator*(const Mat<double>&)", "_ZN3MatIdEmlERKS0_"),
    ("bool Less::operator()(int, int) const", "_ZNK4LessclEii"),
    ("bool operator<(const A&, const A&)", "_ZltRK1AS1_"),
    ("T lib::twice(T, int) [with T = float]", "_ZN3lib5twiceIfEET_S1_i"),
    ("T lib::twice(T, int) [with T = int]", "_ZN3lib5twiceIiEET_S1_i"),
    ("double {anonymous}::hidden(double, int)", "_ZN12_GLOBAL__N_16hiddenEdi"),
    ("const char* a::text(char**)", "_ZN1a4textEPPc"),
    ("double helper(float)", "_ZL6helperf"),
    ("decltype (x) b::taken(int)", "_ZN1b5takenEi"),
)


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("helper", {1, 13}),  # two functions share the name
        ("helper(int)", {1}),
        ("helper*", {1, 13}),
        ("double helper*", {1, 13}),
        ("Calc*", {2, 3}),
        ("Domain::Calc*", {2}),
        ("Domain::CalcX(const Widget&,int) const", {2}),
        ("Widget*", set()),
        ("_ZNK6Domain*", {2}),
        ("kernels::sub_smooth", {4}),
        ("sub_smooth", {4}),
        ("external", {5}),
        ("Mat::operator*", {6}),
        ("operator*", {6}),
        ("Mat<double>::operator*", {6}),
        ("operator()", {7}),
        ("Less::operator()(int, int) const", {7}),
        ("operator<", {8}),
        ("lib::twice", {9, 10}),
        ("twice", {9, 10}),
        ("hidden", {11}),
        ("(anonymous namespace)::hidden", {11}),
        ("text(char**)", set()),  # a signature is qualified
        ("a::text(char**)", {12}),
        ("b::taken(int)", {14}),
        ("nothing", set()),
    ],
)
def test_patterns_match_what_a_user_writes(pattern: str, named: set[int]) -> None:
    assert named_by([pattern], FUNCTIONS) == [named]


def test_one_function_has_one_name_under_every_measurement_system() -> None:
    assert shown_name("int main(int, char**)", "main") == "main"
    assert shown_name("double plain_c(double, int)", "plain_c") == "plain_c"
    assert (
        shown_name("Keys exchange_buckets(Keys&, int)", "_Z16exchange_bucketsR4Keysi") == "exchange_buckets(Keys&, int)"
    )
    assert (
        shown_name("double {anonymous}::hidden(int)", "_ZN12_GLOBAL__N_16hiddenEi")
        == "(anonymous namespace)::hidden(int)"
    )
    assert shown_name("kernels::add_fields", "__kernels_MOD_add_fields") == "kernels::add_fields"
    assert shown_name("operator new(unsigned long)", "_Znwm") == "operator new(unsigned long)"
    assert shown_name("A::operator bool() const", "_ZNK1AcvbEv") == "A::operator bool() const"
    assert shown_name("unsigned int f(int)", "_Z1fi") == "f(int)"
    for name, mangled in FUNCTIONS:
        once = shown_name(name, mangled)
        assert shown_name(once, mangled) == once and mangled in spellings(once, mangled)


@pytest.mark.parametrize(
    "odd", ["", "a < b", "<lambda()>", "f(", ")", "operator", "operator<<", "x::", "((", "a (b) c", "*"]
)
def test_odd_names_stay_readable(odd: str) -> None:
    assert isinstance(spellings(odd, odd), tuple)
    assert bool(plain_name(odd)) == bool(odd)
    assert without_return_type(odd) in (odd, odd.rpartition(" ")[2], "(b) c")
