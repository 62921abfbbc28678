"""The progress bar of terminals, drawn by rich."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Column

from buran.cli.terminal import duration

if TYPE_CHECKING:
    from buran.cli.progress import ProgressState


class _Console(Console):
    """A console that leaves the cursor visible: a killed process could not show it again."""

    def show_cursor(self, show: bool = True) -> bool:
        """Do nothing."""
        return False


class BarDisplay:
    """Iteration and phase, a bar of the runs, core hours, time; drawn whenever something changes."""

    def __init__(self, stream: TextIO) -> None:
        def text(field: str) -> ProgressColumn:
            column = Column(no_wrap=True, overflow="ellipsis")
            return TextColumn(f"{{task.fields[{field}]}}", markup=False, table_column=column)

        # No thread of its own: the workflow engine is started by a fork.
        self._progress = Progress(
            text("where"),
            BarColumn(bar_width=None),
            text("runs"),
            text("cost"),
            TimeElapsedColumn(),
            text("left"),
            console=_Console(file=stream),
            auto_refresh=False,
            expand=True,
        )
        self._task = self._progress.add_task("", total=None, where="", runs="", cost="", left="")
        self._begun = False
        self._drawn_s = 0.0

    def show(self, state: ProgressState, *, fresh: bool) -> None:
        """Show the newest state."""
        if not self._begun:
            self._begun = True
            self._progress.start()
        left = "" if state.ahead_s is None else f"{duration(state.ahead_s)} left"
        self._progress.update(
            self._task,
            total=state.planned or None,
            completed=state.settled,
            where=state.where,
            runs=state.runs,
            cost=state.cost.removesuffix(" spent"),
            left=left,
            refresh=True,
        )

    def tick(self) -> None:
        """Move the clock."""
        if self._begun and time.monotonic() - self._drawn_s >= 1.0:
            self._drawn_s = time.monotonic()
            self._progress.refresh()

    def close(self) -> None:
        """Leave the last state behind, on a line of its own."""
        if self._begun:
            self._begun = False
            self._progress.stop()
