"""Lists in the formats of several tools."""

import json

import pytest

from buran.errors import UsageError
from buran.instrumentation.filter_file import Filter, Rule, parse
from buran.instrumentation.filter_list import WRITERS, FilterList, unknown
from buran.instrumentation.refinement import FunctionVerdict

OWN = FilterList(
    {
        "_Z5solvePd": FunctionVerdict(True, "97 % of the time", 0.97, 12.0, name="solve(double*)"),
        "main": unknown("main", "begin of the program"),
    },
    ("predicted time at the target: 3 s a rank",),
)


def test_score_p():
    text = WRITERS["scorep"](OWN)
    assert text == (
        "# predicted time at the target: 3 s a rank\n#\n"
        "# solve(double*): 97 % of the time, 12 visits\n"
        "# main: begin of the program\n"
        "SCOREP_REGION_NAMES_BEGIN\nEXCLUDE *\nINCLUDE MANGLED _Z5solvePd\nINCLUDE MANGLED main\n"
        "SCOREP_REGION_NAMES_END\n"
    )
    rules = parse(text)
    assert rules.matches("void solve(double*)", "_Z5solvePd") and not rules.matches("other", "other")


def test_tau_xray_plain():
    assert WRITERS["tau"](OWN).splitlines()[1:] == [
        "BEGIN_INCLUDE_LIST", "solve(double*)", "main", "END_INCLUDE_LIST",
    ]  # fmt: skip
    assert WRITERS["xray"](OWN).splitlines()[1:] == ["[always]", "fun:_Z5solvePd", "fun:main", "[never]", "fun:*"]
    assert WRITERS["plain"](OWN) == "_Z5solvePd\nmain\n"
    assert WRITERS["plain"](FilterList({})) == ""


def test_json():
    data = json.loads(WRITERS["json"](OWN))
    assert data["schema"] == "buran-filter/1"
    assert data["functions"][0] == {
        "symbol": "_Z5solvePd", "name": "solve(double*)", "reason": "97 % of the time", "share": 0.97, "visits": 12.0,
        "overhead": None,
    }  # fmt: skip


@pytest.mark.parametrize(("format", "name"), [("tau", "operator#"), ("xray", "f[abi:cxx11]")])
def test_what_a_format_cannot_hold_is_said(format, name):
    with pytest.raises(UsageError, match="cannot hold"):
        WRITERS[format](FilterList({name: unknown(name)}))


def test_score_p_holds_every_name():
    strange = ["x" * 10_000, "operator new(unsigned long)", "f(int*, char[3])", "a#b", "back\\slash", "?", "*", "[x]"]
    own = FilterList({name: unknown(name) for name in strange})
    rules = parse(WRITERS["scorep"](own))
    for name in strange:
        assert rules.matches("shown", name)
        assert not rules.matches("shown", f"{name}y")


def test_many_rules_are_looked_up_not_tried_in_turn():
    rules = Filter(
        regions=(
            Rule(False, "*"),
            *(Rule(True, f"f{i}", mangled=True) for i in range(20_000)),
            Rule(False, "f1*", mangled=True),
        )
    )
    found = [rules.matches("", f"f{i}") for i in range(0, 30_000, 3)]
    assert found == [i < 20_000 and not f"{i}".startswith("1") for i in range(0, 30_000, 3)]


# What Score-P 8.4 does with each piece of its syntax: filter, name, symbol, file, whether it is measured.
def block(rules, kind="REGION"):
    return f"SCOREP_{kind}_NAMES_BEGIN\n{rules}\nSCOREP_{kind}_NAMES_END\n"


SYNTAX = [
    ("", "f", "f", "", True),
    (block(""), "f", "f", "", True),
    (block("EXCLUDE f"), "f", "f", "", False),
    (block("EXCLUDE f # INCLUDE f"), "f", "f", "", False),
    (block("EXCLUDE f INCLUDE f"), "f", "f", "", True),
    (block("EXCLUDE a b\n c"), "c", "c", "", False),
    (block("EXCLUDE *\nINCLUDE f*\nEXCLUDE fo*\nINCLUDE foo"), "foo", "foo", "", True),
    (block("EXCLUDE *\nINCLUDE f*\nEXCLUDE fo*\nINCLUDE foo"), "fob", "fob", "", False),
    (block("INCLUDE f\nEXCLUDE *"), "f", "f", "", False),
    (block("EXCLUDE MANGLED _Z1fv"), "f()", "_Z1fv", "", False),
    (block("EXCLUDE MANGLED f*"), "f()", "_Z1fv", "", True),
    (block("EXCLUDE _Z1fv"), "f()", "_Z1fv", "", True),
    (block("EXCLUDE MANGLED a DEMANGLED f()"), "f()", "_Z1fv", "", False),
    (block("EXCLUDE MANGLED a\nEXCLUDE f()"), "f()", "_Z1fv", "", False),  # each rule begins demangled
    (block("EXCLUDE MANGLED a b"), "x", "b", "", False),  # and MANGLED holds for all its patterns
    (block("EXCLUDE MANGLED plain"), "plain", "", "", False),  # without a symbol the name is taken
    (block(r"EXCLUDE operator\ new*"), "operator new(int)", "_Znw", "", False),
    (block(r"EXCLUDE a\#b"), "a#b", "a#b", "", False),
    (block(r"EXCLUDE f\*"), "f*", "f*", "", False),
    (block(r"EXCLUDE f\*"), "fx", "fx", "", True),
    (block("EXCLUDE f?[a-c][!x]"), "fzbq", "fzbq", "", False),
    (block("EXCLUDE f?[a-c][!x]"), "fzbx", "fzbx", "", True),
    (block("EXCLUDE [[:digit:]x]*"), "7up", "7up", "", False),
    (block("EXCLUDE [[:digit:]x]*"), "up", "up", "", True),
    (block("EXCLUDE [![:alpha:]]*"), "_f", "_f", "", False),
    (block("EXCLUDE F"), "f", "f", "", True),
    (block("EXCLUDE */x/*", "FILE"), "f", "f", "/a/x/b.c", False),
    (block("EXCLUDE */x/*", "FILE") + block("INCLUDE f"), "f", "f", "/a/x/b.c", False),
    (block("EXCLUDE *", "FILE") + block("EXCLUDE g"), "f", "f", "", True),  # of an unknown file
    (block("EXCLUDE *\nINCLUDE */mine.c", "FILE"), "f", "f", "/a/mine.c", True),
    (block("EXCLUDE *") + block("INCLUDE f"), "f", "f", "", True),
]


@pytest.mark.parametrize(("text", "name", "symbol", "file", "measured"), SYNTAX)
def test_the_syntax_of_score_p(text, name, symbol, file, measured):
    assert parse(text).matches(name, symbol, file) is measured
