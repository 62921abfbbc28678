"""Every key says what it decides; what a change of it causes is what it says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, get_args

import pytest
import yaml
from campaign_files import BASE, changed, writer
from pydantic import Field, create_model

from buran.campaign.config import Campaign
from buran.campaign.identity import Decides, Keys, decides, requested
from buran.campaign.layout import Layout
from buran.campaign.load import load_campaign
from buran.campaign.point import Point
from buran.campaign.shape import CampaignFile
from buran.measurement.backends.base import SYSTEMS
from buran.measurement.target import open_target

FULL: dict[str, Any] = {
    "environment": "here",
    "environments": {"here": {}, "there": {"variables": {"A": "c"}}},
    "resources": {"ranks": "p"},
}
"""What the campaign has beside the smallest, so that every key has a place."""

NEW: dict[str, Any] = {
    "name": "other", "results": "elsewhere", "environment": "there", "constraints": ["p > 1"],
    "evaluation_points": [{"p": 16, "n": 160}], "repetitions": 5, "effort_repetitions": 3, "warmup": False,
    "metrics": ["time"], "counters": ["cycles"], "aggregate": "max", "backend": "command", "compiler": "gcc",
    "goal": "filter", "instrumentation": "none", "correct": {"main": "model"}, "seed": 2,
    "program.source": "code2", "program.build": "make demo X={mpicxx}", "program.flags": "-O3", "program.binary": "d2",
    "program.run": "{binary} {n} 2", "program.inputs": ["code2"], "program.start_in": "code2",
    "program.keep_output": ["*.log"],
    "values": {"m": "2 * n"},
    "program.inputs.0.path": "code2", "program.inputs.0.name": "other", "program.inputs.0.link": True,
    "program.inputs.0.fill": True,
    "environments.here.launcher": "openmpi", "environments.here.modules": ["gcc"],
    "environments.here.variables": {"A": "b"}, "environments.here.compiler": "gcc",
    "environments.here.extra_flags": "-g",
    "parameters.n.role": "choice", "parameters.n.values": [10, 20, 80],
    "parameters.n.value": 100,
    "parameters.n.range.start": 5, "parameters.n.range.stop": 40, "parameters.n.range.factor": 4,
    "budget.charge": "program",
    "budget.core_hours": 7.0, "budget.percent_of_full_matrix": 10.0,
    "strategy.name": "lines", "strategy.max_iterations": 9, "strategy.batch": 3, "strategy.base": "lines",
    "strategy.base_repetitions": 3, "strategy.most_repetitions": 4, "strategy.accuracy_percent": 5.0,
    "strategy.patience": 2, "strategy.retry_failed": True,
    "model.priors": "off", "model.prior_fit": "published", "model.pool_filters": "off", "model.kind": "pmnf",
    "model.criterion": "smape", "model.terms_per_parameter": 1, "model.repetition": "min",
    "model.space": {"n": ["4 0"]},
    "refinement.enabled": False, "refinement.strategy": "hotspots", "refinement.start": "loops",
    "refinement.start_threshold": "median", "refinement.pilot": True, "refinement.share": 0.02,
    "refinement.threshold": 1.0, "target": {"p": 64, "n": 512}, "refinement.overhead_percent": 9.0,
    "refinement.constants": True, "refinement.closure": "static", "refinement.keep": ["a"], "refinement.drop": ["b"],
    "refinement.filtering": "run", "refinement.rebuild_every": 3,
    "resources.ranks": "2 * p", "resources.threads": 2, "resources.nodes": "p", "resources.tasks_per_node": 1,
    "resources.time_limit": 60, "resources.expected_time": 2, "resources.memory_mb": 100, "resources.partition": "x",
    "resources.constraint": "x", "resources.account": "x", "resources.qos": "x", "resources.reservation": "x",
    "resources.exclusive": False, "resources.extra": "--nice", "resources.time_margin": 4.0,
    "resources.points_per_job": 2, "resources.cluster": "x",
    "resources.partitions.large.ranks": "5-", "resources.partitions.large.cores_per_node": 4,
    "resources.partitions.large.charge_factor": 2.0,
    **{f"resources.partitions.large.{key}": "x" for key in ("constraint", "account", "qos")},
    "resources.partitions.large.exclusive": False, "model.waiting": "always",
    "command.wrapper": "perf stat --", "command.extra_flags": "-pg",
    "command.variables": {"A": "b"}, "command.afterwards": "gprof > profile.txt", "command.profile": "*.csv",
    "command.format": "gprof", "command.further_metrics": ["page_faults"],
    "command.clock": "took ([0-9]+) s",
}  # fmt: skip
"""Another value of each key."""

ELSEWHERE = {
    "points": "test_config",  # another way to say which points
    "simulated": "simulate/test_simulated_campaign",
    "include": "test_document",
    "parameters.n.range.step": "instead of factor",
}
NEEDS: dict[str, dict[str, Any]] = {
    **{
        key: {"backend": "command", "command.wrapper": "time", "command.profile": "profile.txt"}
        for key in NEW
        if key.startswith("command.")
    },
    "values": {"values": {"m": "n"}, "program.run": "{binary} {m}"},
    "program.inputs.0.path": {"program.inputs": [{"path": "code"}]},
    "program.inputs.0.name": {"program.inputs": [{"path": "code"}]},
    "program.inputs.0.link": {"program.inputs": [{"path": "code"}]},
    "program.inputs.0.fill": {"program.inputs": [{"path": "code/Makefile"}]},
    "strategy.batch": {"strategy.name": "cpf"},
    "strategy.base": {"strategy.name": "cpf"},
    "strategy.base_repetitions": {"strategy.name": "cpf"},
    "strategy.most_repetitions": {"strategy.name": "cpf"},
    "strategy.accuracy_percent": {"strategy.name": "design"},
    "strategy.patience": {"strategy.name": "cpf"},
    "strategy.retry_failed": {"strategy.name": "cpf"},
    "metrics": {"refinement.enabled": False},
    "parameters.n.values": {"parameters.n.range": None, "parameters.n.values": [10, 20]},
    "parameters.n.value": {
        "parameters.n.range": None,
        "parameters.n.role": "steps",
        "parameters.n.value": 50,
        "strategy.name": "design",
    },
    "refinement.rebuild_every": {"refinement.filtering": "hybrid"},
    "refinement.start_threshold": {"refinement.start": "loops"},
    "refinement.threshold": {"refinement.strategy": "filter"},
    "resources.ranks": {"parameters.p.role": "size"},
    "resources.tasks_per_node": {"resources.nodes": "p"},
    **{key: {"resources.partitions": {"large": {}}} for key in NEW if ".partitions.large." in key},
    "resources.partitions.large.ranks": {"resources.partitions": {"large": {}, "rest": {}}},
}
"""What else has to be said where a key is used."""


def keys(part: type[Keys], path: str = "") -> Iterator[tuple[str, Decides | None]]:
    """Yield every key of the file that has no keys below it, with what it decides."""
    for name, field in part.model_fields.items():
        below = list(parts_in(field.annotation))
        own = f"{path}{name}"
        if not below or decides(field):
            yield own, decides(field)
        for each in below:
            listed = {"parameters": ".n" if "values" not in own else "", "environments": ".here"}
            listed |= {"program.inputs": ".0", "resources.partitions": ".large"}
            yield from keys(each, f"{own}{listed.get(own, '')}.")


def parts_in(annotation: Any) -> Iterator[type[Keys]]:
    if isinstance(annotation, type) and issubclass(annotation, Keys):
        yield annotation
    for arg in get_args(annotation):
        yield from parts_in(arg)


DECIDED = dict(keys(CampaignFile))


def test_every_key_says_what_it_decides() -> None:
    assert [key for key, decided in DECIDED.items() if decided is None] == []
    assert set(DECIDED) == {*NEW, *ELSEWHERE}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all that campaigns name, and no compiler."""
    writer(tmp_path)
    for name in ("old.txt", "old2.txt", "old.filter"):
        (tmp_path / name).write_text(f"{name}\n")
    (tmp_path / "code2").mkdir()
    (tmp_path / "code2" / "Makefile").write_text("demo: other\n")
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "report.json").write_text("{}")

    def backend(campaign: Campaign, scratch: Path) -> object:
        config = campaign.config
        identity = f"{config.backend} {campaign.compiler} {config.counters} {requested(config.command)}"
        return SimpleNamespace(identity=identity)

    for name in ("embedded", "command"):
        monkeypatch.setattr(SYSTEMS.load(name), "open", backend)
    return tmp_path


def loaded(folder: Path, changes: Mapping[str, Any]) -> Campaign:
    data = changed({**BASE, **FULL}, {})
    for dotted, value in changes.items():
        *parents, last = dotted.split(".")
        place: Any = data
        for parent in parents:
            place = place[0] if parent == "0" else place.setdefault(parent, {})
        place[last] = value
        if value is None:
            del place[last]
    path = folder / "campaign.yaml"
    path.write_text(yaml.safe_dump(data))
    return load_campaign(path)


def identities(campaign: Campaign) -> tuple[str, str, dict[str, Any]]:
    """Of target, question and run."""
    target = open_target(campaign, Layout(campaign.folder / "nowhere"))
    return target.id, campaign.digest(), target.configuration(Point.of({"n": 10, "p": 4}))


@pytest.mark.parametrize("key", NEW)
def test_a_change_causes_what_the_key_says(folder: Path, key: str) -> None:
    needed = NEEDS.get(key, {})
    before, after = (identities(loaded(folder, changes)) for changes in (needed, {**needed, key: NEW[key]}))
    changed_target, changed_question, changed_run = (one != other for one, other in zip(before, after, strict=True))
    decided = DECIDED[key]
    assert decided is not None
    assert changed_target is (decided is Decides.TARGET)
    assert changed_question is decided.changes_the_question
    if decided is not Decides.TARGET and not key.startswith("parameters."):
        assert changed_run is (decided is Decides.RUN)


@pytest.mark.parametrize(
    ("word", "keys"),
    [
        ("auto", {}),
        ("all", {"goal": "models", "refinement": {"start": "everything", "pilot": False}}),
        ("none", {"backend": "command"}),
    ],
)
def test_instrumentation_in_one_word_asks_what_the_keys_ask(folder: Path, word: str, keys: dict[str, Any]) -> None:
    short, long = (loaded(folder, changes) for changes in ({"instrumentation": word}, keys))
    assert short.config == long.config and identities(short) == identities(long)


def longer(part: Any, value: int) -> Any:
    """Return a copy of a part that has a key more, here and in every part below."""
    if isinstance(part, Mapping):
        return {key: longer(each, value) for key, each in part.items()}
    if isinstance(part, tuple):
        return tuple(longer(each, value) for each in part)
    if not isinstance(part, Keys):
        return part
    model = create_model("Longer", __base__=type(part), unheard_of=(Annotated[int, Decides.PLAN], Field(7)))
    fields = type(part).model_fields
    # Whole parts that are left out stay at their default, which then has the new key too.
    defaults = {
        name: longer(field.get_default(call_default_factory=True), 7)
        for name, field in fields.items()
        if isinstance(field.get_default(call_default_factory=True), Keys)
    }
    for name, default in defaults.items():
        model.model_fields[name].default_factory = lambda default=default: default
    said = {name: longer(getattr(part, name), value) for name in fields}
    return model.model_construct(**said, unheard_of=value)


def test_a_new_key_at_its_default_changes_no_identity(folder: Path) -> None:
    campaign = loaded(folder, {"resources.account": "x", "strategy.name": "lines"})
    with_defaults = dataclasses.replace(campaign, config=longer(campaign.config, 7))
    assert requested(with_defaults.config) == requested(campaign.config)
    assert with_defaults.digest() == campaign.digest()
    used = dataclasses.replace(campaign, config=longer(campaign.config, 8))
    assert requested(used.config)["resources"]["unheard_of"] == 8
    assert used.digest() != campaign.digest()


def test_what_is_left_out_is_what_stands_at_its_default(folder: Path) -> None:
    assert requested(loaded(folder, {"repetitions": 3}).config) == requested(loaded(folder, {}).config)
    assert "repetitions" not in requested(loaded(folder, {}).config)
    assert "resources" not in requested(loaded(folder, {"resources": {"account": "x"}}).config)
