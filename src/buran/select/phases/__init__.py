"""The phases of a campaign, in their order: each gives the next plan, or None if its turn is over or not yet there."""

from __future__ import annotations

from collections.abc import Callable

from buran.campaign.plan import Plan
from buran.select.draft import Draft
from buran.select.phases.end import end, halt
from buran.select.phases.pilot import find_functions, settle_filter
from buran.select.phases.rounds import first_round, next_round

Phase = Callable[[Draft], Plan | None]
PHASES: tuple[Phase, ...] = (find_functions, settle_filter, first_round, halt, next_round, end)
