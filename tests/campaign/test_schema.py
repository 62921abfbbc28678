from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

import campaign_file as schema
from buran.campaign.load import load_campaign
from buran.campaign.validation import file_schema

ROOT = Path(__file__).resolve().parents[2]
ALL_KEYS = ROOT / "config" / "all-keys.yaml"
FILES = sorted([ROOT / "config" / "campaign.yaml", ALL_KEYS, *(ROOT / "config" / "examples").glob("*.yaml")])
READY = [path for path in FILES if path.name != "template.yaml"]


def test_both_are_written(tmp_path: Path) -> None:
    schema.main([str(tmp_path)])
    assert json.loads((tmp_path / schema.SCHEMA_PATH).read_text())["title"] == "CampaignFile"
    assert (tmp_path / schema.REFERENCE_PATH).is_file()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_bundled_files_fit_the_schema(path: Path) -> None:
    jsonschema.validate(yaml.safe_load(path.read_text()), json.loads(schema.schema_text()))


@pytest.mark.parametrize("path", READY, ids=lambda path: path.name)
def test_bundled_files_load(path: Path) -> None:
    campaign = load_campaign(path)
    assert len(campaign.points) >= 5
    assert isinstance(campaign.source, Path) and campaign.source.parent.name == "examples"


def test_the_schema_refuses_what_the_loader_refuses() -> None:
    data = yaml.safe_load(ALL_KEYS.read_text())
    for key, value in (("repetitions", 0), ("nmae", "x"), ("warmup", "on"), ("metrics", ["tiem"])):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({**data, key: value}, json.loads(schema.schema_text()))


def test_every_key_is_described_and_stands_in_the_file_of_all_keys() -> None:
    text = ALL_KEYS.read_text()
    definitions = file_schema()["$defs"]
    for owner, part in (("", file_schema()), *definitions.items()):
        for key, value in part["properties"].items():
            assert value.get("description"), f"{owner}.{key}"
            assert key in text, f"{owner}.{key} is not shown in config/all-keys.yaml"


def test_written_defaults_are_the_defaults() -> None:
    """What the file of all keys calls a default must be one."""
    import re

    defaults = {
        key: value.get("default")
        for part in (file_schema(), *file_schema()["$defs"].values())
        for key, value in part["properties"].items()
    }
    lines = ALL_KEYS.read_text().splitlines()
    claims = [re.match(r"\s*(\w+): (.*?)\s+# default$", line) for line in lines]
    found = [(claim[1], yaml.safe_load(claim[2])) for claim in claims if claim]
    assert len(found) > 10
    for key, value in found:
        if key == "variables":
            assert value == {}
        elif key == "name":
            assert value == "full"
        else:
            assert value == defaults[key], key
