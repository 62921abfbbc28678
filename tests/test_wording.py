"""Tables fit into a line, and names in them stay different."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from buran.reporting.tables import WIDTH, brief, briefs, section
from buran.wording import aligned, counted, distinct

TREE = "std::_Rb_tree<long, std::pair<long const, Comm>, std::_Select1st<std::pair<long const, Comm>>, std::less<long>>"
ERASE, FIND = f"main->fill->{TREE}::_M_erase(std::_Rb_tree_node<long>*)", f"main->fill->{TREE}::find(long const&)"


def test_one_thing_is_no_plural() -> None:
    assert [counted(number, "run") for number in (0, 1, 2)] == ["0 runs", "1 run", "2 runs"]


def test_template_arguments_are_left_out_before_callers() -> None:
    assert brief(ERASE) == "main->fill->std::_Rb_tree::_M_erase"
    assert brief("main->f(int)") == "main->f"
    assert brief("main->Box<int>::get()") == "main->Box<int>::get"


def test_different_names_stay_different_and_short() -> None:
    one, two = TREE.replace("Comm", "Long"), TREE.replace("long const", "int const")
    paths = [ERASE, FIND, f"main->fill->{one}::find", f"main->fill->{two}::find", FIND]
    short = briefs(paths)
    assert short[1] == short[4] and len(set(short)) == 4
    assert max(map(len, short)) <= 64 + len("......")
    assert all(len(name) >= 64 for name in short[1:])  # as much as there is room for, not only what differs


@given(st.lists(st.text("ab<>:->", max_size=40), max_size=8), st.integers(8, 20))
def test_any_different_names_stay_different(full: list[str], limit: int) -> None:
    short = distinct([name[-limit:] for name in full], full, limit)
    assert len(dict(zip(full, short, strict=True))) == len(set(short)) == len(set(full))


def test_wide_text_goes_on_in_the_next_line_and_numbers_stay() -> None:
    formula = " + ".join(f"{i}.5 p^{i} * log2(p)" for i in range(20))
    text = section("Title", ("share", "call path", "model", "SMAPE"), [("56.3 %", brief(ERASE), formula, "12.34 %")])
    assert max(map(len, text.splitlines())) <= WIDTH
    first = text.splitlines()[3]
    assert first.startswith("56.3 %") and first.endswith("12.34 %")
    assert re.sub(r"\s+", "", formula) in re.sub(r"\s+", "", text.replace(brief(ERASE), "").replace("12.34 %", ""))


@given(
    st.lists(
        st.tuples(st.text("ab ->:,<", max_size=90), st.text("xyz+ ", max_size=120), st.just("1.234e+05")), min_size=1
    )
)
def test_no_line_is_wider_and_nothing_is_lost(rows: list[tuple[str, str, str]]) -> None:
    lines = aligned([("name", "model", "number"), *rows], 60, right=(2,))
    assert all(len(line) <= 60 for line in lines)
    assert sum(line.endswith("1.234e+05") for line in lines) == len(rows)
    for letter in "abxyz":
        assert sum(line.count(letter) for line in lines[1:]) == sum("".join(row).count(letter) for row in rows)


def test_what_fits_is_as_it_was() -> None:
    assert aligned([("a", "bb"), ("1", "2")], 80, right=(1,), rule=True) == ["a  bb", "-  --", "1   2"]
