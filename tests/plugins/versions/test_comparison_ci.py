"""A comparison in continuous integration: the comment, JUnit's XML, and the script that makes them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path
from xml.etree.ElementTree import fromstring

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from test_compare import COUNTS, N, side

from buran.plugins.versions.ci import comparison_junit, comparison_markdown
from buran.plugins.versions.compare import compare_sides
from buran.plugins.versions.condition import Broken, Condition, broken_by
from buran.plugins.versions.difference import Comparison

CI = Path(__file__).parents[3] / "ci"


@cache
def compared() -> Comparison:
    after = side("after", seed=2, counts={"main->setup": COUNTS["main->setup"] * np.log2(N)})
    return compare_sides(side(), after)


def broken() -> tuple[Broken, ...]:
    return tuple(broken_by(compared(), [Condition("effort"), Condition("class")]))


def test_a_test_case_fails_where_a_condition_came_true() -> None:
    suite = fromstring(comparison_junit(compared(), broken()))
    cases = {(case.get("classname"), case.get("name")): case for case in suite}
    failed = {key for key, case in cases.items() if case.find("failure") is not None}
    assert failed == {("basic_blocks", "main->setup")}
    message = cases["basic_blocks", "main->setup"].find("failure")
    assert message is not None
    assert message.get("message") == "effort, class"
    assert suite.get("failures") == "1"
    assert suite.get("tests") == str(len(cases))
    assert cases["basic_blocks", "main->solve"].find("failure") is None


def test_a_condition_on_what_is_in_no_table_is_a_test_case_too() -> None:
    suite = fromstring(comparison_junit(compared(), [Broken("new", "time", "main->fresh")]))
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["main->fresh"]


@given(st.text(min_size=1))
@settings(deadline=None)
def test_names_of_any_kind_make_whole_files(name: str) -> None:
    named = replace(compared(), before=name, notes=(name,))
    failure = [Broken("new", "time", f"main->{name}")]
    assert fromstring(comparison_junit(named, failure)).get("failures") == "1"
    rows = [line for line in comparison_markdown(named, failure).split("\n") if line.startswith("| new")]
    assert len(rows) == 1
    assert rows[0].count("|") == 4


def test_the_comment_says_what_came_true_and_how_it_grew() -> None:
    text = comparison_markdown(compared(), broken())
    assert text.startswith("### Buran: 1 call path beyond what is allowed\n")
    assert "| effort | basic_blocks | `main->setup` |" in text
    assert "n → n \\* log2(n), faster in n" in text
    assert "no condition came true" in comparison_markdown(compared(), ())


def test_the_script_leaves_a_comment_and_test_cases(tmp_path: Path) -> None:
    """With a stand-in for `buran`, which tells how it was called."""
    (tmp_path / "bin").mkdir()
    buran = tmp_path / "bin" / "buran"
    buran.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n[ "$1" = run ] && exit 0\n'
        f"touch {tmp_path}/comparison.md {tmp_path}/comparison.xml; echo {tmp_path}/comparison.html; exit $CODE\n"
    )
    buran.chmod(0o755)
    (tmp_path / "old.yaml").touch()
    command = [str(CI / "compare"), "new.yaml", "old.yaml", "counts", "out"]
    for code, left in ((5, True), (0, True), (2, False)):
        environment = {**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "CODE": str(code)}
        for name in ("comment.md", "junit.xml"):
            (tmp_path / "out" / name).unlink(missing_ok=True)
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert (tmp_path / "out" / "comment.md").is_file() == left
        assert (tmp_path / "out" / "junit.xml").is_file() == left
    called = (tmp_path / "calls").read_text().splitlines()[:3]
    assert called == ["run new.yaml", "run old.yaml", "report new.yaml --compare old.yaml --fail-on counts --html"]


@pytest.mark.parametrize("name", ["action.yml", "gitlab.yml"])
def test_templates_call_the_script_with_its_arguments(name: str) -> None:
    text = (CI / name).read_text()
    assert yaml.safe_load(text)
    assert '"$CAMPAIGN" "$BEFORE" "$CONDITIONS" .' in text
    assert "comment.md" in text
