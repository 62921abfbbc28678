"""Buran with all its plug-ins: what is true of each of them, and generated files that are about all."""

from __future__ import annotations

import importlib
import re
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

import pytest

import campaign_file
from buran.cli import command_parser
from buran.extensions import PLUGINS

ROOT = Path(__file__).parents[2]
LATE = [name for path in PLUGINS.rglob("*.py") for name in re.findall(r'\blate\("([^"]+)"\)', path.read_text())]


def test_the_schema_is_current() -> None:
    schema = (ROOT / campaign_file.SCHEMA_PATH).read_text()
    assert schema == campaign_file.schema_text(), "python tools/reference/campaign_file.py"


def test_the_reference_page_is_current() -> None:
    page = (ROOT / campaign_file.REFERENCE_PATH).read_text()
    assert page == campaign_file.reference_text(), "python tools/reference/campaign_file.py"


@pytest.mark.parametrize("target", LATE)
def test_functions_that_are_imported_late_are_there(target: str) -> None:
    module, _, name = target.partition(":")
    assert callable(getattr(importlib.import_module(module), name))


def test_verbs_of_plugins_can_be_quiet() -> None:
    verbs = next(action.choices for action in command_parser()._actions if action.dest == "verb")
    own = [entry.name for entry in entry_points(group="buran.verbs") if entry.value.startswith("buran.plugins.")]
    assert own
    for verb in own:
        assert "-q" in cast("dict[str, Any]", verbs)[verb]._option_string_actions, verb
