"""What all tests share: tiers, a hypothesis profile, data of others, and how they are spread over processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "tests"))  # helpers that several folders of tests use

import data_of_others

settings.register_profile("thorough", deadline=None)  # how long an example takes says nothing on a shared machine
settings.register_profile("buran", settings.get_profile("thorough"), max_examples=40)
settings.register_profile("quick", settings.get_profile("thorough"), max_examples=10)
settings.load_profile("buran")

COSTLIEST = 25
"""So many tests are named by the processor time that they took."""
LAST_LINES = 12
"""So many lines of what a failure ended with are shown at once; all of it at the end of the run."""
_start_s = pytest.StashKey[float]()


def _processor_time_s() -> float:
    """Processor time of this process and of all that it started and waited for."""
    return sum(os.times()[:4])


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep tests that are for `make test-all` alone from `make check` too."""
    if item.get_closest_marker("thorough"):
        item.add_marker(pytest.mark.slow)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with files that have slow tests: a file runs in one process, which makes once what its tests share."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    """Note where a test's processor time begins, before what it shares with others is made."""
    item.stash[_start_s] = _processor_time_s()
    return (yield)


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Note the processor time that a test took, without what ends with it."""
    tier = "thorough" if item.get_closest_marker("thorough") else "slow" if item.get_closest_marker("slow") else "quick"
    item.user_properties.append(("processor time", (tier, _processor_time_s() - item.stash[_start_s])))


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Show failures as they happen where there is a terminal: a process of several has none."""
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is not None:
        config.pluginmanager.register(_FailuresAtOnce(terminal))


@dataclass(frozen=True)
class _FailuresAtOnce:
    """Names a failure, and what it ended with, as it happens: a whole run takes long, and may be stopped."""

    terminal: pytest.TerminalReporter

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.terminal.ensure_newline()
            self.terminal.line(f"failed: {report.nodeid}")
            for line in report.longreprtext.splitlines()[-LAST_LINES:]:
                self.terminal.line(f"  {line}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the tests cost, how many want data of others, and where to read of them."""
    _say_what_tests_cost(terminalreporter)
    lacking = data_of_others.lacking(terminalreporter.stats.get("skipped", ()))
    if lacking:
        terminalreporter.section("data of others")
        terminalreporter.line(
            f"{len(lacking)} tests were skipped for want of data of others: {', '.join(sorted(set(lacking)))}. "
            f"Set {data_of_others.VARIABLE} to their folder; docs/development/tests.md says where they come from."
        )


def _say_what_tests_cost(terminalreporter: pytest.TerminalReporter) -> None:
    """Show processor times: other work on the machine hardly changes them, unlike the time on the clock."""
    reports = [report for group in terminalreporter.stats.values() for report in group]
    costs = {
        report.nodeid: dict(report.user_properties)["processor time"]
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "teardown"
    }
    terminalreporter.section("processor time, with all that tests start")
    for tier in sorted({tier for tier, _ in costs.values()}):
        times_s = [seconds for of, seconds in costs.values() if of == tier]
        terminalreporter.line(f"{sum(times_s):7.0f} s  {len(times_s)} tests that are {tier}")
    for name in sorted(costs, key=lambda name: -costs[name][1])[:COSTLIEST]:
        if costs[name][1] >= 1:
            terminalreporter.line(f"{costs[name][1]:7.1f} s  {name}")
