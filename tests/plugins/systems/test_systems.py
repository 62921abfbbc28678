"""System files: found by name, below the campaign's own keys, about machines only, and proposed by `buran doctor`."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from buran.campaign.config import Campaign
from buran.campaign.load import load_campaign
from buran.campaign.mistakes import CampaignError, spelled
from buran.cli import main
from buran.errors import Exit
from buran.measurement.schedulers.slurm import SLURM
from buran.measurement.target import Target
from buran.plugins.systems.feature import read_system
from buran.workflow.engine.partition import check_now, local_room
from buran.workflow.report import _copy_campaign_file

CAMPAIGN: dict[str, Any] = {
    "name": "demo",
    "program": {"source": "code", "build": "make CC={mpicc}", "binary": "demo", "run": "{binary} {n}"},
    "parameters": {"p": [1, 2, 4], "n": [10, 20, 40]},
}
HAWK: dict[str, Any] = {
    "environment": "hawk",
    "environments": {"hawk": {"launcher": "srun", "modules": ["gcc", "openmpi"]}},
    "resources": {"partition": "standard", "account": "project", "time_margin": 2.0},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "Makefile").write_text("demo:\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "site"))
    for name in [name for name in os.environ if name.startswith("SLURM")]:
        monkeypatch.delenv(name)
    return tmp_path


def system(folder: Path, keys: dict[str, Any] | str, name: str = "hawk") -> Path:
    path = folder / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(keys if isinstance(keys, str) else yaml.safe_dump(keys, sort_keys=False))
    return path


def campaign_file(folder: Path, **keys: Any) -> Path:
    path = folder / "campaign.yaml"
    path.write_text(yaml.safe_dump({**CAMPAIGN, **keys}, sort_keys=False))
    return path


def loaded(folder: Path, **keys: Any) -> Campaign:
    return load_campaign(campaign_file(folder, **keys))


def refused(folder: Path, **keys: Any) -> dict[str, object]:
    """Return the only mistake of a campaign."""
    with pytest.raises(CampaignError) as error:
        loaded(folder, **keys)
    (mistake,) = error.value.mistakes
    return mistake.as_json()


def test_the_nearest_file_counts(folder: Path) -> None:
    for place, partition in (("site/buran/systems", "c"), ("home/buran/systems", "b"), ("systems", "a")):
        system(folder / place, {"resources": {"partition": partition}})
        assert loaded(folder, system="hawk").config.resources.partition == partition


def test_a_system_asks_what_its_keys_ask_and_the_campaign_has_the_last_word(folder: Path) -> None:
    system(folder / "systems", HAWK)
    named, written = loaded(folder, system="hawk"), loaded(folder, **HAWK)
    assert named.digest() == written.digest() and named.config == written.config
    point = named.points[-1]
    assert Target.configuration(SimpleNamespace(campaign=named), point) == Target.configuration(  # type: ignore[arg-type]
        SimpleNamespace(campaign=written),  # type: ignore[arg-type]
        point,
    )
    own = loaded(folder, system="hawk", resources={"account": "mine"})
    assert own.config.resources.account == "mine" and own.config.resources.partition == "standard"


def test_a_system_says_where_finished_campaigns_are_recorded(folder: Path) -> None:
    system(folder / "systems", {"history": "/shared/history.sqlite"})
    assert loaded(folder, system="hawk").config.history == "/shared/history.sqlite"  # type: ignore[attr-defined]
    assert loaded(folder, system="hawk", history="off").config.history == "off"  # type: ignore[attr-defined]


def test_what_is_kept_of_a_campaign_needs_no_system_file(folder: Path) -> None:
    path = system(folder / "systems", HAWK)
    whole = loaded(folder, system="hawk")
    _copy_campaign_file(whole.path, folder / "kept.yaml")
    path.unlink()
    assert load_campaign(folder / "kept.yaml").digest() == whole.digest()


def test_paths_of_a_system_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system(folder / "home" / "buran" / "systems", {"results": "$PLACE/buran", "memory": {"machine": "hawk.json"}})
    monkeypatch.setenv("PLACE", "/scratch/me")
    config = read_system(folder / "home" / "buran" / "systems" / "hawk.yaml").data
    assert config["results"] == "/scratch/me/buran"
    assert config["memory"] == {"machine": str(folder / "home" / "buran" / "systems" / "hawk.json")}
    monkeypatch.delenv("PLACE")
    assert refused(folder, system="hawk")["key"] == "results"


@pytest.mark.parametrize(
    ("text", "key", "line"),
    [
        ("resources:\n  partition: standard\n  ranks: p\n", "resources.ranks", 3),
        ("compiler: gcc\nparameters: {p: [1, 2]}\n", "parameters", 2),
        ("system: hawk\n", "system", 1),
        ("compiler: gcc\ninclude: hawk.yaml\n", "include", 2),
        ("resources:\n  partition: [standard\n", None, 3),
        ("resources:\n  acount: project\n", "resources.acount", 2),
        ("resources:\n  partitions: {small: {ranks: 1 to 4}}\n", "resources.partitions.small.ranks", 2),
        ("resources:\n  partitions: {small: {ranks: 4-1}}\n", "resources.partitions", 2),
        ("resources:\n  partitions:\n    small: {ranks: 1-2}\n", "resources.partitions", 2),
        ("resources:\n  account: mine  # <- one of mine, yours\n", None, 2),
    ],
)
def test_mistakes_are_named_by_file_line_and_key(folder: Path, text: str, key: str | None, line: int) -> None:
    path = system(folder / "systems", text)
    with pytest.raises(CampaignError) as error:
        loaded(folder, system="hawk")
    mistake = error.value.mistakes[0].as_json()
    assert (mistake["file"], mistake["key"], mistake["line"]) == (str(path), key, line)


def test_an_unknown_system_is_refused_with_what_there_is(folder: Path) -> None:
    places = [folder / "systems", folder / "home" / "buran" / "systems", folder / "site" / "buran" / "systems"]
    mistake = refused(folder, system="hawk")
    assert all(str(place) in str(mistake["why"]) for place in places)
    assert mistake["line"] == (folder / "campaign.yaml").read_text().splitlines().index("system: hawk") + 1
    system(places[2], HAWK)
    assert "hawk" in str(refused(folder, system="hwak")["hint"])
    assert refused(folder, system="../systems/hawk")["key"] == "system", "a name is no path"
    assert refused(folder, system=7)["key"] == "system"


PARTITIONS = """PartitionName=standard AllowAccounts=ALL Default=YES MaxNodes=UNLIMITED MaxTime=1-00:00:00
PartitionName=debug AllowAccounts=ALL Default=NO MaxNodes=1 MaxTime=00:30:00
"""


@pytest.fixture
def hawk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Commands that answer as the Slurm of a cluster does."""
    commands = folder / "commands"
    commands.mkdir()
    (folder / "partitions").write_text(PARTITIONS)
    for name, body in {
        "scontrol": f"case $2 in partition) cat {folder}/partitions;; config) echo 'ClusterName = hawk';; esac",
        "sinfo": 'case "$*" in *%P*) echo debug; echo "standard*";; *debug*) echo "2|1:4:2|1000|a";; '
        '*) echo "8|2:4:2|2000|a";; esac',
        "squeue": "exit 0",
        "srun": "exit 0",
    }.items():
        (commands / name).write_text(f"#!/bin/sh\n{body}\n")
        (commands / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    return folder


@pytest.mark.parametrize(
    ("resources", "key", "words"),
    [
        ({"cluster": "kestrel"}, "resources.cluster", ("this is hawk", "kestrel")),
        ({"partitions": {"standard": {}, "fat": {}}}, "resources.partitions.fat", ("standard, debug",)),
        ({"partition": "fat"}, "resources.partition", ("standard, debug",)),
        ({"partitions": {"standard": {"constraint": "b"}}}, "resources.partitions.standard.constraint", ("like that",)),
    ],
)
def test_a_system_file_of_something_else_is_refused_before_anything_is_submitted(
    hawk: Path, resources: dict[str, Any], key: str, words: tuple[str, ...]
) -> None:
    path = system(hawk / "systems", {"resources": {"cluster": "hawk", **resources}})
    campaign = loaded(hawk, system="hawk")
    with pytest.raises(CampaignError) as error:
        check_now(campaign, SLURM)
    (mistake,) = error.value.mistakes
    assert mistake.file == path and mistake.line > 0 and spelled(mistake.path) == key
    assert all(word in str(error.value) for word in words)


def test_outside_of_jobs_the_machine_must_be_of_the_cluster_too(hawk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = system(hawk / "systems", {"resources": {"cluster": "hawk"}})
    assert local_room(loaded(hawk, system="hawk")) == ({}, "")
    monkeypatch.setattr("shutil.which", lambda name, **options: None)
    for cluster in ("kestrel", "hawk"):  # here is no scheduler now
        system(hawk / "systems", {"resources": {"cluster": cluster}})
        with pytest.raises(CampaignError) as error:
            local_room(loaded(hawk, system="hawk"))
        (mistake,) = error.value.mistakes
        assert mistake.file == path and spelled(mistake.path) == "resources.cluster" and cluster in str(error.value)


def test_in_jobs_the_cluster_is_known_without_asking(hawk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert SLURM.cluster() == "hawk"
    monkeypatch.setenv("SLURM_CLUSTER_NAME", "other")
    assert SLURM.cluster() == "other"


def test_doctor_proposes_what_campaigns_can_name(
    hawk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOADEDMODULES", "gcc/12:openmpi/4")
    monkeypatch.setenv("SCRATCH", "/scratch/me")
    assert main(["doctor", "--write-system", "hawk"]) == 0
    campaign = check_now(loaded(hawk, system="hawk"), SLURM)
    assert campaign.config.resources.cluster == "hawk" and campaign.partitions == ("standard",)
    assert campaign.active_environment.launcher == "srun"
    assert campaign.active_environment.modules == ("gcc/12", "openmpi/4")
    assert campaign.results_root == Path("/scratch/me/buran/demo")
    path = hawk / "home" / "buran" / "systems" / "hawk.yaml"
    text = path.read_text()
    assert text in capsys.readouterr().out
    assert main(["doctor", "--write-system", "hawk"]) == Exit.USAGE and path.read_text() == text, "it is the user's now"
    path.write_text(text.replace("    # debug", "    debug").replace("1-64", "5-64"))
    campaign = loaded(hawk, system="hawk")
    assert [campaign.partition({"p": ranks}) for ranks in (1, 4, 5, 64, 65)] == [
        *("debug", "debug", "standard", "standard"),
        None,
    ]
    assert main(["doctor", "--write-system", "a/b"]) == Exit.USAGE


def test_without_a_scheduler_it_proposes_what_it_finds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name, **options: None)
    assert main(["doctor", "--write-system", "laptop"]) == 0
    assert loaded(folder, system="laptop").active_environment.launcher == "auto"
