"""Score-P filter files: syntax, semantics, round trips."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from buran.errors import FormatError
from buran.instrumentation.filter_file import Filter, Rule, format_filter, only, parse, read_filter

TEXT = r"""
# comment
SCOREP_FILE_NAMES_BEGIN
  EXCLUDE */third_party/*   # with a comment
  INCLUDE */third_party/mine.c
SCOREP_FILE_NAMES_END
SCOREP_REGION_NAMES_BEGIN
EXCLUDE *
INCLUDE MANGLED _Z4worki main
        _Z5heavyv
INCLUDE MANGLED _Z3foov DEMANGLED bar* operator\ new\#
SCOREP_REGION_NAMES_END
"""


def test_a_file_with_everything():
    rules = parse(TEXT)
    assert rules.files == (Rule(False, "*/third_party/*"), Rule(True, "*/third_party/mine.c"))
    assert rules.regions == (
        Rule(False, "*"),
        Rule(True, "_Z4worki", mangled=True),
        Rule(True, "main", mangled=True),
        Rule(True, "_Z5heavyv", mangled=True),
        Rule(True, "_Z3foov", mangled=True),
        Rule(True, "bar*"),
        Rule(True, "operator new#"),
    )
    assert [rule.line for rule in rules.regions] == [8, 9, 9, 10, 11, 11, 11]


def test_what_it_lets_through():
    rules = parse(TEXT)
    assert rules.matches("int work(int)", "_Z4worki")
    assert not rules.matches("_Z4worki", "something_else")
    assert rules.matches("main")  # no linker symbol: the name is taken
    assert rules.matches("barrier(int)", "_Z7barrieri")
    assert not rules.matches("other()", "_Z5otherv")
    assert not rules.matches("barrier(int)", file="src/third_party/a.c")
    assert rules.matches("barrier(int)", file="src/third_party/mine.c")
    assert rules.matches("barrier(int)", file="src/own.c")


def test_everything_is_included_until_a_rule_says_otherwise():
    assert Filter().matches("anything", "_Z8anythingv", "any.c")
    assert not Filter(regions=(Rule(False, "any*"),)).matches("anything")
    assert Filter(regions=(Rule(False, "any*"),)).matches("something")


def test_the_last_match_wins():
    rules = Filter(regions=(Rule(False, "*"), Rule(True, "a*"), Rule(False, "ab"), Rule(True, "zz")))
    assert [rules.matches(name) for name in ("b", "a", "ab", "abc")] == [False, True, False, True]


def test_blocks_are_appended_and_each_begins_anew():
    begin, end = "SCOREP_REGION_NAMES_BEGIN\n", "SCOREP_REGION_NAMES_END\n"
    rules = parse(f"{begin}EXCLUDE *\n{end}{begin}INCLUDE a\n{end}")
    assert [rule.pattern for rule in rules.regions] == ["*", "a"]
    with pytest.raises(FormatError, match="syntax error"):
        parse(f"{begin}EXCLUDE MANGLED *\n{end}{begin}a\n{end}")


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("EXCLUDE *\n", 1, "outside of a block"),
        ("\nSCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\n", 2, "never ended"),
        ("SCOREP_REGION_NAMES_BEGIN\nfoo\nSCOREP_REGION_NAMES_END", 2, "without EXCLUDE or INCLUDE"),
        ("SCOREP_REGION_NAMES_BEGIN\nMANGLED foo\nSCOREP_REGION_NAMES_END", 2, "without EXCLUDE or INCLUDE"),
        ("SCOREP_REGION_NAMES_BEGIN\nSCOREP_FILE_NAMES_BEGIN\n", 2, "inside of the block begun in line 1"),
        ("SCOREP_REGION_NAMES_BEGIN\n\nSCOREP_FILE_NAMES_END\n", 3, "inside of the block"),
        ("SCOREP_REGION_NAMES_BEGIN\nEXCLUDE a\\\nb\nSCOREP_REGION_NAMES_END", 2, "backslash ends the line"),
        ("main -> work\n", 1, "outside of a block"),
        ("scorep_region_names_begin\n", 1, "outside of a block"),
    ],
)
def test_a_syntax_error_names_file_and_line(text, line, why, tmp_path):
    file = tmp_path / "scorep.filter"
    file.write_text(text)
    with pytest.raises(FormatError) as caught:
        read_filter(file)
    assert f"{file}:{line}" in str(caught.value)
    assert why in str(caught.value)


def test_files_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("binary", "absent"):
        with pytest.raises(FormatError, match="cannot be read"):
            read_filter(tmp_path / name)


def test_what_is_written():
    rules = Filter(
        (Rule(False, "*/tests/*"),),
        (Rule(False, "*"), Rule(True, "_Z1fv", mangled=True), Rule(True, "operator new*")),
    )
    assert format_filter(rules, ["two", "lines\nthree"]) == (
        "# two\n# lines\n# three\n"
        "SCOREP_FILE_NAMES_BEGIN\nEXCLUDE */tests/*\nSCOREP_FILE_NAMES_END\n"
        "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED _Z1fv\nINCLUDE operator\\ new*\n"
        "SCOREP_REGION_NAMES_END\n"
    )
    assert format_filter(Filter()) == ""


@pytest.mark.parametrize("pattern", ["", "a\nb", "EXCLUDE", "SCOREP_REGION_NAMES_END"])
def test_what_the_format_cannot_hold_is_not_written(pattern):
    with pytest.raises(ValueError, match="cannot hold"):
        format_filter(Filter(regions=(Rule(True, pattern),)))


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), min_size=1)
with_blanks = st.from_regex(r"[a-z:<>,&*\[\]()#\\~? \t]{1,20}", fullmatch=True)


@given(st.lists(st.one_of(names, with_blanks), max_size=6))
def test_any_name_is_included_exactly(chosen):
    rules = parse(format_filter(only(chosen)))
    assert rules == only(chosen)
    for name in chosen:
        assert rules.matches("shown", name)
        for other in (name + "x", name[:-1] or "y", f"?{name}"):
            assert rules.matches("shown", other) == (other in chosen)


def test_rules_that_match_nothing_are_reported():
    functions = [("_Z4worki", "int work(int)", "a.c"), ("main", "main", "")]
    text = (
        "SCOREP_FILE_NAMES_BEGIN EXCLUDE b.c a.* SCOREP_FILE_NAMES_END\n"
        "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED main _Z4worki work*\nINCLUDE work* int*\n"
        "SCOREP_REGION_NAMES_END\n"
    )
    unmatched = parse(text).unmatched(functions)
    assert [(rule.pattern, rule.line) for rule in unmatched] == [("b.c", 1), ("work*", 4), ("work*", 5)]


def test_include_list_is_sorted_and_without_repeats():
    assert [rule.pattern for rule in only(["b", "a", "b"]).regions] == ["*", "a", "b"]


def test_of_a_constructor_all_symbols_are_listed():
    """Compilers emit some of them, and only those that are there get hooks."""
    rules = only(["_ZN1SC2Ei", "_ZN1SD1Ev", "f"])
    assert [rule.pattern for rule in rules.regions] == [
        "*", "_ZN1SC1Ei", "_ZN1SC2Ei", "_ZN1SD0Ev", "_ZN1SD1Ev", "_ZN1SD2Ev", "f",
    ]  # fmt: skip
    assert len(rules.functions(True)) == 3 and rules.functions(False) == {"*"}
    emitted = [("_ZN1SC2Ei", "S::S(int)", "s.h"), ("_ZN1SD1Ev", "S::~S()", "s.h"), ("f", "f", "s.h")]
    assert not rules.unmatched(emitted)
    assert [rule.pattern for rule in rules.unmatched(emitted[1:])] == ["_ZN1SC1Ei", "_ZN1SC2Ei"]
