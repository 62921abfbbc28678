"""What makes a comparison fail, and how it is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.errors import UsageError
from buran.plugins.versions.condition import KINDS, Condition, parse_conditions


def test_conditions_are_a_list_each_with_a_tolerance_where_it_makes_sense() -> None:
    found = parse_conditions(["grown:10%, class", "effort,runtime: 2.5 %", "class"])
    assert found == (Condition("grown", 0.1), Condition("class"), Condition("effort"), Condition("runtime", 0.025))


@given(st.sampled_from(["grown", "runtime", "effort"]), st.integers(1, 10_000))
def test_what_is_shown_is_read_again(kind: str, percent: int) -> None:
    (condition,) = parse_conditions([f"{kind}:{percent}%"])
    assert parse_conditions([str(condition)]) == (condition,)


@given(st.text(max_size=20))
def test_nothing_else_is_taken_for_a_condition(text: str) -> None:
    try:
        found = parse_conditions([text])
    except UsageError as error:
        assert "--fail-on" in str(error)
    else:
        assert all(each.kind in KINDS for each in found)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gorwn", "did you mean 'grown'?"),
        ("grown:10", "'10' cannot follow 'grown'"),
        ("grown:-1%", "'-1%' cannot follow"),
        ("class:10%", "only grown, runtime, effort take a percentage"),
        ("", "a condition is missing"),
        ("grown,,class", "a condition is missing"),
    ],
)
def test_a_typo_is_named_with_what_is_allowed(text: str, said: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse_conditions([text])
    assert said in str(raised.value)
    assert raised.value.exit_code == 2
