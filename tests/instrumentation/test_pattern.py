"""Patterns: what they match, which text alone, and that none takes long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.instrumentation.pattern import literal, matches, plain

part = st.one_of(
    st.sampled_from(["*", "?", "a", "b", "/", "\\*", "\\?", "\\[", "\\a", "]", "-", "!"]),
    st.sampled_from(["[ab]", "[!a]", "[^a]", "[a-c]", "[]a]", "[[:alpha:]]"]),
)


@given(st.lists(part, max_size=9).map("".join), st.text("aabbc*?[]-!/.", max_size=12))
def test_a_pattern_of_one_text_matches_that_alone(pattern: str, name: str) -> None:
    if (only := plain(pattern)) is not None:
        assert matches(pattern, name) == (name == only)


@given(st.text("ab*?[]\\-ä", max_size=8))
def test_a_literal_name_matches_itself(name: str) -> None:
    assert matches(literal(name), name) and plain(literal(name)) == name


@pytest.mark.parametrize("pattern", ["*a*a*a*a*a*a*b", "*" * 500 + "b", "*a" * 500 + "*b", "*?a" * 200 + "b*[!a]"])
def test_no_pattern_goes_back(pattern: str) -> None:
    assert not matches(pattern, "a" * 2000)  # for ever, if it tried all positions of each part
