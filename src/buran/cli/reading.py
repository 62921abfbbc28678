"""What verbs need that only look at a campaign: its file, found by its results too, and no measurement system."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from buran.workflow.session import Session


def open_to_read(path: Path) -> Session:
    """Open a campaign by its file or by a folder of its results, and say what is missing here to measure it.

    Raises
    ------
    UsageError
        The folder is of no campaign, or the file has mistakes.
    """
    from buran.campaign.results import campaign_file
    from buran.cli.terminal import note
    from buran.workflow.session import open_session

    session = open_session(campaign_file(path), to_read=True)
    for remark in session.remarks:
        note(remark)
    return session
