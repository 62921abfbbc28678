"""How far a running campaign is: a bar on terminals, lines of text elsewhere."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from buran.cli.terminal import ProgressLine, duration, style

if TYPE_CHECKING:
    from collections.abc import Sequence

    from buran.campaign.layout import Layout
    from buran.cli.bar import BarDisplay
    from buran.loop.session import Session
    from buran.measure.store.ledger import Entry

_LAST_LINES = 8  # of a log
_LINE_EVERY_S = 60.0  # in logs: what changes is told this often


@dataclass(frozen=True)
class ProgressState:
    """How far a campaign is.

    Attributes
    ----------
    settled
        Runs that are measured or failed, of those `planned` so far.
    budget_core_hours
        None without a budget.
    ahead_core_hours, ahead_s
        Predicted for the runs that are left, from those of this session; None before one of them ended.
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
        return f"about {self.ahead_core_hours:.2g} core hours and {duration(self.ahead_s)} to go in this iteration"


def display(stream: TextIO) -> LineDisplay | BarDisplay:
    """Return what fits the stream."""
    if stream.isatty() and os.environ.get("TERM") != "dumb":
        from buran.cli.bar import BarDisplay

        return BarDisplay(stream)
    return LineDisplay(stream)


class LineDisplay:
    """One line of text: rewritten on a terminal; elsewhere a new one for each iteration and each minute."""

    def __init__(self, stream: TextIO) -> None:
        self._line = ProgressLine(stream)
        self._told_s = 0.0

    def show(self, state: ProgressState, *, fresh: bool) -> None:
        """Show the newest state; `fresh`: an iteration began."""
        parts = [state.runs, state.cost, *([state.ahead] if state.ahead else [])]
        now_s = time.monotonic()
        due = fresh or now_s - self._told_s >= _LINE_EVERY_S
        if due:
            self._told_s = now_s
        self._line.show(f"{state.where}: {', '.join(parts)}", always=due)

    def tick(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Leave the line behind."""
        self._line.close()


def first_failure(layout: Layout, entries: Sequence[Entry]) -> str | None:
    """Tell of the first run that was started and failed: why, and what it printed last; None if there is none."""
    from buran.campaign.records import read_run
    from buran.measure.bundle import BUILD_FAILED, SPARED
    from buran.views.status import output_of

    folders = {entry: layout.store / entry.run for entry in entries}
    reasons = {entry: read_run(folder).reason or "unknown" for entry, folder in folders.items()}
    entry = next((entry for entry in entries if not reasons[entry].startswith((BUILD_FAILED, SPARED))), None)
    if entry is None:
        return None
    folder = folders[entry]
    log = folder / output_of(folder)
    last = log.read_text(errors="replace").splitlines()[-_LAST_LINES:] if log.is_file() else []
    lines = [
        f"{style('failed', 'red')} {entry.mode} run, {entry.key.point}, {entry.key.name}: {reasons[entry]}",
        *(f"  | {line}" for line in last if line.strip()),
        f"  log: {log.relative_to(layout.root)}; the campaign goes on, and `buran status` names further failures",
    ]
    return "\n".join(lines)


class Watcher:
    """Looks at a campaign a few times a second, in its ledger alone, and shows what it finds."""

    def __init__(self, session: Session) -> None:
        from buran.views.status import QuickCount

        self._layout, self._id = session.layout, session.id
        self._display = display(sys.stdout)
        self._count = QuickCount(session)
        self._plans = 0
        self._seen: tuple[float, int] | None = None
        self._start_s = time.monotonic()
        self._settled_at_start: int | None = None
        self._seen_failed: int | None = None
        self._told = False

    def look(self) -> None:
        """Show what changed."""
        from buran.measure.store.ledger import ledger_path

        ledger = ledger_path(self._layout.store)
        seen = (ledger.stat().st_mtime if ledger.is_file() else 0.0, self._layout.plan(self._id, self._plans).is_file())
        if seen == self._seen:
            self._display.tick()
            return
        self._seen = seen
        settled, cost_core_hours = self._count.look()
        if not self._count.plans:
            return
        fresh = len(self._count.plans) > self._plans
        self._plans = len(self._count.plans)
        if self._seen_failed is None:
            self._seen_failed = len(self._count.failed)
        elif len(self._count.failed) > self._seen_failed and not self._told:
            failure = first_failure(self._layout, self._count.failed[self._seen_failed :])
            self._seen_failed = len(self._count.failed)
            self._told = failure is not None
            if failure is not None:
                self._display.close()
                print(failure, flush=True)
        self._display.show(self._state(settled, cost_core_hours), fresh=fresh)

    def _state(self, settled: int, cost_core_hours: float) -> ProgressState:
        if self._settled_at_start is None:
            self._settled_at_start = settled
        plan, planned, new = self._count.plans[-1], self._count.runs, settled - self._settled_at_start
        ahead_core_hours = ahead_s = None
        if new > 0 and planned > settled:
            left = planned - settled
            ahead_core_hours = cost_core_hours / settled * left
            ahead_s = (time.monotonic() - self._start_s) / new * left
        return ProgressState(
            plan.iteration, plan.phase, min(settled, planned), planned, self._count.spent_core_hours,
            plan.budget_core_hours, ahead_core_hours, ahead_s,
        )  # fmt: skip

    def close(self) -> None:
        """Show the last state and leave it behind."""
        self.look()
        self._display.close()
