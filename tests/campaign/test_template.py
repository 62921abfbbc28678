from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from buran.campaign.template import TemplateError, parse_template, parse_words


def test_fill() -> None:
    template = parse_template("a {x}{y} {{z}} {x}", ("x", "y"))
    assert template.names == ("x", "y", "x")
    assert template.fill({"x": "1", "y": "2"}) == "a 12 {z} 1"


@pytest.mark.parametrize(
    ("text", "what", "hint"),
    [
        ("{m}", "unknown placeholder {m}", "{{m}}"),
        ("{mpicx}", "unknown placeholder", "'mpicxx'"),
        ("{}", "unknown placeholder {}", "{{}}"),
        ("{n", "single '{'", "'{{'"),
        ("n}", "single '}'", "'}}'"),
        ("${HOME}", "unknown placeholder", "{{HOME}}"),
    ],
)
def test_placeholders_that_are_wrong(text: str, what: str, hint: str) -> None:
    with pytest.raises(TemplateError) as caught:
        parse_template(text, ("n", "mpicxx"))
    assert what in caught.value.what
    assert hint in (caught.value.hint or "")


def test_values_stay_in_their_word() -> None:
    words = parse_words("{binary} --size={n} 'two words' \"a {n}\"", ("binary", "n"))
    values = {"binary": "/a b/x; rm", "n": "1 2"}
    assert [word.fill(values) for word in words] == ["/a b/x; rm", "--size=1 2", "two words", "a 1 2"]


@pytest.mark.parametrize(
    "text",
    [
        "{b} > out",
        "{b} 2>&1",
        "{b} | tee x",
        "{b} && {b}",
        "{b} ; ls",
        "{b} < in",
        "{b} &",
        "N=4 {b}",
        "{b} 'x",
    ],
)
def test_runs_that_count_on_a_shell(text: str) -> None:
    with pytest.raises(TemplateError):
        parse_words(text, ("b",))


def test_quoted_operators_are_arguments() -> None:
    words = parse_words("bash -c '{b} > out' '>' \"|\"", ("b",))
    assert [word.fill({"b": "x"}) for word in words] == ["bash", "-c", "x > out", ">", "|"]


values = st.text(alphabet=st.characters(min_codepoint=1, max_codepoint=0x2FF, exclude_characters="\r"), max_size=12)


@given(values)
@example('$HOME `id` "q" \\ \'')
def test_shell_values_arrive_as_they_are(value: str) -> None:
    template = parse_template("printf '%s|%s|%s|%s\\n' {x} '{x}' \"{x}\" a'b'{x}\"c\"", ("x",))
    done = subprocess.run(
        ["/bin/sh", "-c", template.fill_shell({"x": value})],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert done.stdout == f"{value}|{value}|{value}|ab{value}c\n"


def test_escaped_quotes_open_nothing() -> None:
    template = parse_template("printf '%s\\n' a\\\"{x} \"b\\\"{x}\" 'c\\'{x}", ("x",))
    done = subprocess.run(
        ["/bin/sh", "-c", template.fill_shell({"x": "1  $2"})], capture_output=True, check=True, text=True
    )
    assert done.stdout == 'a"1  $2\nb"1  $2\nc\\1  $2\n'


def test_flags_are_split_outside_quotes_only() -> None:
    template = parse_template("cc {flags} X='{flags}'", ("flags",))
    filled = template.fill_shell({"flags": "-O2 -g"})
    assert filled == "cc -O2 -g X='-O2 -g'"
