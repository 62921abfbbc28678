"""Strategies that another package brings: used as built-in ones are, and refused where they break a promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from simulated import measured, plain, space
from test_planner import adaptive_question, question

from buran.campaign.checks import choice_mistakes
from buran.campaign.plan import Mode
from buran.campaign.sections import StrategyKeys
from buran.campaign.strategies import BUILT_IN, KEYS, Abilities, abilities_of
from buran.campaign.validation import schema_of, validate
from buran.cli import main
from buran.errors import PluginError, UsageError
from buran.planning.base import base_indices
from buran.planning.observations import Observations
from buran.planning.planner import next_plan
from buran.planning.protocol import Advice, PlanningState, Settings, Suggestion
from buran.planning.question import Knowledge
from buran.planning.space import Space
from buran.planning.strategies import strategy_of

BASE = base_indices(space()).tolist()
Answer = Callable[[PlanningState], Any]


def suggesting(*places: Any) -> Answer:
    return lambda state: Advice(tuple(Suggestion(place, 1, None, 0.0, "it is next") for place in places))


def refuse(state: PlanningState) -> Any:
    raise UsageError("that is mine to say")


FIRST, ADAPTS, AT_ONCE = suggesting(0), Abilities(), Abilities(all_at_once=True)


@dataclass(frozen=True)
class Plain:
    """Suggests what it is told to, whatever is asked."""

    answer: Answer = FIRST
    abilities: Any = ADAPTS
    settings: Settings | None = None

    def configured(self, settings: Settings) -> Plain:
        return replace(self, settings=settings)

    def suggest(self, state: PlanningState) -> Any:
        return self.answer(state)


@dataclass(frozen=True)
class Ends(Plain):
    """Chooses the first and the last point, both at once."""

    abilities: Any = AT_ONCE

    def indices(self, space: Space) -> Any:
        return [0, len(space.points) - 1]

    def suggest(self, state: PlanningState) -> Any:
        return suggesting(*self.indices(state.space))(state)


@dataclass(frozen=True)
class Forgetful(Plain):
    def configured(self, settings: Settings) -> Any:
        return None


@dataclass(frozen=True)
class Beyond(Ends):
    def indices(self, space: Space) -> Any:
        return [len(space.points)]


THESE: dict[str, Any] = {
    "first": Plain(),
    "ends": Ends(),
    "beyond": Beyond(),
    "outside": Plain(suggesting(10**6)),
    "below": Plain(suggesting(-1)),
    "half": Plain(suggesting(0.5)),
    "failed": Plain(lambda state: suggesting(*state.failed)(state)),
    "everything": Plain(lambda state: suggesting(*set(range(len(state.space.points))) - state.failed)(state)),
    "list": Plain(lambda state: [0]),
    "numbers": Plain(lambda state: Advice((0,))),  # type: ignore[arg-type]
    "forgetful": Forgetful(),
    "untyped": Plain(abilities={"accuracy": True}),
    "inaccurate": Plain(abilities=Abilities(accuracy=True)),
    "nowhere": Plain(abilities=Abilities(all_at_once=True)),
    "mute": object(),
    "singular": Plain(lambda state: np.linalg.solve(np.zeros((2, 2)), np.ones(2))),
    "refusing": Plain(refuse),
}


globals().update({f"strategy_{name}": strategy for name, strategy in THESE.items()})  # as entry points name them


@pytest.fixture(autouse=True)
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install a distribution with all of them, and one that is not there."""
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    lines = [f"{name} = {__name__}:strategy_{name}" for name in THESE]
    (info / "entry_points.txt").write_text("\n".join(["[buran.strategies]", *lines, "gone = no_such_module:X", ""]))
    monkeypatch.syspath_prepend(tmp_path)
    schema_of.cache_clear()
    yield
    schema_of.cache_clear()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("outside", "the point 1000000 of a space that has 25"),
        ("below", "the point -1 of a space"),
        ("half", "0.5 for the number of a point"),
        ("failed", "a = 8, b = 10, where a run failed"),
        ("everything", "core hours, and 0.02 are left"),
        ("list", "answers with list instead of Advice"),
        ("numbers", "suggests a int instead of a Suggestion"),
    ],
)
def test_an_answer_that_breaks_a_promise_is_refused(name: str, why: str) -> None:
    asked = space()
    failed = int(asked.indices(np.array([[8.0, 10.0]]))[0])
    with pytest.raises(PluginError) as refused:
        strategy_of(name).suggest(PlanningState(measured(BASE, plain), asked, 0.02, failed=frozenset({failed})))
    error = refused.value
    assert repr(name) in error.what and why in str(error.why) and error.hint
    assert str(error.where).endswith("test_promises.Plain")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("forgetful", "becomes a NoneType"),
        ("untyped", "abilities are of type dict"),
        ("inaccurate", "has no width_at_target"),
        ("nowhere", "has no indices"),
        ("mute", "has no abilities"),
    ],
)
def test_an_ability_without_its_method_is_refused(name: str, why: str) -> None:
    with pytest.raises(PluginError) as refused:
        strategy_of(name)
    assert repr(name) in str(refused.value) and why in str(refused.value)


def test_places_of_a_strategy_that_chooses_all_at_once_lie_in_the_space() -> None:
    assert strategy_of("ends").indices(space()).tolist() == [0, 24]
    with pytest.raises(PluginError, match="'beyond'"):
        strategy_of("beyond").indices(space())


def test_abilities_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="all at once"):
        Abilities(all_at_once=True, accuracy=True)


def test_a_strategy_that_fails_is_the_end_of_choosing_and_its_traceback_lies_in_a_file() -> None:
    nothing = PlanningState(Observations.nothing(2), space(), 0.02)
    state = replace(nothing, measured=measured(BASE, plain))
    with pytest.raises(PluginError, match="'singular'"):
        strategy_of("singular").suggest(nothing)
    advice = strategy_of("singular").suggest(state)
    assert not advice.suggestions and advice.budget_reached and advice.stop is not None
    assert "'singular'" in advice.stop and "LinAlgError" in advice.stop
    named = Path(advice.stop.split(", see ")[1].split(";")[0])
    assert "np.linalg.solve" in named.read_text()
    with pytest.raises(UsageError, match="mine to say"):
        strategy_of("refusing").suggest(state)


def test_settings_reach_it_and_those_it_cannot_heed_are_refused() -> None:
    held = strategy_of("first", repetitions=7)
    assert held.strategy.settings == Settings(repetitions=7)  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match=r"'first' .*accuracy"):
        strategy_of("first", accuracy=0.1)
    with pytest.raises(UsageError, match=r"'first' .*rounds"):
        strategy_of("first", patience=3)


def test_campaigns_are_planned_by_it_as_its_abilities_say() -> None:
    asked = adaptive_question(strategy="first", expected_s=lambda point: 1.0)
    assert [bundle.point for bundle in next_plan(asked, Knowledge()).bundles] == [asked.points[0]]
    ends = next_plan(question(strategy="ends"), Knowledge())
    assert [bundle.point for bundle in ends.bundles] == [question().points[0], question().points[-1]]
    elsewhere = question(strategy="ends", foreign=frozenset(question().points[-1:]))
    assert not question(strategy="ends").adaptive and adaptive_question(strategy="first").adaptive
    runs = {bundle.point: bundle.runs for bundle in next_plan(elsewhere, Knowledge()).bundles}
    assert not [run for run in runs[question().points[-1]] if run.mode is Mode.TIME]


def mistakes(**strategy: Any) -> list[str]:
    data = {
        "name": "mine",
        "program": {"source": ".", "build": "make", "binary": "a", "run": "{binary}"},
        "parameters": {"p": {"values": (1, 2), "role": "ranks"}},
        "environments": {"here": {"launcher": "none"}},
        "strategy": strategy,
    }
    file, found = validate(SimpleNamespace(data=data))  # type: ignore[arg-type]
    return [str(mistake) for mistake in (*found, *(choice_mistakes(file) if file else ()))]


def test_campaign_files_may_name_it_and_its_abilities_decide_of_keys() -> None:
    assert not mistakes(name="first", batch=2, most_repetitions=3)
    assert "patience" in mistakes(name="first", patience=2)[0]
    assert "batch" in mistakes(name="ends", batch=2)[0]
    assert abilities_of("first").keys == {"batch", "most_repetitions"}


def test_a_name_that_nobody_brings_is_a_mistake_with_the_nearest() -> None:
    (said,) = mistakes(name="firts")
    assert "'firts'" in said and "'first'?" in said


def test_one_that_does_not_work_is_a_mistake_at_its_name() -> None:
    (said,) = mistakes(name="gone")
    assert "'gone'" in said and "ModuleNotFoundError" in said


def test_suggest_asks_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = tmp_path / "data.txt"
    data.write_text("PARAMETER p\nPOINTS 1 2 4\nDATA 1\nDATA 2\nDATA 4\n")
    assert main(["suggest", str(data), "--strategy", "first"]) == 0
    assert "it is next" in capsys.readouterr().out
    assert main(["suggest", str(data), "--strategy", "outside"]) != 0
    said = capsys.readouterr().err
    assert "'outside'" in said and "Traceback" not in said


def test_descriptions_of_keys_name_the_strategies_that_heed_them() -> None:
    keys = {key: described["description"] for key, described in StrategyKeys.model_json_schema()["properties"].items()}
    assert all(f"`{name}`" in keys["name"] for name in BUILT_IN)
    for key in KEYS:
        able = {name for name in BUILT_IN if key in abilities_of(name).keys}
        named = {name for name in BUILT_IN if f"`{name}`" in keys[key]}
        assert named == able or set(BUILT_IN) - able <= named, key
    once = {name for name in BUILT_IN if abilities_of(name).base_repetitions == 1}
    assert all(f"`{name}`" in keys["base_repetitions"] for name in once)
