"""What the history adds to campaigns: they are entered when they have come to their end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from buran.campaign.document import below
from buran.campaign.values import OfQueue, Text
from buran.features import Feature, Key

if TYPE_CHECKING:
    from buran.campaign.config import Campaign
    from buran.plugins.history.entry import VersionEntry
    from buran.reporting.content import Report
    from buran.workflow.history import History

KEY = "history"
VARIABLE = "BURAN_HISTORY"
LIMIT_S = 20.0  # for entering a campaign: what takes longer hangs


def history_file(campaign: Campaign | None) -> Path | None:
    """Return the file of the history; None where it is off.

    The variable decides before the campaign file does. Paths begin at the campaign file's folder. Simulated programs
    have a history only where the campaign file names a file for it.

    Raises
    ------
    RuntimeError
        The user has no home folder.
    """
    own = "on" if campaign is None else str(getattr(campaign.config, KEY))
    text = os.environ.get(VARIABLE) or own
    if text == "off" or (own == "on" and campaign is not None and campaign.config.backend == "simulated"):
        return None
    if text == "on":
        return Path(os.environ.get("XDG_DATA_HOME") or Path("~/.local/share").expanduser()) / "buran" / "history.sqlite"
    return below(Path() if campaign is None else campaign.folder, text)


def enter(path: Path, entry: VersionEntry) -> str | None:
    """Enter a campaign; return why that was not possible, None where it was.

    It is done by a process of its own with a time limit: on a file system that is away, every call may hang.
    """
    from buran.plugins.history import store

    task = {"path": str(path), "key": entry.key, "columns": entry.columns, "content": entry.content}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-I", store.__file__], stdin=pipe, stdout=pipe, stderr=pipe, encoding="utf-8"
    )
    try:
        _, said = process.communicate(json.dumps(task), timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        with suppress(subprocess.TimeoutExpired):  # what waits for a file system cannot be killed
            process.communicate(timeout=1)
        return f"there was no answer within {LIMIT_S:g} s"
    return (said.strip().splitlines() or ["it ended early"])[-1] if process.returncode else None


def _record(history: History, report: Report, folder: Path) -> Iterable[str]:
    """Enter a campaign that has come to its end; what goes wrong, whatever it is, is a note."""
    from buran.plugins.history.entry import entry_of

    campaign = history.session.campaign
    try:
        path = history_file(campaign)
        why = None if path is None else enter(path, entry_of(history, report, folder))
    except Exception as error:  # no campaign fails for it
        path, why = None, " ".join(str(error).split()) or type(error).__name__
    if why is not None:
        step = f"`buran history {campaign.path.name} --record` adds it, {VARIABLE}=off ends this note"
        yield f"This campaign is not in the history {path or ''}".rstrip() + f": {why}. {step}."


FEATURE = Feature(
    KEY,
    Key(
        OfQueue[Text],
        "on",
        "Where finished campaigns are recorded for `buran history`: `on`, in ~/.local/share/buran/history.sqlite (or "
        f"below XDG_DATA_HOME); `off`; or a file. The variable {VARIABLE} overrides it.",
        ["off", "/shared/mycode/history.sqlite"],
    ),
    record=_record,
)
