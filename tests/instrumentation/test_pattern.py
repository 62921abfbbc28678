"""Patterns against the C library's fnmatch, which Score-P calls without flags; and in linear time."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from buran.instrumentation.pattern import literal, matches, plain

_FNMATCH = ctypes.CDLL(None).fnmatch

part = st.one_of(
    st.sampled_from(["*", "**", "?", "a", "b", "ab", "/", ".", "\\*", "\\?", "\\[", "\\a", "]", "-", "!"]),
    st.sampled_from(
        ["[ab]", "[!a]", "[^a]", "[a-c]", "[]a]", "[!]a]", "[a-]", "[*?]", "[\\]]", "[[:alpha:]]", "[b-a]", "[]", "[!]"]
    ),
)
patterns = st.lists(part, max_size=9).map("".join)
names = st.text("aabbc*?[]-!/.", max_size=12)


@given(patterns, names)
@example("a*a", "a")
@example("*a*b*", "xxaxxb")
@example("*ab*ab", "xabxab")
def test_a_pattern_matches_what_the_c_library_says(pattern: str, name: str) -> None:
    assert matches(pattern, name) == (_FNMATCH(pattern.encode(), name.encode(), 0) == 0)


@given(st.text("ab*?[]\\-", max_size=8))
def test_a_literal_name_matches_itself(name: str) -> None:
    assert matches(literal(name), name) and plain(literal(name)) == name


@given(patterns, names)
def test_a_pattern_of_one_text_matches_that_alone(pattern: str, name: str) -> None:
    if (only := plain(pattern)) is not None:
        assert matches(pattern, name) == (name == only)


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*b", "*" * 500 + "b", "*a" * 500 + "*b", "*?a" * 200 + "b*[!a]"])
def test_no_pattern_goes_back(pattern: str) -> None:
    assert not matches(pattern, "a" * 2000)  # for ever, if it tried all positions of each part
