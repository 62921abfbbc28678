"""How far a running campaign is: a bar on terminals, lines of text elsewhere."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from buran.cli.terminal import duration, exact, is_quiet, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.progress import Progress

    from buran.campaign.layout import Layout
    from buran.measurement.store.ledger import Entry
    from buran.workflow.session import Session

_LAST_LINES = 8  # of a log
_REST = 20.0  # times what a look took pass until the next one
_LINE_EVERY_S = 60.0  # in logs: what changes is printed this often


@dataclass(frozen=True)
class ProgressState:
    """How far a campaign is.

    Attributes
    ----------
    phase
        Part of the campaign, and what is done while no run is made.
    settled
        Runs that are measured or failed, of those `planned` so far.
    budget_core_hours
        None without a budget.
    ahead_core_hours, ahead_s
        Predicted for the runs of this iteration that are left; None where nothing is known.
    """

    iteration: int
    phase: str
    settled: int
    planned: int
    spent_core_hours: float
    budget_core_hours: float | None
    ahead_core_hours: float | None = None
    ahead_s: float | None = None

    @property
    def where(self) -> str:
        """Iteration and phase."""
        return f"iteration {self.iteration}, {self.phase}"

    @property
    def runs(self) -> str:
        """Runs that are settled and planned."""
        return f"{self.settled}/{self.planned} runs"

    @property
    def cost(self) -> str:
        """Core hours, of the budget if there is one."""
        budget = "" if self.budget_core_hours is None else f" of {self.budget_core_hours:.4g}"
        return f"{self.spent_core_hours:.4g}{budget} core hours spent"

    @property
    def ahead(self) -> str:
        """What is left of this iteration."""
        if self.ahead_s is None or self.ahead_core_hours is None:
            return ""
        left = None if self.budget_core_hours is None else max(self.budget_core_hours - self.spent_core_hours, 0.0)
        if left is not None and self.ahead_core_hours > left:
            return f"{left:.2g} core hours of the budget to go: too few for all runs of this iteration"
        return f"about {self.ahead_core_hours:.2g} core hours and {duration(self.ahead_s)} to go in this iteration"


class Display:
    """A bar on terminals; elsewhere a line of text for each iteration and each minute."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._bar = _bar(exact(stream)) if stream.isatty() and os.environ.get("TERM") != "dumb" else None
        self._printed_s = self._changed_s = time.monotonic()
        self._where = ""

    def show(self, state: ProgressState) -> None:
        """Show the newest state."""
        now_s = self._changed_s = time.monotonic()
        is_due = state.where != self._where or now_s - self._printed_s >= _LINE_EVERY_S
        self._where = state.where
        if self._bar is not None:
            left = "" if state.ahead_s is None else f"{duration(state.ahead_s)} left"
            cost = state.cost.removesuffix(" spent")
            self._bar.start()
            total = state.planned or None
            self._bar.update(
                self._bar.task_ids[0], total=total, completed=state.settled, description=state.where, runs=state.runs,
                cost=cost, left=left, refresh=True,
            )  # fmt: skip
        elif is_due:
            self._print(f"{state.where}: {', '.join(filter(None, (state.runs, state.cost, state.ahead)))}")

    def tick(self) -> None:
        """Move the clock of the bar; in a log, say every minute that it goes on."""
        now_s = time.monotonic()
        if self._bar is not None and self._where:
            self._bar.refresh()
        elif self._where and now_s - max(self._printed_s, self._changed_s) >= _LINE_EVERY_S:
            self._print(f"{self._where}: for {duration(now_s - self._changed_s)} now")

    def _print(self, line: str) -> None:
        self._printed_s = time.monotonic()
        if not is_quiet():
            print(line, file=self._stream, flush=True)

    def close(self) -> None:
        """Leave the last state behind, on a line of its own."""
        if self._bar is not None:
            self._bar.stop()


def _bar(stream: TextIO) -> Progress:
    """Return a bar of runs, drawn by rich; it has no thread of its own, as the workflow engine is started by a fork."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.table import Column

    class Visible(Console):
        """A console that leaves the cursor visible: a killed process could not show it again."""

        def show_cursor(self, show: bool = True) -> bool:
            return False

    def text(field: str) -> TextColumn:
        return TextColumn(field, markup=False, table_column=Column(no_wrap=True, overflow="ellipsis"))

    bar = Progress(
        text("{task.description}"),
        BarColumn(bar_width=None),
        *(text(f"{{task.fields[{name}]}}") for name in ("runs", "cost")),
        TimeElapsedColumn(),
        text("{task.fields[left]}"),
        console=Visible(file=stream),
        auto_refresh=False,
        expand=True,
    )
    bar.add_task("", total=None, runs="", cost="", left="")
    return bar


def first_failure(layout: Layout, entries: Sequence[Entry]) -> str | None:
    """Tell of the first run that was started and failed: why, and what it printed last; None if there is none."""
    from buran.measurement.store.store import folder_of
    from buran.workflow.views.summary import failure_of, was_started, words_in

    found = (
        failure_of(layout, f"{entry.mode} run, {entry.key.point}, {entry.key.name}", folder_of(layout.store, entry.key))
        for entry in entries
    )
    failure = next(filter(was_started, found), None)
    if failure is None:
        return None
    lines = [
        f"{style('failed', 'red')} {failure.what}: {failure.reason}",
        *(f"  | {line}" for line in words_in(layout.root / failure.log)[-_LAST_LINES:]),
        f"  log: {failure.log}; the campaign goes on, and `buran status` names further failures",
    ]
    if failure.reason.startswith("exit code"):
        lines.append("  if the program ends so when all is well: program.run: sh -c '{binary} ...; test $? -le 1'")
    return "\n".join(lines)


class Watcher:
    """Looks at a campaign a few times a second, in its ledger alone, and shows what it finds."""

    def __init__(self, session: Session) -> None:
        from buran.workflow.views.remaining import QuickCount

        self._layout, self._id = session.layout, session.id
        self._display = Display(sys.stdout)
        self._count = QuickCount(session)
        self._plans = 0
        self._seen: tuple[float, ...] | None = None
        self._seen_failed: int | None = None
        self._has_warned = False
        self._not_before_s = 0.0

    def look(self) -> None:
        """Show what changed, in a small part of the time: a look at 100 000 runs takes a second."""
        began_s = time.monotonic()
        if began_s < self._not_before_s:
            self._display.tick()
            return
        self._look()
        now_s = time.monotonic()
        self._not_before_s = now_s + _REST * (now_s - began_s)

    def _look(self) -> None:
        from buran.measurement.store.ledger import ledger_path

        ledger = ledger_path(self._layout.store)
        newest = max(self._plans - 1, 0)
        files = (self._layout.plan(self._id, self._plans), self._layout.models(self._id, newest))
        seen = (ledger.stat().st_mtime if ledger.is_file() else 0.0, *(file.is_file() for file in files))
        if seen == self._seen:
            self._display.tick()
            return
        self._seen = seen
        settled = self._count.look()
        if not self._count.plans:
            return
        self._plans = len(self._count.plans)
        if self._seen_failed is None:
            self._seen_failed = len(self._count.failed)
        elif len(self._count.failed) > self._seen_failed and not self._has_warned:
            failure = first_failure(self._layout, self._count.failed[self._seen_failed :])
            self._seen_failed = len(self._count.failed)
            self._has_warned = failure is not None
            if failure is not None:
                self._display.close()
                print(failure, flush=True)
        self._display.show(self._state(settled))

    def _state(self, settled: int) -> ProgressState:
        plan, planned = self._count.plans[-1], self._count.runs
        ahead_core_hours, ahead_s = (self._count.ahead() if planned > settled else None) or (None, None)
        phase = plan.phase
        if settled == planned and not plan.done:
            modelled = self._layout.models(self._id, plan.iteration).is_file()  # what is written last
            phase += ", choosing what is next" if modelled else ", making models"
        return ProgressState(
            plan.iteration, phase, settled, planned, self._count.spent_core_hours,
            plan.budget_core_hours, ahead_core_hours, ahead_s,
        )  # fmt: skip

    def close(self) -> None:
        """Show the last state and leave it behind."""
        self._look()
        self._display.close()
