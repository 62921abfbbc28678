"""Conditions on what runs print: failed runs with the line that shows why."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError
from buran.files import not_synced
from buran.plugins.output import check
from buran.plugins.output.check import violations
from buran.plugins.output.keys import SanityKeys
from buran.plugins.output.lines import violation
from buran.workflow.history import History
from buran.workflow.report import write_results
from buran.workflow.session import Session, open_session
from buran_studies.simulate.in_process import carry_out
from command_campaigns import write_campaign_of

PRINTED = ["start", "mass = 1.002D0", "mass = 1.0", "PASSED", ""]
PROGRAM = """#!/bin/sh
echo "rank 0: PASSED"
test $1 = 8 && echo "rank 2: residual NaN" >&2
exit 0
"""


def keys(**some: Any) -> SanityKeys:
    return SanityKeys.model_validate_json(json.dumps(some))


@pytest.mark.parametrize(
    ("some", "line"),
    [
        ({"found": ["PASSED"], "not_found": ["nan"]}, None),
        ({"found": ["VERIFIED"]}, "none of the 5 lines"),
        ({"not_found": ["^mass"]}, "line 2"),
        ({"references": [{"pattern": "mass = (\\S+)", "value": 1, "tolerance": 0.01}]}, None),
        ({"references": [{"pattern": "mass = (\\S+)", "value": 1, "tolerance": 0.001}]}, "line 2"),
        ({"references": [{"pattern": "mass = (\\S+)", "value": 0, "tolerance": 1.01}]}, None),
        ({"references": [{"pattern": "mass = (\\S+)", "value": 0, "tolerance": 1.001}]}, "line 2"),
        ({"references": [{"pattern": "(PASSED)", "value": 1, "tolerance": 9}]}, "line 4"),
        ({"references": [{"pattern": "energy = (\\S+)", "value": 1}]}, "none of the 5 lines"),
    ],
)
def test_the_line_that_does_not_meet_a_condition_is_named(some: dict[str, Any], line: str | None) -> None:
    found = violation(some, PRINTED)
    assert (found is None) if line is None else (found is not None and line in found)


@settings(max_examples=50)
@given(
    st.lists(st.text("ab.(\\ ", max_size=20), max_size=8), st.text("ab.(\\ ", min_size=1, max_size=3).filter(str.strip)
)
def test_what_is_found_is_never_also_missing(lines: list[str], text: str) -> None:
    pattern = [re.escape(text)]
    there = violation({"found": pattern}, lines) is None
    assert there == (violation({"not_found": pattern}, lines) is not None)
    assert there == any(text in line for line in lines)


def test_a_pattern_that_backtracks_is_stopped_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_LIMIT_S", 2.0)
    (tmp_path / "out").write_text("a" * 40 + "!\n")
    (found,) = violations(keys(found=["(a+)+$"]), [(tmp_path / "out",)])
    assert found is not None and "2 s" in found


def test_a_missing_output_is_an_empty_one(tmp_path: Path) -> None:
    assert violations(keys(not_found=["x"]), [(tmp_path / "none",)]) == [None]


@pytest.mark.parametrize("pattern", [".*", "x*", "(", "^"])
def test_patterns_that_check_nothing_are_refused(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(CampaignError, match="found"):
        load_campaign(write_campaign_of(PROGRAM, tmp_path, sanity={"found": [pattern]}))


@pytest.mark.parametrize(
    "sanity",
    [{"found": "PASSED"}, {"must": ["x"]}, {"references": [{"pattern": "x", "value": 1}]},
     {"references": [{"pattern": "(x)", "value": 1, "tolerance": -1}]}],
)  # fmt: skip
def test_wrong_keys_are_refused(tmp_path: Path, sanity: dict[str, Any]) -> None:
    with pytest.raises(CampaignError):
        load_campaign(write_campaign_of(PROGRAM, tmp_path, sanity=sanity))


def measured(folder: Path, **some: Any) -> Session:
    with not_synced():
        session = open_session(write_campaign_of(PROGRAM, folder, **some))
        carry_out(session)
    return session


def test_a_run_whose_output_shows_an_error_is_a_failed_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    history = History.open(measured(tmp_path, sanity={"found": ["PASSED"], "not_found": ["NaN"]}))
    outcomes = [run for outcome in history.outcomes(history.plans) for run in outcome.runs]
    assert {float(run.point["n"]) for run in history.runs} == {1.0, 2.0, 4.0, 5.0}
    failed = [run.reason for run in outcomes if run.reason]
    assert failed and all("line 2" in reason and "rank 2: residual NaN" in reason for reason in failed)


def test_runs_made_before_a_condition_are_named_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BURAN_LOCK_FOLDER", str(tmp_path))
    before = len(History.open(measured(tmp_path)).runs)
    session = measured(tmp_path, sanity={"not_found": ["NaN"]})
    history = History.open(session)
    assert len(history.runs) == before
    write_results(history, tmp_path / "out")
    notes = json.loads((tmp_path / "out" / "report.json").read_text())["notes"]
    assert any("n=8" in note and "sanity" in note for note in notes)
