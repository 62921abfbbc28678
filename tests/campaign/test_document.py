"""Campaign files as they count: included files, keys of earlier versions, and short forms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from buran.campaign.identity import requested, with_first_names
from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError, spelled
from buran.campaign.values import seconds_in

PROGRAM = {"source": "code", "build": "make CC={mpicc}", "binary": "demo", "run": "{binary} {n}"}
NEW: dict[str, Any] = {
    "name": "demo",
    "program": PROGRAM,
    "parameters": {"p": [1, 2, 4], "n": [10, 20, 40]},
    "target": {"p": 64, "n": 80},
    "resources": {"time_limit": 60, "expected_time": "n / p"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "Makefile").write_text("demo:\n")
    return tmp_path


def written(folder: Path, data: dict[str, Any], name: str = "campaign.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(data, sort_keys=False))
    return path


def refused(path: Path) -> CampaignError:
    with pytest.raises(CampaignError) as error:
        load_campaign(path)
    return error.value


@pytest.mark.parametrize(
    ("changes", "key", "now"),
    [
        ({"refinement": {"target": {"p": 8, "n": 10}}}, "refinement.target", "target"),
        ({"resources": {"time_limit_s": 70}}, "resources.time_limit_s", "resources.time_limit"),
        ({"refinement": {"threshold_s": 1}}, "refinement.threshold_s", "refinement.threshold"),
    ],
)
def test_keys_of_earlier_versions_are_refused_with_their_names_now(
    folder: Path, changes: dict[str, Any], key: str, now: str
) -> None:
    (mistake,) = refused(written(folder, NEW | changes)).mistakes
    assert spelled(mistake.path) == key and mistake.line > 0 and mistake.hint == f"it is called {now} now"


def test_identities_have_the_first_names_of_keys(folder: Path) -> None:
    """Results that earlier versions measured are found by them."""
    changes = {"refinement": {"strategy": "filter", "threshold": "500ms"}}
    campaign = load_campaign(written(folder, NEW | changes))
    assert with_first_names(requested(campaign.config)) == {
        "target": PROGRAM,
        "parameters": requested(campaign.config)["parameters"],
        "refinement": {"target": NEW["target"], "strategy": "filter", "threshold_s": 0.5},
        "resources": {"time_limit_s": 60, "expected_s": "n / p"},
    }


def test_a_parameter_may_be_called_like_a_key_of_the_program(folder: Path) -> None:
    program = PROGRAM | {"run": "{binary} {source}"}
    changes = {"parameters": {"p": [1, 2], "source": [1, 2, 3]}, "target": {"p": 2, "source": 9}, "program": program}
    assert load_campaign(written(folder, NEW | changes | {"resources": {}})).target["source"] == 9


def test_a_target_outside_the_parameters_is_named(folder: Path) -> None:
    mistakes = refused(written(folder, NEW | {"target": {"p": 64, "m": 3}})).mistakes
    assert {spelled(mistake.path) for mistake in mistakes} == {"target.m", "target"}


def test_included_keys_count_unless_the_file_has_them(folder: Path) -> None:
    written(folder, {"environments": {"far": {"modules": ["gcc"]}}, "repetitions": 7}, "site.yaml")
    written(folder, {"include": "site.yaml", "resources": {"time_limit": "2h", "nodes": 1}, "seed": 5}, "machine.yaml")
    given = load_campaign(written(folder, {"include": "machine.yaml", **NEW, "repetitions": 2}))
    whole = {**NEW, "environments": {"far": {"modules": ["gcc"]}}, "repetitions": 2, "seed": 5}
    whole["resources"] = {**NEW["resources"], "nodes": 1}
    assert given.digest() == load_campaign(written(folder, whole, "whole.yaml")).digest()
    assert given.config.resources.time_limit == 60 and given.active_environment.modules == ("gcc",)


def test_mistakes_in_included_files_name_that_file_and_line(folder: Path) -> None:
    base = written(folder, {"seed": 1, "repetitons": 2}, "base.yaml")
    (mistake,) = refused(written(folder, {"include": "base.yaml", **NEW})).mistakes
    assert (mistake.file, mistake.line) == (base, 2)


def test_a_file_that_includes_itself_or_nothing_is_refused(folder: Path) -> None:
    written(folder, {"include": ["campaign.yaml"]}, "base.yaml")
    (mistake,) = refused(written(folder, {**NEW, "include": "base.yaml"})).mistakes
    assert mistake.path == ("include",) and "campaign.yaml" in (mistake.why or "") and mistake.file is not None
    (mistake,) = refused(written(folder, {"name": "x", "include": "absent.yaml"})).mistakes
    assert mistake.line == 2 and "absent.yaml" in mistake.what
    (mistake, *_) = refused(written(folder, {**NEW, "include": 5})).mistakes
    assert mistake.path[0] == "include"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("10min", 600),
        ("2h", 7200),
        ("1h30min", 5400),
        ("0.5d", 43200),
        ("250ms", 0.25),
        ("1e-3h", 3.6),
        ("1 h 30 min", 5400),
    ],
)
def test_durations_have_units(folder: Path, text: str, seconds: float) -> None:
    assert seconds_in(text) == pytest.approx(seconds)
    campaign = load_campaign(written(folder, NEW | {"resources": {"time_limit": text}}))
    assert campaign.time_limit_s(campaign.points[0]) == pytest.approx(seconds)
    budget = load_campaign(written(folder, NEW | {"resources": {}, "budget": text})).config.budget
    assert budget.core_hours == pytest.approx(seconds / 3600)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("2 hours", "10min or 2h"),
        ("10m", "10min or 2h"),
        ("2H", "10min or 2h"),
        ("h", None),
        ("10min2", None),
    ],
)
@pytest.mark.parametrize("key", ["resources.time_limit", "budget", "refinement.threshold"])
def test_misspelt_units_are_refused_with_what_to_write(folder: Path, text: str, advice: str | None, key: str) -> None:
    section, _, last = key.partition(".")
    mistake = refused(written(folder, NEW | {section: {last: text} if last else text})).mistakes[0]
    assert spelled(mistake.path) == key and mistake.line > 0 and repr(text) in mistake.what
    assert "%" in str(advice) or not advice or advice in str(mistake.why)
    if key == "budget":
        assert (advice or "10min or 2h") in str(mistake.why)
        assert "%" in str(mistake.why) and "full matrix" in str(mistake.why)


def test_a_budget_in_percent_is_of_the_full_matrix(folder: Path) -> None:
    config = load_campaign(written(folder, NEW | {"resources": {}, "budget": "12.5%"})).config
    assert config.budget.percent_of_full_matrix == 12.5 and config.strategy.name == "design"
    assert refused(written(folder, NEW | {"budget": "120%"})).mistakes


@pytest.mark.parametrize(
    ("changes", "key", "line"),
    [
        ({"instrumentation": "everything"}, "instrumentation", 1),
        ({"instrumentation": ["all"]}, "instrumentation", 1),
        ({"instrumentation": "all", "refinement": 5}, "refinement", 2),
        ({"instrumentation": "none", "goal": "filter"}, "goal", 2),
        ({"instrumentation": "all", "backend": "command"}, "refinement.enabled", 1),
    ],
)
def test_what_contradicts_the_word_for_instrumentation_is_refused(
    folder: Path, changes: dict[str, Any], key: str, line: int
) -> None:
    mistakes = refused(written(folder, changes | NEW)).mistakes
    (mistake,) = [mistake for mistake in mistakes if spelled(mistake.path) == key]
    assert mistake.line == line and (mistake.why or mistake.hint)


def test_keys_count_more_than_the_word_for_instrumentation(folder: Path) -> None:
    config = load_campaign(written(folder, NEW | {"instrumentation": "all", "refinement": {"pilot": True}})).config
    assert config.refinement.pilot and config.refinement.start == "everything" and config.goal == "models"
