"""What all tests share: tiers, a hypothesis profile, data of others, and how they are spread over processes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "tests"))  # helpers that several folders of tests use

import data_of_others

settings.register_profile("buran", deadline=None)  # how long an example takes says nothing on a shared machine
settings.load_profile("buran")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep tests that are for `make test-all` alone from `make check` too."""
    if item.get_closest_marker("thorough"):
        item.add_marker(pytest.mark.slow)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let tests that share what a module makes run in one process, all others anywhere; slow ones first."""
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares(item):
            item.add_marker(pytest.mark.xdist_group(item.path.name))
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def _shares(item: pytest.Item) -> bool:
    """Tell whether a test uses fixtures that are made once for its module or class."""
    definitions = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009 -- pytest has no public way
    return any(each.scope in ("module", "class") for group in definitions for each in group)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many tests want data of others, and where to read of them."""
    lacking = data_of_others.lacking(terminalreporter.stats.get("skipped", ()))
    if lacking:
        terminalreporter.section("data of others")
        terminalreporter.line(
            f"{len(lacking)} tests were skipped for want of data of others: {', '.join(sorted(set(lacking)))}. "
            f"Set {data_of_others.VARIABLE} to their folder; docs/development/tests.md says where they come from."
        )
