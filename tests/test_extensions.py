"""Extension points: what is built in, what distributions bring, and what is wrong with what they bring."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Callable, Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Protocol

import pytest

from buran import extensions
from buran.cli import main
from buran.errors import Exit, PluginError, UsageError
from buran.extensions import ExtensionPoint
from buran.measurement.backends.base import SYSTEMS
from buran.measurement.finding import Health
from buran.measurement.machine import doctor
from buran.measurement.schedulers.base import SCHEDULERS

Bring = Callable[..., None]
DATA = Path(__file__).parent / "data"
TARGET = {"source": "source", "build": "{mpicc} {flags} a.c", "binary": "a.out", "run": "{binary} {p}"}


class Encoder(Protocol):
    indent: int

    @property
    def name(self) -> str: ...

    def encode(self, value: object, *, sort: bool) -> str: ...


GOOD = """
class Encoder:
    name, indent = {name!r}, 2
    def encode(self, value, *, sort): return "{name}"
encoder = Encoder()
"""


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bring]:
    """Put a distribution with one module and one entry point on the path."""
    brought = []

    def make(distribution: str, name: str, code: str, attribute: str = "encoder", group: str = "test.encoders") -> None:
        folder = tmp_path / distribution
        info = folder / f"{distribution}-1.5.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n")
        (info / "entry_points.txt").write_text(f"[{group}]\n{name} = {distribution}_code:{attribute}\n")
        (folder / f"{distribution}_code.py").write_text(code.format(name=name))
        monkeypatch.syspath_prepend(folder)
        brought.append(f"{distribution}_code")

    yield make
    for module in brought:
        sys.modules.pop(module, None)


@pytest.fixture
def extension_point() -> ExtensionPoint[Encoder]:
    return ExtensionPoint("encoder", "test.encoders", Encoder, {"plain": f"{__name__}:PLAIN"})


class Plain:
    name, indent = "plain", 0

    def encode(self, value: object, *, sort: bool) -> str:
        return json.dumps(value, sort_keys=sort)


PLAIN = Plain()


def test_what_is_built_in_and_what_is_brought_is_found_by_name(
    extension_point: ExtensionPoint[Encoder], bring: Bring
) -> None:
    assert extension_point.names == ("plain",) and extension_point.load("plain") is PLAIN
    bring("outside", "other", GOOD)
    assert extension_point.names == ("plain", "other")
    assert [each.name for each in extension_point] == ["plain", "other"]
    assert extension_point.load("other").encode(1, sort=True) == "other"


def test_nothing_is_imported_before_it_is_asked_for(extension_point: ExtensionPoint[Encoder], bring: Bring) -> None:
    bring("explosive", "other", "raise SystemError('too early')")
    assert extension_point.names == ("plain", "other") and extension_point.load("plain") is PLAIN
    assert "explosive_code" not in sys.modules


def test_an_unknown_name_is_refused_with_those_that_are_known(extension_point: ExtensionPoint[Encoder]) -> None:
    with pytest.raises(UsageError, match="unknown encoder 'plan'") as refused:
        extension_point.load("plan")
    assert refused.value.why == "known here: plain" and "test.encoders" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("import nothing_of_that_name", "ModuleNotFoundError"),
        ("raise RuntimeError('no licence')", "RuntimeError: no licence"),
        ("def broken(:", "SyntaxError"),
        ("other = 1", "AttributeError"),
        ("class encoder: name = {name!r}", "is a class"),
        (GOOD.replace("encode(", "decode("), "no encode"),
        (GOOD.replace(", indent", "").replace(", 2", ""), "no indent"),
        (GOOD.replace("{name!r}", "'plain'"), "itself 'plain'"),
    ],
)
def test_what_is_wrong_with_a_plugin_is_said(
    extension_point: ExtensionPoint[Encoder], bring: Bring, code: str, why: str
) -> None:
    bring("faulty", "other", code)
    with pytest.raises(PluginError, match="'other'") as refused:
        extension_point.load("other")
    assert refused.value.exit_code is Exit.ENVIRONMENT
    assert all(word in str(refused.value.where) for word in ("faulty 1.5", "faulty_code:encoder", "test.encoders"))
    assert why in str(refused.value.why)
    assert "pip uninstall faulty" in str(refused.value.hint)
    assert extension_point.load("plain") is PLAIN, "what is not asked for harms nobody"


def test_a_name_is_given_once(extension_point: ExtensionPoint[Encoder], bring: Bring) -> None:
    bring("first", "plain", GOOD)
    with pytest.raises(PluginError) as refused:
        extension_point.load("plain")
    assert "distribution first 1.5" in str(refused.value.where) and "buran itself" in str(refused.value.why)
    assert refused.value.hint


def test_two_distributions_cannot_have_one_name(extension_point: ExtensionPoint[Encoder], bring: Bring) -> None:
    bring("first", "other", GOOD)
    bring("second", "other", GOOD)
    with pytest.raises(PluginError) as refused:
        _ = extension_point.names
    text = str(refused.value)
    assert "distribution first 1.5" in text and "distribution second 1.5" in text


def test_what_is_built_in_has_what_the_protocols_ask_for() -> None:
    assert [scheduler.name for scheduler in SCHEDULERS][:2] == ["none", "slurm"]
    assert [system.name for system in SYSTEMS][:2] == ["embedded", "command"]


def test_a_plugin_whose_folder_is_not_there_is_named(bring: Bring, extension_point: ExtensionPoint[Encoder]) -> None:
    bring("complete", "other", GOOD)
    entries = Path(sys.path[0]) / "complete-1.5.dist-info" / "entry_points.txt"
    entries.write_text("[test.encoders]\nother = buran.plugins.nowhere.other:OTHER\n")
    assert extension_point.names == ("plain",) and extension_point.possible_names == ("plain", "other")
    with pytest.raises(UsageError, match="'other'") as refused:
        extension_point.load("other")
    assert "'nowhere'" in str(refused.value.why)


def test_what_is_installed_is_what_the_package_declares() -> None:
    """Where this fails, install the package again: `tools/setup test`."""
    root = Path(__file__).parents[1]
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"].get("entry-points", {})
    installed = {
        group: {entry.name: entry.value for entry in distribution("buran").entry_points if entry.group == group}
        for group in declared
    }
    assert installed == declared


def test_each_plugin_is_reached_by_an_entry_point() -> None:
    entries = [entry.value for entry in distribution("buran").entry_points]
    for folder in extensions.PLUGINS.glob("*/__init__.py"):
        assert any(value.startswith(f"buran.plugins.{folder.parent.name}") for value in entries)


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    """A simulated one."""
    (tmp_path / "program.json").write_text(
        json.dumps({"schema": "buran-program/1", "program": {"main": {"time_s": 0.01}}})
    )
    parameters = {"p": {"role": "ranks", "values": [2, 4, 8, 16, 32]}}
    data = {"name": "small", "backend": "simulated", "simulated": "program.json", "parameters": parameters}
    path = tmp_path / "campaign.json"
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("moon", "raise ImportError('no library of the scheduler')", "ImportError"),
        ("moon", "class Moon: name = title = 'moon'\nencoder = Moon()", "is_available"),
        ("slurm", "encoder = 1", "buran itself, slurm"),
    ],
)
def test_a_scheduler_that_does_not_work_is_named_before_anything_is_measured(
    bring: Bring, campaign: Path, capsys: pytest.CaptureFixture[str], name: str, code: str, why: str
) -> None:
    bring("lunar", name, code, group="buran.schedulers")
    for verb in ("run", "status"):
        assert main([verb, str(campaign)]) == Exit.ENVIRONMENT
        said = capsys.readouterr().err
        assert f"the scheduler {name!r} cannot be used" in said and "distribution lunar 1.5" in said
        assert why in " ".join(said.split()) and "next:" in said
    assert not list((campaign.parent / "results").rglob("run.json"))


def test_the_doctor_names_what_does_not_work(bring: Bring) -> None:
    bring("lunar", "moon", "raise ImportError('no library of the scheduler')", group="buran.schedulers")
    (finding,) = (each for each in doctor.stand_of(SCHEDULERS) if each.part == "scheduler moon")
    assert finding.state is Health.NEEDED and "no library" in finding.found
    assert "distribution lunar 1.5" in finding.found and finding.remedy.endswith("pip uninstall lunar")


def test_a_simulated_campaign_names_the_package_that_it_lacks(
    monkeypatch: pytest.MonkeyPatch, campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(extensions, "_installed", lambda group, path: ())
    for verb in ("check", "status", "run"):
        assert main([verb, str(campaign)]) == Exit.USAGE
        said = " ".join(capsys.readouterr().err.split())
        assert "key backend" in said and "'simulated'" in said and "buran-studies" in said
    assert not (campaign.parent / "results").exists()


def test_a_measurement_system_that_does_not_work_is_named(
    bring: Bring, campaign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = campaign.read_text()
    campaign.write_text(text.replace('"simulated"', '"tau"'))
    assert main(["status", str(campaign)]) == Exit.USAGE
    said = " ".join(capsys.readouterr().err.split())
    assert all(name in said for name in ("key backend", "'tau'", "embedded, command, simulated"))
    bring("outside", "tau", "class Tau: name = 'tau'\nencoder = Tau()", group="buran.backends")
    data = json.loads(text) | {"backend": "tau", "program": TARGET}
    del data["simulated"]
    (campaign.parent / "source").mkdir()
    (campaign.parent / "source" / "a.c").touch()
    campaign.write_text(json.dumps(data))
    assert main(["status", str(campaign)]) == Exit.ENVIRONMENT
    said = capsys.readouterr().err
    assert "'tau'" in said and "distribution outside 1.5" in said and "has no open" in said


FEATURE = "from buran.features import Feature, Key\nencoder = Feature({name!r}, Key(bool, False, 'Whether.'))"


@pytest.mark.parametrize(
    ("name", "code", "why"),
    [
        ("mine", "raise OSError('no licence')", "OSError: no licence"),
        ("mine", "from buran.features import OfAnotherVersion", "'OfAnotherVersion'"),
        ("mine", FEATURE.replace("'))", "'), later_hook=print)"), "'later_hook'"),
        ("mine", FEATURE.replace(", 'Whether.'", ""), "argument: 'description'"),
        ("mine", FEATURE.replace("{name!r}", "{name!r} * 2"), "'minemine'"),
        ("budget", FEATURE, "Buran's own"),
        ("twice", FEATURE, "twice = outside_code:encoder"),
    ],
)
def test_a_key_that_cannot_be_used_is_named_before_anything_is_measured(
    bring: Bring, campaign: Path, capsys: pytest.CaptureFixture[str], name: str, code: str, why: str
) -> None:
    """Of a plug-in for another version of the core, with the key of another, or that fails at import."""
    if name == "twice":
        bring("another", name, code, group="buran.features")
    bring("outside", name, code, group="buran.features")
    for verb in ("check", "run", "status"):
        assert main([verb, str(campaign)]) == Exit.ENVIRONMENT
        said = " ".join(capsys.readouterr().err.split())
        assert f"the feature {name!r}" in said and why in said and "distribution" in said
    assert not (campaign.parent / "results").exists()
    assert main(["model", str(DATA / "extrap" / "stencil.txt")]) == 0, "what needs no campaign works"
